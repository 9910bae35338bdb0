#include "gui/core/rows.hpp"
#include "gui/core/tr.hpp"
#include "topology/at.hpp"

#include <QRegularExpression>

#include <algorithm>
#include <numeric>

namespace orrery {

namespace {

QString rank_label(const Lane& l) { return l.ranks > 1 ? tr("rank %1 (of %2 alike)").arg(l.rank).arg(l.ranks) : tr("rank %1").arg(l.rank); }
QString rank_word() { return tr("rank"); }
QString stage_word() { return tr("stage"); }

// Queues are numbered as the plan first uses them, so that "norm" stands behind the first stage's "pp.up.0-1" and before the second's
// "pp.up.1-2". In rows, queues of one name up to its numbers stand together, in the same order for every lane.
std::vector<int> order_of_queues(const std::vector<std::string>& queues) {
    std::map<std::string, int> first;
    std::vector<int> out;
    for (const std::string& q : queues) {
        std::string name;
        for (char c : q)
            if ((c < '0' || c > '9') && c != '-') name += c;
        out.push_back(first.emplace(name, static_cast<int>(first.size())).first->second);
    }
    return out;
}

struct Group {
    QString key, label;
    std::vector<std::int32_t> lanes;
};

// A lane stands for the ranks like it: the rank asked for may be one of them, which have its stage.
bool shown(std::int32_t index, const Lane& lane, const Plan* plan, const RowOptions& options) {
    const std::int32_t one = rank_in_filter(options.filter);
    const auto stands_for = [&](std::int32_t r) {
        return r >= 0 && at(r) < options.lane_of_rank.size() && options.lane_of_rank[at(r)] == index;
    };
    if (one >= 0 && !options.lane_of_rank.empty() && !stands_for(one)) return false;
    if (options.ranks.empty()) return true;
    if (!options.lane_of_rank.empty()) return std::any_of(options.ranks.begin(), options.ranks.end(), stands_for);
    return std::any_of(options.ranks.begin(), options.ranks.end(), [&](std::int32_t r) {
        if (r == lane.rank) return true;
        return lane.ranks > 1 && plan && r < plan->mesh.ranks() && plan->mesh.coordinates(r)[at(static_cast<int>(Axis::pp))] == lane.stage;
    });
}

class Builder {
  public:
    Builder(const TrackStore& store, const Plan* plan, const RowOptions& options) : store_(store), plan_(plan), options_(options) {
        tracks_.resize(store.trace->lanes.size());
        for (std::size_t t = 0; t < store.tracks.size(); ++t) tracks_[at(store.tracks[t].lane)].push_back(static_cast<std::int32_t>(t));
        const std::vector<int> order = order_of_queues(store.trace->queues);
        const auto place_of = [&](std::int32_t t) { return order[at(store.tracks[at(t)].queue)]; };
        for (std::vector<std::int32_t>& lane : tracks_)
            std::stable_sort(lane.begin(), lane.end(), [&](std::int32_t a, std::int32_t b) { return place_of(a) < place_of(b); });
    }

    std::vector<Row> run() {
        std::vector<std::int32_t> lanes;
        for (std::size_t l = 0; l < tracks_.size(); ++l)
            if (!tracks_[l].empty() && shown(static_cast<std::int32_t>(l), store_.trace->lanes[l], plan_, options_))
                lanes.push_back(static_cast<std::int32_t>(l));
        level(0, {}, {}, lanes, true);
        std::vector<Row> out;
        for (const QString& key : options_.pinned) {
            auto row = std::find_if(every_.begin(), every_.end(), [&](const Row& r) { return r.key == key; });
            if (row == every_.end()) continue;
            out.push_back(*row);
            out.back().pinned = true;
            out.back().depth = 0;
            out.back().expandable = false;
            if (row->kind == RowKind::track) out.back().label = lane_label(row->lane) + " · " + row->label;
        }
        out.insert(out.end(), rows_.begin(), rows_.end());
        return out;
    }

  private:
    QString lane_label(std::int32_t lane) const {
        if (at(lane) < options_.names.size()) return options_.names[at(lane)];
        const Lane& l = store_.trace->lanes[at(lane)];
        return rank_label(l);
    }
    QString track_label(const Track& t) const {
        const QString queue = QString::fromStdString(store_.trace->queues[at(t.queue)]);
        return t.overlap > 0 ? QString("%1 (%2)").arg(queue).arg(t.overlap + 1) : queue;
    }
    QString rank_key(const QString& path, std::int32_t lane) const {
        if (at(lane) < options_.names.size()) return path + options_.names[at(lane)];
        return path + QString("rank %1").arg(store_.trace->lanes[at(lane)].rank);
    }
    std::int32_t main_track(std::int32_t lane) const { return tracks_[at(lane)].front(); } // computation is the first queue

    template <class T> void sort_by_order(std::vector<T>& items) const {
        std::stable_sort(items.begin(), items.end(), [&](const T& a, const T& b) { return place(a.key) < place(b.key); });
    }
    int place(const QString& key) const {
        const auto p = options_.order.find(key);
        return p == options_.order.end() ? INT_MAX : p->second;
    }

    void add(Row row, bool visible) {
        every_.push_back(row);
        if (visible) rows_.push_back(std::move(row));
    }

    std::vector<Group> split(std::size_t depth, const QString& path, const std::vector<std::int32_t>& lanes) const {
        const GroupBy by = options_.groups[depth];
        std::map<int, Group> groups;
        for (std::int32_t l : lanes) {
            const Lane& lane = store_.trace->lanes[at(l)];
            const int c = by == GroupBy::stage || !plan_ ? lane.stage : coordinate(*plan_, by, lane.rank);
            Group& g = groups[c];
            if (g.lanes.empty()) {
                g.label = QString("%1 %2").arg(by == GroupBy::stage ? stage_word() : label(plan_ ? by : GroupBy::stage)).arg(c);
                g.key = QString("%1%2%3/").arg(path, QString::number(static_cast<int>(by)) + "=").arg(c);
            }
            g.lanes.push_back(l);
        }
        std::vector<Group> out;
        for (auto& [c, g] : groups) {
            // A heading over one rank says nothing that the rank's label cannot.
            if (g.lanes.size() == 1) g.key = rank_key(path, g.lanes[0]);
            out.push_back(std::move(g));
        }
        sort_by_order(out);
        return out;
    }

    void level(std::size_t depth, const QString& path, const QString& prefix, const std::vector<std::int32_t>& lanes, bool visible) {
        if (depth == options_.groups.size()) {
            std::vector<Group> each;
            for (std::int32_t l : lanes) each.push_back({rank_key(path, l), {}, {l}});
            sort_by_order(each);
            for (const Group& g : each) lane(g, prefix, visible);
            return;
        }
        for (const Group& g : split(depth, path, lanes)) {
            if (g.lanes.size() == 1) {
                lane(g, prefix + g.label + " · ", visible);
                continue;
            }
            Row row;
            row.kind = RowKind::group;
            row.depth = static_cast<int>(depth);
            row.label = g.label;
            row.key = g.key;
            for (std::int32_t l : g.lanes) row.tracks.push_back(main_track(l));
            row.expandable = true;
            row.expanded = !options_.folded.contains(g.key);
            const bool open = row.expanded;
            add(std::move(row), visible && options_.filter.isEmpty());
            ++nesting_;
            level(depth + 1, g.key, {}, g.lanes, visible && (open || !options_.filter.isEmpty()));
            --nesting_;
        }
    }

    void lane(const Group& g, const QString& prefix, bool visible) {
        const std::int32_t l = g.lanes[0];
        const auto& tracks = tracks_[at(l)];
        Row row;
        row.kind = RowKind::lane;
        row.depth = nesting_;
        row.label = prefix + lane_label(l);
        row.key = g.key;
        row.lane = l;
        row.tracks = {tracks.front()};
        row.expandable = tracks.size() > 1;
        row.expanded = row.expandable && !options_.folded.contains(g.key);
        const auto matches = [&](const QString& text) { return text.contains(options_.filter, Qt::CaseInsensitive); };
        const bool one = rank_in_filter(options_.filter) >= 0 && !options_.lane_of_rank.empty(); // then only its lane came so far
        const bool all = options_.filter.isEmpty() || one || matches(row.label);
        bool any = all || matches(track_label(store_.tracks[at(tracks.front())]));
        const bool open = row.expanded || !options_.filter.isEmpty();
        for (std::size_t i = 1; i < tracks.size(); ++i) any |= matches(track_label(store_.tracks[at(tracks[i])]));
        if (!any) return;
        add(std::move(row), visible);
        std::vector<Row> children;
        for (std::size_t i = 1; i < tracks.size(); ++i) {
            const Track& t = store_.tracks[at(tracks[i])];
            Row child;
            child.depth = nesting_ + 1;
            child.label = track_label(t);
            child.key = g.key + "/" + child.label;
            child.lane = l;
            child.tracks = {tracks[i]};
            if (all || matches(child.label)) children.push_back(std::move(child));
        }
        sort_by_order(children);
        for (Row& child : children) add(std::move(child), visible && open);
    }

    const TrackStore& store_;
    const Plan* plan_;
    const RowOptions& options_;
    std::vector<std::vector<std::int32_t>> tracks_; // by lane
    std::vector<Row> rows_, every_;                 // every_: those folded away too
    int nesting_ = 0;
};

} // namespace

std::int32_t rank_in_filter(const QString& filter) {
    const QRegularExpression form(QStringLiteral("^\\s*(?:%1\\s+)?(\\d{1,7})\\s*$").arg(QRegularExpression::escape(rank_word())),
                                  QRegularExpression::CaseInsensitiveOption);
    const auto match = form.match(filter);
    return match.hasMatch() ? match.captured(1).toInt() : -1;
}

QString label(GroupBy g) {
    switch (g) {
    case GroupBy::stage:
        return tr("pipeline stage");
    case GroupBy::data:
        return tr("data rank");
    case GroupBy::tensor:
        return tr("tensor rank");
    case GroupBy::context:
        return tr("context rank");
    case GroupBy::expert:
        return tr("expert rank");
    }
    return {};
}

int coordinate(const Plan& plan, GroupBy group, int rank) {
    const auto along = [&](const Mesh& mesh, Axis a) { return mesh.coordinates(rank)[at(static_cast<int>(a))]; };
    switch (group) {
    case GroupBy::stage:
        return along(plan.mesh, Axis::pp);
    case GroupBy::data:
        return along(plan.mesh, Axis::dp) +
               plan.mesh.extent(Axis::dp) * (along(plan.mesh, Axis::dpr) + plan.mesh.extent(Axis::dpr) * along(plan.mesh, Axis::dpw));
    case GroupBy::tensor:
        return along(plan.mesh, Axis::tp);
    case GroupBy::context:
        return along(plan.mesh, Axis::cp);
    case GroupBy::expert:
        return along(plan.expert_mesh, Axis::ep);
    }
    return 0;
}

std::vector<Row> rows_of(const TrackStore& store, const Plan* plan, const RowOptions& options) {
    const bool known = plan && std::all_of(store.trace->lanes.begin(), store.trace->lanes.end(),
                                           [&](const Lane& l) { return l.rank >= 0 && l.rank < plan->mesh.ranks(); });
    return Builder(store, known ? plan : nullptr, options).run();
}

bool move_row(RowOptions& options, const std::vector<Row>& rows, std::size_t index, int delta) {
    const auto parent = [](const QString& key) { return key.left(key.lastIndexOf('/', key.endsWith('/') ? -2 : -1) + 1); };
    std::vector<QString> siblings;
    for (const Row& r : rows)
        if (!r.pinned && parent(r.key) == parent(rows[index].key)) siblings.push_back(r.key);
    const auto me = std::find(siblings.begin(), siblings.end(), rows[index].key);
    const auto other = (me - siblings.begin()) + (delta < 0 ? -1 : 1);
    if (me == siblings.end() || other < 0 || other >= static_cast<std::ptrdiff_t>(siblings.size())) return false;
    std::swap(*me, siblings[at(other)]);
    for (std::size_t i = 0; i < siblings.size(); ++i) options.order[siblings[i]] = static_cast<int>(i);
    return true;
}

} // namespace orrery

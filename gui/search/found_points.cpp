#include "gui/search/found_points.hpp"

#include "sim/scenario/layers.hpp"
#include "sim/search/choose.hpp"

#include <nlohmann/json.hpp>
#include <QCoreApplication>
#include <QLocale>

#include <algorithm>

namespace orrery {
namespace {

constexpr std::size_t most_shown = 200;
constexpr double tie = 0.02; // steps repeat no better

// Not a QObject: the context of its texts.
struct FoundPointsText {
    Q_DECLARE_TR_FUNCTIONS(orrery::FoundPoints)
};

QString percent(double share) { return QLocale().toString(share * 100, 'f', 1); }

} // namespace

std::string with_free_strategy(const std::string& text) {
    nlohmann::ordered_json j = nlohmann::ordered_json::parse(text, nullptr, false);
    if (!j.is_object()) return text;
    if (const auto s = j.find("strategy"); s != j.end() && s->is_object()) {
        for (const char* field : fields_of_stages) s->erase(field);
        for (const char* field :
             {"data_parallel", "tensor_parallel", "sequence_parallel", "pipeline_parallel", "context_parallel", "expert_parallel",
              "expert_tensor_parallel", "zero_stage", "shard_group_size", "recompute", "recompute_layers"})
            s->erase(field);
    }
    if (const auto t = j.find("training"); t != j.end() && t->is_object()) t->erase("micro_batch_size");
    j.erase("run"); // a search is of the step
    return j.dump();
}

void FoundPoints::clear() { *this = {}; }

void FoundPoints::add(const std::vector<SweepRow>& rows) {
    for (const SweepRow& row : rows) {
        const auto [it, fresh] = number_.emplace(row.hash, first_number + static_cast<int>(number_.size()));
        if (!fresh) continue;
        if (row.status == PointStatus::fits)
            fits_.push_back(row);
        else
            ++too_big_;
    }
    std::ranges::stable_sort(fits_, {}, &SweepRow::step_time_s);
}

void FoundPoints::finish(const SearchResult& result) {
    std::vector<SweepRow> rows;
    std::vector<const SearchPoint*> points;
    for (const std::vector<SearchPoint>* some : {&result.points, &result.refined})
        for (const SearchPoint& p : *some) {
            points.push_back(&p);
            SweepRow& row = rows.emplace_back(p.row);
            if (row.cost_usd <= 0) row.cost_usd = p.cost_usd, row.energy_j = p.energy_j;
            if (p.refined.empty()) continue;
            row.label += "; " + p.refined; // all of them have the label of what they were refined from
            refined_.insert(row.hash);
        }
    add(rows);
    for (std::size_t i = 0; i < rows.size(); ++i) json_[number_.at(rows[i].hash)] = points[i]->json;
    over_ = true;
    proven_ = result.proven;
}

std::size_t FoundPoints::leading() const {
    std::vector<Candidate> candidates;
    candidates.reserve(fits_.size());
    for (const SweepRow& row : fits_)
        candidates.push_back({row.step_time_s, std::max(0.0, row.step_time_error_bar), fits_surely(row), to_spare(row), row.step_time_s});
    return leader(candidates);
}

// The note of the row that leads: whether another is faster, and why that one does not lead.
QString FoundPoints::note_of_first(std::size_t lead) const {
    const SweepRow &first = fits_[lead], &fastest = fits_.front();
    QString note = !over_     ? FoundPointsText::tr("the best so far")
                   : !proven_ ? FoundPointsText::tr("the best that was found; the search was stopped")
                   : refined_.contains(first.hash)
                       ? FoundPointsText::tr("the best, refined; of strategies with usual layers none is faster by the model")
                   : lead == 0 ? FoundPointsText::tr("the best: no other is faster by the model")
                               : FoundPointsText::tr("the best");
    if (lead != 0)
        note += fits_surely(fastest) ? FoundPointsText::tr("; as fast as the fastest, with more memory to spare")
                                     : FoundPointsText::tr("; what is faster leaves too little memory to be sure of");
    return fits_surely(first) ? note : note + FoundPointsText::tr("; fits narrowly");
}

std::vector<SweptPoint> FoundPoints::points() const {
    if (fits_.empty()) return {};
    const std::size_t lead = leading();
    std::vector<std::size_t> order{lead};
    for (std::size_t i = 0; i < fits_.size() && order.size() < most_shown; ++i)
        if (i != lead) order.push_back(i);
    std::vector<SweptPoint> out;
    for (const std::size_t i : order) {
        const SweepRow& row = fits_[i];
        Figures f;
        f.devices = static_cast<double>(row.world_size);
        f.step_s = row.step_time_s;
        f.tokens_per_s = row.tokens_per_s;
        f.mfu = row.mfu;
        f.bubble = row.bubble_fraction;
        if (row.straggler_fraction >= 0) f.stragglers = row.straggler_fraction;
        f.peak_bytes = static_cast<double>(row.peak_bytes);
        f.capacity_bytes = static_cast<double>(row.capacity_bytes);
        f.fits = true;
        f.narrow = row.narrow();
        f.interval = row.step_time_interval;
        if (row.cost_usd > 0) f.cost_usd = row.cost_usd;
        f.note = i == lead ? note_of_first(lead) : behind(row, fits_[lead]);
        out.push_back({number_.at(row.hash), QString::fromStdString(row.label), std::move(f)});
    }
    return out;
}

std::string FoundPoints::scenario(int number) const {
    const auto it = json_.find(number);
    return it == json_.end() ? std::string() : it->second;
}

QString behind(const SweepRow& row, const SweepRow& best) {
    const double late = row.step_time_s / best.step_time_s - 1, extra = row.step_time_s - best.step_time_s;
    const QString room = !fits_surely(row) && fits_surely(best) ? FoundPointsText::tr("; fits narrowly") : QString();
    if (late < 0 && !room.isEmpty())
        return FoundPointsText::tr("%1 % faster, but some plans that leave so little memory do not fit").arg(percent(-late));
    if (late <= tie) return FoundPointsText::tr("a tie: within %1 %").arg(tie * 100) + room;
    const QString slower = FoundPointsText::tr("%1 % slower").arg(percent(late));
    const double bubble = row.bubble_fraction * row.step_time_s - best.bubble_fraction * best.step_time_s;
    // FLOPs executed, recompute included, against the best's; they take about that share of its busy time.
    const double again = best.hfu > 0 ? row.hfu * row.step_time_s / (best.hfu * best.step_time_s) - 1 : 0;
    const double recompute = again * (1 - best.bubble_fraction) * best.step_time_s;
    if (bubble >= recompute && bubble > 0.4 * extra)
        return FoundPointsText::tr("%1: bubble %2 % against %3 %")
                   .arg(slower, percent(row.bubble_fraction), percent(best.bubble_fraction)) +
               room;
    if (recompute > 0.4 * extra) return FoundPointsText::tr("%1: %2 % more FLOPs, recomputed").arg(slower, percent(again)) + room;
    return FoundPointsText::tr("%1: communication and smaller kernels").arg(slower) + room;
}

} // namespace orrery

#include "gui/core/compare.hpp"
#include "topology/at.hpp"

#include <QCoreApplication>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <unordered_map>

namespace orrery {

namespace {

// A slice by what makes it the same in two traces.
struct Keyed {
    std::int32_t name, microbatch, occurrence, span;
    auto key() const { return std::tie(name, microbatch, occurrence); }
};

using Numbers = std::unordered_map<std::string, std::int32_t>;

std::vector<std::int32_t> number_names(const Trace& trace, Numbers& numbers) {
    std::vector<std::int32_t> out;
    for (const TraceOp& op : trace.ops) out.push_back(numbers.emplace(op.name, static_cast<std::int32_t>(numbers.size())).first->second);
    return out;
}

std::vector<Keyed> keyed(const Lane& lane, const std::vector<std::int32_t>& names) {
    std::vector<Keyed> out;
    for (std::size_t i = 0; i < lane.spans.size(); ++i) {
        const Span& s = lane.spans[i];
        if (s.kind == SpanKind::op && s.op >= 0) out.push_back({names[at(s.op)], s.microbatch, 0, static_cast<std::int32_t>(i)});
    }
    const auto time = [&](const Keyed& k) { return lane.spans[at(k.span)].begin.ps; };
    std::sort(out.begin(), out.end(), [&](const Keyed& a, const Keyed& b) {
        return std::tuple(a.name, a.microbatch, time(a), a.span) < std::tuple(b.name, b.microbatch, time(b), b.span);
    });
    for (std::size_t i = 1; i < out.size(); ++i)
        if (out[i].name == out[i - 1].name && out[i].microbatch == out[i - 1].microbatch) out[i].occurrence = out[i - 1].occurrence + 1;
    return out;
}

class Matcher {
  public:
    Matcher(const Trace& p, const Trace& m, std::size_t most) : p_(p), m_(m), most_(most) {}

    void lanes(std::int32_t pl, std::int32_t ml, const std::vector<Keyed>& a, const std::vector<Keyed>& b) {
        std::size_t i = 0, j = 0;
        while (i < a.size() && j < b.size()) {
            if (a[i].key() < b[j].key())
                ++out_.only_predicted, ++i;
            else if (b[j].key() < a[i].key())
                ++out_.only_measured, ++j;
            else
                pair({pl, a[i++].span}, {ml, b[j++].span});
        }
        out_.only_predicted += static_cast<std::int64_t>(a.size() - i);
        out_.only_measured += static_cast<std::int64_t>(b.size() - j);
    }

    void alone(const std::vector<Keyed>& measured) { out_.only_measured += static_cast<std::int64_t>(measured.size()); }

    Agreement result() {
        for (auto& [kind, e] : kinds_) {
            e.absolute /= static_cast<double>(std::max<std::int64_t>(1, e.slices));
            out_.kinds.push_back(e);
        }
        std::sort(out_.kinds.begin(), out_.kinds.end(), [](const OpError& a, const OpError& b) { return a.measured > b.measured; });
        keep_worst(0);
        return std::move(out_);
    }

  private:
    void pair(SpanRef p, SpanRef m) {
        const Span &a = span_of(p_, p), &b = span_of(m_, m);
        const double predicted = static_cast<double>(a.end.ps - a.begin.ps), measured = static_cast<double>(b.end.ps - b.begin.ps);
        OpError& e = kinds_[m_.ops[at(b.op)].kind];
        e.kind = m_.ops[at(b.op)].kind;
        ++e.slices;
        e.predicted += predicted;
        e.measured += measured;
        if (measured > 0) e.absolute += std::abs(predicted / measured - 1);
        out_.offenders.push_back({p, m, predicted - measured});
        keep_worst(4 * most_ + 1000);
    }

    void keep_worst(std::size_t room) {
        auto& all = out_.offenders;
        if (all.size() <= room) return;
        const auto worse = [](const Offender& a, const Offender& b) {
            return std::tuple(-std::abs(a.difference), a.measured) < std::tuple(-std::abs(b.difference), b.measured);
        };
        std::sort(all.begin(), all.end(), worse);
        if (all.size() > most_) all.resize(most_);
    }

    const Trace &p_, &m_;
    std::size_t most_;
    std::map<std::string, OpError> kinds_;
    Agreement out_;
};

void append(Trace& out, const Lane& lane, std::int64_t opens, std::int32_t op_offset, const std::vector<std::int16_t>& queues) {
    Lane copy;
    copy.rank = lane.rank;
    copy.ranks = lane.ranks;
    copy.stage = lane.stage;
    copy.spans = lane.spans;
    for (Span& s : copy.spans) {
        s.begin.ps -= opens;
        s.end.ps -= opens;
        if (s.op >= 0) s.op += op_offset;
        s.peer = -1;
        s.queue = queues[at(s.queue)];
    }
    out.lanes.push_back(std::move(copy));
}

// Queues of `in` by their number in `out`, where one of the same name is the same.
std::vector<std::int16_t> add_queues(Trace& out, const Trace& in) {
    std::vector<std::int16_t> numbers;
    for (const std::string& q : in.queues) {
        const auto found = std::find(out.queues.begin(), out.queues.end(), q);
        numbers.push_back(static_cast<std::int16_t>(found - out.queues.begin()));
        if (found == out.queues.end()) out.queues.push_back(q);
    }
    return numbers;
}

} // namespace

std::int64_t align(Alignment how, const TrackStore& from, const TrackStore& to, std::int64_t t) {
    const std::int64_t off = t - from.begin;
    if (how == Alignment::by_time) return to.begin + off;
    const auto length = [](const TrackStore& s) {
        return static_cast<double>(std::max<std::int64_t>(1, (s.trace->end - s.trace->begin).ps));
    };
    return to.begin + static_cast<std::int64_t>(std::llround(static_cast<double>(off) / length(from) * length(to)));
}

std::vector<Difference> differences(const std::vector<std::vector<AreaRow>>& runs) {
    std::map<std::pair<SliceKind, QString>, Difference> rows;
    for (std::size_t r = 0; r < runs.size(); ++r)
        for (const AreaRow& a : runs[r]) {
            if (a.kind == SliceKind::transfer_wait) continue;
            Difference& d = rows[{a.kind, a.what}];
            d.kind = a.kind;
            d.what = a.what;
            d.covered.resize(runs.size());
            d.slices.resize(runs.size());
            d.covered[r] = a.covered;
            d.slices[r] = a.slices;
        }
    std::vector<Difference> out;
    for (auto& [key, d] : rows) out.push_back(std::move(d));
    const auto most = [](const Difference& d) {
        double m = 0;
        for (std::size_t r = 1; r < d.covered.size(); ++r) m = std::max(m, std::abs(d.change(r)));
        return m;
    };
    std::stable_sort(out.begin(), out.end(), [&](const Difference& a, const Difference& b) { return most(a) > most(b); });
    return out;
}

std::int32_t like_lane(const Trace& in, const Lane& lane) {
    std::int32_t stage = -1;
    for (std::size_t l = 0; l < in.lanes.size(); ++l) {
        if (in.lanes[l].rank == lane.rank) return static_cast<std::int32_t>(l);
        if (stage < 0 && in.lanes[l].stage == lane.stage && in.lanes[l].ranks > 1) stage = static_cast<std::int32_t>(l);
    }
    return stage;
}

Agreement agreement(const Trace& predicted, const Trace& measured, std::size_t most_offenders, const std::atomic<bool>* cancelled) {
    Numbers numbers;
    const auto p_names = number_names(predicted, numbers), m_names = number_names(measured, numbers);
    Matcher matcher(predicted, measured, most_offenders);
    for (std::size_t m = 0; m < measured.lanes.size(); ++m) {
        if (cancelled && *cancelled) return {};
        const std::vector<Keyed> b = keyed(measured.lanes[m], m_names);
        const std::int32_t p = like_lane(predicted, measured.lanes[m]);
        if (p >= 0)
            matcher.lanes(p, static_cast<std::int32_t>(m), keyed(predicted.lanes[at(p)], p_names), b);
        else
            matcher.alone(b);
    }
    return matcher.result();
}

Overlaid overlay(const Trace& predicted, const Trace& measured) {
    Overlaid o;
    Trace& t = o.trace;
    t.name = measured.name;
    t.source = measured.source;
    t.ops = predicted.ops;
    t.ops.insert(t.ops.end(), measured.ops.begin(), measured.ops.end());
    o.predicted_opens = std::min(predicted.begin, first_work(predicted)).ps;
    o.measured_opens = std::min(measured.begin, first_work(measured)).ps;
    t.end.ps = std::max(predicted.end.ps - o.predicted_opens, measured.end.ps - o.measured_opens);
    const auto p_queues = add_queues(t, predicted), m_queues = add_queues(t, measured);
    o.predicted_lane.assign(predicted.lanes.size(), -1);
    o.measured_lane.assign(measured.lanes.size(), -1);
    o.measured_ops = static_cast<std::int32_t>(predicted.ops.size());
    for (std::size_t m = 0; m < measured.lanes.size(); ++m) {
        const Lane& lane = measured.lanes[m];
        const std::int32_t p = like_lane(predicted, lane);
        if (p >= 0) {
            if (o.predicted_lane[at(p)] < 0) o.predicted_lane[at(p)] = static_cast<std::int32_t>(t.lanes.size());
            append(t, predicted.lanes[at(p)], o.predicted_opens, 0, p_queues);
            o.names.push_back(QCoreApplication::translate("orrery", "rank %1 predicted").arg(lane.rank));
        }
        o.measured_lane[m] = static_cast<std::int32_t>(t.lanes.size());
        append(t, lane, o.measured_opens, o.measured_ops, m_queues);
        o.names.push_back(QCoreApplication::translate("orrery", "rank %1 measured").arg(lane.rank));
    }
    // Queues were renumbered: spans are sorted by queue and begin again.
    for (Lane& lane : t.lanes)
        std::stable_sort(lane.spans.begin(), lane.spans.end(),
                         [](const Span& a, const Span& b) { return std::tie(a.queue, a.begin.ps) < std::tie(b.queue, b.begin.ps); });
    return o;
}

SpanRef in_overlay(const Overlaid& o, const Trace& trace, const Trace& original, SpanRef ref, bool is_predicted) {
    const std::int32_t lane = (is_predicted ? o.predicted_lane : o.measured_lane)[at(ref.lane)];
    if (lane < 0) return {};
    const Span& s = span_of(original, ref);
    const std::int32_t op = s.op < 0 ? -1 : s.op + (is_predicted ? 0 : o.measured_ops);
    const auto& spans = trace.lanes[at(lane)].spans;
    for (std::size_t i = 0; i < spans.size(); ++i)
        if (spans[i].begin.ps == s.begin.ps - (is_predicted ? o.predicted_opens : o.measured_opens) && spans[i].op == op &&
            spans[i].microbatch == s.microbatch)
            return {lane, static_cast<std::int32_t>(i)};
    return {};
}

} // namespace orrery

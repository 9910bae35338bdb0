#include "sim/trace/critical_path.hpp"

#include <algorithm>
#include <map>
#include <tuple>

namespace orrery {

namespace {

class Walker {
  public:
    explicit Walker(const Trace& trace) : trace_(trace), queues_(trace.lanes.size()) {
        for (std::size_t l = 0; l < trace.lanes.size(); ++l) index_lane(l);
        for (const Flow& f : trace.flows) {
            other_end_[{f.from_lane, f.from_span}] = {f.to_lane, f.to_span};
            other_end_[{f.to_lane, f.to_span}] = {f.from_lane, f.from_span};
        }
    }

    std::vector<PathStep> walk() const {
        std::vector<PathStep> path;
        Place at = last();
        while (at.lane >= 0) {
            at = latest_to_post(at);
            path.push_back({at.lane, at.span, {}});
            const Place before = what_let_begin(at);
            if (before.lane >= 0) path.back().gap = span(at).begin - span(before).end;
            at = before;
        }
        std::ranges::reverse(path);
        return path;
    }

  private:
    struct Place {
        std::int32_t lane = -1, span = -1;
        auto operator<=>(const Place&) const = default;
    };
    struct Queue {
        std::int32_t begin, end;
    };                                                                    // spans of the lane
    using Meeting = std::tuple<std::int64_t, std::int64_t, std::int16_t>; // begin, end, queue: what members of a collective share

    const Span& span(Place p) const { return trace_.lanes[p.lane].spans[p.span]; }

    void index_lane(std::size_t l) {
        const std::vector<Span>& spans = trace_.lanes[l].spans;
        const auto lane = static_cast<std::int32_t>(l);
        for (std::int32_t i = 0; i < static_cast<std::int32_t>(spans.size()); ++i) {
            const Span& s = spans[i];
            if (i == 0 || s.queue != spans[static_cast<std::size_t>(i) - 1].queue) queues_[l].push_back({i, i});
            queues_[l].back().end = i + 1;
            if (s.kind == SpanKind::op && !waited({lane, i})) on_time_.emplace(Meeting{s.begin.ps, s.end.ps, s.queue}, Place{lane, i});
        }
    }

    // Its queue had posted it and nothing moved yet: another lane was later.
    bool waited(Place p) const {
        if (p.span == 0) return false;
        const Span &s = span(p), &before = span({p.lane, p.span - 1});
        return before.kind == SpanKind::transfer_wait && before.queue == s.queue && before.end == s.begin && before.end > before.begin;
    }

    Place last() const {
        Place latest;
        for (std::int32_t l = 0; l < static_cast<std::int32_t>(trace_.lanes.size()); ++l)
            for (const Queue& q : queues_[l])
                for (std::int32_t i = q.end; i-- > q.begin;) {
                    const Place p{l, i};
                    if (span(p).kind != SpanKind::op) continue;
                    if (latest.lane < 0 || span(p).end > span(latest).end) latest = p;
                    break;
                }
        return latest;
    }

    Place latest_to_post(Place p) const {
        if (!waited(p)) return p;
        if (const auto peer = other_end_.find(p); peer != other_end_.end()) return waited(peer->second) ? p : peer->second;
        const Span& s = span(p);
        const auto peer = on_time_.find(Meeting{s.begin.ps, s.end.ps, s.queue});
        return peer == on_time_.end() ? p : peer->second;
    }

    // The op that ended last before it began, of any queue of its lane; its own queue's where two ended at once.
    Place what_let_begin(Place p) const {
        const Time begin = span(p).begin;
        Place best;
        for (const Queue& q : queues_[p.lane]) {
            const Place found = ended_by(p.lane, q, begin);
            if (found.lane < 0) continue;
            const bool own = span(found).queue == span(p).queue;
            if (best.lane < 0 || span(found).end > span(best).end || (own && span(found).end == span(best).end)) best = found;
        }
        return best;
    }

    // Spans of a queue follow one another, so their ends ascend with their begins. One of no length let nothing begin.
    Place ended_by(std::int32_t lane, const Queue& q, Time time) const {
        const std::vector<Span>& spans = trace_.lanes[lane].spans;
        const auto first = spans.begin() + q.begin;
        auto it = std::upper_bound(first, spans.begin() + q.end, time, [](Time t, const Span& s) { return t < s.begin; });
        while (it != first) {
            --it;
            if (it->kind == SpanKind::op && it->end <= time && it->end > it->begin)
                return {lane, static_cast<std::int32_t>(it - spans.begin())};
        }
        return {};
    }

    const Trace& trace_;
    std::vector<std::vector<Queue>> queues_;
    std::map<Place, Place> other_end_;
    std::map<Meeting, Place> on_time_;
};

} // namespace

std::vector<PathStep> critical_path(const Trace& trace) { return Walker(trace).walk(); }

void count_once(std::vector<PathStep>& path, const Trace& trace) {
    if (path.empty()) return;
    const auto span = [&](const PathStep& p) -> const Span& { return trace.lanes[p.lane].spans[p.span]; };
    const std::int64_t longer = (span(path.back()).end - span(path.front()).begin).ps - (trace.end - trace.begin).ps;
    PathStep& widest = *std::ranges::max_element(path, {}, [](const PathStep& p) { return p.gap.ps; });
    // A pipeline's ranks begin one after the other: the path is longer, and no gap is nearly as long.
    if (longer > 0 && 2 * widest.gap.ps >= longer) widest.gap.ps = std::max<std::int64_t>(0, widest.gap.ps - longer);
}

std::map<std::string, double> seconds_on_path(const Trace& trace, double step_s,
                                              const std::function<std::string(const Trace&, const Span&)>& name) {
    const double of_a_step = step_s / std::max(step_s, (trace.end - trace.begin).seconds());
    std::vector<PathStep> path = critical_path(trace);
    count_once(path, trace);
    std::map<std::string, double> seconds;
    for (const PathStep& step : path) {
        const Span& s = trace.lanes[step.lane].spans[step.span];
        if (s.op >= 0) seconds[name(trace, s)] += (s.end - s.begin).seconds() * of_a_step;
        seconds["launches, host"] += step.gap.seconds() * of_a_step;
    }
    return seconds;
}

} // namespace orrery

// An area's contents, with interval unions: durations added up over queues are not wall time.
#include "gui/core/queries.hpp"
#include "topology/at.hpp"

#include <algorithm>
#include <map>

namespace orrery {

namespace {

struct Interval {
    std::int64_t begin, end;
};
using Intervals = std::vector<Interval>;

Intervals merged(Intervals in) {
    std::sort(in.begin(), in.end(), [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
    Intervals out;
    for (const Interval& i : in) {
        if (!out.empty() && i.begin <= out.back().end)
            out.back().end = std::max(out.back().end, i.end);
        else
            out.push_back(i);
    }
    return out;
}

std::int64_t length(const Intervals& in) {
    std::int64_t sum = 0;
    for (const Interval& i : in) sum += i.end - i.begin;
    return sum;
}

// The overlap of two merged lists.
std::int64_t common(const Intervals& a, const Intervals& b) {
    std::int64_t sum = 0;
    for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
        sum += std::max<std::int64_t>(0, std::min(a[i].end, b[j].end) - std::max(a[i].begin, b[j].begin));
        if (a[i].end < b[j].end)
            ++i;
        else
            ++j;
    }
    return sum;
}

// The name that a slice is counted under: its kind, and its op's kind or its cause.
struct Key {
    SliceKind kind;
    std::int32_t what; // < 0: -1 - cause; else an index of kind names
    friend auto operator<=>(const Key&, const Key&) = default;
};

struct Names {
    std::vector<std::string> names;
    std::vector<std::int32_t> of_op;
    explicit Names(const Trace& trace) {
        std::map<std::string, std::int32_t> seen;
        for (const TraceOp& op : trace.ops) {
            const auto [it, fresh] = seen.emplace(op.kind, static_cast<std::int32_t>(names.size()));
            if (fresh) names.push_back(op.kind);
            of_op.push_back(it->second);
        }
    }
    Key key(const Span& s, const std::vector<SliceKind>& op_kinds) const {
        const SliceKind k = kind_of(s, op_kinds);
        return {k, s.op >= 0 ? of_op[at(s.op)] : -1 - static_cast<std::int32_t>(s.cause)};
    }
};

struct LaneArea {
    std::map<Key, Intervals> intervals;
    std::map<Key, std::int64_t> slices;
    Intervals computing;
};

void collect(const TrackStore& store, const Track& t, const Names& names, std::int64_t begin, std::int64_t end, bool counted, LaneArea& out,
             const std::atomic<bool>* cancelled) {
    for (std::int32_t i = std::max(0, last_begun(store, t, begin)); i < slice_count(t); ++i) {
        const Span& s = slice(store, t, i);
        if (s.begin.ps >= end || ((i & 0xfff) == 0 && cancelled && *cancelled)) return;
        const Interval part{std::max(s.begin.ps, begin), std::min(s.end.ps, end)};
        if (part.end <= part.begin) continue;
        const Key key = names.key(s, store.op_kinds);
        if (is_computing(key.kind)) out.computing.push_back(part);
        if (!counted) continue;
        out.intervals[key].push_back(part);
        ++out.slices[key];
    }
}

} // namespace

std::vector<AreaRow> area(const TrackStore& store, const std::vector<std::int32_t>& tracks, std::int64_t begin, std::int64_t end,
                          const std::vector<PathStep>& path, const std::atomic<bool>* cancelled) {
    const Trace& trace = *store.trace;
    const Names names(trace);
    std::vector<bool> chosen(store.tracks.size()), lanes(trace.lanes.size());
    for (std::int32_t t : tracks) chosen[at(t)] = true, lanes[at(store.tracks[at(t)].lane)] = true;
    std::map<Key, AreaRow> rows;
    double ranks = 0;
    for (std::size_t t = 0; t < store.tracks.size();) {
        const std::int32_t l = store.tracks[t].lane;
        LaneArea found;
        for (; t < store.tracks.size() && store.tracks[t].lane == l; ++t) // its other tracks say when it computes
            if (lanes[at(l)]) collect(store, store.tracks[t], names, begin, end, chosen[t], found, cancelled);
        if (cancelled && *cancelled) return {};
        if (!lanes[at(l)]) continue;
        const double weight = trace.lanes[at(l)].ranks;
        ranks += weight;
        const Intervals computing = merged(std::move(found.computing));
        for (auto& [key, parts] : found.intervals) {
            AreaRow& row = rows[key];
            row.kind = key.kind;
            row.slices += found.slices[key];
            row.sum += weight * static_cast<double>(length(parts));
            const Intervals whole = merged(std::move(parts));
            row.covered += weight * static_cast<double>(length(whole));
            if (!is_computing(key.kind)) row.exposed += weight * static_cast<double>(length(whole) - common(whole, computing));
        }
    }
    for (const PathStep& step : path) {
        if (!lanes[at(step.lane)]) continue;
        const Span& s = span_of(trace, {step.lane, step.span});
        const std::int64_t part = std::min(s.end.ps, end) - std::max(s.begin.ps, begin);
        const auto row = rows.find(names.key(s, store.op_kinds));
        if (part > 0 && row != rows.end()) row->second.critical += static_cast<double>(part);
    }
    std::vector<AreaRow> out;
    for (auto& [key, row] : rows) {
        row.what = key.what < 0 ? cause_text(static_cast<WaitCause>(-1 - key.what)) : QString::fromStdString(names.names[at(key.what)]);
        row.sum /= ranks, row.covered /= ranks, row.exposed /= ranks;
        out.push_back(row);
    }
    std::sort(out.begin(), out.end(), [](const AreaRow& a, const AreaRow& b) { return a.covered > b.covered; });
    return out;
}

} // namespace orrery

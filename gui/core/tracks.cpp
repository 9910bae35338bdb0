#include "gui/core/tracks.hpp"

#include "gui/core/parallel.hpp"
#include "topology/at.hpp"

#include <algorithm>
#include <bit>

namespace orrery {

namespace {

// Where spans of a queue overlap, each goes to the first track that is free: the order of begins is kept on each.
void split_overlaps(const std::vector<Span>& spans, Track whole, std::vector<Track>& out) {
    std::int64_t free = INT64_MIN;
    bool overlap = false;
    for (std::int32_t i = whole.first; i < whole.first + whole.count && !overlap; ++i) {
        overlap = spans[at(i)].begin.ps < free;
        free = std::max(free, spans[at(i)].end.ps);
    }
    if (!overlap) {
        out.push_back(std::move(whole));
        return;
    }
    std::vector<std::int64_t> ends;
    const std::size_t base = out.size();
    for (std::int32_t i = whole.first; i < whole.first + whole.count; ++i) {
        const Span& s = spans[at(i)];
        const auto row = at(std::find_if(ends.begin(), ends.end(), [&](std::int64_t e) { return e <= s.begin.ps; }) - ends.begin());
        if (row == ends.size()) {
            ends.push_back(0);
            out.push_back(whole);
            out.back().overlap = static_cast<std::int16_t>(row);
        }
        ends[row] = s.end.ps;
        out[base + row].order.push_back(i);
    }
}

void number_kinds(const TrackStore& store, Track& t) {
    ByEnum<SliceKind, bool, slice_kind_count> seen{};
    for (std::int32_t i = 0; i < slice_count(t); ++i) seen[at(static_cast<int>(kind(store, t, i)))] = true;
    t.slot.fill(-1);
    for (int k = 0; k < slice_kind_count; ++k) {
        if (!seen[at(k)]) continue;
        t.slot[at(k)] = static_cast<std::int8_t>(t.kinds.size());
        t.kinds.push_back(static_cast<SliceKind>(k));
    }
}

void sample(const TrackStore& store, Track& t) {
    const std::int32_t n = slice_count(t);
    const std::size_t kinds = t.kinds.size(), width = kinds + 1, count = at((n + sample_step - 1) / sample_step);
    t.begin = slice(store, t, 0).begin.ps;
    t.end = slice(store, t, n - 1).end.ps;
    t.samples.resize(count * width);
    t.eights.resize(count);
    std::vector<std::int64_t> busy(kinds, 0);
    for (std::int32_t i = 0; i < n; ++i) {
        const Span& s = slice(store, t, i);
        std::int64_t* record = &t.samples[at(i / sample_step) * width];
        if (i % sample_step == 0) {
            *record = s.begin.ps;
            std::copy(busy.begin(), busy.end(), record + 1);
        }
        const std::int8_t slot = t.slot[at(static_cast<int>(kind(store, t, i)))];
        busy[at(slot)] += s.end.ps - s.begin.ps;
        Eight& e = t.eights[at(i / sample_step)];
        const std::size_t j = at(i % sample_step);
        e.begin[j] = static_cast<std::uint32_t>(s.begin.ps - *record);
        e.length[j] = static_cast<std::uint32_t>(s.end.ps - s.begin.ps);
        e.slot[j] = static_cast<std::uint8_t>(slot);
        if (s.end.ps - *record > UINT32_MAX) e.exact = false;
    }
    const auto each = static_cast<std::uint64_t>((t.end - t.begin) / static_cast<std::int64_t>(count));
    t.cell_shift = std::max(0, static_cast<int>(std::bit_width(each)) - 1);
    t.cells.resize(at((t.end - t.begin) >> t.cell_shift) + 2);
    std::uint32_t r = 0;
    for (std::size_t c = 0; c < t.cells.size(); ++c) {
        const std::int64_t edge = t.begin + (static_cast<std::int64_t>(c) << t.cell_shift);
        while (r < count && t.samples[r * width] < edge) ++r;
        t.cells[c] = r;
    }
}

bool backward(SliceKind k) { return k == SliceKind::backward_input || k == SliceKind::backward_weight || k == SliceKind::recompute; }

// A pass may wait for a collective in its middle, or make way for the work of a bucket, which belongs to no microbatch; what waits for
// another stage, or for memory, ends it.
void stretch(const TrackStore& store, Track& t) {
    bool ended = true;
    for (std::int32_t i = 0; i < slice_count(t); ++i) {
        const Span& s = slice(store, t, i);
        const SliceKind k = kind(store, t, i);
        if (k == SliceKind::bubble || s.cause == WaitCause::receive || s.cause == WaitCause::memory) ended = true;
        if (is_waiting(k) || s.microbatch < 0) continue;
        if (!ended && t.stretches.back().microbatch == s.microbatch) {
            Stretch& last = t.stretches.back();
            if (last.kind == k || (backward(last.kind) && backward(k))) {
                if (last.kind != k) last.kind = SliceKind::backward_input;
                last.end = s.end.ps;
                continue;
            }
        }
        ended = false;
        t.stretches.push_back({s.begin.ps, s.end.ps, s.microbatch, k});
    }
    t.stretches.shrink_to_fit();
}

} // namespace

TrackStore tracks_of(const Trace& trace, StopFlag stop) {
    TrackStore store;
    store.trace = &trace;
    store.op_kinds = kinds_of_ops(trace);
    for (std::size_t l = 0; l < trace.lanes.size(); ++l) {
        const std::vector<Span>& spans = trace.lanes[l].spans;
        for (std::size_t i = 0; i < spans.size();) {
            Track t;
            t.lane = static_cast<std::int32_t>(l);
            t.queue = spans[i].queue;
            t.first = static_cast<std::int32_t>(i);
            while (i < spans.size() && spans[i].queue == t.queue) ++i;
            t.count = static_cast<std::int32_t>(i) - t.first;
            split_overlaps(spans, std::move(t), store.tracks);
        }
    }
    parallel_for(store.tracks.size(), [&](std::size_t i) {
        if (stop && stop->load(std::memory_order_relaxed)) return;
        Track& t = store.tracks[i];
        number_kinds(store, t);
        sample(store, t);
        stretch(store, t);
    });
    stop_if(stop);
    store.begin = std::min(trace.begin, first_work(trace)).ps;
    store.end = std::max(trace.end.ps, store.begin + 1);
    for (const Track& t : store.tracks) store.end = std::max(store.end, t.end);
    return store;
}

Time first_work(const Trace& trace) {
    Time first = trace.end;
    for (const Lane& lane : trace.lanes)
        for (const Span& s : lane.spans)
            if (s.kind != SpanKind::transfer_wait) first = std::min(first, s.begin);
    return first;
}

std::int64_t bytes_held(const TrackStore& store) {
    std::size_t n = store.op_kinds.size() + sizeof(Track) * store.tracks.size();
    for (const Track& t : store.tracks)
        n += t.order.size() * 4 + t.samples.size() * 8 + t.eights.size() * sizeof(Eight) + t.cells.size() * 4 +
             t.stretches.size() * sizeof(Stretch);
    return static_cast<std::int64_t>(n);
}

Place place_of(const TrackStore& store, std::int32_t lane, std::int32_t span) {
    auto before = [](const Track& t, std::int32_t l) { return t.lane < l; };
    auto t = std::lower_bound(store.tracks.begin(), store.tracks.end(), lane, before);
    for (; t != store.tracks.end() && t->lane == lane; ++t) {
        if (span < t->first || span >= t->first + t->count) continue;
        const auto track = static_cast<std::int32_t>(t - store.tracks.begin());
        if (t->order.empty()) return {track, span - t->first};
        const auto found = std::lower_bound(t->order.begin(), t->order.end(), span);
        if (found != t->order.end() && *found == span) return {track, static_cast<std::int32_t>(found - t->order.begin())};
    }
    return {};
}

} // namespace orrery

// A trace as it is drawn: a track per lane and queue, its spans in time order, none over another (what overlaps gets a track of its own,
// nothing is dropped). Spans stay where they are, in the trace; a track adds samples of the time busy before them, by kind, so that the
// busy time of any interval is exact at the cost of a look-up: what a pixel column shows is the truth at every zoom.
#pragma once

#include "gui/core/kinds.hpp"
#include "sim/plan/stop.hpp"

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace orrery {

// Slices in a row that work on one microbatch in one direction: what "F3" stands for.
struct Stretch {
    std::int64_t begin = 0, end = 0;
    std::int32_t microbatch = -1;
    SliceKind kind = SliceKind::other; // of a backward pass in one go: backward_input, whatever else it holds
};

// Eight slices in a row, small enough that a look-up fetches two lines of memory: begins behind the first one's, in picoseconds.
inline constexpr int sample_step = 8;
struct Eight {
    std::array<std::uint32_t, sample_step> begin{}, length{};
    std::array<std::uint8_t, sample_step> slot{};
    bool exact = true; // false: they span more than 32 bits hold, so ask the spans
};

struct Track {
    std::int32_t lane = 0;
    std::int16_t queue = 0;
    std::int16_t overlap = 0;          // 0: the queue's first track; n: its n-th, of spans that begin before others end
    std::int32_t first = 0, count = 0; // in Lane::spans
    std::vector<std::int32_t> order;   // which spans, where they are not all of first .. first + count
    std::vector<SliceKind> kinds;      // that occur
    ByEnum<SliceKind, std::int8_t, slice_kind_count> slot{}; // index in kinds; -1: does not occur
    std::int64_t begin = 0, end = 0;                         // of all its slices

    // One sample every sample_step slices: its begin, then the time busy before it, by kinds. cells: for cells of 2^cell_shift ps from
    // `begin`, how many samples begin before the cell does, so that a time's sample is found without a search.
    std::vector<std::int64_t> samples;
    std::vector<Eight> eights; // by sample
    std::vector<std::uint32_t> cells;
    int cell_shift = 0;

    std::vector<Stretch> stretches; // in order of time
};

// Refers to the trace it was made of.
struct TrackStore {
    const Trace* trace = nullptr;
    std::vector<SliceKind> op_kinds;
    std::vector<Track> tracks;       // by lane, queue, overlap
    std::int64_t begin = 0, end = 0; // of what is shown: the step, and all that ran for it before and behind
};

// When the step's first work, or wait for work, begins on any lane. Receives and collectives that were only posted do not count.
Time first_work(const Trace& trace);

TrackStore tracks_of(const Trace& trace, StopFlag stop = nullptr); // on all cores; throws Stopped

inline std::int32_t slice_count(const Track& t) { return t.order.empty() ? t.count : static_cast<std::int32_t>(t.order.size()); }
// In Lane::spans.
inline std::int32_t span_index(const Track& t, std::int32_t slice) { return t.order.empty() ? t.first + slice : t.order[slice]; }
inline const Span& slice(const TrackStore& store, const Track& t, std::int32_t index) {
    return store.trace->lanes[t.lane].spans[span_index(t, index)];
}
inline SliceKind kind(const TrackStore& store, const Track& t, std::int32_t index) {
    return kind_of(slice(store, t, index), store.op_kinds);
}
// The last slice that begins at or before t; -1: none does.
std::int32_t last_begun(const TrackStore& store, const Track& track, std::int64_t t);
// The slice that runs at t; -1: none.
std::int32_t slice_at(const TrackStore& store, const Track& track, std::int64_t t);
// Which track of the store shows a span, and as which of its slices; track -1: there is no such span.
struct Place {
    std::int32_t track = -1, slice = -1;
};
Place place_of(const TrackStore& store, std::int32_t lane, std::int32_t span);

// Time busy in [begin of the trace, t), by kind. Exact.
KindTimes busy_before(const TrackStore& store, const Track& track, std::int64_t t);

// Equal columns of time: column i is [edge(i), edge(i + 1)).
struct Columns {
    std::int64_t begin = 0, end = 1;
    int count = 1;
    std::int64_t edge(int i) const {
        const std::int64_t whole = (end - begin) / count, rest = (end - begin) % count;
        return begin + whole * i + rest * i / count;
    }
};
// Edge after edge without a division: *edge is columns.edge(0), then (1) and so on.
class Edges {
  public:
    explicit Edges(const Columns& c)
        : at_(c.begin), whole_((c.end - c.begin) / c.count), rest_((c.end - c.begin) % c.count), count_(c.count) {}
    std::int64_t operator*() const { return at_; }
    std::int64_t least() const { return whole_; } // a column's length: this, or one more
    void next() {
        at_ += whole_;
        if ((carry_ += rest_) >= count_) carry_ -= count_, ++at_;
    }

  private:
    std::int64_t at_, whole_, rest_, count_, carry_ = 0;
};
// The time busy in each column, exact: out[column * kinds.size() + slot]. `out` is overwritten.
void busy_in_columns(const TrackStore& store, const Track& track, const Columns& columns, std::vector<std::int64_t>& out);

std::int64_t bytes_held(const TrackStore& store); // beyond the trace's own

} // namespace orrery

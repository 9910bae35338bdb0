// A trace as it is drawn: a track per lane and queue, its spans in time order.
#pragma once

#include "gui/core/kinds.hpp"

#include <cstdint>
#include <vector>

namespace orrery {

struct Track {
    std::int32_t lane = 0;
    std::int16_t queue = 0;
    std::int32_t first = 0, count = 0;      // in Lane::spans
};

// Refers to the trace it was made of.
struct TrackStore {
    const Trace* trace = nullptr;
    std::vector<SliceKind> op_kinds;
    std::vector<Track> tracks;              // by lane, then queue
};

TrackStore tracks_of(const Trace& trace);

} // namespace orrery

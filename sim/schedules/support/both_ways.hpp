// The order of a rank that has a chunk near one end of the pipeline and another near the other, and joins a forward of one with a backward
// of the other: what DualPipe and DualPipe-V share.
#pragma once

#include "sim/schedules/schedule.hpp"

#include <vector>

namespace orrery {

// Way 0 comes from the near end and reaches the rank early, way 1 late: chunk, and the first of `microbatches` microbatches, of each.
struct BothWays {
    int place = 0, length = 1;     // the rank's distance from the ends, of `length` ranks up to where the ways cross
    std::int64_t microbatches = 1; // of each way, at least 2 x length
    int chunk[2] = {0, 1};
    std::int64_t first[2] = {0, 0};
};

// DualPipe's eight phases: n F0 | n F0 F1 | n I1 W1 F1 | n (F0 B1) (F1 B0) | n B1 (F1 B0) | n B1 B0 | n W B0 | n W. In the last three,
// backward steps leave their weight part for later from half of the sixth phase on.
std::vector<ScheduleStep> both_ways(const BothWays& ways);

} // namespace orrery

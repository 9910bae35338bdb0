// DualPipe: microbatches enter at both ends of the pipeline. Half of them go up through one copy of the model, half down through another;
// every rank holds a chunk of each, and overlaps a forward of one with a backward of the other.
#include "sim/schedules/schedule.hpp"
#include "sim/schedules/support/both_ways.hpp"
#include "sim/schedules/support/placement.hpp"

#include <algorithm>

namespace orrery {

// Up: chunk c on stage c. Down: c of the second copy on stage p - 1 - c, which is where a V has it.
static std::vector<ShapeProblem> check_dualpipe(const ScheduleShape& shape) {
    std::vector<ShapeProblem> problems = check_chunks("dualpipe", 1, shape);
    if (shape.stages % 2 != 0)
        problems.push_back({ShapeCount::stages, "dualpipe needs an even pipeline_parallel, not " + std::to_string(shape.stages) + ": try " +
                                                    std::to_string(shape.stages + 1) + ", or schedule dualpipe-v"});
    const std::int64_t least = 2 * std::int64_t(shape.stages);
    if (shape.microbatches % 2 != 0 || shape.microbatches < least)
        problems.push_back({ShapeCount::microbatches,
                            "dualpipe needs an even number of microbatches (half of them for each direction), at least 2 x "
                            "pipeline_parallel = " +
                                std::to_string(least) + ", not " + std::to_string(shape.microbatches),
                            std::max(least, shape.microbatches + shape.microbatches % 2)});
    return problems;
}

static Schedule make_dualpipe(const ScheduleShape& shape) {
    Schedule schedule;
    const int p = shape.stages;
    const std::int64_t half = shape.microbatches / 2;
    for (int rank = 0; rank < p; ++rank) {
        const bool low = rank < p / 2;
        const int near = low ? rank : p - 1 - rank; // distance from the end whose microbatches come first
        const int up = rank, down = 2 * p - 1 - rank;
        schedule.ranks.push_back(both_ways({near, p / 2, half, {low ? up : down, low ? down : up}, {low ? 0 : half, low ? half : 0}}));
    }
    return schedule;
}

extern constinit const ScheduleInfo schedule_dualpipe = {
    .name = "dualpipe",
    .title = "DualPipe (bidirectional)",
    .source = "DeepSeek-V3 Technical Report, arXiv:2412.19437, section 3.2.1; deepseek-ai/DualPipe",
    .summary = "microbatches from both ends, forwards overlapped with backwards: two copies of the model, bubble (p/2-1)(F&B + B - 3W)",
    .splits_backward = true,
    .stage_of = stage_in_v,
    .check = check_dualpipe,
    .make = make_dualpipe,
    .directions = 2,
    .transfers = ScheduleTransfers::asynchronous,
};

} // namespace orrery

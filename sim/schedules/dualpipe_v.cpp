// DualPipe-V: DualPipe cut in half, so that one copy of the model is enough. Two chunks a stage in a V: a rank's first chunk is what
// DualPipe's one direction is to it, its second chunk the other.
#include "sim/schedules/schedule.hpp"
#include "sim/schedules/support/both_ways.hpp"
#include "sim/schedules/support/placement.hpp"

namespace orrery {

static std::vector<ShapeProblem> check_dualpipe_v(const ScheduleShape& shape) {
    std::vector<ShapeProblem> problems = check_chunks("dualpipe-v", 2, shape);
    if (shape.microbatches < 2 * std::int64_t(shape.stages))
        problems.push_back({ShapeCount::microbatches,
                            "dualpipe-v needs at least 2 x pipeline_parallel = " + std::to_string(2 * shape.stages) +
                                " microbatches, not " + std::to_string(shape.microbatches) + " (schedule zb-v has no such limit)",
                            2 * std::int64_t(shape.stages)});
    return problems;
}

static Schedule make_dualpipe_v(const ScheduleShape& shape) {
    Schedule schedule;
    for (int rank = 0; rank < shape.stages; ++rank)
        schedule.ranks.push_back(both_ways({rank, shape.stages, shape.microbatches, {rank, 2 * shape.stages - 1 - rank}, {0, 0}}));
    return schedule;
}

extern constinit const ScheduleInfo schedule_dualpipe_v = {
    .name = "dualpipe-v",
    .title = "DualPipe-V (cut-in-half)",
    .source = "deepseek-ai/DualPipe, README, after sea-ai-lab's DualPipeV; DeepSeek-V3 Technical Report, arXiv:2412.19437, section 3.2.1",
    .summary = "forwards overlapped with backwards, two chunks a stage in a V: one copy of the model, bubble (p-1)(F&B + B - 3W)",
    .splits_backward = true,
    .stage_of = stage_in_v,
    .check = check_dualpipe_v,
    .make = make_dualpipe_v,
    .usual_chunks = 2,
    .transfers = ScheduleTransfers::asynchronous,
};

} // namespace orrery

// Naive model parallelism: layers in p groups, one microbatch at a time through all of them and back. One device is busy at a time.
// With one stage, joined steps: each microbatch's forward pass runs with the backward pass of the one before (Megatron's
// --overlap-moe-expert-parallel-comm without a pipeline).
#include "sim/schedules/schedule.hpp"
#include "sim/schedules/support/placement.hpp"

namespace orrery {

static Schedule make_joined(const ScheduleShape& shape) {
    Schedule schedule;
    auto& steps = schedule.ranks.emplace_back();
    for (std::int64_t k = 0; k < shape.microbatches; ++k) {
        steps.push_back(step(StepKind::forward, 0, k));
        if (k == 0) continue;
        steps.back().joined = true;
        steps.push_back(step(StepKind::backward, 0, k - 1));
    }
    steps.push_back(step(StepKind::backward, 0, shape.microbatches - 1));
    return schedule;
}

static Schedule make_none(const ScheduleShape& shape) {
    if (shape.join && shape.stages == 1) return make_joined(shape);
    Schedule schedule;
    for (int rank = 0; rank < shape.stages; ++rank) {
        auto& steps = schedule.ranks.emplace_back();
        steps.reserve(2 * shape.microbatches);
        for (std::int64_t k = 0; k < shape.microbatches; ++k) {
            steps.push_back(step(StepKind::forward, rank, k));
            steps.push_back(step(StepKind::backward, rank, k));
        }
    }
    return schedule;
}

extern constinit const ScheduleInfo schedule_none = {
    .name = "none",
    .title = "No pipelining (naive model parallelism)",
    .source = "the baseline of Huang et al., GPipe, arXiv:1811.06965, figure 2b",
    .summary = "one microbatch at a time through all stages and back: each device is busy 1/p of the time",
    .splits_backward = false,
    .stage_of = stage_in_rounds,
    .check = check_one_chunk<"none">,
    .make = make_none,
};

} // namespace orrery

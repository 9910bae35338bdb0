// GPipe: all forwards, then all backwards; the backwards begin with the first microbatch, as every later schedule does.
#include "sim/schedules/schedule.hpp"
#include "sim/schedules/support/placement.hpp"

namespace orrery {

static Schedule make_gpipe(const ScheduleShape& shape) {
    Schedule schedule;
    for (int rank = 0; rank < shape.stages; ++rank) {
        auto& steps = schedule.ranks.emplace_back();
        steps.reserve(2 * shape.microbatches);
        for (StepKind kind : {StepKind::forward, StepKind::backward})
            for (std::int64_t k = 0; k < shape.microbatches; ++k) steps.push_back(step(kind, rank, k));
    }
    return schedule;
}

extern constinit const ScheduleInfo schedule_gpipe = {
    .name = "gpipe",
    .title = "GPipe",
    .source = "Huang et al., GPipe, arXiv:1811.06965",
    .summary = "all forwards, then all backwards: bubble (p-1)/m of the ideal time, m activations in flight",
    .splits_backward = false,
    .stage_of = stage_in_rounds,
    .check = check_one_chunk<"gpipe">,
    .make = make_gpipe,
};

} // namespace orrery

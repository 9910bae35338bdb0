// ZB-H1: 1F1B's order of forwards and input-gradient steps; weight steps wait for gaps, as long as no rank holds more than p
// microbatches. The last stages' late weight steps fill the drain: a bubble of (p-1)(F+I-W) instead of (p-1)(F+I+W).
#include "sim/schedules/schedule.hpp"
#include "sim/schedules/support/placement.hpp"
#include "sim/schedules/support/zero_bubble.hpp"

namespace orrery {

static Schedule make_zb_h1(const ScheduleShape& shape) {
    const int p = shape.stages;
    return best_zero_bubble(shape, stage_in_rounds, one_chunk_policies(shape, p, {1.0, 1.5, 2.0}));
}

extern constinit const ScheduleInfo schedule_zb_h1 = {
    .name = "zb-h1",
    .title = "Zero bubble H1",
    .source = "Qi et al., Zero Bubble Pipeline Parallelism, arXiv:2401.10241, section 2.1",
    .summary = "backward split in two: a third of 1F1B's bubble, at most the memory of p microbatches",
    .splits_backward = true,
    .stage_of = stage_in_rounds,
    .check = check_one_chunk<"zb-h1">,
    .make = make_zb_h1,
    .transfers = ScheduleTransfers::asynchronous,
};

} // namespace orrery

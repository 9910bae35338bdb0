// ZB-H2: forwards enough before the first input-gradient step to leave no gap, up to 2p - 1 microbatches in flight on every rank. With
// F = I = W and no barrier at the optimizer (post-validation) a step follows the other without a bubble.
#include "sim/schedules/schedule.hpp"
#include "sim/schedules/support/placement.hpp"
#include "sim/schedules/support/zero_bubble.hpp"

namespace orrery {

static Schedule make_zb_h2(const ScheduleShape& shape) {
    const int p = shape.stages;
    return best_zero_bubble(shape, stage_in_rounds, one_chunk_policies(shape, 2 * p - 1, {2.0, 1.5, 1.0}));
}

extern constinit const ScheduleInfo schedule_zb_h2 = {
    .name = "zb-h2",
    .title = "Zero bubble H2",
    .source = "Qi et al., Zero Bubble Pipeline Parallelism, arXiv:2401.10241, section 2.2",
    .summary = "backward split in two and a longer warm-up: no bubble with post-validation, at most the memory of 2p - 1 microbatches",
    .splits_backward = true,
    .stage_of = stage_in_rounds,
    .check = check_one_chunk<"zb-h2">,
    .make = make_zb_h2,
    .transfers = ScheduleTransfers::asynchronous,
};

} // namespace orrery

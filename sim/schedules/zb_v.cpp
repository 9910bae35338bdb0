// ZB-V: two chunks a stage, placed down the stages and back up, so that the first stage also ends the forward pass and starts the
// backward pass at once. Every rank holds at most 2p half-size activations (1F1B's p); once these are in flight it runs a forward, an
// input-gradient and a weight step in turn. No bubble with F = I = W and post-validation.
#include "sim/schedules/schedule.hpp"
#include "sim/schedules/support/placement.hpp"
#include "sim/schedules/support/zero_bubble.hpp"

namespace orrery {

static std::vector<ShapeProblem> check_zb_v(const ScheduleShape& shape) { return check_chunks("zb-v", 2, shape); }

static Schedule make_zb_v(const ScheduleShape& shape) {
    const int p = shape.stages;
    std::vector<ZeroBubblePolicy> policies;
    for (bool prompt : {true, false})
        for (double patience : {1.0, 0.5, 0.0})
            policies.push_back({2 * p, std::vector<int>(static_cast<std::size_t>(p), 2 * p), prompt, patience});
    return best_zero_bubble(shape, stage_in_v, policies);
}

extern constinit const ScheduleInfo schedule_zb_v = {
    .name = "zb-v",
    .title = "Zero bubble V",
    .source = "Qi et al., Zero Bubble Pipeline Parallelism, arXiv:2401.10241, section 6, and "
              "Pipeline Parallelism with Controllable Memory, arXiv:2405.15362 (V-ZB)",
    .summary = "two chunks a stage in a V: no bubble with post-validation, at most 2p half-size activations in flight",
    .splits_backward = true,
    .stage_of = stage_in_v,
    .check = check_zb_v,
    .make = make_zb_v,
    .usual_chunks = 2,
    .transfers = ScheduleTransfers::asynchronous,
};

} // namespace orrery

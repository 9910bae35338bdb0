// 1F1B (PipeDream-flush): after p - rank - 1 forwards a rank alternates one forward and one backward, so that at most p - rank
// activations are in flight.
#include "sim/schedules/schedule.hpp"
#include "sim/schedules/support/placement.hpp"

#include <algorithm>

namespace orrery {

static Schedule make_1f1b(const ScheduleShape& shape) {
    Schedule schedule;
    for (int rank = 0; rank < shape.stages; ++rank) {
        auto& steps = schedule.ranks.emplace_back();
        steps.reserve(static_cast<std::size_t>(2 * shape.microbatches));
        const std::int64_t warmup = std::min<std::int64_t>(shape.microbatches, shape.stages - rank - 1);
        for (std::int64_t k = 0; k < shape.microbatches + warmup; ++k) {
            if (k < shape.microbatches) steps.push_back(step(StepKind::forward, rank, k));
            if (k >= warmup) steps.push_back(step(StepKind::backward, rank, k - warmup));
        }
    }
    return schedule;
}

extern constinit const ScheduleInfo schedule_1f1b = {
    .name = "1f1b",
    .title = "1F1B (PipeDream-flush)",
    .source = "Narayanan et al., Memory-Efficient Pipeline-Parallel DNN Training, arXiv:2006.09503",
    .summary = "one forward, one backward: GPipe's bubble with at most p - rank activations in flight",
    .splits_backward = false,
    .stage_of = stage_in_rounds,
    .check = check_one_chunk<"1f1b">,
    .make = make_1f1b,
};

} // namespace orrery

// 1F1B (PipeDream-flush): after p - rank - 1 forwards a rank alternates one forward and one backward, so that at most p - rank
// activations are in flight.
#include "sim/schedules/schedule.hpp"
#include "sim/schedules/support/placement.hpp"

#include <algorithm>

namespace orrery {

extern constinit const ScheduleInfo schedule_1f1b = {
    .name = "1f1b",
    .title = "1F1B (PipeDream-flush)",
    .source = "Narayanan et al., Memory-Efficient Pipeline-Parallel DNN Training, arXiv:2006.09503",
    .summary = "one forward, one backward: GPipe's bubble with at most p - rank activations in flight",
    .splits_backward = false,
    .stage_of = stage_in_rounds,
    .check = check_one_chunk<"1f1b">,
    .make = one_forward_one_backward,
};

} // namespace orrery

// PipeDream: 1F1B whose microbatches go on into the next step without a drain in between, so that no stage waits once all are at work. A
// stage updates its weights when the last microbatch of a step has come back to it; what runs then has begun with older ones
// (sim/plan/passes/asynchronous.cpp).
#include "sim/schedules/schedule.hpp"
#include "sim/schedules/support/placement.hpp"

#include <algorithm>

namespace orrery {

extern constinit const ScheduleInfo schedule_pipedream_async = {
    .name = "pipedream-async",
    .title = "PipeDream, without a drain between steps",
    .source = "Narayanan et al., PipeDream, SOSP 2019, arXiv:1806.03377; PipeDream-2BW, arXiv:2006.09503",
    .summary = "1F1B through all steps: no bubble but every flush_every steps; weights of weight_versions are stale by up to p - 1 updates",
    .splits_backward = false,
    .stage_of = stage_in_rounds,
    .check = check_one_chunk<"pipedream-async">,
    .make = one_forward_one_backward,
    .transfers = ScheduleTransfers::asynchronous,
    .asynchronous = true,
};

} // namespace orrery

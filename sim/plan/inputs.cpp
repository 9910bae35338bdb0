// All of model, training, strategy and runtime. Of the cluster only schedules that plan with times look at anything: there only one and the
// same is alike.
#include "sim/plan/inputs.hpp"

#include "sim/schedules/schedule.hpp"

namespace orrery {
bool lowers_alike(const Scenario& a, const Scenario& b) {
    const ScheduleInfo* schedule = find_schedule(a.strategy.schedule);
    if (!schedule || schedule->splits_backward) return false; // its order follows from devices and links
    return a.model == b.model && a.training == b.training && a.strategy == b.strategy && a.runtime == b.runtime;
}

} // namespace orrery

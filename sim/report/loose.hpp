// Workers that meet outside the plan: what meeting adds to a step, and how a report says so.
#pragma once

#include "sim/report/report.hpp"

namespace orrery {

// The report's step becomes that of workers that wait for servers or peers (sim/loose). Nothing where Strategy::loose() does not hold.
void follow_workers(Report& report, const Scenario& scenario, const Plan& plan, const Fabric& fabric, const CostModel& cost,
                    const SimulateOptions& options);

// ", gradients to servers on 4 nodes": how they meet, as part of a strategy's line. Empty where workers meet in the plan.
std::string loose_strategy_text(const Strategy& strategy);

// "  gradients are 7.00 updates old in the mean ..": empty where workers meet in the plan.
std::string loose_text(const Report& report, const Scenario& scenario, const TextStyle& style);

} // namespace orrery

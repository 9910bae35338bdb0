// Workers that meet outside the plan: what meeting adds to a step, and how a report says so.
#pragma once

#include "sim/loose/record.hpp"
#include "sim/report/report.hpp"

namespace orrery {

// How much of a round of local steps and their meeting (local SGD, DiLoCo: Plan::further) is steps. It takes one more simulation, of a step
// without what comes between steps. Nothing where workers meet in every step or outside the plan.
void count_meetings(Report& report, const Scenario& scenario, const Plan& plan, const Fabric& fabric, const CostModel& cost,
                    const SimulateOptions& options);

// The report's step becomes that of workers that wait for servers or peers (sim/loose). Nothing where Strategy::loose() does not hold.
void follow_workers(Report& report, const Scenario& scenario, const Plan& plan, const Fabric& fabric, const CostModel& cost,
                    const SimulateOptions& options);

// A few steps of the course that those figures are of, of at most so many workers. step_s: the step of a worker alone, as the engine has it
// (Simulation::step_time). Strategy::loose() must hold.
LooseRecord record_workers(const Scenario& scenario, const Plan& plan, double step_s, int steps, int most_workers,
                           const SimulateOptions& options);

// ", gradients to servers on 4 nodes": how they meet, as part of a strategy's line. Empty where workers meet in the plan.
std::string loose_strategy_text(const Strategy& strategy);

// "  workers step 97.2 % of the time ..; meetings add 1.15 s to every 100 steps": empty where there are no workers.
std::string meetings_text(const Report& report, const TextStyle& style);

// "  gradients are 7.00 updates old in the mean ..": empty where workers meet in the plan.
std::string loose_text(const Report& report, const Scenario& scenario, const TextStyle& style);

} // namespace orrery

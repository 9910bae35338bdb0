// The inputs of a plan: all points of a sweep over links, devices or disturbances have the same plan.
#pragma once

#include "sim/scenario/scenario.hpp"

namespace orrery {

// What schedules that plan with times know of the cluster. 0: nothing, and for all other schedules.
struct ScheduleRates {
    double peak = 0; // FLOP/s of the device in the activations' dtype
    double link = 0; // bytes/s between two stages
    bool operator==(const ScheduleRates&) const = default;
};
ScheduleRates schedule_rates(const Scenario& scenario);

// All that lowering reads. Fields that only the cost model, the memory model or a real run read have one fixed value here.
struct PlanInputs {
    Model model;
    Training training;
    Strategy strategy;
    Runtime runtime;
    bool tensor_ranks_share_a_node = true;
    ScheduleRates rates;
    bool operator==(const PlanInputs&) const = default;
};
PlanInputs plan_inputs(const Scenario& scenario);

// Whether both are lowered to one plan, but for its name.
bool lowers_alike(const Scenario& a, const Scenario& b);

} // namespace orrery

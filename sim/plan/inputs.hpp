// The inputs of a plan: all points of a sweep over links, devices or disturbances have the same plan.
#pragma once

#include "sim/scenario/scenario.hpp"

namespace orrery {

// All that lowering reads. Fields that only the cost model, the memory model or a real run read have one fixed value here.
struct PlanInputs {
    Model model;
    Training training;
    Strategy strategy;
    Runtime runtime;
    bool tensor_ranks_share_a_node = true;
    bool attention_holds_sums = false; // of its backward kernel (adjoint.cpp)
    bool operator==(const PlanInputs&) const = default;
};
PlanInputs plan_inputs(const Scenario& scenario);

// Whether they share a node, or a rack's one NVSwitch.
bool tensor_ranks_share_a_node(const Scenario& scenario);
// Whether the kernels of fused attention are NVIDIA's, whose backward pass holds sums in memory of the allocator's.
bool attention_holds_sums(const Scenario& scenario);

// Whether both are lowered to one plan, but for its name.
bool lowers_alike(const Scenario& a, const Scenario& b);

} // namespace orrery

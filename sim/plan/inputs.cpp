// Lowering reads one fact of the cluster: whether tensor-parallel ranks share a node.
#include "sim/plan/inputs.hpp"

namespace orrery {

PlanInputs plan_inputs(const Scenario& scenario) {
    PlanInputs in{scenario.model, scenario.training, scenario.strategy, scenario.runtime};
    in.tensor_ranks_share_a_node = scenario.strategy.tensor_parallel <= scenario.cluster.devices_per_node;
    in.training.learning_rate = 0;
    in.training.warmup_steps = 0;
    in.training.seed = 0;
    in.strategy.collective_algorithm = CollectiveAlgorithm::automatic;
    in.runtime.launch_us = 0;
    in.runtime.launch_blocking = false;
    in.runtime.plan_allocator = false;
    in.runtime.expandable_segments = false;
    in.runtime.reserved_gb = -1;
    if (!in.runtime.routed) in.runtime.expert_room = 0;
    return in;
}

bool lowers_alike(const Scenario& a, const Scenario& b) { return plan_inputs(a) == plan_inputs(b); }

} // namespace orrery

// Lowering reads two facts of the cluster: whether tensor-parallel ranks share a node, or a rack's one NVSwitch, and whether the kernels of
// attention are NVIDIA's.
#include "sim/plan/inputs.hpp"

#include <algorithm>

namespace orrery {

PlanInputs plan_inputs(const Scenario& scenario) {
    PlanInputs in{scenario.model, scenario.training, scenario.strategy, scenario.runtime};
    in.tensor_ranks_share_a_node = tensor_ranks_share_a_node(scenario);
    in.attention_holds_sums = attention_holds_sums(scenario);
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

bool tensor_ranks_share_a_node(const Scenario& s) {
    return s.strategy.tensor_parallel <= s.cluster.devices_per_node * std::max(1, s.cluster.intra.domain_nodes);
}

bool attention_holds_sums(const Scenario& s) { return !s.runtime.plan_allocator && s.cluster.device.vendor == "nvidia"; }

bool lowers_alike(const Scenario& a, const Scenario& b) { return plan_inputs(a) == plan_inputs(b); }

} // namespace orrery

// Of the cluster lowering reads whether tensor-parallel ranks share a node, and rates where a schedule plans with times.
#include "sim/plan/inputs.hpp"

#include "sim/plan/lowering.hpp"
#include "sim/schedules/schedule.hpp"

namespace orrery {

ScheduleRates schedule_rates(const Scenario& scenario) {
    const ScheduleInfo* schedule = find_schedule(scenario.strategy.schedule);
    if (!schedule || !schedule->splits_backward) return {};
    const Cluster& cluster = scenario.cluster;
    const auto peak = cluster.device.peak.find(name(activation_dtype(scenario)));
    const double link =
        cluster.nodes > 1 && cluster.inter.nic_bandwidth.value > 0 ? cluster.inter.nic_bandwidth.value : cluster.intra.bandwidth.value;
    if (peak == cluster.device.peak.end() || peak->second.value <= 0 || link <= 0) return {};
    return {peak->second.value, link};
}

PlanInputs plan_inputs(const Scenario& scenario) {
    PlanInputs in{scenario.model, scenario.training, scenario.strategy, scenario.runtime, true, schedule_rates(scenario)};
    in.tensor_ranks_share_a_node = scenario.strategy.tensor_parallel <= scenario.cluster.devices_per_node;
    in.training.learning_rate = 0;
    in.training.warmup_steps = 0;
    in.training.seed = 0;
    in.strategy.collective_algorithm = CollectiveAlgorithm::automatic;
    in.runtime.launch_us = 0;
    in.runtime.launch_blocking = false;
    in.runtime.plan_allocator = false;
    in.runtime.reserved_gb = -1;
    return in;
}

bool lowers_alike(const Scenario& a, const Scenario& b) { return plan_inputs(a) == plan_inputs(b); }

} // namespace orrery

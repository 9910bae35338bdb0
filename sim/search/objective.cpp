#include "sim/search/objective.hpp"

#include <cmath>

namespace orrery {

namespace {

constexpr double trillion = 1e12;

// To the target with gradients that are not old: those that are take no fewer.
double least_steps_to_target(const Scenario& s) {
    const double batch = static_cast<double>(s.training.global_batch_size);
    return samples_to_target(*s.training.convergence, batch, s.strategy.drifts(), 0) / batch;
}

} // namespace

double tokens_of_a_step(const Scenario& s) {
    return static_cast<double>(s.training.global_batch_size) * static_cast<double>(s.training.sequence_length);
}

std::string energy_of(const StrategySpace& space, std::vector<Problem>& problems) {
    if (space.machines.empty()) return {};
    std::string text = energy_basis(space.machines.front().variations.base().cluster);
    const Cluster *known = nullptr, *unknown = nullptr;
    for (const SpaceMachine& machine : space.machines) {
        const Cluster& cluster = machine.variations.base().cluster;
        (cluster.power_w_per_node > 0 ? known : unknown) = &cluster;
        if (const std::string more = assumed_node_power(cluster); text.find(more) == std::string::npos) text += "; " + more;
    }
    const auto called = [](const Cluster& c) { return c.name.empty() ? c.device.title : c.name; };
    if (known && unknown)
        problems.push_back(
            {"/cluster/power_w_per_node",
             "what nodes draw besides their boards is known of " + called(*known) + " and not of " + called(*unknown) +
                 ", which a ranking by energy would put first for it: set cluster.power_w_per_node, or leave one of them out"});
    return text;
}

bool of_run(SearchBy by) { return by == SearchBy::goodput || by == SearchBy::run_time || by == SearchBy::run_cost; }

bool of_target(SearchBy by) { return by == SearchBy::target_time || by == SearchBy::target_cost; }

Objective Objective::of(SearchBy by, double within_days, const Scenario& scenario, std::vector<Problem>& problems) {
    const Cluster& cluster = scenario.cluster;
    const double usd = usd_per_second(cluster, cluster.devices()), watts = watts_of(cluster, cluster.devices());
    const bool money = by == SearchBy::cost || by == SearchBy::run_cost || by == SearchBy::target_cost;
    if (money && usd <= 0)
        problems.push_back(
            {"/cluster/price_usd_per_device_hour",
             "the price of " + cluster.device.name + " is not known: set cluster.price_usd_per_device_hour to rank by cost"});
    if (by == SearchBy::energy && watts <= 0)
        problems.push_back({"/cluster/device/power_w",
                            "the power of " + cluster.device.name + " is not known: set cluster.device.power_w to rank by energy"});
    if (of_run(by) && !scenario.run)
        problems.push_back({"/run", "goodput, run_time and run_cost are figures of a whole run, and the scenario has no \"run\": add one, "
                                    "for example --set 'run={\"tokens\": 1e12}'"});
    if (of_target(by) && !scenario.training.convergence)
        problems.push_back({"/training/convergence",
                            "target_time and target_cost are figures of a training until its target, and the scenario has none: add one, "
                            "for example --set 'training.convergence={\"min_samples\": 1e6, \"critical_batch_size\": 1000}'"});
    Objective o;
    o.by = by;
    o.per_second = by == SearchBy::device_time ? cluster.devices() : money ? usd : by == SearchBy::energy ? watts : 1;
    if (within_days <= 0) return o;
    const bool long_known = scenario.run && (scenario.run->tokens > 0 || scenario.run->steps > 0);
    if (!long_known && !scenario.training.convergence) {
        problems.push_back({"/run", "a deadline needs to know how long the run is: give its tokens, for example --set 'run={\"tokens\": "
                                    "1e12}', or what its target takes, training.convergence"});
        return o;
    }
    o.within_s = within_days * 86400;
    if (!long_known || of_target(by)) return o;
    o.run_steps = static_cast<double>(scenario.run->steps);
    o.run_tokens = scenario.run->tokens;
    return o;
}

bool Objective::late(const SweepRow& row) const { return !std::isinf(within_s) && seconds_of_run(row) > within_s; }

double Objective::seconds_of_run(const SweepRow& row) const {
    if (of_run(by)) return row.run_s;
    if (until_target()) return row.time_to_target_s;
    return run_steps > 0 ? run_steps * row.step_time_s : run_tokens / row.tokens_per_s;
}

double Objective::longest_step(const Scenario& s) const {
    if (std::isinf(within_s)) return within_s;
    const double steps = until_target() ? least_steps_to_target(s) : run_steps > 0 ? run_steps : run_tokens / tokens_of_a_step(s);
    return within_s / steps * (1 + 1e-9);
}

double Objective::score(const SweepRow& row) const {
    switch (by) {
    case SearchBy::memory:
        return static_cast<double>(row.peak_bytes);
    case SearchBy::goodput:
        return row.run_stretch();
    case SearchBy::run_time:
        return row.run_s / row.run_tokens * trillion;
    case SearchBy::run_cost:
        return row.run_usd_per_trillion_tokens();
    case SearchBy::target_time:
    case SearchBy::target_cost:
        return row.time_to_target_s * per_second;
    case SearchBy::time:
    case SearchBy::device_time:
    case SearchBy::cost:
    case SearchBy::energy:
        break;
    }
    return (step_tokens > 0 ? step_tokens / row.tokens_per_s : row.step_time_s) * per_second;
}

double Objective::bound(double step_s, const Scenario& scenario) const {
    if (by == SearchBy::goodput) return 1;
    if (of_target(by)) return per_second * step_s * least_steps_to_target(scenario) * (1 - 1e-12);
    const double tokens = of_run(by) ? trillion : step_tokens;
    return per_second * step_s * (tokens > 0 ? tokens / tokens_of_a_step(scenario) * (1 - 1e-12) : 1);
}

std::string Objective::unproven(const Scenario& scenario) const {
    if (!of_run(by) || !scenario.run || scenario.run->elastic == Elasticity::none) return {};
    return std::string("with run.elastic = ") + name(scenario.run->elastic) +
           " a run may go on faster than on the whole machine, so that the bound of its step is none of the run";
}

} // namespace orrery

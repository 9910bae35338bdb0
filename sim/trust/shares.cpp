// A step again, with one group of durations a little longer each time.
#include "sim/trust/shares.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace orrery {

namespace {

// Whether an op of the plan is timed by constants of this group. Hosts and links serve all plans but those of one rank.
bool appears(const Plan& plan, const Fabric& fabric, CostGroup g) {
    if (g == CostGroup::host) return true;
    if (g == CostGroup::links_inside) return plan.mesh.ranks() > 1;
    if (g == CostGroup::links_between) return plan.mesh.ranks() > 1 && fabric.nodes() > 1;
    return std::any_of(plan.blocks.begin(), plan.blocks.end(), [g](const Block& b) {
        return std::any_of(b.ops.begin(), b.ops.end(), [g](const Op& op) {
            return !is_memory_op(op.work) && !std::holds_alternative<Collective>(op.work) && !std::holds_alternative<Exchange>(op.work) &&
                   group_of(op.work) == g;
        });
    });
}

} // namespace

CostShares cost_shares(const Plan& plan, const Scenario& scenario, const Fabric& fabric, const CostModel& cost, const Simulation& base,
                       const SimulateOptions& options) {
    constexpr double slower = 1.05;
    CostShares shares{};
    if (base.step_time.ps <= 0) return shares;
    SimulateOptions again = options;
    again.trace = false;
    for (std::size_t g = 0; g < shares.size(); ++g) {
        if (!appears(plan, fabric, static_cast<CostGroup>(g))) continue;
        again.factors = options.factors;
        again.factors[g] *= slower;
        const double grown = simulate(plan, scenario, fabric, cost, again).step_time.seconds() / base.step_time.seconds();
        shares[g] = std::max(0.0, std::log(grown) / std::log(slower));
    }
    const double all = std::accumulate(shares.begin(), shares.end(), 0.0);
    if (all > 0)
        for (double& share : shares) share /= all;
    return shares;
}

} // namespace orrery

// Durations of groups of constants, all by one factor each.
#include "sim/engine/machine.hpp"

#include <algorithm>
#include <utility>

namespace orrery {

namespace {

double of(const CostFactors& by, CostGroup g) { return by[g]; }

Time scaled(Time t, double factor) { return Time{static_cast<std::int64_t>(static_cast<double>(t.ps) * factor)}; }

CommCost scaled(CommCost c, double factor) {
    c.latency = scaled(c.latency, factor);
    c.cap.value /= factor;
    return c;
}

} // namespace

void slow_down(Costs& costs, Wires& wires, const CostFactors& by, const Fabric& fabric) {
    if (by == no_factors) return;
    wires.capacity.change([&](std::size_t l, double rate) {
        const LinkKind kind = fabric.links()[static_cast<LinkId>(l)].kind;
        if (kind == LinkKind::copy) return rate / of(by, CostGroup::host);
        return rate / of(by, kind == LinkKind::nic || kind == LinkKind::trunk ? CostGroup::links_between : CostGroup::links_inside);
    });
    const auto between = [&fabric, by](int from, int to) {
        return of(by, fabric.node_of(from) == fabric.node_of(to) ? CostGroup::links_inside : CostGroup::links_between);
    };
    costs.compute = [old = std::move(costs.compute), by](const Op& op) {
        ComputeCost c = old(op);
        c.duration = scaled(c.duration, of(by, group_of(op.work)));
        return c;
    };
    costs.collective = [old = std::move(costs.collective), by, &fabric](const Collective& work, std::span<const int> ranks) {
        bool leaves = false;
        for (int rank : ranks) leaves = leaves || fabric.node_of(rank) != fabric.node_of(ranks.front());
        return scaled(old(work, ranks), of(by, leaves ? CostGroup::links_between : CostGroup::links_inside));
    };
    costs.transfer = [old = std::move(costs.transfer), between](Bytes bytes, int from, int to) {
        return scaled(old(bytes, from, to), between(from, to));
    };
    if (costs.copy)
        costs.copy = [old = std::move(costs.copy), by](const Op& op, int rank) { return scaled(old(op, rank), of(by, CostGroup::host)); };
    // Alone a copy is as fast as its own group says: slower links give others less beside it.
    if (costs.copy_loads)
        costs.copy_loads = [old = std::move(costs.copy_loads), by, &fabric](const Op& op, int rank) {
            std::vector<LinkLoad> loads = old(op, rank);
            for (LinkLoad& l : loads)
                if (fabric.links()[l.link].kind != LinkKind::copy)
                    l.load *= std::min(1.0, of(by, CostGroup::host) / of(by, CostGroup::links_inside));
            return loads;
        };
    costs.launch = scaled(costs.launch, of(by, CostGroup::host));
    if (costs.host)
        costs.host = [old = std::move(costs.host), by](const Op& op, int kernels) {
            return scaled(old(op, kernels), of(by, CostGroup::host));
        };
}

} // namespace orrery

// Durations of groups of constants, all by one factor each.
#include "sim/cost/own_constants.hpp"
#include "sim/engine/machine.hpp"

#include <algorithm>
#include <array>
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

// to: the new duration, of the old one and the op's work. On nodes of all kinds.
template <class To> void change_durations(Costs& costs, const To& to) {
    const auto change = [&to](std::function<ComputeCost(const Op&)>& cost) {
        cost = [old = std::move(cost), to](const Op& op) {
            ComputeCost c = old(op);
            c.duration = to(c.duration, op.work);
            return c;
        };
    };
    change(costs.compute);
    for (auto& of_kind : costs.compute_of_kind) change(of_kind);
}

} // namespace

CostGroup group_of_ranks(const Fabric& fabric, std::span<const int> ranks) {
    const bool leaves =
        std::any_of(ranks.begin(), ranks.end(), [&](int rank) { return fabric.node_of(rank) != fabric.node_of(ranks.front()); });
    return leaves ? CostGroup::links_between : CostGroup::links_inside;
}

CostGroup group_of_link(const Fabric& fabric, LinkId link) {
    const LinkKind kind = fabric.links()[link].kind;
    if (kind == LinkKind::copy) return CostGroup::host;
    return kind == LinkKind::nic || kind == LinkKind::trunk ? CostGroup::links_between : CostGroup::links_inside;
}

void add_uncounted(Costs& costs, double memory) {
    if (memory != 1) change_durations(costs, [memory](Time t, const Work& work) { return with_uncounted(t, work, memory); });
}

void slow_down(Costs& costs, Wires& wires, const CostFactors& by, const Fabric& fabric) {
    if (by == no_factors) return;
    wires.capacity.change([&](std::size_t l, double rate) { return rate / of(by, group_of_link(fabric, static_cast<LinkId>(l))); });
    change_durations(costs, [by](Time t, const Work& work) { return scaled(t, of(by, group_of(work))); });
    costs.collective = [old = std::move(costs.collective), by, &fabric](const Collective& work, std::span<const int> ranks) {
        return scaled(old(work, ranks), of(by, group_of_ranks(fabric, ranks)));
    };
    costs.transfer = [old = std::move(costs.transfer), by, &fabric](Bytes bytes, int from, int to) {
        return scaled(old(bytes, from, to), of(by, group_of_ranks(fabric, std::array{from, to})));
    };
    if (costs.copy)
        costs.copy = [old = std::move(costs.copy), by](const Op& op, int rank) { return scaled(old(op, rank), of(by, CostGroup::host)); };
    // Alone a copy is as fast as its own group says: slower links give others less beside it.
    if (costs.copy_loads)
        costs.copy_loads = [old = std::move(costs.copy_loads), by, &fabric](const Op& op, int rank) {
            std::vector<LinkLoad> loads = old(op, rank);
            for (LinkLoad& l : loads)
                if (fabric.links()[l.link].kind != LinkKind::copy)
                    l.eta /= std::min(1.0, of(by, CostGroup::host) / of(by, CostGroup::links_inside));
            return loads;
        };
    costs.launch = scaled(costs.launch, of(by, CostGroup::host));
    if (costs.host)
        costs.host = [old = std::move(costs.host), by](const Op& op, int kernels) {
            return scaled(old(op, kernels), of(by, CostGroup::host));
        };
}

} // namespace orrery

// A scenario's cost model, links and perturbations as compile() takes them.
#include "sim/engine/fold.hpp"
#include "sim/engine/machine.hpp"
#include "sim/scenario/perturb.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>

namespace orrery {

namespace {

// Layers of one clock on all kinds of nodes; nothing where more than clocks tells layers, or ops of one shape, apart: experts' loads layer
// by layer, and kernels measured by their ops' names.
std::optional<std::vector<std::int32_t>> layers_alike(const std::vector<LayerClocks>& of_kinds, const Scenario& scenario) {
    const Cluster& c = scenario.cluster;
    const bool measured =
        !c.device.kernels.empty() || std::ranges::any_of(c.others, [](const OtherNodes& o) { return !o.device.kernels.empty(); });
    if (measured || (scenario.model.moe && scenario.model.moe->imbalance_loads.size() > 1)) return std::nullopt;
    std::vector<std::int32_t> numbers;
    std::map<std::vector<double>, std::int32_t> known;
    std::size_t layers = 0;
    for (const LayerClocks& clocks : of_kinds) layers = std::max(layers, clocks.size());
    for (std::size_t layer = 0; layer < layers; ++layer) {
        std::vector<double> own;
        for (const LayerClocks& clocks : of_kinds) own.push_back(layer < clocks.size() ? clocks[layer] : 1);
        numbers.push_back(known.try_emplace(own, static_cast<std::int32_t>(known.size()) + 1).first->second);
    }
    return numbers;
}

} // namespace

Costs costs_of(const CostModel& cost, const Plan& plan, const Scenario& scenario, const Fabric& fabric) {
    Costs c;
    std::vector<LayerClocks> clocks{cost.clocks(plan)};
    c.compute = [&, own = clocks[0]](const Op& op) { return cost.compute(plan, op, 0, own); };
    for (int kind = 1; kind < scenario.cluster.kinds_of_nodes(); ++kind) {
        clocks.push_back(cost.clocks(plan, kind));
        c.compute_of_kind.emplace_back(
            [&cost, &plan, kind, own = clocks.back()](const Op& op) { return cost.compute(plan, op, kind, own); });
    }
    c.layers = layers_alike(clocks, scenario);
    c.collective = [&](const Collective& work, std::span<const int> ranks) { return cost.collective(work, ranks); };
    c.loads = [&](const Collective& work, const CommCost& of, std::span<const int> ranks) { return cost.loads(work, of, ranks); };
    c.transfer = [&](Bytes bytes, int from, int to) {
        CommCost one = cost.transfer(bytes, from, to);
        one.latency += cost.exchange_sync();
        return one;
    };
    c.transfer_loads = [&](int from, int to) { return cost.transfer_loads(from, to); };
    c.copy = [&](const Op& op, int rank) { return cost.copy(plan, op, rank); };
    c.copy_loads = [&](const Op& op, int rank) { return cost.copy_loads(plan, op, rank); };
    c.group = [&](std::span<const int> ranks) { return group_of_ranks(fabric, ranks); };
    c.interference = cost.interference();
    c.launch = cost.launch();
    c.host = [&](const Op& op, int kernels) { return cost.host(op, kernels); };
    // No two places of a custom graph need be alike, nor those of a cluster with unlike nodes or with links down.
    if (scenario.cluster.graph || !scenario.cluster.others.empty() || !scenario.cluster.inter.down.empty()) return c;
    c.moves = [&](std::span<const int> before, std::span<const int> now, LinkMoves& out) { return fabric.find_moves(before, now, out); };
    // The nodes of a regular cluster are alike: only the placement of ranks on them and the distance to the next node count.
    c.shape = [&, route = std::vector<LinkShare>{}](std::span<const int> ranks) mutable {
        std::uint64_t h = ranks.size();
        int first = fabric.node_of(ranks[0]), last = first, before = ranks[0];
        for (int r : ranks) {
            int node = fabric.node_of(r);
            h = mix(h, static_cast<std::uint64_t>(fabric.domain_of(r) - fabric.domain_of(ranks[0])));
            if (node != last) h = mix(h, static_cast<std::uint64_t>(fabric.latency(before, r, route).ps));
            h = mix(h, static_cast<std::uint64_t>(node - first) << 32 | static_cast<std::uint64_t>(fabric.local_index(r)));
            last = node;
            before = r;
        }
        return h;
    };
    return c;
}

namespace {

// Multiplies the capacity of the links that are meant, but where the cluster's own rates have it already; a perturbation of none is a
// mistake in the scenario.
void change(Wires& w, const Fabric& fabric, double factor, std::size_t place, const Perturbation& p) {
    if (p.in_cluster) return;
    if (const std::string unknown = unknown_link(p, fabric); !unknown.empty())
        throw std::runtime_error("/perturb/" + std::to_string(place) + ": " + unknown);
    w.capacity.change([&](std::size_t l, double rate) { return means(p, fabric, static_cast<LinkId>(l)) ? rate * factor : rate; });
}

} // namespace

Wires wires_of(const Scenario& scenario, const Fabric& fabric) {
    Wires w;
    w.seed = scenario.training.seed;
    w.group = [&](LinkId link) { return group_of_link(fabric, link); };
    fabric.links().each_run([&](const Link& l, LinkId count) { w.capacity.push_back(l.capacity.value, static_cast<std::size_t>(count)); });
    auto ranks = static_cast<std::size_t>(scenario.world_size());
    for (std::size_t r = 0; r < ranks && !scenario.cluster.others.empty(); ++r)
        w.kind.push_back(static_cast<std::int16_t>(scenario.cluster.kind_of_node(fabric.node_of(static_cast<int>(r)))));
    auto slow = [&](std::size_t rank, double factor) {
        if (w.slowness.empty()) w.slowness.assign(ranks, 1.0);
        if (rank < ranks) w.slowness[rank] *= factor;
    };
    for (std::size_t i = 0; i < scenario.perturb.size(); ++i) {
        const Perturbation& p = scenario.perturb[i];
        switch (p.kind) {
        case Perturbation::Kind::slow_rank:
            if (p.index >= 0) slow(static_cast<std::size_t>(p.index), p.factor);
            break;
        case Perturbation::Kind::slow_node:
            for (std::size_t r = 0; r < ranks; ++r)
                if (fabric.node_of(static_cast<int>(r)) == p.index) slow(r, p.factor);
            break;
        case Perturbation::Kind::slow_link:
            change(w, fabric, 1 / p.factor, i, p);
            break;
        case Perturbation::Kind::jitter:
            w.jitter = p.factor;
            break;
        case Perturbation::Kind::background:
            change(w, fabric, 1 - std::min(p.factor, 0.999), i, p);
            break;
        }
    }
    return w;
}

} // namespace orrery

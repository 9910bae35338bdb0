// What the scenario's perturbations make of links and ranks.
#include "sim/engine/machine.hpp"

#include <algorithm>

namespace orrery {

namespace {

const char* class_name(LinkKind k) {
    switch (k) {
    case LinkKind::scale_up: return "scale_up";
    case LinkKind::pcie: return "pcie";
    case LinkKind::nic: return "nic";
    case LinkKind::trunk: return "trunk";
    case LinkKind::copy: return "copy";
    }
    return "";
}

} // namespace

Wires wires_of(const Scenario& scenario, const Fabric& fabric) {
    Wires w;
    w.seed = scenario.training.seed;
    for (const Link& l : fabric.links()) w.capacity.push_back(l.capacity.value);
    auto ranks = static_cast<std::size_t>(scenario.world_size());
    auto slow = [&](std::size_t rank, double factor) {
        if (w.slowness.empty()) w.slowness.assign(ranks, 1.0);
        if (rank < ranks) w.slowness[rank] *= factor;
    };
    for (const Perturbation& p : scenario.perturb) {
        switch (p.kind) {
        case Perturbation::Kind::slow_rank: if (p.index >= 0) slow(static_cast<std::size_t>(p.index), p.factor); break;
        case Perturbation::Kind::slow_node:
            for (std::size_t r = 0; r < ranks; ++r) if (fabric.node_of(static_cast<int>(r)) == p.index) slow(r, p.factor);
            break;
        case Perturbation::Kind::slow_link:
            for (std::size_t l = 0; l < w.capacity.size(); ++l) if (fabric.links()[l].name == p.link) w.capacity[l] /= p.factor;
            break;
        case Perturbation::Kind::jitter: w.jitter = p.factor; break;
        case Perturbation::Kind::background:
            for (std::size_t l = 0; l < w.capacity.size(); ++l) if (p.link == class_name(fabric.links()[l].kind)) w.capacity[l] *= 1 - std::min(p.factor, 0.999);
            break;
        }
    }
    return w;
}

} // namespace orrery

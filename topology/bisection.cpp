// Bisection of built clusters: the cheapest cut into halves of whole nodes, exact because these networks are trees of switches (parallel
// switches of one level, which carry equal shares, act as one) or tori.
//
// In a tree, cost[x] is the least capacity cut under a switch when x of its nodes are in the half S, its own switch being on a given side:
//   a node on the side its switch is not on cuts the node's links; a switch on the side its parent is not on cuts its uplinks.
// Two subtrees join by (min, +) convolution. Example: 2 leaves of 2 nodes, node links 1, uplinks 2: S = one leaf with the spine on
// the other side costs 2; S = one node of each leaf costs 2 as well.
#include "topology/layout.hpp"

#include <algorithm>
#include <limits>

namespace orrery {
namespace {

using Costs = std::vector<double>; // by number of nodes in S
constexpr double unreachable = std::numeric_limits<double>::infinity();

Costs join(const Costs& a, const Costs& b) {
    Costs out(a.size() + b.size() - 1, unreachable);
    for (std::size_t i = 0; i < a.size(); ++i)
        for (std::size_t j = 0; j < b.size(); ++j) out[i + j] = std::min(out[i + j], a[i] + b[j]);
    return out;
}

// A switch under a parent that is in S or not: its own side is free, at the price of its uplinks.
Costs under(const Costs& same_side, const Costs& other_side, double uplinks) {
    Costs out(same_side.size());
    for (std::size_t x = 0; x < out.size(); ++x) out[x] = std::min(same_side[x], other_side[x] + uplinks);
    return out;
}

struct TwoSided {
    Costs in, out;
}; // the switch in S, or not in S

TwoSided leaf_costs(int nodes, double node_links) {
    TwoSided c;
    for (int x = 0; x <= nodes; ++x) {
        c.in.push_back((nodes - x) * node_links);
        c.out.push_back(x * node_links);
    }
    return c;
}

TwoSided join_under(const std::vector<TwoSided>& children, double uplinks) {
    TwoSided c{{0}, {0}};
    for (const TwoSided& child : children) {
        c.in = join(c.in, under(child.in, child.out, uplinks));
        c.out = join(c.out, under(child.out, child.in, uplinks));
    }
    return c;
}

// The rate of a node into the network: its NICs, or the PCIe links in front of them.
double node_links(const Layout& l) {
    double sum = 0;
    for (int e = 0; e < l.endpoints; ++e) {
        int devices = 0;
        for (int d = 0; d < l.per_node; ++d) devices += l.endpoint_of(d) == e;
        const double nics = l.nic.value * l.nics_of(e); // as if all were up, and nodes alike
        sum += l.has_pcie ? std::min(nics, l.pcie.value * devices) : nics;
    }
    return sum;
}

// A rail group's leaves see the same nodes, so they act as one leaf with the sum of their links.
double across_leaves(const Layout& l) {
    const int together = l.rails ? l.endpoints : 1;
    double uplinks = 0;
    for (int i = 0; i < together; ++i) uplinks += l.leaf_up(i).value;
    const double links = node_links(l);
    const int per_pod = l.three_levels() ? l.leaves_per_pod / together * l.nodes_per_leaf : l.nodes;
    std::vector<TwoSided> pods;
    for (int first = 0; first < l.nodes; first += per_pod) {
        std::vector<TwoSided> leaves;
        const int end = std::min(l.nodes, first + per_pod);
        for (int n = first; n < end; n += l.nodes_per_leaf) leaves.push_back(leaf_costs(std::min(l.nodes_per_leaf, end - n), links));
        pods.push_back(join_under(leaves, uplinks));
    }
    const auto half = static_cast<std::size_t>(l.nodes / 2);
    // With one leaf the spine above it lies on its side and costs nothing; with one pod, so does the core.
    if (pods.size() == 1) return std::min(pods[0].in[half], pods[0].out[half]);
    const TwoSided root = join_under(pods, l.pod_up().value);
    return std::min(root.in[half], root.out[half]);
}

// Across the longest even dimension: two faces of links (there and round the back). With odd dimensions alone no plane halves it; the
// cut then steps down one layer in each further dimension.
double torus_cut(const Layout& l) {
    double best = unreachable;
    for (std::size_t i = 0; i < 3; ++i)
        if (l.dims[i] % 2 == 0) best = std::min(best, (l.wrapped[i] ? 2.0 : 1.0) * l.units / l.dims[i]);
    if (best == unreachable) {
        best = 0;
        double face = 1;
        for (int i = 0; i < 3; ++i) {
            if (l.dims[i] > 1) best += (l.wrapped[i] ? 2.0 : 1.0) * face;
            face *= l.dims[i];
        }
    }
    return best * l.torus_link.value;
}

double inside_cut(const Layout& l) {
    const int half = l.per_node / 2;
    switch (l.inside) {
    case Inside::through_switch:
        return half * l.scale_up.value;
    case Inside::mesh: { // a package that lies across the cut has a part of its dies on either side
        const int within = half % l.dies * (l.dies - half % l.dies);
        return static_cast<double>(half * (l.per_node - half) - within) * l.scale_up.value + within * l.die_link.value;
    }
    case Inside::pcie:
        return half * l.pcie.value;
    case Inside::torus:
        return torus_cut(l);
    case Inside::nothing:
        return node_links(l) * half / l.per_node;
    }
    return 0;
}

} // namespace

BytesPerSecond bisection(const Layout& l) {
    if (l.devices < 2) return {};
    if (l.torus_spans && (!l.torus_of_nodes || l.nodes > 1)) return {torus_cut(l)};
    if (const int groups = (l.leaves + l.switches_per_group - 1) / l.switches_per_group; l.groups_of_switches > 0 && groups > 1)
        return l.global_rate() * (static_cast<double>(groups / 2) * (groups - groups / 2)); // of the job's groups, each with all others
    return {l.nodes == 1 ? inside_cut(l) : across_leaves(l)};
}

} // namespace orrery

// From a cluster's figures to the shape of its network.
#include "topology/layout.hpp"

#include <algorithm>
#include <cmath>

namespace orrery {
namespace {

// Switches have 64 ports, half of them down (NVIDIA QM9700, Tomahawk 4 and 5 class): 32 NICs under a leaf, 64 leaves under the
// spines of two levels; beyond that a third level joins pods of 32 leaves.
constexpr int ports_down = 32;
constexpr int ports = 64;

// One more switch on the way: 0.1 to 0.2 us through an InfiniBand switch (NVIDIA QM8700 and QM9700 data sheets) and 10 m of fibre.
constexpr Time trunk_hop = Time::microseconds(0.2);

Inside inside_of(IntraKind kind) {
    switch (kind) {
    case IntraKind::nvswitch:
    case IntraKind::shared_memory:
        return Inside::through_switch;
    case IntraKind::nvlink_mesh:
    case IntraKind::infinity_fabric:
        return Inside::mesh;
    case IntraKind::pcie:
        return Inside::pcie;
    case IntraKind::torus:
        return Inside::torus;
    case IntraKind::none:
        return Inside::nothing;
    }
    return Inside::nothing;
}

// Three factors of n, ascending and as near a cube as there are.
std::array<int, 3> torus_dims(int n) {
    std::array<int, 3> best{1, 1, n};
    for (int a = 1; static_cast<std::int64_t>(a) * a * a <= n; ++a) {
        if (n % a) continue;
        for (int b = a; static_cast<std::int64_t>(b) * b <= n / a; ++b) {
            const int c = n / a / b;
            if ((n / a) % b == 0 && a + b + c < best[0] + best[1] + best[2]) best = {a, b, c};
        }
    }
    return best;
}

// Google's slices: rows close where they are made of whole cubes of four, or span a pod of two dimensions.
bool closes(const InterNode& n, std::size_t dimension) {
    if (!n.wrap.empty()) return n.wrap[dimension];
    return n.shape.size() == 2 ? n.shape[dimension] == 16 : n.shape[dimension] % 4 == 0;
}

// The shape given, its dimensions in ascending order.
void shape_torus(Layout& l, const InterNode& n) {
    std::vector<std::pair<int, bool>> rows;
    for (std::size_t i = 0; i < n.shape.size(); ++i) rows.emplace_back(n.shape[i], closes(n, i));
    while (rows.size() < 3) rows.emplace_back(1, true);
    std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    for (std::size_t i = 0; i < 3; ++i) l.dims[i] = rows[i].first, l.wrapped[i] = rows[i].second;
}

void lay_torus(Layout& l, const Cluster& c) {
    const bool of_devices = l.inside == Inside::torus;
    const bool network = c.inter.topology == InterTopology::torus || c.inter.kind == InterKind::torus;
    if (!of_devices && !network) return;
    l.torus_spans = network;
    l.torus_of_nodes = !of_devices;
    l.units = l.torus_of_nodes ? l.nodes : l.torus_spans ? l.devices : l.per_node;
    l.tori = of_devices && !network ? l.nodes : 1;
    l.dims = torus_dims(l.units);
    const std::size_t dimensions = c.inter.shape.empty() ? 3 : c.inter.shape.size();
    if (!c.inter.shape.empty()) shape_torus(l, c.inter);
    l.used_dims = static_cast<int>(std::count_if(l.dims.begin(), l.dims.end(), [](int d) { return d > 1; }));
    // A unit has two links a dimension, whether a small torus uses all of its dimensions or not.
    l.torus_link =
        (l.torus_of_nodes ? c.inter.nic_bandwidth * c.inter.nics_per_node : c.intra.bandwidth) * (0.5 / static_cast<double>(dimensions));
    l.torus_latency = of_devices ? c.intra.latency : trunk_hop;
}

void lay_dragonfly(Layout& l, const InterNode& n) {
    l.nodes_per_leaf = std::max(1, n.dragonfly.nodes_per_switch);
    l.switches_per_group = std::max(1, n.dragonfly.switches_per_group);
    l.global_links = std::max(1, n.dragonfly.global_links);
    l.leaves = (l.nodes + l.nodes_per_leaf - 1) / l.nodes_per_leaf;
    l.groups_of_switches = std::max(n.dragonfly.groups, (l.leaves + l.switches_per_group - 1) / l.switches_per_group);
    l.by_third_groups = n.routing == Routing::adaptive && l.groups_of_switches > 2;
}

void lay_network(Layout& l, const Cluster& c) {
    if (c.inter.kind == InterKind::none || c.inter.nics_per_node <= 0 || (l.torus_spans && !l.torus_of_nodes)) return;
    l.nics = c.inter.nics_per_node;
    l.endpoints = std::min(l.nics, l.per_node);
    l.groups = l.endpoints;
    l.nic = c.inter.nic_bandwidth;
    l.nic_latency = {c.inter.latency.ps / 2};
    l.oversubscription = c.inter.oversubscription;
    l.rail_only = c.inter.topology == InterTopology::rail_only;
    l.rails = l.rail_only || c.inter.topology == InterTopology::rail_optimized;
    if (l.torus_of_nodes) return;
    if (c.inter.topology == InterTopology::dragonfly) return lay_dragonfly(l, c.inter);

    const int usual = l.rails ? ports_down : std::max(1, ports_down / l.endpoints);
    l.nodes_per_leaf = c.inter.topology == InterTopology::single_switch ? l.nodes
                       : c.inter.nodes_per_leaf > 0                     ? c.inter.nodes_per_leaf
                                                                        : usual;
    const int leaf_groups = (l.nodes + l.nodes_per_leaf - 1) / l.nodes_per_leaf;
    const int leaves_per_group = l.rails ? l.endpoints : 1;
    l.leaves = leaf_groups * leaves_per_group;
    if (l.leaves > ports) {
        l.leaves_per_pod = std::max(1, ports_down / leaves_per_group) * leaves_per_group;
        l.pods = (l.leaves + l.leaves_per_pod - 1) / l.leaves_per_pod;
        if (l.pods == 1) l.pods = 0;
    }
    l.hashed = c.inter.routing == Routing::ecmp && l.leaves > 1;
    l.queue_pairs = std::max(1, c.inter.queue_pairs);
    if (l.hashed) {
        const double down = l.nodes_per_leaf * (l.rails ? static_cast<double>(l.nics) / l.endpoints : l.nics);
        l.uplinks = std::max(1, static_cast<int>(std::lround(down / l.oversubscription)));
        l.core_links = l.three_levels() ? l.leaves_per_pod : 1;
    }
}

void number_links(Layout& l) {
    LinkId at = 0;
    const auto block = [&at](std::int64_t count) {
        const LinkId first = at;
        at += static_cast<LinkId>(count);
        return first;
    };
    const std::int64_t n = l.nodes, d = l.per_node;
    l.first_scale_up = block(l.inside == Inside::through_switch ? 2 * n * d : l.inside == Inside::mesh ? n * d * (d - 1) : 0);
    l.first_torus = block(static_cast<std::int64_t>(l.tori) * l.units * l.used_dims * 2);
    l.first_pcie = block(l.has_pcie ? 2 * n * d : 0);
    l.first_nic = block(2 * n * l.endpoints);
    l.first_copy = block(l.has_copy ? 2 * n * l.groups : 0);
    l.first_leaf = block(l.leaves > 1 ? 2LL * l.leaves * l.uplinks : 0);
    l.first_pod = block(2LL * l.pods * l.uplinks * l.core_links);
    l.first_global = block(static_cast<std::int64_t>(l.groups_of_switches) * std::max(0, l.groups_of_switches - 1));
    l.link_count = at;
}

} // namespace

int Layout::nics_of(int endpoint) const {
    if (nics <= per_node) return 1;
    return (endpoint + 1) * nics / per_node - endpoint * nics / per_node;
}

BytesPerSecond Layout::leaf_up(int leaf) const {
    if (groups_of_switches > 0)
        return nic * (switches_per_group > 1 ? switches_per_group - 1.0 : static_cast<double>(global_links) * (groups_of_switches - 1));
    const int down = nodes_per_leaf * (rails ? nics_of(leaf % endpoints) : nics);
    return nic * (down / oversubscription);
}

BytesPerSecond Layout::pod_up() const {
    const int leaves_per_group = rails ? endpoints : 1;
    return nic * (static_cast<double>(leaves_per_pod / leaves_per_group) * nodes_per_leaf * nics / oversubscription);
}

Layout layout_of(const Cluster& c) {
    Layout l;
    l.nodes = c.nodes;
    l.per_node = c.devices_per_node;
    l.devices = c.devices();
    l.inside = l.per_node == 1 && c.intra.kind != IntraKind::torus ? Inside::nothing : inside_of(c.intra.kind);
    l.scale_up = l.inside == Inside::mesh ? c.intra.bandwidth * (1.0 / (l.per_node - 1)) : c.intra.bandwidth;
    l.scale_up_latency = {l.inside == Inside::mesh ? c.intra.latency.ps : c.intra.latency.ps / 2};
    lay_torus(l, c);
    lay_network(l, c);
    const bool pcie_node = c.intra.kind == IntraKind::pcie;
    l.has_pcie = pcie_node || c.host.pcie_bandwidth.value > 0;
    l.pcie = pcie_node ? c.intra.bandwidth : c.host.pcie_bandwidth;
    l.pcie_latency = {pcie_node ? c.intra.latency.ps / 2 : 0};
    // Devices of one PCIe node meet under one root, whatever NICs there are.
    if (l.inside == Inside::pcie) l.groups = 1;
    l.has_copy = l.has_pcie && c.host.memory_bandwidth.value > 0;
    l.copy_per_device = std::min(l.pcie, c.host.memory_bandwidth * (1.0 / l.per_node));
    l.trunk_latency = trunk_hop;
    number_links(l);
    return l;
}

} // namespace orrery

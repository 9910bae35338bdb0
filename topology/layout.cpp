// From a cluster's figures to the shape of its network.
#include "topology/layout.hpp"

#include "topology/torus.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

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

// Three factors of n, ascending: as near a cube as there are; in two dimensions 1, and two as near a square.
std::array<int, 3> torus_dims(int n, int dimensions) {
    std::array<int, 3> best{1, 1, n};
    for (int a = 1; static_cast<std::int64_t>(a) * a * a <= n && (dimensions > 2 || a < 2); ++a) {
        if (n % a) continue;
        for (int b = a; static_cast<std::int64_t>(b) * b <= n / a; ++b) {
            const int c = n / a / b;
            if ((n / a) % b == 0 && a + b + c < best[0] + best[1] + best[2]) best = {a, b, c};
        }
    }
    return best;
}

// Google's slices: rows close where they are made of whole cubes of four, or span a pod of two dimensions.
bool closes(int row, std::size_t dimensions) { return dimensions == 2 ? row == 16 : row % 4 == 0; }

// The dimensions of a slice with this many devices: cubes of four where it holds a whole number of them.
std::vector<int> slice_shape(int devices, int dimensions) {
    constexpr int cube = 4 * 4 * 4;
    const bool cubes = dimensions == 3 && devices % cube == 0;
    std::vector<int> shape;
    for (int d : torus_dims(cubes ? devices / cube : devices, dimensions)) shape.push_back(cubes ? 4 * d : d);
    if (dimensions == 2) shape.erase(shape.begin());
    return shape;
}

// In ascending order.
void shape_torus(Layout& l, const std::vector<int>& shape, const std::vector<bool>& wrap) {
    std::vector<std::pair<int, bool>> rows;
    for (std::size_t i = 0; i < shape.size(); ++i) rows.emplace_back(shape[i], wrap.empty() ? closes(shape[i], shape.size()) : wrap[i]);
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
    l.dims = torus_dims(l.units, c.inter.dimensions);
    const std::size_t dimensions = c.inter.shape.empty() ? static_cast<std::size_t>(c.inter.dimensions) : c.inter.shape.size();
    if (!c.inter.shape.empty())
        shape_torus(l, c.inter.shape, c.inter.wrap);
    else if (of_devices && network)
        shape_torus(l, slice_shape(l.units, c.inter.dimensions), {});
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

bool some_uplink_down(const InterNode& n) {
    return std::any_of(n.down.begin(), n.down.end(), [](const LinkDown& d) { return d.leaf >= 0; });
}

int uplinks_of(const Layout& l) {
    const double down = l.nodes_per_leaf * (l.rails ? static_cast<double>(l.nics) / l.endpoints : l.nics);
    return static_cast<int>(std::clamp(std::round(down / l.oversubscription), 1.0, 1e6));
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
    l.rails = l.rail_only || c.inter.topology == InterTopology::rail_optimized || c.inter.topology == InterTopology::dual_plane;
    l.routing = c.inter.routing;
    if (l.torus_of_nodes) return;
    l.planes = c.inter.topology == InterTopology::dragonfly ? 1 : c.inter.plane_count();
    if (c.inter.topology == InterTopology::dragonfly) return lay_dragonfly(l, c.inter);

    // Ports of a fraction of a NIC's rate: a switch has as many times more of them.
    const int usual = (l.rails ? ports_down : std::max(1, ports_down / l.endpoints)) * l.planes;
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
    if (l.hashed || some_uplink_down(c.inter)) {
        l.uplinks = uplinks_of(l);
        l.core_links = l.hashed && l.three_levels() ? l.leaves_per_pod : 1;
    }
}

// The share that LinkDown takes of uplinks and ports. down_problems() has refused those that are not there.
void take_down(Layout& l, const InterNode& n) {
    for (const LinkDown& d : n.down) {
        if (d.leaf >= 0) {
            if (l.leaves < 2) continue; // there are no uplinks: nothing goes through them
            if (l.leaf_left.empty())
                l.leaf_left.assign(static_cast<std::size_t>(l.leaves) * static_cast<std::size_t>(l.planes * l.uplinks), 1);
            for (int u = d.uplink; u < d.uplink + d.uplinks && u < l.uplinks; ++u)
                l.leaf_left[static_cast<std::size_t>(d.leaf) * static_cast<std::size_t>(l.uplinks) + static_cast<std::size_t>(u)] *=
                    1 - d.share;
            continue;
        }
        if (l.endpoints == 0) continue;
        if (l.nic_left.empty()) l.nic_left.assign(static_cast<std::size_t>(l.nodes) * static_cast<std::size_t>(l.endpoints * l.planes), 1);
        const int endpoint = l.nics <= l.per_node ? d.nic : l.endpoint_with(d.nic);
        const int a_plane = n.port_count() / l.planes;
        for (int plane = 0; plane < l.planes; ++plane) {
            if (d.port >= 0 && d.port % l.planes != plane) continue;
            const double lost = d.share / l.nics_of(endpoint) / (d.port < 0 ? 1 : a_plane);
            double& left = l.nic_left[(d.node * l.endpoints + endpoint) * l.planes + plane];
            left = std::max(0.0, left - lost);
            if (left < 1e-9) left = 0;
        }
    }
}

void lay_kinds(Layout& l, const Cluster& c) {
    if (c.others.empty()) return;
    l.scale_up_of_kind.push_back(l.scale_up);
    l.nic_of_kind.push_back(c.inter.nic_bandwidth);
    int first = c.nodes;
    for (const OtherNodes& o : c.others) first -= o.nodes;
    l.first_of_kind.push_back(0);
    for (const OtherNodes& o : c.others) {
        l.first_of_kind.push_back(first);
        first += o.nodes;
        l.scale_up_of_kind.push_back(l.inside == Inside::mesh ? o.scale_up * (1.0 / (l.per_node - 1)) : o.scale_up);
        l.nic_of_kind.push_back(o.nic_bandwidth);
    }
}

// Dies of a package have a part of their links between themselves, and the rest evenly to those of other packages. (Not where nodes are
// unlike: all pairs of a node count as alike there.)
void lay_packages(Layout& l, const Cluster& c) {
    const Device& d = c.device;
    if (c.intra.kind != IntraKind::infinity_fabric || l.inside != Inside::mesh || d.dies < 2 || l.per_node % d.dies != 0 ||
        !c.others.empty())
        return;
    l.dies = d.dies;
    l.die_link = c.intra.bandwidth * d.die_share;
    if (l.per_node > l.dies) l.scale_up = c.intra.bandwidth * ((1 - (l.dies - 1) * d.die_share) / (l.per_node - l.dies));
}

// Switches, host bridges and sockets of a node's PCIe.
void lay_tree(Layout& l, const PcieTree& t) {
    if (!l.has_pcie || t.devices_per_switch <= 0) return;
    l.tree = true;
    l.groups = std::max(1, (l.per_node + t.devices_per_switch - 1) / t.devices_per_switch);
    l.sockets = std::clamp(t.sockets, 1, l.groups);
    l.near_nics = t.near_nics;
    l.bridge = t.bridge.value > 0 ? t.bridge : l.pcie;
    l.socket = t.socket.value > 0 ? t.socket : l.bridge;
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
    l.first_bridge = block(l.tree ? 2 * n * l.groups : 0);
    l.first_socket = block(l.tree ? n * l.sockets * (l.sockets - 1) : 0);
    l.first_nic = block(2 * n * l.endpoints * l.planes);
    l.first_copy = block(l.has_copy ? 2 * n * l.copies() : 0);
    l.first_leaf = block(l.leaves > 1 ? 2LL * l.planes * l.leaves * l.uplinks : 0);
    l.first_pod = block(2LL * l.planes * l.pods * l.uplinks * l.core_links);
    l.first_global = block(static_cast<std::int64_t>(l.groups_of_switches) * std::max(0, l.groups_of_switches - 1));
    l.link_count = at;
}

} // namespace

int Layout::nics_of(int endpoint) const {
    if (nics <= per_node) return 1;
    return (endpoint + 1) * nics / per_node - endpoint * nics / per_node;
}

int Layout::endpoint_with(int which) const {
    int e = 0;
    while (e + 1 < endpoints && (e + 1) * nics / per_node <= which) ++e;
    return e;
}

int Layout::endpoint_at(int node, int local) const {
    const int own = endpoint_of(local);
    if (nic_left.empty()) return own;
    for (int k = 0; k < endpoints; ++k) {
        const int e = (own + k) % endpoints;
        for (int p = 0; p < planes; ++p)
            if (port_left(node, e, p) > 0) return e;
    }
    return own;
}

int Layout::kind_of(int node) const {
    return first_of_kind.empty()
               ? 0
               : static_cast<int>(std::upper_bound(first_of_kind.begin(), first_of_kind.end(), node) - first_of_kind.begin()) - 1;
}

BytesPerSecond Layout::endpoint_bandwidth(int node, int endpoint) const {
    double left = 0;
    for (int p = 0; p < planes; ++p) left += port_left(node, endpoint, p);
    return nic_at(node) * (nics_of(endpoint) * left / planes);
}

BytesPerSecond Layout::leaf_up(int leaf) const {
    if (groups_of_switches > 0)
        return nic * (switches_per_group > 1 ? switches_per_group - 1.0 : static_cast<double>(global_links) * (groups_of_switches - 1));
    const int down = nodes_per_leaf * (rails ? nics_of(leaf % endpoints) : nics);
    return nic * (down / oversubscription);
}

BytesPerSecond Layout::pod_up() const {
    const int pod_groups = leaves_per_pod / (rails ? endpoints : 1);
    return nic * (static_cast<double>(pod_groups) * nodes_per_leaf * nics / oversubscription);
}

namespace {

void check_uplinks(const Layout& whole, const LinkDown& d, const std::string& what, std::vector<std::string>& out) {
    if (whole.groups_of_switches > 0 || whole.torus_of_nodes || whole.leaves == 0)
        out.push_back(what + ": there are no leaves with uplinks; name a node's nic");
    else if (whole.leaves == 1)
        out.push_back(what + ": there is one leaf, and nothing goes through its uplinks; inter_node.nodes_per_leaf makes more");
    else if (d.leaf >= whole.leaves * whole.planes)
        out.push_back(fmt::format("{}: leaf {} is not among the {} there are (0 to {}{})", what, d.leaf, whole.leaves * whole.planes,
                                  whole.leaves * whole.planes - 1, whole.planes > 1 ? ", plane by plane" : ""));
    else if (whole.leaves > 1 && (d.uplink >= uplinks_of(whole) || d.uplinks > uplinks_of(whole) - d.uplink))
        out.push_back(fmt::format("{}: uplinks {} to {} are not among the {} of a leaf", what, d.uplink, d.uplink + d.uplinks - 1,
                                  uplinks_of(whole)));
}

void check_nic(const Layout& whole, const InterNode& n, const LinkDown& d, const std::string& what, std::vector<std::string>& out) {
    if (whole.nics == 0)
        out.push_back(what + ": the nodes have no NICs");
    else if (d.node >= whole.nodes)
        out.push_back(fmt::format("{}: node {} is not among the {} there are", what, d.node, whole.nodes));
    else if (d.nic >= whole.nics)
        out.push_back(fmt::format("{}: nic {} is not among the {} of a node", what, d.nic, whole.nics));
    else if (d.port >= n.port_count())
        out.push_back(
            fmt::format("{}: port {} is not among the {} of a NIC; inter_node.ports_per_nic says how many", what, d.port, n.port_count()));
}

// Two ends must still have a way to each other.
void check_ways(const Layout& l, std::vector<std::string>& out) {
    for (int node = 0; node < l.nodes && !l.nic_left.empty(); ++node) {
        bool up = false;
        for (int e = 0; e < l.endpoints; ++e) up = up || l.endpoint_bandwidth(node, e).value > 0;
        if (!up) out.push_back(fmt::format("inter_node.down leaves node {} without a NIC", node));
    }
    for (int leaf = 0; leaf < l.leaves * l.planes && !l.leaf_left.empty(); ++leaf) {
        bool up = false;
        for (int s = 0; s < l.uplinks; ++s) up = up || l.uplink_left(leaf, s) > 0;
        if (!up) out.push_back(fmt::format("inter_node.down leaves leaf {} without an uplink", leaf));
    }
}

} // namespace

std::vector<std::string> down_problems(const Cluster& c) {
    std::vector<std::string> out;
    if (c.inter.down.empty()) return out;
    Cluster whole = c;
    whole.inter.down.clear();
    const Layout l = layout_of(whole);
    for (std::size_t i = 0; i < c.inter.down.size(); ++i) {
        const LinkDown& d = c.inter.down[i];
        const std::string what = fmt::format("inter_node.down[{}]", i);
        if (d.leaf >= 0)
            check_uplinks(l, d, what, out);
        else
            check_nic(l, c.inter, d, what, out);
    }
    if (out.empty()) check_ways(layout_of(c), out);
    return out;
}

Layout layout_of(const Cluster& c) {
    Layout l;
    l.nodes = c.nodes;
    l.per_node = c.devices_per_node;
    l.devices = c.devices();
    l.inside = l.per_node == 1 && c.intra.kind != IntraKind::torus ? Inside::nothing : inside_of(c.intra.kind);
    l.scale_up = l.inside == Inside::mesh ? c.intra.bandwidth * (1.0 / (l.per_node - 1)) : c.intra.bandwidth;
    lay_packages(l, c);
    l.scale_up_latency = {l.inside == Inside::mesh ? c.intra.latency.ps : c.intra.latency.ps / 2};
    l.domain = l.per_node * (l.inside == Inside::through_switch || (l.per_node == 1 && c.intra.kind == IntraKind::nvswitch)
                                 ? std::max(1, c.intra.domain_nodes)
                                 : 1);
    if (l.domain > 1 && l.per_node == 1) l.inside = Inside::through_switch;
    lay_torus(l, c);
    lay_network(l, c);
    const bool pcie_node = c.intra.kind == IntraKind::pcie;
    l.has_pcie = pcie_node || c.host.pcie_bandwidth.value > 0;
    l.pcie = pcie_node ? c.intra.bandwidth : c.host.pcie_bandwidth;
    l.pcie_latency = {pcie_node ? c.intra.latency.ps / 2 : 0};
    // Devices of one PCIe node meet under one root, whatever NICs there are.
    if (l.inside == Inside::pcie) l.groups = 1;
    lay_tree(l, c.intra.tree);
    l.memory_of_socket = memory_rate(c.host) * (1.0 / l.sockets);
    lay_kinds(l, c);
    l.has_copy = l.has_pcie && c.host.memory_bandwidth.value > 0;
    l.copy_per_device = std::min(l.pcie, memory_rate(c.host) * (1.0 / l.per_node));
    l.trunk_latency = trunk_hop;
    take_down(l, c.inter);
    number_links(l);
    return l;
}

std::optional<std::array<int, 3>> torus_rows(const Cluster& cluster) {
    const Layout l = layout_of(cluster);
    if (cluster.graph || l.inside != Inside::torus || !l.torus_spans) return std::nullopt;
    return l.dims;
}

} // namespace orrery

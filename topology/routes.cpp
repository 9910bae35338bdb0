// Routes of built clusters: arithmetic on link ids, no search.
#include "topology/layout.hpp"
#include "topology/mix.hpp"

#include <algorithm>

namespace orrery {
namespace {

constexpr int up = 0, down = 1;

LinkId torus_link(const Layout& l, int torus, int unit, int dim, int direction) {
    const int used = dim - (3 - l.used_dims);
    return l.first_torus + ((torus * l.units + unit) * l.used_dims + used) * 2 + direction;
}

// Dimension by dimension, the shorter way round; where both ways are equally long, half of the bytes take each.
void append_torus(const Layout& l, int torus, int from, int to, std::vector<LinkShare>& out) {
    int stride = 1, at = from;
    for (int dim = 0; dim < 3; ++dim) {
        const int n = l.dims[dim];
        const int x = at / stride % n, target = to / stride % n;
        const int ahead = (target - x + n) % n;
        const auto walk = [&](int hops, int direction, double share) {
            for (int h = 0, p = x; h < hops; ++h) {
                out.push_back({torus_link(l, torus, at + (p - x) * stride, dim, direction), share});
                p = direction == up ? (p + 1) % n : (p + n - 1) % n;
            }
        };
        if (!l.wrapped[dim])
            target > x ? walk(target - x, up, 1) : walk(x - target, down, 1);
        else if (ahead * 2 < n)
            walk(ahead, up, 1);
        else if (ahead * 2 > n)
            walk(n - ahead, down, 1);
        else {
            walk(ahead, up, 0.5);
            walk(ahead, down, 0.5);
        }
        at += (target - x) * stride;
        stride *= n;
    }
}

// From group to group of a dragonfly: by the links between the two, or half of it by those of each other group.
void append_globals(const Layout& l, int from, int to, double share, std::vector<LinkShare>& out) {
    if (from == to) return;
    out.push_back({l.global_link(from, to), l.by_third_groups ? 0.5 * share : share});
    if (!l.by_third_groups) return;
    const double each = 0.5 * share / (l.groups_of_switches - 2);
    for (int by = 0; by < l.groups_of_switches; ++by) {
        if (by == from || by == to) continue;
        out.push_back({l.global_link(from, by), each});
        out.push_back({l.global_link(by, to), each});
    }
}

// Between two leaves of a plane by one spine (and core).
void append_path(const Layout& l, int plane, int leaf_a, int leaf_b, int spine, int core, double share, std::vector<LinkShare>& out) {
    const auto leaf = [&](int which, int direction) {
        out.push_back({l.first_leaf + ((plane * l.leaves + which) * l.uplinks + spine) * 2 + direction, share});
    };
    leaf(leaf_a, up);
    if (l.groups_of_switches > 0) append_globals(l, l.group_of_leaf(leaf_a), l.group_of_leaf(leaf_b), share, out);
    if (l.three_levels() && leaf_a / l.leaves_per_pod != leaf_b / l.leaves_per_pod) {
        const auto pod = [&](int which, int direction) {
            const int spines = (plane * l.pods + which / l.leaves_per_pod) * l.uplinks + spine;
            out.push_back({l.first_pod + (spines * l.core_links + core) * 2 + direction, share});
        };
        pod(leaf_a, up);
        pod(leaf_b, down);
    }
    leaf(leaf_b, down);
}

// The share left of the way from leaf to leaf by one spine.
double path_left(const Layout& l, int plane, int leaf_a, int leaf_b, int spine) {
    return std::min(l.uplink_left(plane * l.leaves + leaf_a, spine), l.uplink_left(plane * l.leaves + leaf_b, spine));
}

// The spine with this number among those whose way is up, counted round and round; among all where none is up.
int living(const Layout& l, int plane, int leaf_a, int leaf_b, std::uint64_t number) {
    const auto whole = [&](int s) { return path_left(l, plane, leaf_a, leaf_b, s) > 0; };
    std::uint64_t count = 0;
    for (int s = 0; s < l.uplinks && !l.leaf_left.empty(); ++s) count += whole(s);
    if (count == 0) return static_cast<int>(number % static_cast<std::uint64_t>(l.uplinks));
    number %= count;
    for (int s = 0;; ++s)
        if (whole(s) && number-- == 0) return s;
}

// Over the spines by the routing, where some of their links are down.
void append_spread(const Layout& l, int plane, int leaf_a, int leaf_b, double weight, std::vector<LinkShare>& out) {
    std::vector<double> part(static_cast<std::size_t>(l.uplinks), 0);
    double sum = 0;
    // Planned: flows whose way is down, dealt over the others; each pair of leaves begins elsewhere.
    std::uint64_t moved = static_cast<std::uint64_t>(leaf_a) * static_cast<std::uint64_t>(l.leaves) + static_cast<std::uint64_t>(leaf_b);
    for (int s = 0; s < l.uplinks; ++s) {
        const double left = path_left(l, plane, leaf_a, leaf_b, s);
        if (l.routing == Routing::planned)
            part[left > 0 ? s : living(l, plane, leaf_a, leaf_b, moved++)] += 1, sum += 1;
        else if (left > 0)
            sum += part[s] = l.routing == Routing::adaptive ? left : 1;
    }
    for (int s = 0; s < l.uplinks; ++s)
        if (const double p = part[s]; p > 0) append_path(l, plane, leaf_a, leaf_b, s, 0, weight * p / sum, out);
}

std::uint64_t hash_of_flow(int a, int b, int queue_pair) {
    const std::uint64_t flow = mix((static_cast<std::uint64_t>(static_cast<std::uint32_t>(a)) << 32) | static_cast<std::uint32_t>(b));
    return queue_pair == 0 ? flow : mix(flow + static_cast<std::uint64_t>(queue_pair));
}

// Between two leaves of a plane: over the merged trunks, or spread over those that are up.
void append_trunks(const Layout& l, int plane, int leaf_a, int leaf_b, double weight, std::vector<LinkShare>& out) {
    if (leaf_a == leaf_b) return;
    if (l.uplinks == 1) return append_path(l, plane, leaf_a, leaf_b, 0, 0, weight, out);
    append_spread(l, plane, leaf_a, leaf_b, weight, out);
}

// A link that several queue pairs take stands once; from `first` on.
void merge(std::vector<LinkShare>& out, std::size_t first) {
    if (first >= out.size()) return;
    const auto begin = out.begin() + static_cast<std::ptrdiff_t>(first);
    std::sort(begin, out.end(), [](const LinkShare& x, const LinkShare& y) { return x.link < y.link; });
    std::size_t kept = first;
    for (std::size_t i = first + 1; i < out.size(); ++i) {
        if (out[i].link == out[kept].link)
            out[kept].share += out[i].share;
        else
            out[++kept] = out[i];
    }
    out.resize(kept + 1);
}

// Where the bytes of two endpoints go: NIC up, trunks, NIC down.
struct Ends {
    int node_a, end_a, node_b, end_b;
};

void append_plane(const Layout& l, const Ends& e, int plane, double weight, std::vector<LinkShare>& out) {
    out.push_back({l.nic_link(e.node_a, e.end_a, plane) + up, weight});
    append_trunks(l, plane, l.leaf_of(e.node_a, e.end_a), l.leaf_of(e.node_b, e.end_b), weight, out);
    out.push_back({l.nic_link(e.node_b, e.end_b, plane) + down, weight});
}

// The share left of the two ports in a plane.
double ports_left(const Layout& l, const Ends& e, int plane) {
    return std::min(l.port_left(e.node_a, e.end_a, plane), l.port_left(e.node_b, e.end_b, plane));
}

// Each queue pair by the plane, the spine and the core that its hash picks among those that are up.
void append_hashed(const Layout& l, const Ends& e, int a, int b, std::vector<LinkShare>& out) {
    const std::size_t first = out.size();
    const int leaf_a = l.leaf_of(e.node_a, e.end_a), leaf_b = l.leaf_of(e.node_b, e.end_b);
    const double share = 1.0 / l.queue_pairs;
    for (int q = 0; q < l.queue_pairs; ++q) {
        const std::uint64_t hash = hash_of_flow(a, b, q);
        int plane = l.planes == 1 ? 0 : static_cast<int>((mix(hash) >> 7) % static_cast<std::uint64_t>(l.planes));
        for (int k = 0; k < l.planes && ports_left(l, e, plane) <= 0; ++k) plane = (plane + 1) % l.planes;
        if (l.planes > 1) out.push_back({l.nic_link(e.node_a, e.end_a, plane) + up, share});
        if (leaf_a != leaf_b)
            append_path(l, plane, leaf_a, leaf_b, living(l, plane, leaf_a, leaf_b, hash),
                        static_cast<int>((hash >> 32) % static_cast<std::uint64_t>(l.core_links)), share, out);
        if (l.planes > 1) out.push_back({l.nic_link(e.node_b, e.end_b, plane) + down, share});
    }
    if (l.queue_pairs > 1) merge(out, first);
}

// Over the planes: evenly over those with a port at both ends, adaptive by what the ports have left.
void append_network(const Layout& l, const Ends& e, int a, int b, std::vector<LinkShare>& out) {
    const bool hashed = l.hashed && l.leaves > 1;
    if (l.planes == 1) {
        if (!hashed) return append_plane(l, e, 0, 1, out);
        out.push_back({l.nic_link(e.node_a, e.end_a, 0) + up, 1});
        append_hashed(l, e, a, b, out);
        out.push_back({l.nic_link(e.node_b, e.end_b, 0) + down, 1});
        return;
    }
    if (hashed) return append_hashed(l, e, a, b, out);
    const auto weight = [&](int plane) {
        const double left = ports_left(l, e, plane);
        return left <= 0 ? 0.0 : l.routing == Routing::adaptive ? left : 1.0;
    };
    double sum = 0;
    for (int plane = 0; plane < l.planes; ++plane) sum += weight(plane);
    for (int plane = 0; plane < l.planes; ++plane)
        if (const double w = weight(plane); w > 0) append_plane(l, e, plane, w / sum, out);
}

// Up from a device of a PCIe tree as far as the switch or the socket where it turns, and down to the other.
void append_tree(const Layout& l, int node, int group_a, int socket_a, int group_b, int socket_b, std::vector<LinkShare>& out) {
    if (group_a == group_b && group_a >= 0) return;
    const auto bridge = [&](int group, int direction) {
        if (group >= 0) out.push_back({l.first_bridge + (node * l.groups + group) * 2 + direction, 1});
    };
    bridge(group_a, up);
    if (socket_a != socket_b)
        out.push_back(
            {l.first_socket + (node * l.sockets + socket_a) * (l.sockets - 1) + (socket_b < socket_a ? socket_b : socket_b - 1), 1});
    bridge(group_b, down);
}

void append_pcie(const Layout& l, int node, int i, int j, std::vector<LinkShare>& out) {
    const int first = node * l.per_node;
    out.push_back({l.first_pcie + (first + i) * 2 + up, 1});
    if (l.tree) {
        const int a = l.switch_of(i), b = l.switch_of(j);
        append_tree(l, node, a, l.socket_of_switch(a), b, l.socket_of_switch(b), out);
    }
    out.push_back({l.first_pcie + (first + j) * 2 + down, 1});
}

// Between a device and the NIC it uses: its slot, and in a tree the switches and sockets between the two.
void append_to_nic(const Layout& l, int node, int local, int endpoint, int direction, std::vector<LinkShare>& out) {
    if (!l.has_pcie) return;
    const LinkShare slot{l.first_pcie + (node * l.per_node + local) * 2 + direction, 1};
    if (direction == up) out.push_back(slot);
    if (l.tree) {
        const int of_device = l.switch_of(local), of_nic = l.near_nics ? l.switch_of_nic(endpoint) : -1;
        const int near = l.socket_of_switch(of_device), far = l.socket_of_nic(endpoint);
        if (direction == up)
            append_tree(l, node, of_device, near, of_nic, far, out);
        else
            append_tree(l, node, of_nic, far, of_device, near, out);
    }
    if (direction == down) out.push_back(slot);
}

void append_inside(const Layout& l, int node, int i, int j, std::vector<LinkShare>& out) {
    const int first = node * l.per_node;
    switch (l.inside) {
    case Inside::through_switch:
        out.push_back({l.first_scale_up + (first + i) * 2 + up, 1});
        out.push_back({l.first_scale_up + (first + j) * 2 + down, 1});
        return;
    case Inside::mesh:
        out.push_back({l.first_scale_up + (first + i) * (l.per_node - 1) + (j < i ? j : j - 1), 1});
        return;
    case Inside::pcie:
        return append_pcie(l, node, i, j, out);
    case Inside::torus:
        append_torus(l, node, i, j, out);
        return;
    case Inside::nothing:
        return;
    }
}

// Inside a scale-up domain of several nodes, or a node. Devices of a node with no link of their own meet at the network's switch.
bool inside(const Layout& l, int a, int b) { return l.inside != Inside::nothing && a / l.domain == b / l.domain; }

void append_meeting(const Layout& l, int a, int b, std::vector<LinkShare>& out) {
    if (l.domain > l.per_node) { // through a switch
        out.push_back({l.first_scale_up + a * 2 + up, 1});
        out.push_back({l.first_scale_up + b * 2 + down, 1});
        return;
    }
    append_inside(l, a / l.per_node, a % l.per_node, b % l.per_node, out);
}

void append_between(const Layout& l, int a, int b, std::vector<LinkShare>& out) {
    const int node_a = a / l.per_node, node_b = b / l.per_node;
    const int rail = l.endpoint_at(node_b, b % l.per_node);
    if (l.rail_only && l.inside != Inside::nothing && rail != l.endpoint_at(node_a, a % l.per_node)) {
        // The device beside it on the rail of the other end (the first of those that share it).
        const int beside = (rail * l.per_node + l.endpoints - 1) / l.endpoints;
        if (beside != a % l.per_node && l.endpoint_at(node_a, beside) == rail) {
            append_meeting(l, a, node_a * l.per_node + beside, out);
            return append_between(l, node_a * l.per_node + beside, b, out);
        }
    }
    const Ends e{node_a, l.endpoint_at(node_a, a % l.per_node), node_b, rail};
    append_to_nic(l, node_a, a % l.per_node, e.end_a, up, out);
    if (l.torus_of_nodes) {
        out.push_back({l.nic_link(node_a, e.end_a, 0) + up, 1});
        append_torus(l, 0, node_a, node_b, out);
        out.push_back({l.nic_link(node_b, e.end_b, 0) + down, 1});
    } else
        append_network(l, e, a, b, out);
    append_to_nic(l, node_b, b % l.per_node, e.end_b, down, out);
}

} // namespace

void append_route(const Layout& l, int a, int b, std::vector<LinkShare>& out) {
    if (a == b) return;
    if (l.inside == Inside::torus && l.torus_spans) return append_torus(l, 0, a, b, out);
    if (inside(l, a, b)) return append_meeting(l, a, b, out);
    append_between(l, a, b, out);
}

} // namespace orrery

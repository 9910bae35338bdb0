// Routes of built clusters: arithmetic on link ids, no search.
#include "topology/layout.hpp"

#include <algorithm>

namespace orrery {
namespace {

constexpr int up = 0, down = 1;

// splitmix64: spreads flows evenly over parallel links, the same way on every machine.
std::uint64_t mix(std::uint64_t x) {
    x += 0x9e3779b97f4a7c15ULL;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31);
}

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
        if (ahead * 2 < n)
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

// Between two leaves: over the merged trunks, or over the one spine (and core) the flow's hash picks.
void append_trunks(const Layout& l, int leaf_a, int leaf_b, int a, int b, std::vector<LinkShare>& out) {
    if (leaf_a == leaf_b) return;
    const std::uint64_t hash =
        l.hashed ? mix((static_cast<std::uint64_t>(static_cast<std::uint32_t>(a)) << 32) | static_cast<std::uint32_t>(b)) : 0;
    const int spine = static_cast<int>(hash % static_cast<std::uint64_t>(l.uplinks));
    const auto leaf = [&](int which, int direction) { out.push_back({l.first_leaf + (which * l.uplinks + spine) * 2 + direction, 1}); };
    leaf(leaf_a, up);
    if (l.three_levels() && leaf_a / l.leaves_per_pod != leaf_b / l.leaves_per_pod) {
        const int core = static_cast<int>((hash >> 32) % static_cast<std::uint64_t>(l.core_links));
        const auto pod = [&](int which, int direction) {
            out.push_back({l.first_pod + ((which / l.leaves_per_pod * l.uplinks + spine) * l.core_links + core) * 2 + direction, 1});
        };
        pod(leaf_a, up);
        pod(leaf_b, down);
    }
    leaf(leaf_b, down);
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
        out.push_back({l.first_pcie + (first + i) * 2 + up, 1});
        out.push_back({l.first_pcie + (first + j) * 2 + down, 1});
        return;
    case Inside::torus:
        append_torus(l, node, i, j, out);
        return;
    case Inside::nothing:
        return;
    }
}

void append_between(const Layout& l, int a, int b, std::vector<LinkShare>& out) {
    const int node_a = a / l.per_node, node_b = b / l.per_node;
    const int end_a = l.endpoint_of(a % l.per_node), end_b = l.endpoint_of(b % l.per_node);
    if (l.has_pcie) out.push_back({l.first_pcie + a * 2 + up, 1});
    out.push_back({l.first_nic + (node_a * l.endpoints + end_a) * 2 + up, 1});
    if (l.torus_of_nodes)
        append_torus(l, 0, node_a, node_b, out);
    else
        append_trunks(l, l.leaf_of(node_a, end_a), l.leaf_of(node_b, end_b), a, b, out);
    out.push_back({l.first_nic + (node_b * l.endpoints + end_b) * 2 + down, 1});
    if (l.has_pcie) out.push_back({l.first_pcie + b * 2 + down, 1});
}

} // namespace

void append_route(const Layout& l, int a, int b, std::vector<LinkShare>& out) {
    if (a == b) return;
    if (l.inside == Inside::torus && l.torus_spans) return append_torus(l, 0, a, b, out);
    const int node_a = a / l.per_node;
    // Devices of a node with no link of their own meet at the network's switch.
    if (node_a == b / l.per_node && l.inside != Inside::nothing) return append_inside(l, node_a, a % l.per_node, b % l.per_node, out);
    append_between(l, a, b, out);
}

} // namespace orrery

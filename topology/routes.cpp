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
        if (!l.wrapped[static_cast<std::size_t>(dim)])
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
void append_globals(const Layout& l, int from, int to, std::vector<LinkShare>& out) {
    if (from == to) return;
    out.push_back({l.global_link(from, to), l.by_third_groups ? 0.5 : 1});
    if (!l.by_third_groups) return;
    const double each = 0.5 / (l.groups_of_switches - 2);
    for (int by = 0; by < l.groups_of_switches; ++by) {
        if (by == from || by == to) continue;
        out.push_back({l.global_link(from, by), each});
        out.push_back({l.global_link(by, to), each});
    }
}

// Between two leaves by one spine (and core).
void append_path(const Layout& l, int leaf_a, int leaf_b, int spine, int core, double share, std::vector<LinkShare>& out) {
    const auto leaf = [&](int which, int direction) { out.push_back({l.first_leaf + (which * l.uplinks + spine) * 2 + direction, share}); };
    leaf(leaf_a, up);
    if (l.groups_of_switches > 0) append_globals(l, l.group_of_leaf(leaf_a), l.group_of_leaf(leaf_b), out);
    if (l.three_levels() && leaf_a / l.leaves_per_pod != leaf_b / l.leaves_per_pod) {
        const auto pod = [&](int which, int direction) {
            out.push_back({l.first_pod + ((which / l.leaves_per_pod * l.uplinks + spine) * l.core_links + core) * 2 + direction, share});
        };
        pod(leaf_a, up);
        pod(leaf_b, down);
    }
    leaf(leaf_b, down);
}

// Between two leaves: over the merged trunks, or over the spines (and cores) that the hash of the flow and its queue pairs picks. A link
// that several queue pairs take stands once.
void append_trunks(const Layout& l, int leaf_a, int leaf_b, int a, int b, std::vector<LinkShare>& out) {
    if (leaf_a == leaf_b) return;
    if (!l.hashed) return append_path(l, leaf_a, leaf_b, 0, 0, 1, out);
    const std::size_t first = out.size();
    for (int q = 0; q < l.queue_pairs; ++q) {
        std::uint64_t hash = mix((static_cast<std::uint64_t>(static_cast<std::uint32_t>(a)) << 32) | static_cast<std::uint32_t>(b));
        if (q > 0) hash = mix(hash + static_cast<std::uint64_t>(q));
        append_path(l, leaf_a, leaf_b, static_cast<int>(hash % static_cast<std::uint64_t>(l.uplinks)),
                    static_cast<int>((hash >> 32) % static_cast<std::uint64_t>(l.core_links)), 1.0 / l.queue_pairs, out);
    }
    if (l.queue_pairs == 1) return;
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
    if (const int rail = l.endpoint_of(b % l.per_node);
        l.rail_only && l.inside != Inside::nothing && rail != l.endpoint_of(a % l.per_node)) {
        // The device beside it on the rail of the other end (the first of those that share it).
        const int beside = (rail * l.per_node + l.endpoints - 1) / l.endpoints;
        append_inside(l, node_a, a % l.per_node, beside, out);
        return append_between(l, node_a * l.per_node + beside, b, out);
    }
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

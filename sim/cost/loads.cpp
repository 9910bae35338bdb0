// Where a collective's bytes go: how its communicator lies on the nodes, and the load of each directed link per byte of S.
#include "sim/cost/collectives.hpp"

#include <algorithm>
#include <cmath>

namespace orrery {
namespace {

struct Loads {
    const Fabric& fabric;
    std::vector<LoadShare> raw;
    std::vector<LinkShare> route;   // of the pair at hand

    void add(int from, int to, double weight) {
        if (from == to || weight <= 0) return;
        route.clear();
        fabric.append_route(from, to, route);
        for (const LinkShare& s : route) raw.push_back({s.link, s.share * weight});
    }

    std::vector<LoadShare> merged() {
        std::sort(raw.begin(), raw.end(), [](const LoadShare& a, const LoadShare& b) { return a.link < b.link || (a.link == b.link && a.load < b.load); });
        std::size_t out = 0;
        for (const LoadShare& s : raw) {
            if (out > 0 && raw[out - 1].link == s.link) raw[out - 1].load += s.load;
            else raw[out++] = s;
        }
        raw.resize(out);
        return std::move(raw);
    }
};

// The member of this node that stands on a lane, where nodes have unlike numbers of members.
int on_lane(std::span<const int> node, int lane, int lanes) {
    return node[static_cast<std::size_t>(lane) * node.size() / static_cast<std::size_t>(lanes)];
}

// Every member sends `weight` to the next one on its node, round about.
void around_node(Loads& l, std::span<const int> node, double weight) {
    for (std::size_t i = 0; i < node.size(); ++i) l.add(node[i], node[(i + 1) % node.size()], weight);
}

// `weight` split over the lanes, from one node to another.
void between(Loads& l, const Group& g, std::size_t from, std::size_t to, double weight) {
    for (int i = 0; i < g.lanes; ++i) l.add(on_lane(g.node(from), i, g.lanes), on_lane(g.node(to), i, g.lanes), weight / g.lanes);
}

// One ring a lane through all nodes: inside a node a byte passes all but one of its members' links.
void ring(Loads& l, const Group& g, double v) {
    if (g.nodes == 1) { around_node(l, g.node(0), v); return; }
    const std::size_t nodes = static_cast<std::size_t>(g.nodes);
    for (std::size_t k = 0; k < nodes; ++k) {
        const double size = static_cast<double>(g.node(k).size());
        around_node(l, g.node(k), v * (size - 1) / size);
        between(l, g, k, (k + 1) % nodes, v);
    }
}

// Parent of a node in NCCL's in-order binary tree over 0..n-1; -1 for the root (0). The lowest set bit is the height.
int tree_parent(int i, int n) {
    if (i == 0) return -1;
    int bit = 1;
    while ((i & bit) == 0) bit <<= 1;
    const int up = (i ^ bit) | (bit << 1);
    return up >= n ? i ^ bit : up;
}

// Double binary tree: half of the bytes up and down each; the second tree is the first one, shifted by one node.
void tree(Loads& l, const Group& g) {
    const int n = g.nodes;
    for (int second = 0; second < 2; ++second)
        for (int i = 1; i < n; ++i) {
            const auto child = static_cast<std::size_t>((i + second) % n), parent = static_cast<std::size_t>((tree_parent(i, n) + second) % n);
            between(l, g, child, parent, 0.5);
            between(l, g, parent, child, 0.5);
        }
}

void inside(Loads& l, const Group& g, double per_member) {
    for (std::size_t k = 0; k < static_cast<std::size_t>(g.nodes); ++k)
        if (g.node(k).size() > 1) around_node(l, g.node(k), per_member);
}

void across(Loads& l, const Group& g, double weight) {
    const std::size_t nodes = static_cast<std::size_t>(g.nodes);
    if (nodes == 1) return;
    for (std::size_t k = 0; k < nodes; ++k) between(l, g, k, (k + 1) % nodes, weight);
}

// All-to-all: peers spread evenly over the other nodes; beyond 8 of them an even sample stands for all.
void all_to_all(Loads& l, const Group& g) {
    const double n = g.n;
    const std::size_t nodes = static_cast<std::size_t>(g.nodes), others = nodes - 1, sample = std::min<std::size_t>(others, 8);
    for (std::size_t k = 0; k < nodes; ++k) {
        const std::span<const int> node = g.node(k);
        const double here = static_cast<double>(node.size());
        around_node(l, node, (here - 1) / n);
        for (std::size_t j = 0; j < sample; ++j) {
            const std::span<const int> peer = g.node((k + 1 + j * others / sample) % nodes);
            for (std::size_t i = 0; i < node.size(); ++i)
                l.add(node[i], peer[i * peer.size() / node.size()], (n - here) / n / static_cast<double>(sample));
        }
    }
}

// Bytes/us that the members of one node can put through the NICs they reach.
double nic_rate(const Fabric& fabric, std::span<const int> node) {
    std::uint64_t nics = 0;   // a node has far fewer than 64
    double rate = 0;
    for (int d : node) {
        const std::uint64_t bit = std::uint64_t{1} << (static_cast<unsigned>(fabric.nic_of(d)) & 63u);
        if ((nics & bit) != 0) continue;
        nics |= bit;
        rate += fabric.nic_bandwidth(d).value * 1e-6 * fabric.devices_per_nic();
    }
    return rate;
}

} // namespace

Group group_of(const Fabric& fabric, std::span<const int> ranks) {
    Group g;
    g.n = static_cast<int>(ranks.size());
    std::vector<std::pair<int, int>> seen;       // node, its index here; sorted by node
    std::vector<int> index(ranks.size()), count;
    for (std::size_t i = 0; i < ranks.size(); ++i) {
        const int node = fabric.node_of(ranks[i]);
        if (i > 0 && fabric.node_of(ranks[i - 1]) == node) {
            index[i] = index[i - 1];
        } else {
            auto at = std::lower_bound(seen.begin(), seen.end(), std::pair<int, int>{node, 0});
            if (at == seen.end() || at->first != node) {
                at = seen.insert(at, {node, static_cast<int>(count.size())});
                count.push_back(0);
            }
            index[i] = at->second;
        }
        ++count[static_cast<std::size_t>(index[i])];
    }
    g.nodes = static_cast<int>(count.size());
    g.begin.assign(count.size() + 1, 0);
    for (std::size_t k = 0; k < count.size(); ++k) g.begin[k + 1] = g.begin[k] + count[k];
    std::vector<int> next(g.begin.begin(), g.begin.end() - 1);
    g.members.resize(ranks.size());
    for (std::size_t i = 0; i < ranks.size(); ++i) g.members[static_cast<std::size_t>(next[static_cast<std::size_t>(index[i])]++)] = ranks[i];
    g.lanes = *std::min_element(count.begin(), count.end());
    if (g.nodes > 1) {
        g.nic_rate = nic_rate(fabric, g.node(0));
        for (std::size_t k = 1; k < count.size(); ++k) g.nic_rate = std::min(g.nic_rate, nic_rate(fabric, g.node(k)));
    }
    return g;
}

std::vector<LoadShare> link_loads(const Fabric& fabric, const Group& g, CollectiveKind kind, Algorithm algorithm) {
    Loads l{fabric, {}, {}};
    const double v = volume(kind, g.n);
    switch (algorithm) {
    case Algorithm::none: break;
    case Algorithm::ring: ring(l, g, v); break;
    case Algorithm::nvls: inside(l, g, 1 + 1.0 / g.lanes); break;
    case Algorithm::tree:
        inside(l, g, 2 * volume(CollectiveKind::all_gather, g.lanes));
        tree(l, g);
        break;
    case Algorithm::nvls_tree:
        inside(l, g, 1 + 1.0 / g.lanes);
        tree(l, g);
        break;
    case Algorithm::sharp:
        inside(l, g, 1 + 1.0 / g.lanes);
        across(l, g, 1);
        break;
    case Algorithm::hierarchical:
        inside(l, g, volume(kind, g.lanes));
        across(l, g, volume(kind, g.nodes));
        break;
    case Algorithm::direct: all_to_all(l, g); break;
    }
    return l.merged();
}

} // namespace orrery

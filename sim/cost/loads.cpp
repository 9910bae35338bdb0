// Where a collective's bytes go: how its communicator lies on the nodes, and the load of each directed link per byte of S.
#include "sim/cost/collectives.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <utility>

namespace orrery {
namespace {

// By digits of 11 bits where there are many: a large run asks for the loads of tens of thousands of communicators.
void sort_by_link(std::vector<LoadShare>& v) {
    if (v.size() < 256) {
        std::sort(v.begin(), v.end(), [](const LoadShare& a, const LoadShare& b) { return a.link < b.link; });
        return;
    }
    std::uint32_t most = 0;
    for (const LoadShare& x : v) most = std::max(most, static_cast<std::uint32_t>(x.link));
    std::vector<LoadShare> other(v.size());
    for (unsigned shift = 0; shift < 32 && (most >> shift) != 0; shift += 11) {
        std::array<std::uint32_t, 2048> at{};
        const auto digit = [shift](const LoadShare& x) { return (static_cast<std::uint32_t>(x.link) >> shift) & 2047u; };
        for (const LoadShare& x : v) ++at[digit(x)];
        std::uint32_t sum = 0;
        for (std::uint32_t& a : at) sum += std::exchange(a, sum);
        for (const LoadShare& x : v) other[at[digit(x)]++] = x;
        v.swap(other);
    }
}

struct Loads {
    const Fabric& fabric;
    Wiring wiring;
    std::vector<LoadShare> raw = {};
    std::vector<LinkShare> route = {}; // of the pair at hand
    Pages<double>* sums = nullptr;     // in place of `raw`: where only these are asked for
    std::vector<char> evenly = {};     // by node of the group: its lanes take equal shares (0: not known to)
    std::vector<LinkMoves> lanes = {}; // from the first lane of the group to each: all lie as the first does; empty: not known to
    bool lanes_known = false;

    void add(int from, int to, double weight) {
        if (from == to || weight <= 0) return;
        route.clear();
        fabric.append_route(from, to, route);
        for (const LinkShare& s : route)
            if (sums)
                (*sums)[static_cast<std::size_t>(s.link)] += s.share * weight;
            else
                raw.push_back({s.link, s.share * weight});
    }

    // The same on every lane, from the route of the first.
    void add_moved(int from, int to, double weight) {
        if (from == to || weight <= 0) return;
        route.clear();
        fabric.append_route(from, to, route);
        for (const LinkMoves& lane : lanes)
            for (const LinkShare& s : route) {
                const LinkId link = lane(s.link);
                if (sums)
                    (*sums)[static_cast<std::size_t>(link)] += s.share * weight;
                else
                    raw.push_back({link, s.share * weight});
            }
    }

    // One entry a link, in order of links. Equal links are added in order of their loads, so that twins get the same sum to the last bit.
    std::vector<LoadShare> merged() {
        sort_by_link(raw);
        std::size_t out = 0;
        for (std::size_t i = 0; i < raw.size();) {
            std::size_t end = i + 1;
            while (end < raw.size() && raw[end].link == raw[i].link) ++end;
            if (end - i > 1)
                std::sort(raw.begin() + static_cast<std::ptrdiff_t>(i), raw.begin() + static_cast<std::ptrdiff_t>(end),
                          [](const LoadShare& x, const LoadShare& y) { return x.load < y.load; });
            LoadShare sum = raw[i];
            for (++i; i < end; ++i) sum.load += raw[i].load;
            raw[out++] = sum;
        }
        raw.resize(out);
        return std::move(raw);
    }
};

// The member of this node that stands on a lane towards another, where nodes have unlike numbers of members: one on the rail of the other
// end, if there is one; a domain of several nodes has one in each, which take turns.
int on_lane(const Fabric& fabric, std::span<const int> node, std::span<const int> other, int lane, int lanes) {
    const auto l = static_cast<std::size_t>(lane), n = static_cast<std::size_t>(lanes);
    const auto spread = [&](std::span<const int> of) { return of[l * of.size() / n]; };
    if (node.size() == n || other.size() != n) return spread(node);
    const int rail = fabric.local_index(spread(other));
    const auto on_rail = [&](int d) { return fabric.local_index(d) == rail; };
    const auto many = std::count_if(node.begin(), node.end(), on_rail);
    if (many == 0) return spread(node);
    auto turn = static_cast<std::ptrdiff_t>(l) % many;
    for (const int d : node)
        if (on_rail(d) && turn-- == 0) return d;
    return spread(node);
}

// Direct neighbours in a torus among the members: for each member, those one link away.
std::vector<std::vector<int>> neighbours(const Fabric& fabric, std::span<const int> node) {
    std::vector<int> sorted(node.begin(), node.end());
    std::sort(sorted.begin(), sorted.end());
    std::vector<LinkShare> route;
    auto adjacent = [&](int a, int b) {
        route.clear();
        fabric.append_route(a, b, route);
        return a != b && (route.size() == 1 || (route.size() == 2 && route[0].share < 1)); // a ring of two: both of its links
    };
    // A torus looks alike from everywhere but at its seams: the distances seen from a few members are the ones to try from all.
    std::vector<int> offsets;
    for (std::size_t i : {std::size_t{0}, sorted.size() / 2, sorted.size() - 1})
        for (int b : sorted)
            if (adjacent(sorted[i], b))
                for (int sign : {1, -1}) offsets.push_back(sign * (b - sorted[i]));
    std::sort(offsets.begin(), offsets.end());
    offsets.erase(std::unique(offsets.begin(), offsets.end()), offsets.end());
    std::vector<std::vector<int>> out(node.size());
    for (std::size_t i = 0; i < node.size(); ++i)
        for (int o : offsets)
            if (std::binary_search(sorted.begin(), sorted.end(), node[i] + o) && adjacent(node[i], node[i] + o))
                out[i].push_back(node[i] + o);
    return out;
}

// Every member sends `weight` on: through a switch to the next one, over a mesh or a torus by all links that lead to members, evenly
// (as many rings as there are links). Members of a torus that do not touch send along routes. all_pairs: to each of the others as much,
// which only a tree of switches tells from a ring.
void around_node(Loads& l, std::span<const int> node, double weight, bool all_pairs = false) {
    const std::size_t n = node.size();
    if (l.wiring == Wiring::mesh || (l.wiring == Wiring::tree && all_pairs)) {
        for (int a : node)
            for (int b : node) l.add(a, b, weight / static_cast<double>(n - 1));
        return;
    }
    if (l.wiring == Wiring::torus) {
        const std::vector<std::vector<int>> near = neighbours(l.fabric, node);
        if (std::none_of(near.begin(), near.end(), [](const auto& v) { return v.empty(); })) {
            for (std::size_t i = 0; i < n; ++i)
                for (int b : near[i]) l.add(node[i], b, weight / static_cast<double>(near[i].size()));
            return;
        }
    }
    for (std::size_t i = 0; i < n; ++i) l.add(node[i], node[(i + 1) % n], weight);
}

// A NIC's number, unlike those of the other nodes of its domain.
using NicNumber = std::int64_t;
NicNumber nic_in_domain(const Fabric& fabric, int device) { return NicNumber{fabric.node_of(device)} * 65536 + fabric.nic_of(device); }

// How many bytes a second go from node to node by these shares of the lanes, for what PCIe and NICs let through.
double rate_of(Loads& l, std::span<const int> node, std::span<const int> next, std::span<const double> share) {
    std::vector<LoadShare> all;
    const int lanes = static_cast<int>(share.size());
    for (int i = 0; i < lanes; ++i) {
        l.route.clear();
        l.fabric.append_route(on_lane(l.fabric, node, next, i, lanes), on_lane(l.fabric, next, node, i, lanes), l.route);
        for (const LinkShare& s : l.route) all.push_back({s.link, s.share * share[i]});
    }
    std::sort(all.begin(), all.end(), [](const LoadShare& x, const LoadShare& y) { return x.link < y.link; });
    double least = 1e30;
    for (std::size_t i = 0; i < all.size();) {
        const Link& link = l.fabric.links()[all[i].link];
        const LinkId id = all[i].link;
        double load = 0;
        for (; i < all.size() && all[i].link == id; ++i) load += all[i].load;
        if (link.kind == LinkKind::pcie || link.kind == LinkKind::nic) least = std::min(least, link.capacity.value / load);
    }
    return least;
}

// The share of each lane of a node in the bytes that leave it: NCCL deals its channels out to NICs, so that devices which share one take
// less each than one that has its own, where PCIe lets more through that way.
std::vector<double> lane_shares(Loads& l, std::span<const int> node, std::span<const int> next, int lanes) {
    std::vector<std::pair<NicNumber, double>> nics; // NIC, its rate
    std::vector<int> lanes_of;                      // of each of these
    std::vector<std::size_t> at;                    // of each lane, its NIC
    for (int i = 0; i < lanes; ++i) {
        const int device = on_lane(l.fabric, node, next, i, lanes);
        const NicNumber nic = nic_in_domain(l.fabric, device);
        const auto met = std::find_if(nics.begin(), nics.end(), [&](const auto& x) { return x.first == nic; });
        at.push_back(static_cast<std::size_t>(met - nics.begin()));
        if (met == nics.end()) nics.emplace_back(nic, l.fabric.endpoint_bandwidth(device).value), lanes_of.push_back(0);
        ++lanes_of[at.back()];
    }
    std::vector<double> share(at.size());
    bool even = true;
    for (std::size_t i = 0; i < at.size(); ++i) {
        share[i] = nics[at[i]].second / lanes_of[at[i]];
        even = even && share[i] == share[0];
    }
    const std::vector<double> alike(share.size(), 1.0 / lanes);
    if (even) return alike;
    const double sum = std::accumulate(share.begin(), share.end(), 0.0);
    if (!(sum > 0)) return alike;
    for (double& s : share) s /= sum;
    return rate_of(l, node, next, share) > rate_of(l, node, next, alike) ? share : alike;
}

// Whether each member of a node has a NIC of its own, as fast as the others': the usual case, told without a list.
bool own_nics(const Fabric& fabric, std::span<const int> node) {
    for (std::size_t i = 1; i < node.size(); ++i)
        if (nic_in_domain(fabric, node[i]) <= nic_in_domain(fabric, node[i - 1]) ||
            fabric.endpoint_bandwidth(node[i]).value != fabric.endpoint_bandwidth(node[0]).value)
            return false;
    return true;
}

// Whether each lane of a group, a member in every node, lies as its first lane does.
void find_lanes(Loads& l, const Group& g) {
    if (std::exchange(l.lanes_known, true) || g.lanes == 1) return;
    const auto lanes = static_cast<std::size_t>(g.lanes);
    std::vector<int> first, own;
    std::vector<LinkMoves> moves(lanes);
    for (std::size_t lane = 0; lane < lanes; ++lane) {
        own.clear();
        for (std::size_t k = 0; k < static_cast<std::size_t>(g.nodes); ++k) {
            if (g.node(k).size() != lanes) return;
            own.push_back(g.node(k)[lane]);
        }
        if (lane == 0) first = own;
        if (!l.fabric.find_moves(first, own, moves[lane])) return;
    }
    l.lanes = std::move(moves);
}

// `weight` split over the lanes, from one node to another.
void between(Loads& l, const Group& g, std::size_t from, std::size_t to, double weight) {
    const std::span<const int> here = g.node(from), there = g.node(to);
    const auto lanes = static_cast<std::size_t>(g.lanes);
    if (here.size() == lanes && there.size() == lanes) { // a member a lane
        l.evenly.resize(g.nodes, 0);
        if (l.evenly[from] != 0 || own_nics(l.fabric, here)) {
            l.evenly[from] = 1;
            find_lanes(l, g);
            if (l.lanes.empty())
                for (std::size_t i = 0; i < lanes; ++i) l.add(here[i], there[i], weight * (1.0 / g.lanes));
            else
                l.add_moved(here[0], there[0], weight * (1.0 / g.lanes));
            return;
        }
    }
    const std::vector<double> share = lane_shares(l, here, there, g.lanes);
    for (int i = 0; i < g.lanes; ++i)
        l.add(on_lane(l.fabric, here, there, i, g.lanes), on_lane(l.fabric, there, here, i, g.lanes), weight * share[i]);
}

// One ring a lane through all nodes: inside a node a byte passes all but one of its members' links.
void ring(Loads& l, const Group& g, double v) {
    if (g.nodes == 1) {
        around_node(l, g.node(0), v);
        return;
    }
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
            const auto child = static_cast<std::size_t>((i + second) % n),
                       parent = static_cast<std::size_t>((tree_parent(i, n) + second) % n);
            between(l, g, child, parent, 0.5);
            between(l, g, parent, child, 0.5);
        }
}

// Parallel aggregated trees: to the peer 2^k further on go as many of the n parts as still lie beyond it, far peers first.
void doubling(Loads& l, const Group& g) {
    int left = g.nodes - 1; // parts still to come
    int stride = 1;
    while (stride * 2 < g.nodes) stride *= 2;
    std::vector<std::pair<int, int>> steps; // peer's distance, parts
    for (; stride > 0; stride /= 2) {
        const int parts = std::max(1, (g.nodes - stride + 2 * stride - 1) / (2 * stride));
        steps.emplace_back(stride, std::min(parts, left));
        left -= steps.back().second;
    }
    steps.back().second += left;
    for (const auto& [distance, parts] : steps)
        for (int k = 0; k < g.nodes; ++k)
            between(l, g, static_cast<std::size_t>(k), static_cast<std::size_t>((k + distance) % g.nodes),
                    static_cast<double>(parts) / g.nodes);
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
template <class Share> void all_to_all(Loads& l, const Group& g, Share share) { // share(members of the node): inside, outside
    const std::size_t nodes = static_cast<std::size_t>(g.nodes), others = nodes - 1, sample = std::min<std::size_t>(others, 8);
    for (std::size_t k = 0; k < nodes; ++k) {
        const std::span<const int> node = g.node(k);
        const FanOut part = share(static_cast<double>(node.size()));
        around_node(l, node, part.inside, true);
        for (std::size_t j = 0; j < sample; ++j) {
            const std::span<const int> peer = g.node((k + 1 + j * others / sample) % nodes);
            for (std::size_t i = 0; i < node.size(); ++i)
                l.add(node[i], peer[i * peer.size() / node.size()], part.outside / static_cast<double>(sample));
        }
    }
}

// Bytes/us that the members of one node can put through the NICs they reach; in a graph whose nodes are joined without NICs, through the
// links of each to a device of another node.
double nic_rate(const Fabric& fabric, std::span<const int> node) {
    std::vector<NicNumber> nics;
    double rate = 0;
    for (int d : node) {
        if (fabric.nic_bandwidth(d).value <= 0) {
            const int last = fabric.devices() - 1, other = fabric.domain_of(d) == fabric.domain_of(0) ? last : 0;
            if (other != d) rate += fabric.narrowest(d, other).value * 1e-6;
            continue;
        }
        const NicNumber nic = nic_in_domain(fabric, d);
        if (std::find(nics.rbegin(), nics.rend(), nic) != nics.rend()) continue;
        nics.push_back(nic);
        rate += fabric.endpoint_bandwidth(d).value * 1e-6;
    }
    return rate;
}

// A mesh of packages of dies: a ring through several of them is as fast as the links that leave them, of which the whole node's has all;
// the dies of one package alone may have more than these between themselves.
double reach_of_dies(const Fabric& fabric, std::span<const int> node) {
    const auto together = [&](int a, int b) { return fabric.package_of(a) == fabric.package_of(b); };
    const bool one_package = std::ranges::all_of(node, [&](int d) { return together(node[0], d); });
    double least = std::numeric_limits<double>::infinity();
    for (const int a : node) {
        double out = 0;
        for (const int b : node)
            if (a != b && (one_package || !together(a, b))) out += fabric.narrowest(a, b).value;
        least = std::min(least, out / fabric.leaving_bandwidth(a).value);
    }
    return one_package ? least : std::min(1.0, least);
}

// Share of a device's own links that lead to members, of the member with the least.
double reach_of(const Fabric& fabric, Wiring wiring, std::span<const int> node) {
    if (wiring == Wiring::switched || wiring == Wiring::tree || node.size() < 2) return 1;
    const double all = fabric.scale_up_bandwidth(node[0]).value;
    if (all <= 0) return 1;
    if (wiring == Wiring::mesh && fabric.leaving_bandwidth(node[0]).value < all) return reach_of_dies(fabric, node);
    if (wiring == Wiring::mesh) return std::min(1.0, static_cast<double>(node.size() - 1) * fabric.narrowest(node[0], node[1]).value / all);
    double least = 1;
    const std::vector<std::vector<int>> near = neighbours(fabric, node);
    for (std::size_t i = 0; i < node.size(); ++i) {
        double out = 0;
        for (int b : near[i]) out += fabric.narrowest(node[i], b).value;
        if (near[i].empty()) out = fabric.narrowest(node[i], node[(i + 1) % node.size()]).value;
        least = std::min(least, out / all);
    }
    return least;
}

// Whether each two devices of a node have a link of their own.
bool meshed(const ExplicitGraph& g) {
    std::map<int, std::int64_t> devices, links; // by node
    for (const ExplicitGraph::Vertex& v : g.vertices) devices[v.node] += v.kind == ExplicitGraph::VertexKind::device;
    std::set<std::pair<int, int>> joined;
    for (const ExplicitGraph::Edge& e : g.edges) {
        const ExplicitGraph::Vertex &from = g.vertices[static_cast<std::size_t>(e.from)], &to = g.vertices[static_cast<std::size_t>(e.to)];
        const bool direct = from.kind == to.kind && from.kind == ExplicitGraph::VertexKind::device && from.node == to.node;
        if (direct && joined.emplace(e.from, e.to).second) ++links[from.node];
    }
    return std::ranges::all_of(devices, [&](const auto& d) { return links[d.first] == d.second * (d.second - 1); });
}

} // namespace

Domain domain_of(const Cluster& c) {
    if (c.graph) return {meshed(*c.graph) ? Wiring::mesh : Wiring::switched, false};
    switch (c.intra.kind) {
    case IntraKind::nvlink_mesh:
    case IntraKind::infinity_fabric:
        return {Wiring::mesh, false};
    case IntraKind::torus:
        return {Wiring::torus, c.inter.kind == InterKind::torus || c.inter.topology == InterTopology::torus};
    case IntraKind::pcie:
        return {c.intra.tree.devices_per_switch > 0 ? Wiring::tree : Wiring::switched, false};
    default:
        return {};
    }
}

Group group_of(const Fabric& fabric, Domain domain, std::span<const int> ranks) {
    Group g;
    g.n = static_cast<int>(ranks.size());
    if (domain.spans_nodes) {
        g.members.assign(ranks.begin(), ranks.end());
        g.begin = {0, g.n};
        g.lanes = g.n;
        g.reach = reach_of(fabric, domain.wiring, ranks);
        return g;
    }
    std::vector<std::pair<int, int>> seen; // node (or domain of nodes), its index here; sorted by node
    std::vector<int> index(ranks.size()), count;
    for (std::size_t i = 0; i < ranks.size(); ++i) {
        const int node = fabric.domain_of(ranks[i]);
        if (i > 0 && fabric.domain_of(ranks[i - 1]) == node) {
            index[i] = index[i - 1];
        } else {
            auto at = std::lower_bound(seen.begin(), seen.end(), std::pair<int, int>{node, 0});
            if (at == seen.end() || at->first != node) {
                at = seen.insert(at, {node, static_cast<int>(count.size())});
                count.push_back(0);
            }
            index[i] = at->second;
        }
        ++count[index[i]];
    }
    g.nodes = static_cast<int>(count.size());
    g.begin.assign(count.size() + 1, 0);
    for (std::size_t k = 0; k < count.size(); ++k) g.begin[k + 1] = g.begin[k] + count[k];
    std::vector<int> next(g.begin.begin(), g.begin.end() - 1);
    g.members.resize(ranks.size());
    for (std::size_t i = 0; i < ranks.size(); ++i) g.members[next[index[i]]++] = ranks[i];
    g.lanes = *std::min_element(count.begin(), count.end());
    if (g.nodes > 1) {
        g.nic_rate = nic_rate(fabric, g.node(0));
        for (std::size_t k = 1; k < count.size(); ++k) g.nic_rate = std::min(g.nic_rate, nic_rate(fabric, g.node(k)));
    }
    for (std::size_t k = 0; (domain.wiring == Wiring::mesh || domain.wiring == Wiring::torus) && k < count.size(); ++k) {
        const double reach = reach_of(fabric, domain.wiring, g.node(k));
        g.reach = k == 0 ? reach : std::min(g.reach, reach);
    }
    return g;
}

namespace {

void add_loads(Loads& l, const Group& g, CollectiveKind kind, Algorithm algorithm) {
    const double v = volume(kind, g.n);
    switch (algorithm) {
    case Algorithm::none:
        break;
    case Algorithm::ring:
        ring(l, g, v);
        break;
    case Algorithm::nvls:
        inside(l, g, 1 + 1.0 / g.lanes);
        break;
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
    case Algorithm::pat:
        doubling(l, g);
        break;
    case Algorithm::direct:
        all_to_all(l, g, [&](double here) { return FanOut{(here - 1) / g.n, (g.n - here) / g.n}; });
        break;
    case Algorithm::fan_out: // fan_out_loads
        break;
    }
}

} // namespace

std::vector<LoadShare> link_loads(const Fabric& fabric, Domain domain, const Group& g, CollectiveKind kind, Algorithm algorithm) {
    Loads l{fabric, domain.wiring};
    add_loads(l, g, kind, algorithm);
    return l.merged();
}

Pages<double> sums_of_loads(const Fabric& fabric, Domain domain, const Group& g, CollectiveKind kind, Algorithm algorithm) {
    Pages<double> sums(fabric.links().size());
    Loads l{fabric, domain.wiring};
    l.sums = &sums;
    add_loads(l, g, kind, algorithm);
    return sums;
}

std::vector<LoadShare> fan_out_loads(const Fabric& fabric, Domain domain, const Group& g, const FanOut& share) {
    Loads l{fabric, domain.wiring};
    all_to_all(l, g, [&](double) { return share; });
    return l.merged();
}

} // namespace orrery

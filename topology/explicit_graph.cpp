// Shortest paths and cuts by Boost.Graph.
#include "topology/explicit_graph.hpp"
#include "topology/at.hpp"

#include <algorithm>
#include <bit>
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/dijkstra_shortest_paths.hpp>
#include <boost/graph/push_relabel_max_flow.hpp>
#include <cmath>
#include <deque>
#include <fmt/format.h>
#include <limits>
#include <map>

namespace orrery {

using VertexKind = ExplicitGraph::VertexKind;

struct GraphRoutes::Distance {
    std::int64_t ps = std::numeric_limits<std::int64_t>::max();
    std::int32_t hops = 0;
    friend auto operator<=>(const Distance&, const Distance&) = default;
};

namespace {

std::vector<char> reachable(const ExplicitGraph& g, int from, bool forward) {
    std::vector<std::vector<int>> next(g.vertices.size());
    for (const auto& e : g.edges) next[at(forward ? e.from : e.to)].push_back(forward ? e.to : e.from);
    std::vector<char> seen(g.vertices.size(), 0);
    std::deque<int> queue{from};
    seen[at(from)] = 1;
    for (; !queue.empty(); queue.pop_front())
        for (const int v : next[at(queue.front())])
            if (!seen[at(v)]) {
                seen[at(v)] = 1;
                queue.push_back(v);
            }
    return seen;
}

} // namespace

std::vector<std::string> graph_problems(const ExplicitGraph& g) {
    std::vector<std::string> out;
    const int n = static_cast<int>(g.vertices.size());
    for (std::size_t i = 0; i < g.edges.size(); ++i) {
        const auto& e = g.edges[i];
        if (e.from < 0 || e.from >= n || e.to < 0 || e.to >= n || e.from == e.to)
            out.push_back(
                fmt::format("edge {} joins vertices {} and {}: it must join two different ones of the {} listed", i, e.from, e.to, n));
        if (!(e.bandwidth.value > 0) || !std::isfinite(e.bandwidth.value))
            out.push_back(fmt::format("edge {} has no bandwidth: give it more than zero", i));
        if (e.latency.ps < 0) out.push_back(fmt::format("edge {} has a latency below zero", i));
    }
    const auto device = std::find_if(g.vertices.begin(), g.vertices.end(), [](const auto& v) { return v.kind == VertexKind::device; });
    if (device == g.vertices.end()) out.emplace_back("the graph has no device: list at least one vertex of kind device");
    if (!out.empty()) return out;
    // If the first device reaches every other and is reached by every other, each reaches each.
    const int first = static_cast<int>(device - g.vertices.begin());
    const auto there = reachable(g, first, true), back = reachable(g, first, false);
    for (int v = first + 1; v < n; ++v) {
        if (g.vertices[at(v)].kind != VertexKind::device) continue;
        const auto& name = g.vertices[at(v)].name;
        if (!there[at(v)])
            out.push_back(fmt::format("{} cannot be reached from {}: edges are one-way, add the edges towards it", name, device->name));
        if (!back[at(v)]) out.push_back(fmt::format("{} cannot reach {}: edges are one-way, add the edges back", name, device->name));
    }
    return out;
}

GraphRoutes::GraphRoutes(ExplicitGraph graph) : graph_(std::move(graph)), edges_from_(graph_.vertices.size()) {
    for (std::size_t v = 0; v < graph_.vertices.size(); ++v)
        if (graph_.vertices[v].kind == VertexKind::device) devices_.push_back(static_cast<int>(v));
    for (std::size_t e = 0; e < graph_.edges.size(); ++e) edges_from_[at(graph_.edges[e].from)].push_back(static_cast<int>(e));
    to_.resize(devices_.size());
}

GraphRoutes::~GraphRoutes() = default;

std::shared_ptr<const GraphRoutes::Distances> GraphRoutes::distances_to(int device) const {
    const std::lock_guard lock(mutex_);
    auto& slot = to_[at(device)];
    if (slot) return slot;
    // Distances *to* the device are distances from it along edges turned round.
    using Weight = boost::property<boost::edge_weight_t, Distance>;
    boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS, boost::no_property, Weight> turned(graph_.vertices.size());
    for (const auto& e : graph_.edges) boost::add_edge(at(e.to), at(e.from), Weight{Distance{e.latency.ps, 1}}, turned);
    auto found = std::make_shared<Distances>(graph_.vertices.size());
    boost::dijkstra_shortest_paths(
        turned, at(devices_[at(device)]),
        boost::distance_map(boost::make_iterator_property_map(found->begin(), boost::get(boost::vertex_index, turned)))
            .distance_compare(std::less<Distance>{})
            .distance_combine([](const Distance& a, const Distance& b) {
                return Distance{a.ps + b.ps, a.hops + b.hops};
            })
            .distance_inf(Distance{})
            .distance_zero(Distance{0, 0}));
    slot = std::move(found);
    return slot;
}

void GraphRoutes::append_route(int a, int b, bool hashed, std::vector<LinkShare>& out) const {
    if (a == b) return;
    const auto distances = distances_to(b);
    const int source = devices_[at(a)];
    // Every step of a shortest path has one hop less to go, so vertices met at one count of hops are all served before the next.
    std::map<int, double> here{{source, 1.0}};
    for (int hops = (*distances)[at(source)].hops; hops > 0; --hops) {
        std::map<int, double> next;
        for (const auto& [v, share] : here) {
            std::vector<int> best;
            for (const int e : edges_from_[at(v)]) {
                const auto& edge = graph_.edges[at(e)];
                const Distance& rest = (*distances)[at(edge.to)];
                const Distance& whole = (*distances)[at(v)];
                if (rest.ps != Distance{}.ps && rest.ps + edge.latency.ps == whole.ps && rest.hops + 1 == whole.hops) best.push_back(e);
            }
            if (hashed) best = {best[(static_cast<std::size_t>(a) * 31 + static_cast<std::size_t>(b)) % best.size()]};
            for (const int e : best) {
                out.push_back({e, share / static_cast<double>(best.size())});
                next[graph_.edges[at(e)].to] += share / static_cast<double>(best.size());
            }
        }
        here = std::move(next);
    }
}

std::vector<LinkShare> GraphRoutes::copy_route(int device, bool to_host) const {
    const int start = devices_[at(device)], node = graph_.vertices[at(start)].node;
    std::vector<int> by(graph_.vertices.size(), -1);
    std::vector<std::vector<int>> into(graph_.vertices.size());
    for (std::size_t e = 0; e < graph_.edges.size(); ++e) into[at(graph_.edges[e].to)].push_back(static_cast<int>(e));
    std::deque<int> queue{start};
    for (; !queue.empty(); queue.pop_front()) {
        const int v = queue.front();
        if (graph_.vertices[at(v)].kind == VertexKind::host) {
            std::vector<LinkShare> out;
            for (int w = v; w != start; w = to_host ? graph_.edges[at(by[at(w)])].from : graph_.edges[at(by[at(w)])].to)
                out.push_back({by[at(w)], 1});
            if (to_host) std::reverse(out.begin(), out.end());
            return out;
        }
        for (const int e : to_host ? edges_from_[at(v)] : into[at(v)]) {
            const int next = to_host ? graph_.edges[at(e)].to : graph_.edges[at(e)].from;
            if (next == start || by[at(next)] >= 0 || graph_.vertices[at(next)].node != node) continue;
            by[at(next)] = e;
            queue.push_back(next);
        }
    }
    return {};
}

// The largest flow from the half to the rest, which is the least cut between them; switches fall to either side as suits.
double GraphRoutes::cut(const std::vector<char>& in_half) const {
    using Traits = boost::adjacency_list_traits<boost::vecS, boost::vecS, boost::directedS>;
    using Edge = boost::property<
        boost::edge_capacity_t, std::int64_t,
        boost::property<boost::edge_residual_capacity_t, std::int64_t, boost::property<boost::edge_reverse_t, Traits::edge_descriptor>>>;
    boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS, boost::no_property, Edge> g(graph_.vertices.size() + 2);
    const auto capacity = boost::get(boost::edge_capacity, g);
    const auto reverse = boost::get(boost::edge_reverse, g);
    const auto add = [&](std::size_t from, std::size_t to, std::int64_t amount) {
        const auto e = boost::add_edge(from, to, g).first, r = boost::add_edge(to, from, g).first;
        capacity[e] = amount;
        capacity[r] = 0;
        reverse[e] = r;
        reverse[r] = e;
    };
    const std::size_t source = graph_.vertices.size(), sink = source + 1;
    std::vector<std::int64_t> out_of(graph_.vertices.size(), 0), into(graph_.vertices.size(), 0);
    double all = 0;
    for (const auto& e : graph_.edges) all += e.bandwidth.value;
    const double unit = std::max(1.0, all / 4e18); // bytes/s; the sum of all links stays below 2^63
    for (const auto& e : graph_.edges) {
        const auto amount = static_cast<std::int64_t>(std::llround(e.bandwidth.value / unit));
        add(at(e.from), at(e.to), amount);
        out_of[at(e.from)] += amount;
        into[at(e.to)] += amount;
    }
    // As much as a device could ever send or take; a larger figure would only risk overflow.
    for (std::size_t d = 0; d < devices_.size(); ++d) {
        if (in_half[d])
            add(source, at(devices_[d]), out_of[at(devices_[d])]);
        else
            add(at(devices_[d]), sink, into[at(devices_[d])]);
    }
    return static_cast<double>(boost::push_relabel_max_flow(g, source, sink)) * unit;
}

BytesPerSecond GraphRoutes::bisection() const {
    const std::size_t n = devices_.size(), half = n / 2;
    if (n < 2) return {};
    double best = std::numeric_limits<double>::infinity();
    const auto attempt = [&](std::vector<char> chosen) {
        best = std::min(best, cut(chosen));
        for (char& c : chosen) c = !c;
        best = std::min(best, cut(chosen));
    };
    if (n <= 12) {
        for (unsigned members = 0; members < 1u << n; ++members) {
            if (static_cast<std::size_t>(std::popcount(members)) != half) continue;
            std::vector<char> chosen(n, 0);
            for (std::size_t d = 0; d < n; ++d) chosen[d] = static_cast<char>(members >> d & 1u);
            attempt(std::move(chosen));
        }
        return {best};
    }
    // Halves that lie close together: the devices nearest to one, for some evenly chosen ones, and those listed first.
    std::vector<char> first(n, 0);
    std::fill(first.begin(), first.begin() + static_cast<std::ptrdiff_t>(half), 1);
    attempt(first);
    for (std::size_t k = 0; k < 16; ++k) {
        const auto distances = distances_to(static_cast<int>(k * n / 16));
        std::vector<std::size_t> order(n);
        for (std::size_t d = 0; d < n; ++d) order[d] = d;
        std::stable_sort(order.begin(), order.end(),
                         [&](std::size_t a, std::size_t b) { return (*distances)[at(devices_[a])] < (*distances)[at(devices_[b])]; });
        std::vector<char> chosen(n, 0);
        for (std::size_t i = 0; i < half; ++i) chosen[order[i]] = 1;
        attempt(chosen);
    }
    return {best};
}

int GraphRoutes::nearest_nic(int device) const {
    const int source = devices_[at(device)], node = graph_.vertices[at(source)].node;
    std::vector<char> seen(graph_.vertices.size(), 0);
    std::deque<int> queue{source};
    seen[at(source)] = 1;
    for (; !queue.empty(); queue.pop_front()) {
        const int v = queue.front();
        if (graph_.vertices[at(v)].kind == VertexKind::nic)
            return static_cast<int>(std::count_if(graph_.vertices.begin(), graph_.vertices.begin() + v,
                                                  [&](const auto& x) { return x.kind == VertexKind::nic && x.node == node; }));
        for (const int e : edges_from_[at(v)]) {
            const int to = graph_.edges[at(e)].to;
            if (!seen[at(to)] && graph_.vertices[at(to)].node == node) {
                seen[at(to)] = 1;
                queue.push_back(to);
            }
        }
    }
    return -1;
}

BytesPerSecond GraphRoutes::out_of_device(int device) const {
    BytesPerSecond sum;
    for (const int e : edges_from_[at(devices_[at(device)])]) {
        const VertexKind to = graph_.vertices[at(graph_.edges[at(e)].to)].kind;
        if (to == VertexKind::device || to == VertexKind::switch_) sum.value += graph_.edges[at(e)].bandwidth.value;
    }
    return sum;
}

BytesPerSecond GraphRoutes::out_of_node(int node) const {
    BytesPerSecond sum;
    for (const auto& e : graph_.edges) {
        const auto &from = graph_.vertices[at(e.from)], &to = graph_.vertices[at(e.to)];
        if (from.kind == VertexKind::nic && from.node == node && to.node != node) sum.value += e.bandwidth.value;
    }
    return sum;
}

int GraphRoutes::nics_of(int node) const {
    return static_cast<int>(std::count_if(graph_.vertices.begin(), graph_.vertices.end(),
                                          [&](const auto& v) { return v.kind == VertexKind::nic && v.node == node; }));
}

// The kind of a link follows from its ends: a host's is a copy link, a NIC's outward link the network's, its inward one PCIe.
LinkKind GraphRoutes::kind_of(int edge) const {
    const auto& e = graph_.edges[at(edge)];
    const auto &from = graph_.vertices[at(e.from)], &to = graph_.vertices[at(e.to)];
    const auto either = [&](VertexKind kind) { return from.kind == kind || to.kind == kind; };
    if (either(VertexKind::host)) return LinkKind::copy;
    if (either(VertexKind::nic))
        return from.node == to.node && from.node >= 0 ? LinkKind::pcie : either(VertexKind::device) ? LinkKind::pcie : LinkKind::nic;
    return either(VertexKind::device) ? LinkKind::scale_up : LinkKind::trunk;
}

} // namespace orrery

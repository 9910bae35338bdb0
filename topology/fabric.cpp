// The fabric of a cluster: built from its figures (layout.hpp, routes by arithmetic) or searched in an explicit graph.
#include "topology/fabric.hpp"

#include "topology/at.hpp"
#include "topology/explicit_graph.hpp"
#include "topology/layout.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <limits>
#include <mutex>
#include <stdexcept>

namespace orrery {
namespace {

std::string joined(const std::vector<std::string>& lines) {
    std::string out;
    for (const auto& line : lines) out += (out.empty() ? "" : "; ") + line;
    return out;
}

void check_graph(const Cluster& c, std::vector<std::string>& out) {
    for (auto& problem : graph_problems(*c.graph)) out.push_back("graph: " + std::move(problem));
    const auto count = std::count_if(c.graph->vertices.begin(), c.graph->vertices.end(),
                                     [](const auto& v) { return v.kind == ExplicitGraph::VertexKind::device; });
    if (count != c.devices())
        out.push_back(fmt::format("graph: it lists {} devices, but nodes x devices_per_node = {} x {} = {}", count, c.nodes,
                                  c.devices_per_node, c.devices()));
}

void check_built(const Cluster& c, std::vector<std::string>& out) {
    const bool joined_inside = c.intra.kind != IntraKind::none;
    const bool network = c.inter.kind != InterKind::none && c.inter.nics_per_node > 0;
    const bool torus_spans =
        c.intra.kind == IntraKind::torus && (c.inter.kind == InterKind::torus || c.inter.topology == InterTopology::torus);
    if (c.devices_per_node > 1 && joined_inside && !(c.intra.bandwidth.value > 0))
        out.emplace_back("intra_node: gb_per_s must be more than 0");
    if (c.nodes > 1 && torus_spans && !(c.intra.bandwidth.value > 0)) out.emplace_back("intra_node: gb_per_s must be more than 0");
    if (c.nodes > 1 && !torus_spans && !network)
        out.push_back(fmt::format("inter_node: {} nodes need a network: give it a kind and nics_per_node", c.nodes));
    if (c.devices_per_node > 1 && !joined_inside && !network)
        out.emplace_back("intra_node: kind \"none\" leaves the devices of a node without any link: give the node NICs or another kind");
    if (network && !torus_spans && (c.nodes > 1 || !joined_inside) && !(c.inter.nic_bandwidth.value > 0))
        out.emplace_back("inter_node: gbit_per_s must be more than 0");
    if (const auto& shape = c.inter.shape; !shape.empty()) {
        std::int64_t units = 1;
        for (const int n : shape) units = std::min<std::int64_t>(units * n, 1 << 30);
        const int have = c.intra.kind == IntraKind::torus ? torus_spans ? c.devices() : c.devices_per_node : c.nodes;
        if (units != have) out.push_back(fmt::format("inter_node: shape holds {} units, but the torus has {}", units, have));
        if (!c.inter.wrap.empty() && c.inter.wrap.size() != shape.size())
            out.emplace_back("inter_node: wrap must say true or false for each dimension of shape");
    }
    if (!(c.inter.oversubscription > 0)) out.emplace_back("inter_node: oversubscription must be more than 0");
    if (out.empty()) out = down_problems(c);
}

// Nodes that are unlike: fewer than there are, with rates.
void check_others(const Cluster& c, std::vector<std::string>& out) {
    std::int64_t nodes = 0;
    for (const OtherNodes& o : c.others) nodes += o.nodes;
    if (nodes >= c.nodes) out.push_back(fmt::format("others: {} nodes of the cluster's {}; at least one must be its own", nodes, c.nodes));
}

} // namespace

void Links::push_back(const Link& link) {
    const auto alike = [&](const Link& first) {
        return link.kind == first.kind && link.capacity.value == first.capacity.value && link.latency.ps == first.latency.ps;
    };
    if (!runs_.empty() && alike(runs_.back().first)) {
        Run& r = runs_.back();
        if (r.per_node == 0 && link.node == r.first.node + 1) r.per_node = size_ - r.begin;
        if (of_run(runs_.size() - 1, size_).node == link.node) {
            ++size_;
            return;
        }
    }
    runs_.push_back({size_++, link, 0});
}

Link Links::of_run(std::size_t run, LinkId id) const {
    const Run& r = runs_[run];
    Link link = r.first;
    if (r.per_node > 0) link.node += (id - r.begin) / r.per_node;
    return link;
}

Link Links::operator[](std::int64_t id) const {
    const auto next = std::upper_bound(runs_.begin(), runs_.end(), id, [](std::int64_t i, const Run& r) { return i < r.begin; });
    return of_run(static_cast<std::size_t>(next - runs_.begin()) - 1, static_cast<LinkId>(id));
}

Links::Iterator& Links::Iterator::operator++() {
    ++id_;
    if (run_ + 1 < links_->runs_.size() && id_ == links_->runs_[run_ + 1].begin) ++run_;
    return *this;
}

std::vector<std::string> cluster_problems(const Cluster& c) {
    std::vector<std::string> out;
    if (c.nodes < 1) out.emplace_back("nodes must be at least 1");
    if (c.devices_per_node < 1) out.emplace_back("devices_per_node must be at least 1");
    check_others(c, out);
    if (!out.empty()) return out;
    if (c.graph)
        check_graph(c, out);
    else
        check_built(c, out);
    return out;
}

struct Fabric::Data {
    Layout layout; // of a built cluster; of an explicit graph only the counts
    BytesPerSecond intra_bandwidth;
    std::vector<BytesPerSecond> scale_up_of_kind; // where nodes are unlike
    Links links;
    std::once_flag named;
    std::vector<std::string> names; // of links, once somebody has asked for one
    bool hashed = false;
    std::unique_ptr<GraphRoutes> explicit_graph;
    std::vector<int> node_of, local_index; // of an explicit graph's devices
    int nodes = 1;
};

namespace {

Links explicit_links(const GraphRoutes& routes) {
    Links links;
    const ExplicitGraph& g = routes.graph();
    for (std::size_t e = 0; e < g.edges.size(); ++e) {
        const auto& edge = g.edges[e];
        const auto &from = g.vertices[at(edge.from)], &to = g.vertices[at(edge.to)];
        links.push_back({routes.kind_of(static_cast<int>(e)), edge.bandwidth, edge.latency, from.node >= 0 ? from.node : to.node});
    }
    return links;
}

std::vector<std::string> explicit_names(const ExplicitGraph& g) {
    std::vector<std::string> names;
    for (const auto& edge : g.edges) names.push_back(g.vertices[at(edge.from)].name + " > " + g.vertices[at(edge.to)].name);
    return names;
}

} // namespace

Fabric::Fabric(const Cluster& cluster) : data_(std::make_unique<Data>()) {
    if (const auto problems = cluster_problems(cluster); !problems.empty())
        throw std::invalid_argument("cluster " + cluster.name + ": " + joined(problems));
    Data& d = *data_;
    d.intra_bandwidth = cluster.intra.bandwidth;
    if (!cluster.others.empty()) d.scale_up_of_kind = {cluster.intra.bandwidth};
    for (const OtherNodes& o : cluster.others) d.scale_up_of_kind.push_back(o.scale_up);
    d.hashed = cluster.inter.routing == Routing::ecmp;
    if (!cluster.graph) {
        d.layout = layout_of(cluster);
        d.nodes = d.layout.nodes;
        d.links = build_links(d.layout);
        return;
    }
    ExplicitGraph graph = *cluster.graph;
    d.layout.devices = cluster.devices();
    d.layout.per_node = cluster.devices_per_node;
    d.nodes = cluster.nodes;
    std::vector<int> taken;
    int device = 0;
    for (auto& v : graph.vertices) {
        if (v.kind != ExplicitGraph::VertexKind::device) continue;
        if (v.node < 0) v.node = device / cluster.devices_per_node;
        d.nodes = std::max(d.nodes, v.node + 1);
        taken.resize(std::max(taken.size(), at(v.node) + 1), 0);
        d.node_of.push_back(v.node);
        d.local_index.push_back(taken[at(v.node)]++);
        ++device;
    }
    d.explicit_graph = std::make_unique<GraphRoutes>(std::move(graph));
    d.links = explicit_links(*d.explicit_graph);
}

Fabric::~Fabric() = default;
Fabric::Fabric(Fabric&&) noexcept = default;
Fabric& Fabric::operator=(Fabric&&) noexcept = default;

int Fabric::devices() const { return data_->layout.devices; }
int Fabric::nodes() const { return data_->nodes; }
int Fabric::node_of(int device) const { return data_->explicit_graph ? data_->node_of[at(device)] : device / data_->layout.per_node; }
int Fabric::domain_of(int device) const { return data_->explicit_graph ? data_->node_of[at(device)] : device / data_->layout.domain; }
int Fabric::local_index(int device) const {
    return data_->explicit_graph ? data_->local_index[at(device)] : device % data_->layout.per_node;
}
const Links& Fabric::links() const { return data_->links; }

const std::string& Fabric::link_name(LinkId link) const {
    Data& d = *data_;
    std::call_once(d.named, [&] {
        if (d.explicit_graph) {
            d.names = explicit_names(d.explicit_graph->graph());
            return;
        }
        BuiltGraph built;
        build_links(d.layout, &built);
        d.names = std::move(built.names);
    });
    return d.names[at(link)];
}

int Fabric::nic_of(int device) const {
    if (data_->explicit_graph) return data_->explicit_graph->nearest_nic(device);
    const Layout& l = data_->layout;
    if (l.nics == 0) return -1;
    if (const int own = l.endpoint_of(local_index(device)), up = l.endpoint_at(node_of(device), local_index(device)); up != own)
        return l.nics <= l.per_node ? up : up * l.nics / l.per_node;
    return static_cast<int>(static_cast<std::int64_t>(local_index(device)) * l.nics / l.per_node);
}

void Fabric::append_route(int a, int b, std::vector<LinkShare>& out) const {
    if (data_->explicit_graph)
        data_->explicit_graph->append_route(a, b, data_->hashed, out);
    else
        orrery::append_route(data_->layout, a, b, out);
}

bool Fabric::find_moves(std::span<const int> from, std::span<const int> to, LinkMoves& out) const {
    return !data_->explicit_graph && orrery::find_moves(data_->layout, from, to, out);
}

std::vector<LinkShare> Fabric::route(int a, int b) const {
    std::vector<LinkShare> out;
    out.reserve(10);
    append_route(a, b, out);
    return out;
}

namespace {

// Slot, way to the host bridge, memory of that socket; or back.
std::vector<LinkShare> tree_copy_route(const Layout& l, int device, bool to_host) {
    const int node = device / l.per_node, group = l.switch_of(device % l.per_node), direction = to_host ? 0 : 1;
    std::vector<LinkShare> out{{l.first_pcie + device * 2 + direction, 1},
                               {l.first_bridge + (node * l.groups + group) * 2 + direction, 1},
                               {l.first_copy + (node * l.sockets + l.socket_of_switch(group)) * 2 + direction, 1}};
    if (!to_host) std::reverse(out.begin(), out.end());
    return out;
}

} // namespace

std::vector<LinkShare> Fabric::copy_route(int device, bool to_host) const {
    const Layout& l = data_->layout;
    if (data_->explicit_graph) return data_->explicit_graph->copy_route(device, to_host);
    if (!l.has_copy) return {};
    const int direction = to_host ? 0 : 1;
    if (l.tree) return tree_copy_route(l, device, to_host);
    const int group = static_cast<int>(static_cast<std::int64_t>(local_index(device)) * l.groups / l.per_node);
    const LinkShare pcie{l.first_pcie + device * 2 + direction, 1},
        memory{l.first_copy + (node_of(device) * l.groups + group) * 2 + direction, 1};
    return to_host ? std::vector{pcie, memory} : std::vector{memory, pcie};
}

Time Fabric::latency(int a, int b) const {
    std::vector<LinkShare> scratch;
    return latency(a, b, scratch);
}

Time Fabric::latency(int a, int b, std::vector<LinkShare>& scratch) const {
    scratch.clear();
    append_route(a, b, scratch);
    double ps = 0;
    for (const auto& [link, share] : scratch) ps += static_cast<double>(data_->links[link].latency.ps) * share;
    return {static_cast<std::int64_t>(ps + 0.5)};
}

BytesPerSecond Fabric::narrowest(int a, int b) const {
    double least = std::numeric_limits<double>::infinity();
    for (const auto& [link, share] : route(a, b)) least = std::min(least, data_->links[link].capacity.value / share);
    return {least};
}

BytesPerSecond Fabric::bisection_bandwidth() const {
    return data_->explicit_graph ? data_->explicit_graph->bisection() : bisection(data_->layout);
}

BytesPerSecond Fabric::scale_up_bandwidth(int device) const {
    if (data_->explicit_graph) return data_->explicit_graph->out_of_device(device);
    if (data_->layout.inside == Inside::nothing) return {};
    if (data_->scale_up_of_kind.empty()) return data_->intra_bandwidth;
    return data_->scale_up_of_kind[at(data_->layout.kind_of(node_of(device)))];
}

int Fabric::package_of(int device) const { return device / data_->layout.dies; }

BytesPerSecond Fabric::leaving_bandwidth(int device) const {
    const Layout& l = data_->layout;
    return {scale_up_bandwidth(device).value - (l.dies - 1) * l.die_link.value};
}

BytesPerSecond Fabric::endpoint_bandwidth(int device) const {
    const Layout& l = data_->layout;
    if (data_->explicit_graph) {
        const int node = node_of(device), nics = data_->explicit_graph->nics_of(node);
        const auto sharing = static_cast<int>(std::count(data_->node_of.begin(), data_->node_of.end(), node));
        return nics == 0 ? BytesPerSecond{} : data_->explicit_graph->out_of_node(node) * (1.0 / std::min(nics, sharing));
    }
    if (l.torus_spans && !l.torus_of_nodes) return data_->intra_bandwidth;
    return l.endpoints == 0 ? BytesPerSecond{} : l.endpoint_bandwidth(node_of(device), l.endpoint_at(node_of(device), local_index(device)));
}

int Fabric::levels_between(int a, int b) const {
    const Layout& l = data_->layout;
    if (data_->explicit_graph || l.leaves == 0) return 0;
    const auto leaf = [&](int d) { return l.leaf_of(node_of(d), l.endpoint_at(node_of(d), local_index(d))); };
    if (leaf(a) == leaf(b)) return 1;
    return l.three_levels() && leaf(a) / l.leaves_per_pod != leaf(b) / l.leaves_per_pod ? 3 : 2;
}

BytesPerSecond Fabric::nic_bandwidth(int device) const {
    const Layout& l = data_->layout;
    if (data_->explicit_graph) {
        const int node = node_of(device);
        const auto sharing = std::count(data_->node_of.begin(), data_->node_of.end(), node);
        return data_->explicit_graph->out_of_node(node) * (1.0 / static_cast<double>(sharing));
    }
    // A torus that spans nodes leaves them by the same links that join the devices of one.
    if (l.torus_spans && !l.torus_of_nodes) return data_->intra_bandwidth;
    return l.nic_at(node_of(device)) * (static_cast<double>(l.nics) / l.per_node);
}

int Fabric::devices_per_nic() const {
    const int nics = data_->explicit_graph ? data_->explicit_graph->nics_of(node_of(0)) : data_->layout.nics;
    const auto devices =
        data_->explicit_graph ? std::count(data_->node_of.begin(), data_->node_of.end(), node_of(0)) : data_->layout.per_node;
    return nics == 0 ? 1 : std::max(1, static_cast<int>((devices + nics - 1) / nics));
}

ExplicitGraph Fabric::graph() const {
    if (data_->explicit_graph) return data_->explicit_graph->graph();
    BuiltGraph built;
    build_links(data_->layout, &built);
    ExplicitGraph out;
    out.vertices = std::move(built.vertices);
    auto end = built.ends.begin();
    for (const Link& link : data_->links) {
        out.edges.push_back({end->first, end->second, link.capacity, link.latency});
        ++end;
    }
    for (const auto& [a, b] : built.joints) {
        const BytesPerSecond plenty = BytesPerSecond::gigabytes(1e6);
        out.edges.push_back({a, b, plenty, Time{}});
        out.edges.push_back({b, a, plenty, Time{}});
    }
    return out;
}

} // namespace orrery

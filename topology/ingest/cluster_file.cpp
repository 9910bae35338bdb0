// A composed cluster as the text of a cluster file, in the short form or as a graph.
#include "topology/ingest/compose.hpp"
#include "topology/ingest/text.hpp"

#include <nlohmann/json.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

namespace orrery::ingest {

namespace {

using Json = nlohmann::ordered_json;

// Six digits: what was read has no more, and 3.7500000001 is noise.
double rounded(double value) {
    if (value == 0) return 0;
    const double scale = std::pow(10.0, 5 - std::floor(std::log10(std::abs(value))));
    return std::round(value * scale) / scale;
}

std::string safe(const Json& json, int indent = -1) { return json.dump(indent, ' ', false, Json::error_handler_t::replace); }

// One line a field of the top, so that a section can be read at a glance.
std::string by_lines(const Json& top) {
    std::string out = "{";
    const char* comma = "";
    for (const auto& [key, value] : top.items()) {
        out += fmt::format("{}\n  {}: ", comma, safe(key));
        if (key == "sources" || key == "graph") {
            std::string text = safe(value, 2);
            for (std::size_t at = text.find('\n'); at != std::string::npos; at = text.find('\n', at + 3)) text.insert(at + 1, "  ");
            out += text;
        } else {
            out += safe(value);
        }
        comma = ",";
    }
    return out + "\n}\n";
}

Json head(const ComposedCluster& c) {
    Json j;
    j["name"] = c.name;
    j["device"] = c.device;
    return j;
}

void add_host(Json& j, const ComposedCluster& c) {
    if (c.host_memory_gb > 0) j["host"]["memory_gb"] = rounded(c.host_memory_gb);
    if (c.pcie_gb_per_s > 0) j["host"]["pcie_gb_per_s"] = rounded(c.pcie_gb_per_s);
}

void add_sources(Json& j, const ComposedCluster& c) {
    for (const auto& [field, text] : c.sources) j["sources"][field] = text;
}

} // namespace

std::string cluster_text(const ComposedCluster& c) {
    Json j = head(c);
    j["nodes"] = c.nodes;
    j["devices_per_node"] = c.devices_per_node;
    if (!c.intra_kind.empty()) {
        Json& intra = j["intra_node"];
        intra["kind"] = c.intra_kind;
        if (c.intra_kind != "none") intra["gb_per_s"] = rounded(c.intra_gb_per_s);
        if (c.intra_latency_us > 0) intra["latency_us"] = rounded(c.intra_latency_us);
        if (c.domain_nodes > 1) intra["domain_nodes"] = c.domain_nodes;
    }
    if (!c.inter_kind.empty()) {
        Json& inter = j["inter_node"];
        inter["kind"] = c.inter_kind;
        inter["nics_per_node"] = c.nics_per_node;
        inter["gbit_per_s"] = rounded(c.nic_gbit);
        if (c.inter_latency_us > 0) inter["latency_us"] = rounded(c.inter_latency_us);
        inter["topology"] = c.topology;
        if (!c.shape.empty()) {
            inter["shape"] = c.shape;
            inter["wrap"] = std::vector<bool>(c.shape.size(), true);
        }
        if (c.nodes_per_leaf > 0) inter["nodes_per_leaf"] = c.nodes_per_leaf;
        if (c.topology == "fat-tree" || c.topology == "rail-optimized") inter["oversubscription"] = rounded(c.oversubscription);
    }
    add_host(j, c);
    add_sources(j, c);
    return by_lines(j);
}

namespace {

using Kind = Part::Kind;

// The graph in progress: names are made unique by the node they belong to.
struct Drawing {
    const ComposedCluster& c;
    const SystemFacts& facts;
    Json vertices = Json::array(), links = Json::array();

    void vertex(const std::string& name, const char* kind, int node) {
        Json v{{"name", name}, {"kind", kind}};
        if (node >= 0) v["node"] = node;
        vertices.push_back(std::move(v));
    }
    void link(const std::string& from, const std::string& to, const char* unit, double rate, double us) {
        links.push_back(Json{{"from", from}, {"to", to}, {unit, rounded(rate)}, {"latency_us", us}});
    }
};

constexpr double pcie_us = 0.5, scale_up_us = 0.3, cable_us = 0.5; // a hop's; assumed, and said so in the sources

std::string part_name(int node, std::size_t i, const Part& p) {
    return fmt::format("node{}.{}{}", node, p.kind == Kind::gpu ? "gpu " : "", p.name.empty() ? fmt::format("part{}", i) : p.name);
}

// Sockets are joined to each other by the processors' own links.
double socket_gb_per_s(const NodeFacts& node) { return node.cpu_vendor == "AuthenticAMD" ? 24 : 22; }

void draw_tree(Drawing& d, const NodeFacts& node, int n) {
    std::vector<std::string> names, sockets;
    for (std::size_t i = 0; i < node.parts.size(); ++i) names.push_back(fmt::format("{}#{}", shown(part_name(n, i, node.parts[i])), i));
    const double usual = d.c.pcie_gb_per_s > 0 ? d.c.pcie_gb_per_s : 32;
    std::vector<int> order(node.parts.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
    for (const int i : order) {
        const Part& p = node.parts[i];
        if (p.kind == Kind::nvswitch) continue;
        if (p.kind == Kind::nic && std::find(d.c.nics.begin(), d.c.nics.end(), i) == d.c.nics.end()) continue;
        const std::string& name = names[i];
        d.vertex(name, p.kind == Kind::gpu ? "device" : p.kind == Kind::nic ? "nic" : p.kind == Kind::socket ? "host" : "switch", n);
        if (p.kind == Kind::socket) sockets.push_back(name);
        if (p.parent >= 0) d.link(name, names[p.parent], "gb_per_s", p.gb_per_s > 0 ? p.gb_per_s : usual, pcie_us);
    }
    for (std::size_t s = 1; s < sockets.size(); ++s) d.link(sockets[0], sockets[s], "gb_per_s", socket_gb_per_s(node), pcie_us);
}

void draw_scale_up(Drawing& d, const NodeFacts* node, int n, const std::vector<std::string>& gpus) {
    int links_of_a_gpu = 0;
    const ScaleUp how = node ? scale_up_of(*node, links_of_a_gpu) : ScaleUp::none;
    if (node && (how == ScaleUp::each_other || how == ScaleUp::some) && links_of_a_gpu > 0 && d.c.intra_kind != "torus") {
        const double all = d.c.intra_kind == "pcie" ? 25.0 * links_of_a_gpu : d.c.intra_gb_per_s;
        std::map<int, std::size_t> place;
        for (std::size_t i = 0; i < node->parts.size(); ++i)
            if (node->parts[i].kind == Kind::gpu) place.emplace(static_cast<int>(i), place.size());
        for (const ScaleUpLink& l : node->links)
            if (l.to > l.from && place.contains(l.from) && place.contains(l.to))
                d.link(gpus[place[l.from]], gpus[place[l.to]], "gb_per_s", all * l.count / links_of_a_gpu, scale_up_us);
    } else if (gpus.size() > 1 && (d.c.intra_kind != "pcie" || !node || node->count(Kind::socket) == 0) && d.c.intra_gb_per_s > 0) {
        const std::string hub = fmt::format("node{}.{}", n, d.c.intra_kind);
        d.vertex(hub, "switch", n);
        for (const std::string& gpu : gpus) d.link(gpu, hub, "gb_per_s", d.c.intra_gb_per_s, scale_up_us);
    }
}

// Names of a node's devices and NICs, all of its parts drawn.
struct DrawnNode {
    std::vector<std::string> gpus, nics;
};
DrawnNode draw_node(Drawing& d, int n) {
    DrawnNode out;
    const NodeFacts* node = d.facts.node ? &*d.facts.node : nullptr;
    const bool tree = node && node->count(Kind::socket) > 0;
    if (tree) {
        draw_tree(d, *node, n);
        for (std::size_t i = 0; i < node->parts.size(); ++i)
            if (node->parts[i].kind == Kind::gpu) out.gpus.push_back(fmt::format("{}#{}", shown(part_name(n, i, node->parts[i])), i));
        for (const int i : d.c.nics)
            out.nics.push_back(fmt::format("{}#{}", shown(part_name(n, static_cast<std::size_t>(i), node->parts[i])), i));
    } else {
        for (int g = 0; g < d.c.devices_per_node; ++g) d.vertex(out.gpus.emplace_back(fmt::format("node{}.gpu{}", n, g)), "device", n);
    }
    draw_scale_up(d, node, n, out.gpus);
    // Ports that the node's file does not list hang on their GPUs.
    const double usual = std::max(d.c.pcie_gb_per_s > 0 ? d.c.pcie_gb_per_s : 0, d.c.nic_gbit / 8);
    for (int p = static_cast<int>(out.nics.size()); p < d.c.nics_per_node; ++p) {
        d.vertex(out.nics.emplace_back(fmt::format("node{}.nic{}", n, p)), "nic", n);
        const std::size_t gpu = static_cast<std::size_t>(p) * out.gpus.size() / static_cast<std::size_t>(d.c.nics_per_node);
        d.link(out.gpus[gpu], out.nics.back(), "gb_per_s", usual, pcie_us);
        if (d.c.nics_per_node < d.c.devices_per_node) // several devices share a NIC
            for (std::size_t g = gpu + 1; g < std::min(out.gpus.size(), static_cast<std::size_t>(p + 1) * out.gpus.size() /
                                                                            static_cast<std::size_t>(d.c.nics_per_node));
                 ++g)
                d.link(out.gpus[g], out.nics.back(), "gb_per_s", usual, pcie_us);
    }
    return out;
}

void draw_fabric(Drawing& d, const std::vector<DrawnNode>& nodes) {
    const FabricFacts* f = d.facts.fabric ? &*d.facts.fabric : nullptr;
    const bool stated = f && !f->vertices.empty() && f->nodes() == static_cast<int>(nodes.size());
    if (!stated) {
        d.vertex("fabric", "switch", -1);
        for (const DrawnNode& n : nodes)
            for (const std::string& nic : n.nics) d.link(nic, "fabric", "gbit_per_s", d.c.nic_gbit, cable_us);
        return;
    }
    std::vector<std::string> names;
    for (std::size_t v = 0; v < f->vertices.size(); ++v) {
        const FabricVertex& x = f->vertices[v];
        if (x.kind == FabricVertex::Kind::fabric_switch) {
            d.vertex(names.emplace_back(fmt::format("{}#{}", shown(x.name), v)), "switch", -1);
        } else {
            const auto& nics = nodes[x.host].nics;
            // A tree of Slurm's has one port a node: it stands for all NICs.
            names.push_back(static_cast<std::size_t>(x.index) < nics.size() ? nics[x.index] : "");
        }
    }
    for (const FabricLink& l : f->links) {
        const double gbit = l.gbit > 0 ? l.gbit : d.c.nic_gbit;
        const double us = l.latency_us >= 0 ? l.latency_us : cable_us;
        const std::string &a = names[l.a], &b = names[l.b];
        const bool one_for_all = f->nics_per_node == 0 && f->vertices[l.a].kind == FabricVertex::Kind::port;
        if (one_for_all)
            for (const std::string& nic : nodes[f->vertices[l.a].host].nics) d.link(nic, b, "gbit_per_s", gbit, us);
        else if (!a.empty() && !b.empty())
            d.link(a, b, "gbit_per_s", gbit * (f->nics_per_node == 0 ? std::max(1, d.c.nics_per_node * d.c.nodes_per_leaf) : 1), us);
    }
}

// A file may list parts of a fabric that no link of it joins: no run can span them.
void need_one_piece(const Drawing& d, const std::string& file) {
    std::map<std::string, std::size_t> place;
    std::vector<std::size_t> above; // union-find
    for (const Json& v : d.vertices) {
        place.emplace(v.at("name").get<std::string>(), above.size());
        above.push_back(above.size());
    }
    const auto root = [&](const Json& name) {
        std::size_t i = place.at(name.get<std::string>());
        for (; above[i] != i; i = above[i]) above[i] = above[above[i]];
        return i;
    };
    for (const Json& l : d.links) above[root(l.at("from"))] = root(l.at("to"));
    std::string first;
    for (const Json& v : d.vertices) {
        if (v.at("kind") != "device") continue;
        const std::string name = v.at("name").get<std::string>();
        if (first.empty()) first = name;
        if (root(v.at("name")) != root(Json(first)))
            throw IngestError(
                fmt::format("{}: no link of the file joins {} and {}: the fabric is in pieces. Give one piece, or leave --graph out", file,
                            shown(first), shown(name)));
    }
}

} // namespace

std::string graph_text(const ComposedCluster& c, const SystemFacts& facts) {
    Drawing d{c, facts};
    std::vector<DrawnNode> nodes;
    for (int n = 0; n < c.nodes; ++n) nodes.push_back(draw_node(d, n));
    if (c.nodes > 1 || c.nics_per_node > 0) draw_fabric(d, nodes);
    need_one_piece(d, facts.fabric ? facts.fabric->file : facts.node->file);
    Json j = head(c);
    add_host(j, c);
    j["graph"]["vertices"] = std::move(d.vertices);
    j["graph"]["links"] = std::move(d.links);
    add_sources(j, c);
    return by_lines(j);
}

} // namespace orrery::ingest

// The properties of a fabric's graph: levels of switches, ports a node, nodes a leaf, oversubscription, whether a leaf serves one rail.
#include "topology/ingest/facts.hpp"
#include "topology/ingest/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace orrery::ingest {

namespace {

using VertexKind = FabricVertex::Kind;

template <class T> T most_common(const std::map<T, int>& counts) {
    return std::max_element(counts.begin(), counts.end(), [](const auto& a, const auto& b) { return a.second < b.second; })->first;
}

// A switch with a host is a leaf; one beside a leaf a spine; and so on.
void find_levels(FabricFacts& f, const std::vector<std::vector<int>>& beside) {
    std::vector<int> here;
    for (std::size_t v = 0; v < f.vertices.size(); ++v)
        if (f.vertices[v].kind == VertexKind::port)
            for (const int s : beside[v])
                if (f.vertices[s].kind == VertexKind::fabric_switch && f.vertices[s].level < 0) {
                    f.vertices[s].level = 0;
                    here.push_back(s);
                }
    for (int level = 0; !here.empty(); ++level) {
        f.switches.push_back(static_cast<int>(here.size()));
        std::vector<int> next;
        for (const int s : here)
            for (const int up : beside[s]) {
                FabricVertex& v = f.vertices[up];
                if (v.kind != VertexKind::fabric_switch || v.level >= 0) continue;
                v.level = level + 1;
                next.push_back(up);
            }
        here = std::move(next);
    }
}

// A port's place among its host's ports, in the order of names ("mlx5_2" before "mlx5_10").
void number_ports(FabricFacts& f) {
    std::vector<std::vector<int>> of_host(f.hosts.size());
    for (std::size_t v = 0; v < f.vertices.size(); ++v)
        if (f.vertices[v].kind == VertexKind::port) of_host[f.vertices[v].host].push_back(static_cast<int>(v));
    std::map<int, int> ports;
    for (auto& list : of_host) {
        std::stable_sort(list.begin(), list.end(), [&](int a, int b) {
            const std::string &x = f.vertices[a].name, &y = f.vertices[b].name;
            return x.size() != y.size() ? x.size() < y.size() : x < y;
        });
        for (std::size_t i = 0; i < list.size(); ++i) f.vertices[list[i]].index = static_cast<int>(i);
        if (!list.empty()) ++ports[static_cast<int>(list.size())];
    }
    if (ports.empty()) return;
    f.nics_per_node = most_common(ports);
    for (const auto& [n, hosts] : ports)
        if (n != f.nics_per_node && 2 * n > f.nics_per_node)
            f.notes.push_back(fmt::format("{} with {} (the others have {}): taken as the others",
                                          counted(static_cast<std::size_t>(hosts), "host"), counted(static_cast<std::size_t>(n), "port"),
                                          f.nics_per_node));
}

// Hosts with at most half of the usual ports are other machines (storage, management): they leave with their ports.
void drop_other_hosts(FabricFacts& f) {
    std::vector<int> ports(f.hosts.size()), host(f.hosts.size(), -1), vertex(f.vertices.size(), -1);
    for (const FabricVertex& v : f.vertices)
        if (v.host >= 0) ++ports[v.host];
    FabricFacts kept;
    std::string left;
    for (std::size_t h = 0; h < f.hosts.size(); ++h) {
        if (2 * ports[h] > f.nics_per_node) {
            host[h] = kept.nodes();
            kept.hosts.push_back(f.hosts[h]);
        } else {
            left += (left.empty() ? "" : ", ") + f.hosts[h];
        }
    }
    if (left.empty()) return;
    for (std::size_t v = 0; v < f.vertices.size(); ++v) {
        FabricVertex moved = f.vertices[v];
        if (moved.host >= 0 && (moved.host = host[moved.host]) < 0) continue;
        vertex[v] = static_cast<int>(kept.vertices.size());
        kept.vertices.push_back(std::move(moved));
    }
    for (FabricLink l : f.links) {
        l.a = vertex[l.a], l.b = vertex[l.b];
        if (l.a >= 0 && l.b >= 0) kept.links.push_back(l);
    }
    f.hosts = std::move(kept.hosts), f.vertices = std::move(kept.vertices), f.links = std::move(kept.links);
    f.notes.push_back(fmt::format("hosts with at most half of the usual {} are left out: {}",
                                  counted(static_cast<std::size_t>(f.nics_per_node), "port"), left));
}

struct LeafCounts {
    std::set<int> hosts, rails;
    double down = 0, up = 0;
    int links_up = 0;
};

} // namespace

void describe(FabricFacts& f) {
    std::vector<std::vector<int>> beside(f.vertices.size());
    for (const FabricLink& l : f.links) {
        beside[l.a].push_back(l.b);
        beside[l.b].push_back(l.a);
    }
    find_levels(f, beside);
    number_ports(f);
    drop_other_hosts(f);
    std::map<int, LeafCounts> leaves;
    std::map<double, int> rates;
    const auto vertex = [&](int v) -> const FabricVertex& { return f.vertices[v]; };
    for (const FabricLink& l : f.links)
        for (const auto& [leaf, other] : {std::pair{l.a, l.b}, std::pair{l.b, l.a}}) {
            if (vertex(leaf).level != 0) continue;
            LeafCounts& c = leaves[leaf];
            if (vertex(other).kind == VertexKind::port) {
                c.hosts.insert(vertex(other).host), c.rails.insert(vertex(other).index);
                c.down += l.gbit;
                ++rates[l.gbit];
            } else if (vertex(other).level > 0) {
                c.up += l.gbit;
                ++c.links_up;
            }
        }
    if (leaves.empty() || rates.empty()) return;
    f.nic_gbit = most_common(rates);
    double down = 0, up = 0;
    int one_rail = 0, links_up = 0;
    std::map<int, int> sizes;
    for (const auto& [leaf, c] : leaves) {
        down += c.down, up += c.up, links_up += c.links_up;
        one_rail += c.rails.size() == 1 ? 1 : 0;
        ++sizes[static_cast<int>(c.hosts.size())];
    }
    const bool rails = f.nics_per_node > 1 && one_rail * 2 > static_cast<int>(leaves.size());
    f.topology = leaves.size() == 1 ? "single-switch" : rails ? "rail-optimized" : "fat-tree";
    f.nodes_per_leaf = sizes.rbegin()->first;
    if (sizes.size() > 1)
        f.notes.push_back(fmt::format("leaves hold from {} to {}: taken for {} each", sizes.begin()->first,
                                      counted(static_cast<std::size_t>(f.nodes_per_leaf), "node"), f.nodes_per_leaf));
    if (up > 0) f.oversubscription = std::max(1.0, down / up);
    if (up > 0 && down < up)
        f.notes.push_back(fmt::format("leaves have {:.2f} times as much bandwidth up as down: taken for 1 to 1", up / down));
    if (leaves.size() > 1 && links_up == 0)
        f.notes.emplace_back("the leaves have no links upwards: the fabric's upper part is not in the file");
}

} // namespace orrery::ingest

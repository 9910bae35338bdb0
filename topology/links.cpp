// The links of a built cluster in id order, each with its name, capacity and ends. This order is the one layout.hpp numbers them in.
#include "topology/layout.hpp"

#include "topology/check.hpp"

#include <algorithm>
#include <charconv>

namespace orrery {
namespace {

std::string numbered(std::string_view stem, int i, std::string_view rest = {}, int j = -1) {
    char digits[12];
    std::string out;
    out.reserve(stem.size() + rest.size() + 16);
    out.append(stem).append(digits, std::to_chars(digits, digits + sizeof digits, i).ptr);
    out.append(rest);
    if (j >= 0) out.append(digits, std::to_chars(digits, digits + sizeof digits, j).ptr);
    return out;
}

class Builder {
  public:
    Builder(const Layout& layout, BuiltGraph* graph) : l(layout), g(graph) {}

    Links build() {
        if (g) g->ends.reserve(l.link_count), g->names.reserve(l.link_count);
        add_vertices();
        add_inside();
        add_torus();
        add_pcie();
        add_tree();
        add_nics();
        add_copies();
        add_leaves();
        add_pods();
        add_globals();
        require(links.size() == static_cast<std::size_t>(l.link_count), "the links built are not those the layout counts");
        return std::move(links);
    }

  private:
    using Kind = ExplicitGraph::VertexKind;
    const Layout& l;
    BuiltGraph* g;
    Links links;
    int vertices = 0;
    int switch0 = 0, pcie0 = 0, bridge0 = 0, nic0 = 0, host0 = 0, router0 = 0, leaf0 = 0, spine0 = 0, core0 = 0;

    int next() const { return vertices; }

    template <class NameOf> void add(int count, Kind kind, NameOf&& name_of, int per_node = 0) {
        vertices += count;
        for (int i = 0; i < count && g; ++i) g->vertices.push_back({name_of(i), kind, per_node > 0 ? i / per_node : -1});
    }
    void per_node(int count, std::string_view rest, Kind kind, bool number) {
        add(
            l.nodes * count, kind, [&](int i) { return numbered("node", i / count, rest, number ? i % count : -1); }, count);
    }

    void add_vertices() {
        const int spines = l.groups_of_switches > 0 ? l.groups_of_switches
                           : l.leaves > 1           ? l.planes * l.uplinks * (l.three_levels() ? l.pods : 1)
                                                    : 0;
        if (g)
            g->vertices.reserve(static_cast<std::size_t>(l.nodes) * static_cast<std::size_t>(l.per_node + l.groups + l.endpoints + 3) +
                                static_cast<std::size_t>(l.planes * l.leaves + spines));
        per_node(l.per_node, ".gpu", Kind::device, true);
        switch0 = next();
        if (l.inside == Inside::through_switch && l.domain == l.per_node) per_node(1, ".nvswitch", Kind::switch_, false);
        if (l.inside == Inside::through_switch && l.domain > l.per_node)
            add((l.devices + l.domain - 1) / l.domain, Kind::switch_, [](int i) { return numbered("domain", i, ".nvswitch"); });
        pcie0 = next();
        if (l.has_pcie) per_node(l.groups, ".pcie", Kind::switch_, true);
        bridge0 = next();
        if (l.tree) per_node(l.sockets, ".socket", Kind::switch_, true);
        nic0 = next();
        per_node(l.endpoints, ".nic", Kind::nic, true);
        host0 = next();
        if (l.has_copy) per_node(1, ".host", Kind::host, false);
        router0 = next();
        if (l.torus_of_nodes) per_node(1, ".router", Kind::switch_, false);
        leaf0 = next();
        add(l.planes * l.leaves, Kind::switch_, [&](int i) { return in_plane(i / l.leaves, numbered("leaf", i % l.leaves)); });
        spine0 = next();
        add(spines, Kind::switch_, [&](int i) { return spine_name(i); });
        core0 = next();
        if (l.three_levels())
            add(l.planes * l.uplinks * l.core_links, Kind::switch_, [&](int i) {
                const int of_plane = l.uplinks * l.core_links;
                return in_plane(i / of_plane, of_plane > 1 ? numbered("core", i % of_plane) : std::string("core"));
            });
    }

    std::string in_plane(int plane, const std::string& switch_name) const {
        return l.planes == 1 ? switch_name : numbered("plane", plane, "." + switch_name);
    }

    std::string spine_name(int i) const {
        if (l.groups_of_switches > 0) return numbered("group", i);
        const int of_plane = l.uplinks * std::max(1, l.pods), here = i % of_plane;
        if (l.uplinks == 1) return in_plane(i / of_plane, l.three_levels() ? numbered("pod", here, ".spines") : "spines");
        return in_plane(i / of_plane,
                        l.three_levels() ? numbered("pod", here / l.uplinks, ".spine", here % l.uplinks) : numbered("spine", here));
    }

    void link(int from, int to, LinkKind kind, BytesPerSecond capacity, Time latency, int node) {
        links.push_back({kind, capacity, latency, node});
        if (g) describe(from, to, node);
    }
    // Inside a node the second name goes without its node: "node3.gpu1 > nvswitch".
    void describe(int from, int to, int node) {
        const std::string& a = g->vertices[from].name;
        std::string_view b = g->vertices[to].name;
        if (node >= 0 && g->vertices[to].node == node && g->vertices[from].node == node) b.remove_prefix(b.find('.') + 1);
        std::string name;
        name.reserve(a.size() + b.size() + 3);
        name.append(a).append(" > ").append(b);
        g->names.push_back(std::move(name));
        g->ends.emplace_back(from, to);
    }
    void joint(int a, int b) {
        if (g) g->joints.emplace_back(a, b);
    }
    void pair(int from, int to, LinkKind kind, BytesPerSecond capacity, Time latency, int node) {
        link(from, to, kind, capacity, latency, node);
        link(to, from, kind, capacity, latency, node);
    }

    void add_inside() {
        if (l.inside == Inside::through_switch)
            for (int d = 0; d < l.devices; ++d)
                pair(d, switch0 + d / l.domain, LinkKind::scale_up, l.scale_up_at(d / l.per_node), l.scale_up_latency, d / l.per_node);
        if (l.inside == Inside::mesh)
            for (int d = 0; d < l.devices; ++d)
                for (int first = d / l.per_node * l.per_node, other = first; other < first + l.per_node; ++other)
                    if (other != d) link(d, other, LinkKind::scale_up, l.mesh_link(d, other), l.scale_up_latency, d / l.per_node);
    }

    void add_torus() {
        const int base = l.torus_of_nodes ? router0 : 0;
        const LinkKind kind = l.torus_of_nodes ? LinkKind::trunk : LinkKind::scale_up;
        for (int unit = 0; unit < l.tori * l.units && l.used_dims > 0; ++unit) {
            const int first = unit / l.units * l.units, at = unit % l.units;
            int stride = 1;
            for (const int n : l.dims) {
                if (n > 1) {
                    const int x = at / stride % n;
                    const int node = l.torus_of_nodes ? unit : unit / l.per_node;
                    link(base + unit, base + first + at + ((x + 1) % n - x) * stride, kind, l.torus_link, l.torus_latency, node);
                    link(base + unit, base + first + at + ((x + n - 1) % n - x) * stride, kind, l.torus_link, l.torus_latency, node);
                }
                stride *= n;
            }
        }
    }

    void add_pcie() {
        if (!l.has_pcie) return;
        for (int d = 0; d < l.devices; ++d) {
            const int node = d / l.per_node;
            pair(d, pcie0 + node * l.groups + l.switch_of(d % l.per_node), LinkKind::pcie,
                 l.inside == Inside::pcie ? pcie_at(node) : l.pcie, l.pcie_latency, node);
        }
    }
    // Devices that only PCIe joins have what their kind of nodes has.
    BytesPerSecond pcie_at(int node) const { return l.scale_up_of_kind.empty() ? l.pcie : l.scale_up_of_kind[l.kind_of(node)]; }

    void add_tree() {
        if (!l.tree) return;
        for (int node = 0; node < l.nodes; ++node)
            for (int group = 0; group < l.groups; ++group)
                pair(pcie0 + node * l.groups + group, bridge0 + node * l.sockets + l.socket_of_switch(group), LinkKind::pcie, l.bridge,
                     l.pcie_latency, node);
        for (int node = 0; node < l.nodes; ++node)
            for (int from = 0; from < l.sockets; ++from)
                for (int to = 0; to < l.sockets; ++to)
                    if (to != from)
                        link(bridge0 + node * l.sockets + from, bridge0 + node * l.sockets + to, LinkKind::pcie, l.socket, l.pcie_latency,
                             node);
    }

    // The rate that a partly down link has left; one that is wholly down carries nothing, but is there to be drawn.
    static BytesPerSecond left(BytesPerSecond whole, double share) { return whole * std::max(share, 1e-9); }

    // A NIC's own link leads to its leaf (a port of it to that of its plane); being plugged into the PCIe switch, a host bridge or, where
    // PCIe is not modelled, the devices is a joint.
    void add_nics() {
        for (int node = 0; node < l.nodes; ++node)
            for (int e = 0; e < l.endpoints; ++e) {
                const int nic = nic0 + node * l.endpoints + e;
                const BytesPerSecond port = l.nic_at(node) * (l.nics_of(e) * (1.0 / l.planes));
                for (int plane = 0; plane < l.planes; ++plane)
                    pair(nic, l.torus_of_nodes ? router0 + node : leaf0 + plane * l.leaves + l.leaf_of(node, e), LinkKind::nic,
                         left(port, l.port_left(node, e, plane)), l.nic_latency, node);
                add_slot(node, e, nic);
            }
    }
    void add_slot(int node, int e, int nic) {
        if (l.tree && !l.near_nics)
            joint(bridge0 + node * l.sockets + l.socket_of_nic(e), nic);
        else if (l.has_pcie)
            joint(pcie0 + node * l.groups + (l.tree ? l.switch_of_nic(e) : l.groups == 1 ? 0 : e), nic);
        for (int d = 0; d < l.per_node && !l.has_pcie; ++d)
            if (l.endpoint_of(d) == e) joint(node * l.per_node + d, nic);
    }

    void add_copies() {
        if (!l.has_copy) return;
        for (int node = 0; node < l.nodes; ++node)
            for (int way = 0; way < l.copies(); ++way)
                if (l.tree)
                    pair(bridge0 + node * l.sockets + way, host0 + node, LinkKind::copy, l.memory_of_socket, Time{}, node);
                else
                    pair(pcie0 + node * l.groups + way, host0 + node, LinkKind::copy, l.copy_per_device * l.devices_of(way), Time{}, node);
    }

    void add_leaves() {
        if (l.leaves < 2) return;
        for (int plane = 0; plane < l.planes; ++plane)
            for (int leaf = 0; leaf < l.leaves; ++leaf)
                for (int s = 0; s < l.uplinks; ++s) {
                    const int pod = l.three_levels() ? plane * l.pods + leaf / l.leaves_per_pod : plane + l.group_of_leaf(leaf);
                    const int at = plane * l.leaves + leaf;
                    pair(leaf0 + at, spine0 + pod * l.uplinks + s, LinkKind::trunk,
                         left(l.leaf_up(leaf) * (1.0 / (l.uplinks * l.planes)), l.uplink_left(at, s)), l.trunk_latency, -1);
                }
    }

    void add_globals() {
        for (int from = 0; from < l.groups_of_switches; ++from)
            for (int to = 0; to < l.groups_of_switches; ++to)
                if (to != from) link(spine0 + from, spine0 + to, LinkKind::trunk, l.global_rate(), l.trunk_latency, -1);
    }

    void add_pods() {
        for (int pod = 0; pod < l.planes * l.pods; ++pod)
            for (int s = 0; s < l.uplinks; ++s)
                for (int c = 0; c < l.core_links; ++c)
                    pair(spine0 + pod * l.uplinks + s, core0 + (pod / l.pods * l.uplinks + s) * l.core_links + c, LinkKind::trunk,
                         l.pod_up() * (1.0 / (l.planes * l.uplinks * l.core_links)), l.trunk_latency, -1);
    }
};

} // namespace

Links build_links(const Layout& layout, BuiltGraph* graph) { return Builder(layout, graph).build(); }

} // namespace orrery

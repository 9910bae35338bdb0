// The links of a built cluster in id order, each with its name, capacity and ends. This order is the one layout.hpp numbers them in.
#include "topology/layout.hpp"

#include "topology/check.hpp"

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

    std::vector<Link> build() {
        links.reserve(static_cast<std::size_t>(l.link_count));
        if (g) g->ends.reserve(links.capacity()), g->names.reserve(links.capacity());
        add_vertices();
        add_inside();
        add_torus();
        add_pcie();
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
    std::vector<Link> links;
    int vertices = 0;
    int switch0 = 0, pcie0 = 0, nic0 = 0, host0 = 0, router0 = 0, leaf0 = 0, spine0 = 0, core0 = 0;

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
        const int spines = l.groups_of_switches > 0 ? l.groups_of_switches : l.leaves > 1 ? l.uplinks * (l.three_levels() ? l.pods : 1) : 0;
        if (g)
            g->vertices.reserve(static_cast<std::size_t>(l.nodes) * static_cast<std::size_t>(l.per_node + l.groups + l.endpoints + 3) +
                                static_cast<std::size_t>(l.leaves + spines));
        per_node(l.per_node, ".gpu", Kind::device, true);
        switch0 = next();
        if (l.inside == Inside::through_switch) per_node(1, ".nvswitch", Kind::switch_, false);
        pcie0 = next();
        if (l.has_pcie) per_node(l.groups, ".pcie", Kind::switch_, true);
        nic0 = next();
        per_node(l.endpoints, ".nic", Kind::nic, true);
        host0 = next();
        if (l.has_copy) per_node(1, ".host", Kind::host, false);
        router0 = next();
        if (l.torus_of_nodes) per_node(1, ".router", Kind::switch_, false);
        leaf0 = next();
        add(l.leaves, Kind::switch_, [](int i) { return numbered("leaf", i); });
        spine0 = next();
        add(spines, Kind::switch_, [&](int i) { return spine_name(i); });
        core0 = next();
        if (l.three_levels())
            add(l.uplinks * l.core_links, Kind::switch_, [&](int i) { return l.hashed ? numbered("core", i) : std::string("core"); });
    }

    std::string spine_name(int i) const {
        if (l.groups_of_switches > 0) return numbered("group", i);
        if (!l.hashed) return l.three_levels() ? numbered("pod", i, ".spines") : "spines";
        return l.three_levels() ? numbered("pod", i / l.uplinks, ".spine", i % l.uplinks) : numbered("spine", i);
    }

    void link(int from, int to, LinkKind kind, BytesPerSecond capacity, Time latency, int node) {
        links.push_back({kind, capacity, latency, node});
        if (g) describe(from, to, node);
    }
    // Inside a node the second name goes without its node: "node3.gpu1 > nvswitch".
    void describe(int from, int to, int node) {
        const std::string& a = g->vertices[static_cast<std::size_t>(from)].name;
        std::string_view b = g->vertices[static_cast<std::size_t>(to)].name;
        if (node >= 0 && g->vertices[static_cast<std::size_t>(to)].node == node && g->vertices[static_cast<std::size_t>(from)].node == node)
            b.remove_prefix(b.find('.') + 1);
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
                pair(d, switch0 + d / l.per_node, LinkKind::scale_up, l.scale_up, l.scale_up_latency, d / l.per_node);
        if (l.inside == Inside::mesh)
            for (int d = 0; d < l.devices; ++d)
                for (int first = d / l.per_node * l.per_node, other = first; other < first + l.per_node; ++other)
                    if (other != d) link(d, other, LinkKind::scale_up, l.scale_up, l.scale_up_latency, d / l.per_node);
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

    int group_of(int local) const { return static_cast<int>(static_cast<std::int64_t>(local) * l.groups / l.per_node); }

    void add_pcie() {
        if (!l.has_pcie) return;
        for (int d = 0; d < l.devices; ++d) {
            const int node = d / l.per_node;
            pair(d, pcie0 + node * l.groups + group_of(d % l.per_node), LinkKind::pcie, l.pcie, l.pcie_latency, node);
        }
    }

    // A NIC's own link leads to its leaf; being plugged into the PCIe switch (or, where PCIe is not modelled, the devices) is a joint.
    void add_nics() {
        for (int node = 0; node < l.nodes; ++node)
            for (int e = 0; e < l.endpoints; ++e) {
                const int to = l.torus_of_nodes ? router0 + node : leaf0 + l.leaf_of(node, e);
                const int nic = nic0 + node * l.endpoints + e;
                pair(nic, to, LinkKind::nic, l.endpoint_bandwidth(e), l.nic_latency, node);
                if (l.has_pcie) joint(pcie0 + node * l.groups + (l.groups == 1 ? 0 : e), nic);
                for (int d = 0; d < l.per_node && !l.has_pcie; ++d)
                    if (l.endpoint_of(d) == e) joint(node * l.per_node + d, nic);
            }
    }

    void add_copies() {
        if (!l.has_copy) return;
        for (int node = 0; node < l.nodes; ++node)
            for (int group = 0; group < l.groups; ++group)
                pair(pcie0 + node * l.groups + group, host0 + node, LinkKind::copy, l.copy_per_device * l.devices_of(group), Time{}, node);
    }

    void add_leaves() {
        if (l.leaves < 2) return;
        for (int leaf = 0; leaf < l.leaves; ++leaf)
            for (int s = 0; s < l.uplinks; ++s) {
                const int pod = l.three_levels() ? leaf / l.leaves_per_pod : l.group_of_leaf(leaf);
                pair(leaf0 + leaf, spine0 + pod * l.uplinks + s, LinkKind::trunk, l.leaf_up(leaf) * (1.0 / l.uplinks), l.trunk_latency, -1);
            }
    }

    void add_globals() {
        for (int from = 0; from < l.groups_of_switches; ++from)
            for (int to = 0; to < l.groups_of_switches; ++to)
                if (to != from) link(spine0 + from, spine0 + to, LinkKind::trunk, l.global_rate(), l.trunk_latency, -1);
    }

    void add_pods() {
        for (int pod = 0; pod < l.pods; ++pod)
            for (int s = 0; s < l.uplinks; ++s)
                for (int c = 0; c < l.core_links; ++c)
                    pair(spine0 + pod * l.uplinks + s, core0 + s * l.core_links + c, LinkKind::trunk,
                         l.pod_up() * (1.0 / (l.uplinks * l.core_links)), l.trunk_latency, -1);
    }
};

} // namespace

std::vector<Link> build_links(const Layout& layout, BuiltGraph* graph) { return Builder(layout, graph).build(); }

} // namespace orrery

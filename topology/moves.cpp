// Where a group of devices lies just as another one does: what the links of the one are to those of the other.
#include "topology/layout.hpp"

namespace orrery {
namespace {

// One way to count the places of a layout (nodes, endpoints, leaves ..): the same step from each device to its counterpart?
struct Step {
    int by = 0;
    bool same = true, begun = false;

    void operator()(int from, int to) {
        if (!begun) by = to - from, begun = true;
        same = same && to - from == by;
    }
};

// Links are counted by these alone: no hashes, nothing that is down, no nodes of other kinds, no torus, dragonfly or tree of PCIe.
bool counted(const Layout& l) {
    return !l.hashed && l.leaf_left.empty() && l.nic_left.empty() && l.first_of_kind.empty() && l.groups_of_switches == 0 && !l.tree &&
           l.inside != Inside::torus && !l.torus_of_nodes;
}

// Devices at other places inside their nodes: each has its own two links to a switch, and its NICs are as many as any other's.
bool may_turn(const Layout& l) {
    return l.inside != Inside::mesh && (l.endpoints == 0 || l.nics % l.endpoints == 0) && (!l.rail_only || l.endpoints == l.per_node);
}

} // namespace

bool find_moves(const Layout& l, std::span<const int> from, std::span<const int> to, LinkMoves& out) {
    if (from.size() != to.size() || from.empty() || !counted(l)) return false;
    Step device, node, domain, endpoint, leaf, pod;
    for (std::size_t i = 0; i < from.size(); ++i) {
        const int a = from[i], b = to[i], node_a = a / l.per_node, node_b = b / l.per_node;
        device(a, b);
        node(node_a, node_b);
        domain(a / l.domain, b / l.domain);
        if (l.endpoints > 0) {
            const int end_a = l.endpoint_of(a - node_a * l.per_node), end_b = l.endpoint_of(b - node_b * l.per_node);
            const int leaf_a = l.leaf_of(node_a, end_a), leaf_b = l.leaf_of(node_b, end_b);
            endpoint(node_a * l.endpoints + end_a, node_b * l.endpoints + end_b);
            leaf(leaf_a, leaf_b);
            if (l.three_levels()) pod(leaf_a / l.leaves_per_pod, leaf_b / l.leaves_per_pod);
        }
        if (!device.same || !node.same || !domain.same || !endpoint.same || !leaf.same || !pod.same) return false;
    }
    if (device.by != node.by * l.per_node && !may_turn(l)) return false;
    out.device = device.by;
    out.blocks = {{{l.first_scale_up, l.inside == Inside::mesh ? device.by * (l.per_node - 1) : device.by * 2},
                   {l.first_pcie, device.by * 2},
                   {l.first_nic, endpoint.by * l.planes * 2},
                   {l.first_leaf, leaf.by * l.uplinks * 2},
                   {l.first_pod, pod.by * l.uplinks * l.core_links * 2}}};
    return true;
}

} // namespace orrery

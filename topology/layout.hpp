// The shape of a built cluster as numbers: how many of each link there are and where their ids begin. A route is then arithmetic on ids.
// Internal to topology/; users read fabric.hpp.
#pragma once

#include "topology/fabric.hpp"

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

namespace orrery {

// How the devices of one node meet.
enum class Inside { through_switch, mesh, pcie, torus, nothing };

// Links come in blocks, in this order. Every pair is (up, down): up is away from the device; `+ 1` is the way back.
//   scale_up   through_switch: a pair per device; mesh: one link per ordered pair of devices of a node
//   torus      six slots a unit (three dimensions, plus and minus), those of unused dimensions left out
//   pcie       a pair per device, to the PCIe switch its NIC hangs on
//   nic        a pair per endpoint: the NICs of one device, or one NIC that several share
//   copy       a pair per PCIe switch, to the host's memory
//   leaf       leaf to spine: one trunk pair per leaf, or with hashed routes a pair per leaf and spine
//   pod        spines of a pod to the core, in a network of three levels; the same
//   global     of a dragonfly: one link per ordered pair of groups
struct Layout {
    int nodes = 1, per_node = 1, devices = 1;
    Inside inside = Inside::through_switch;
    bool has_pcie = false, has_copy = false;

    int nics = 0;      // NICs of a node
    int endpoints = 0; // of a node: min(nics, per_node); 0: no network
    int groups = 1;    // PCIe switches of a node: max(endpoints, 1)
    bool rail_only = false;
    bool rails = false; // endpoint e of a node goes to leaf e of its rail group; else all to one leaf

    // A torus of devices (inside == torus) or of nodes (torus_of_nodes), `tori` of them with `units` each.
    bool torus_of_nodes = false, torus_spans = false;
    int tori = 0, units = 0;
    std::array<int, 3> dims{1, 1, 1}; // ascending; their product is units
    std::array<bool, 3> wrapped{true, true, true};
    int used_dims = 0; // dimensions longer than 1, the last ones

    int nodes_per_leaf = 1, leaves = 0; // leaves 0: no switches (torus, or no network)
    int leaves_per_pod = 0, pods = 0;   // pods 0: two levels or one
    int uplinks = 1, core_links = 1;    // parallel links kept apart (hashed routes); 1: merged into trunks
    bool hashed = false;
    int queue_pairs = 1;

    // A dragonfly: leaves are its switches, and the links among those of a group one switch in their middle.
    int groups_of_switches = 0, switches_per_group = 1, global_links = 0; // 0: none
    bool by_third_groups = false;                                         // half of the traffic between two groups

    BytesPerSecond scale_up, pcie, nic, torus_link; // of one link; nic: of one NIC
    double oversubscription = 1;
    BytesPerSecond copy_per_device;
    Time scale_up_latency, torus_latency, pcie_latency, nic_latency, trunk_latency; // of one link

    LinkId first_scale_up = 0, first_torus = 0, first_pcie = 0, first_nic = 0, first_copy = 0, first_leaf = 0, first_pod = 0,
           first_global = 0, link_count = 0;

    bool three_levels() const { return pods > 0; }
    int group_of_leaf(int leaf) const { return groups_of_switches > 0 ? leaf / switches_per_group : 0; }
    LinkId global_link(int from, int to) const { return first_global + from * (groups_of_switches - 1) + (to < from ? to : to - 1); }
    BytesPerSecond global_rate() const { return nic * global_links; }
    int endpoint_of(int local) const {
        return endpoints == 0 ? 0 : static_cast<int>(static_cast<std::int64_t>(local) * endpoints / per_node);
    }
    int first_device(int group) const { return (group * per_node + groups - 1) / groups; } // local index of the group's first device
    int devices_of(int group) const { return first_device(group + 1) - first_device(group); }
    int nics_of(int endpoint) const; // NICs of an endpoint
    BytesPerSecond endpoint_bandwidth(int endpoint) const { return nic * nics_of(endpoint); }
    int leaf_of(int node, int endpoint) const { return rails ? node / nodes_per_leaf * endpoints + endpoint : node / nodes_per_leaf; }
    BytesPerSecond leaf_up(int leaf) const; // of all its uplinks together
    BytesPerSecond pod_up() const;
};

Layout layout_of(const Cluster& cluster);

// Appends the shares of the route from device a to device b.
void append_route(const Layout& layout, int a, int b, std::vector<LinkShare>& out);

// A cut of a built cluster into halves of whole nodes.
BytesPerSecond bisection(const Layout& layout);

// The links in id order, and the graph they make: edge i is link i.
struct BuiltGraph {
    std::vector<ExplicitGraph::Vertex> vertices;
    std::vector<std::pair<std::int32_t, std::int32_t>> ends;   // of each link
    std::vector<std::string> names;                            // of each link
    std::vector<std::pair<std::int32_t, std::int32_t>> joints; // a NIC and what it is plugged into: no link of their own
};
// nullptr: of the links their figures alone. Names and ends are most of what they cost, and few ask for them.
std::vector<Link> build_links(const Layout& layout, BuiltGraph* graph = nullptr);

} // namespace orrery

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
//   scale_up   through_switch: a pair per device; mesh: one link per ordered pair of devices of a node, wider between dies of a package
//   torus      six slots a unit (three dimensions, plus and minus), those of unused dimensions left out
//   pcie       a pair per device, to the PCIe switch its NIC hangs on
//   bridge     of a PCIe tree: a pair per switch, to its socket's host bridge
//   socket     of a PCIe tree: one link per ordered pair of sockets of a node
//   nic        a pair per endpoint (the NICs of one device, or one NIC that several share) and plane
//   copy       a pair per PCIe switch (of a tree: per socket), to the host's memory
//   leaf       leaf to spine, plane by plane: one trunk pair per leaf, or where paths are kept apart a pair per leaf and spine
//   pod        spines of a pod to the core, in a network of three levels; the same
//   global     of a dragonfly: one link per ordered pair of groups
struct Layout {
    int nodes = 1, per_node = 1, devices = 1;
    Inside inside = Inside::through_switch;
    bool has_pcie = false, has_copy = false;
    int domain = 1;                      // devices of a scale-up domain: those of one node, or of several under one switch
    bool tree = false, near_nics = true; // PCIe switches, host bridges and sockets are told apart; NICs hang on switches
    int sockets = 1;

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
    int leaves_per_pod = 0, pods = 0;   // of a plane; pods 0: two levels or one
    int uplinks = 1, core_links = 1;    // parallel links kept apart (hashed routes, some links down); 1: merged into trunks
    int planes = 1;                     // each with leaves, spines and pods of its own
    bool hashed = false;
    int queue_pairs = 1;
    Routing routing = Routing::even;
    std::vector<double> leaf_left, nic_left; // share that each uplink, and each port of an endpoint, has left; empty: all of it
    std::vector<int> first_of_kind;          // first node of each kind of nodes, ascending; empty: all are alike

    // A dragonfly: leaves are its switches, and the links among those of a group one switch in their middle.
    int groups_of_switches = 0, switches_per_group = 1, global_links = 0; // 0: none
    bool by_third_groups = false;                                         // half of the traffic between two groups

    int dies = 1;                                   // of a package in a mesh
    BytesPerSecond die_link;                        // between two of them
    BytesPerSecond scale_up, pcie, nic, torus_link; // of one link; nic: of one NIC
    BytesPerSecond bridge, socket;
    std::vector<BytesPerSecond> scale_up_of_kind, nic_of_kind; // where nodes are unlike
    double oversubscription = 1;
    BytesPerSecond copy_per_device, memory_of_socket;
    Time scale_up_latency, torus_latency, pcie_latency, nic_latency, trunk_latency; // of one link

    LinkId first_scale_up = 0, first_torus = 0, first_pcie = 0, first_bridge = 0, first_socket = 0, first_nic = 0, first_copy = 0,
           first_leaf = 0, first_pod = 0, first_global = 0, link_count = 0;

    bool three_levels() const { return pods > 0; }
    int group_of_leaf(int leaf) const { return groups_of_switches > 0 ? leaf / switches_per_group : 0; }
    LinkId global_link(int from, int to) const { return first_global + from * (groups_of_switches - 1) + (to < from ? to : to - 1); }
    BytesPerSecond global_rate() const { return nic * global_links; }
    int endpoint_of(int local) const { // where all are up
        return endpoints == 0 ? 0 : static_cast<int>(static_cast<std::int64_t>(local) * endpoints / per_node);
    }
    int endpoint_at(int node, int local) const; // the next one that is up
    int kind_of(int node) const;
    double port_left(int node, int endpoint, int plane) const {
        return nic_left.empty() ? 1 : nic_left[(node * endpoints + endpoint) * planes + plane];
    }
    double uplink_left(int plane_leaf, int uplink) const {
        return leaf_left.empty()
                   ? 1
                   : leaf_left[static_cast<std::size_t>(plane_leaf) * static_cast<std::size_t>(uplinks) + static_cast<std::size_t>(uplink)];
    }
    LinkId nic_link(int node, int endpoint, int plane) const { return first_nic + ((node * endpoints + endpoint) * planes + plane) * 2; }
    // In a PCIe tree: the switch and the socket of a device, and the socket of a NIC.
    int switch_of(int local) const { return static_cast<int>(static_cast<std::int64_t>(local) * groups / per_node); }
    int socket_of_switch(int group) const { return static_cast<int>(static_cast<std::int64_t>(group) * sockets / groups); }
    int switch_of_nic(int endpoint) const {
        return switch_of(static_cast<int>((static_cast<std::int64_t>(endpoint) * per_node + endpoints - 1) / endpoints));
    }
    int socket_of_nic(int endpoint) const {
        return near_nics ? socket_of_switch(switch_of_nic(endpoint))
                         : static_cast<int>(static_cast<std::int64_t>(endpoint) * sockets / endpoints);
    }
    int first_device(int group) const { return (group * per_node + groups - 1) / groups; } // local index of the group's first device
    int devices_of(int group) const { return first_device(group + 1) - first_device(group); }
    int nics_of(int endpoint) const;                       // NICs of an endpoint
    int endpoint_with(int which) const;                    // the endpoint that has this NIC
    int copies() const { return tree ? sockets : groups; } // ways to the host's memory
    BytesPerSecond scale_up_at(int node) const { return scale_up_of_kind.empty() ? scale_up : scale_up_of_kind[kind_of(node)]; }
    BytesPerSecond mesh_link(int a, int b) const { return a / dies == b / dies ? die_link : scale_up_at(a / per_node); }
    BytesPerSecond nic_at(int node) const { return nic_of_kind.empty() ? nic : nic_of_kind[kind_of(node)]; }
    BytesPerSecond endpoint_bandwidth(int node, int endpoint) const; // all of its ports, as they are
    int leaf_of(int node, int endpoint) const { return rails ? node / nodes_per_leaf * endpoints + endpoint : node / nodes_per_leaf; }
    BytesPerSecond leaf_up(int leaf) const; // of all its uplinks together, in all planes
    BytesPerSecond pod_up() const;
};

Layout layout_of(const Cluster& cluster);

// Links that a cluster names as down and does not have, or that cut it in two.
std::vector<std::string> down_problems(const Cluster& cluster);

// Appends the shares of the route from device a to device b.
void append_route(const Layout& layout, int a, int b, std::vector<LinkShare>& out);

// Fabric::find_moves of a built cluster.
bool find_moves(const Layout& layout, std::span<const int> from, std::span<const int> to, LinkMoves& out);

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
Links build_links(const Layout& layout, BuiltGraph* graph = nullptr);

} // namespace orrery

// A cluster as data: the node, its links inside and out, or a whole explicit graph. The graph built from it is in fabric.hpp.
#pragma once

#include "topology/device.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace orrery {

enum class InterKind { infiniband, roce, ethernet, omni_path, efa, torus, none };
// rail_only: as rail_optimized without links between rails; who sends to another rail passes it to the device beside it that has one there.
// dual_plane: as rail_optimized, each NIC with a port in each of two planes that share no switch.
enum class InterTopology { fat_tree, rail_optimized, rail_only, single_switch, torus, dragonfly, dual_plane };

// How traffic between switches takes its equal-cost paths. even and spray (by packets): equally over all that are up. ecmp: each flow, or
// each of its queue pairs, where a hash says. planned: whole flows, as many on each path; those of a path that is down are moved to the
// next one. adaptive: by what each path has left (in a dragonfly half by way of a third group). Where all paths are up and of one rate,
// planned, adaptive and spray are even.
enum class Routing { even, ecmp, planned, adaptive, spray };

// Their names in scenarios and cluster files: "nvlink-mesh", "omni-path", "rail-optimized". Parsing gives nothing for any other text.
const char* name(IntraKind kind);
const char* name(InterKind kind);
const char* name(InterTopology topology);
const char* name(Routing routing);
std::optional<IntraKind> parse_intra_kind(std::string_view text);
std::optional<InterKind> parse_inter_kind(std::string_view text);
std::optional<InterTopology> parse_inter_topology(std::string_view text);
std::optional<Routing> parse_routing(std::string_view text);

// Switches and sockets of a node's PCIe. Two devices under one switch meet there; else their bytes go up to the host bridge of the
// socket, and to a device of another socket by the link between sockets.
struct PcieTree {
    int devices_per_switch = 0;    // 0: all devices under one root
    int sockets = 1;               // the switches are dealt out to them evenly
    BytesPerSecond bridge, socket; // of a switch's way to its host bridge, and between two sockets; each direction
    bool near_nics = true;         // a NIC hangs on the switch of its devices; else on a host bridge
};

struct IntraNode {
    IntraKind kind = IntraKind::nvswitch;
    BytesPerSecond bandwidth; // per device, each direction
    Time latency;             // one hop, device to device
    int domain_nodes = 1;     // nodes whose devices share one switch (NVL72: 18 trays of 4)
    PcieTree tree{};
};

// Limits of reductions in InfiniBand's switches (SHARP). 0: none.
struct Sharp {
    int trees = 0;  // groups that may reduce at the same time; with more, all take rings
    int levels = 0; // of switches that reduce: a group that lies further apart takes rings
};

// A link that is down, or loses a share of its rate: a leaf's uplinks, or a NIC (or one of its ports) of a node.
struct LinkDown {
    int leaf = -1, uplink = 0, uplinks = 1; // this many from this one on; leaf -1: a NIC's
    int node = -1, nic = 0, port = -1;      // port -1: all of the NIC
    double share = 1;                       // lost
    double flaps_per_hour = 0, flap_s = 0;  // a link that comes and goes: `share` is then the share of time it is down
};

// Groups of switches, every two of a group joined, and every two groups (Slingshot: Frontier has 74 groups of 32 switches with 4 nodes each
// and 4 links between two groups). Ports have a NIC's rate.
struct Dragonfly {
    int groups = 0; // of the machine; a job that needs more has more
    int switches_per_group = 32, nodes_per_switch = 4, global_links = 4;
};

struct InterNode {
    InterKind kind = InterKind::infiniband;
    int nics_per_node = 8;
    BytesPerSecond nic_bandwidth; // per NIC, each direction
    Time latency;                 // NIC to NIC through one switch
    InterTopology topology = InterTopology::fat_tree;
    double oversubscription = 1.0; // leaf down capacity / leaf up capacity; below 1: more up than down
    int nodes_per_leaf = 0;        // 0: the topology's default (32 ports down); rail-optimized: nodes per rail group
    std::string fabric;            // the site whose network this is (catalog.hpp); empty: what is usual of the kind
    Routing routing = Routing::even;
    int queue_pairs = 1; // of a flow, each hashed on its own
    Dragonfly dragonfly;
    int dimensions = 3; // of a torus whose shape is not given: two or three
    std::vector<int>
        shape; // of a torus, two or three dimensions; empty: as near a cube or a square as there is (of whole cubes of 4, if it can be)
    std::vector<bool> wrap; // whether its rows close to rings; empty: where TPUs' do (rows of 4, 8, 12.. in three dimensions, of 16 in two)
    int planes = 1;         // networks without a common switch; a NIC has a port in each
    int ports_per_nic = 1;  // that a NIC's rate is divided over; with planes at least as many
    Sharp sharp{};
    std::vector<LinkDown> down{};

    int plane_count() const { return topology == InterTopology::dual_plane && planes < 2 ? 2 : planes < 1 ? 1 : planes; }
    int port_count() const { return ports_per_nic > plane_count() ? ports_per_nic : plane_count(); }
};

struct Host {
    Bytes memory;
    BytesPerSecond memory_bandwidth;
    Bytes cxl; // memory behind CXL: more room at a rate of its own. Pages are dealt out to both kinds by their capacities (interleaved).
    BytesPerSecond cxl_bandwidth;
    BytesPerSecond pcie_bandwidth; // per device, each direction
    Bytes nvme;
    BytesPerSecond nvme_bandwidth; // of a node, where reads and writes are not told apart
    double adam_rate = 0;          // parameters per second that all its processors update by Adam; 0: what memory bandwidth gives
    BytesPerSecond nvme_read{}, nvme_write{}; // 0: nvme_bandwidth
    double speed = 1; // of a core that issues kernels and runs the software's Python, against the hosts whose times the cost model has
};

// Rate of what lies in the host's memory and, by capacity, behind CXL: both are read at once, and the one that is done last counts.
//   min(memory rate / (1 - s), CXL rate / s),  s = CXL capacity / all capacity
// usual: the memory's rate where the host does not say.
BytesPerSecond memory_rate(const Host& host, BytesPerSecond usual = {});

// Storage that all nodes share: a parallel file system or an object store. A rate of 0 is not known.
struct Storage {
    BytesPerSecond write, read; // of the whole
    BytesPerSecond per_node;    // of one client
    Time latency;               // of a request
    int requests_per_node = 0;  // in flight; 0: as many as it takes
    Bytes request{4'000'000};
};

// Nodes unlike the cluster's own: another device, its links and NICs. As many devices and NICs a node as the others.
struct OtherNodes {
    int nodes = 0;
    Device device;
    BytesPerSecond scale_up, nic_bandwidth;
};

// A custom graph. Names are free; every device vertex is one rank slot, in the order listed.
struct ExplicitGraph {
    enum class VertexKind { device, nic, switch_, host };
    struct Vertex {
        std::string name;
        VertexKind kind;
        int node = -1;
    };
    struct Edge {
        int from = 0, to = 0;
        BytesPerSecond bandwidth;
        Time latency;
    }; // directed
    std::vector<Vertex> vertices;
    std::vector<Edge> edges;
};

struct Cluster {
    std::string name;
    Device device;
    int nodes = 1;
    int devices_per_node = 8;
    IntraNode intra;
    InterNode inter;
    Host host;
    Storage storage;
    std::optional<ExplicitGraph> graph;         // replaces intra and inter
    std::vector<OtherNodes> others{};           // the last of its nodes, in this order
    double power_w_per_node = 0;                // host, fans, NICs; 0: not known
    double price_usd_per_device_hour = 0;       // 0: the device's, else not known
    std::map<std::string, std::string> sources; // field -> source text

    int devices() const { return nodes * devices_per_node; }
    int kinds_of_nodes() const { return 1 + static_cast<int>(others.size()); }
    int kind_of_node(int node) const; // 0: its own, 1 ..: others
};

// The cluster as if all of its nodes were of this kind.
Cluster as_of_kind(const Cluster& cluster, int kind);

// Faults that make a graph unusable, in words a user can act on ("vertex 3: ..", "edge 7: .."); empty if there are none: every edge
// joins two vertices with some bandwidth, and every device reaches every other.
std::vector<std::string> graph_problems(const ExplicitGraph& graph);
// The same of a whole cluster: nodes that nothing joins, a graph whose devices are not nodes x devices_per_node, a link without bandwidth.
std::vector<std::string> cluster_problems(const Cluster& cluster);

} // namespace orrery

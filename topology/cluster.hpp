// A cluster as data: the node, its links inside and out, or a whole explicit graph. The graph built from it is in fabric.hpp.
#pragma once

#include "topology/device.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace orrery {

enum class InterKind { infiniband, roce, ethernet, omni_path, efa, torus, none };
enum class InterTopology { fat_tree, rail_optimized, single_switch, torus };

// Their names in scenarios and cluster files: "nvlink-mesh", "omni-path", "rail-optimized". Parsing gives nothing for any other text.
const char* name(IntraKind kind);
const char* name(InterKind kind);
const char* name(InterTopology topology);
std::optional<IntraKind> parse_intra_kind(std::string_view text);
std::optional<InterKind> parse_inter_kind(std::string_view text);
std::optional<InterTopology> parse_inter_topology(std::string_view text);

struct IntraNode {
    IntraKind kind = IntraKind::nvswitch;
    BytesPerSecond bandwidth; // per device, each direction
    Time latency;             // one hop, device to device
};

struct InterNode {
    InterKind kind = InterKind::infiniband;
    int nics_per_node = 8;
    BytesPerSecond nic_bandwidth; // per NIC, each direction
    Time latency;                 // NIC to NIC through one switch
    InterTopology topology = InterTopology::fat_tree;
    double oversubscription = 1.0; // leaf down capacity / leaf up capacity
    int nodes_per_leaf = 0;        // 0: the topology's default (32 ports down); rail-optimized: nodes per rail group
    std::string fabric;            // the site whose network this is (catalog.hpp); empty: what is usual of the kind
    bool hashed_routes = false;    // false: traffic splits equally over equal-cost paths
};

struct Host {
    Bytes memory;
    BytesPerSecond memory_bandwidth;
    BytesPerSecond pcie_bandwidth; // per device, each direction
    Bytes nvme;
    BytesPerSecond nvme_bandwidth;
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
    std::optional<ExplicitGraph> graph;         // replaces intra and inter
    double power_w_per_node = 0;                // host, fans, NICs; 0: not known
    double price_usd_per_device_hour = 0;       // 0: the device's, else not known
    std::map<std::string, std::string> sources; // field -> source text

    int devices() const { return nodes * devices_per_node; }
};

// What would make a graph unusable, in words a user can act on ("vertex 3: ..", "edge 7: .."); empty where all is well: every edge
// joins two vertices with some bandwidth, and every device reaches every other.
std::vector<std::string> graph_problems(const ExplicitGraph& graph);
// The same of a whole cluster: nodes that nothing joins, a graph whose devices are not nodes x devices_per_node, a link without bandwidth.
std::vector<std::string> cluster_problems(const Cluster& cluster);

} // namespace orrery

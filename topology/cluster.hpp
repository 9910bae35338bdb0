// A cluster as data: the node, its links inside and out, or a whole explicit graph. The graph built from it is in fabric.hpp.
#pragma once

#include "topology/device.hpp"

#include <optional>
#include <string>
#include <vector>

namespace orrery {

enum class IntraKind { nvswitch, nvlink_mesh, pcie, infinity_fabric, torus, shared_memory, none };
enum class InterKind { infiniband, roce, ethernet, omni_path, efa, torus, none };
enum class InterTopology { fat_tree, rail_optimized, single_switch, torus };

struct IntraNode {
    IntraKind kind = IntraKind::nvswitch;
    BytesPerSecond bandwidth;          // per device, each direction
    Time latency;                      // one hop, device to device
};

struct InterNode {
    InterKind kind = InterKind::infiniband;
    int nics_per_node = 8;
    BytesPerSecond nic_bandwidth;      // per NIC, each direction
    Time latency;                      // NIC to NIC through one switch
    InterTopology topology = InterTopology::fat_tree;
    double oversubscription = 1.0;     // leaf down capacity / leaf up capacity
    int nodes_per_leaf = 0;            // 0: the topology's default (32 ports down); rail-optimized: nodes per rail group
    bool hashed_routes = false;        // false: traffic splits equally over equal-cost paths
};

struct Host {
    Bytes memory;
    BytesPerSecond memory_bandwidth;
    BytesPerSecond pcie_bandwidth;     // per device, each direction
    Bytes nvme;
    BytesPerSecond nvme_bandwidth;
};

// A custom graph. Names are free; every device vertex is one rank slot, in the order listed.
struct ExplicitGraph {
    enum class VertexKind { device, nic, switch_, host };
    struct Vertex { std::string name; VertexKind kind; int node = -1; };
    struct Edge { int from = 0, to = 0; BytesPerSecond bandwidth; Time latency; };  // directed
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
    std::optional<ExplicitGraph> graph;            // replaces intra and inter
    double power_w_per_node = 0;                   // host, fans, NICs; 0: not known
    double price_usd_per_device_hour = 0;          // 0: the device's, else not known
    std::map<std::string, std::string> sources;    // field -> source text

    int devices() const { return nodes * devices_per_node; }
};

} // namespace orrery

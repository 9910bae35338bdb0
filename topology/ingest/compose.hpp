// From facts to a cluster: what a node and a fabric amount to once every gap is filled. Internal to topology/ingest.
#pragma once

#include "topology/device.hpp"
#include "topology/ingest/ingest.hpp"

namespace orrery::ingest {

// A value with where it is from: "read: topo.xml (NCCL topology)", "assumed: ..", "given: --nodes".
struct Sourced {
    std::string source;
    bool known() const { return !source.empty(); }
};

struct ComposedCluster {
    std::string name, device;
    int nodes = 1, devices_per_node = 1;
    std::string intra_kind;
    double intra_gb_per_s = 0, intra_latency_us = 0;
    std::string inter_kind, topology;                            // "" or "none": no network
    int nics_per_node = 0, nodes_per_leaf = 0, domain_nodes = 0; // 0: not said
    std::vector<int> shape;                                      // of a torus whose rows close
    double nic_gbit = 0, inter_latency_us = 0, oversubscription = 1;
    double host_memory_gb = 0, pcie_gb_per_s = 0;
    std::vector<int> nics; // the node's NICs that take part, as parts of its facts
    std::vector<std::pair<std::string, std::string>> sources;
    std::vector<Assumption> assumed;
    std::vector<std::string> notes;
};

ComposedCluster compose(const SystemFacts& facts, const IngestOptions& options);
std::vector<int> nics_near_gpus(const NodeFacts& node, std::vector<std::string>& notes); // parts
// How GPUs of a node are joined by links outside PCIe.
enum class ScaleUp { none, through_switch, each_other, some };
ScaleUp scale_up_of(const NodeFacts& node, int& links_of_a_gpu);

// The cluster file's text: with intra_node and inter_node, or with a graph.
std::string cluster_text(const ComposedCluster& cluster);
std::string graph_text(const ComposedCluster& cluster, const SystemFacts& facts);

} // namespace orrery::ingest

// Searches on an explicit graph: shortest paths with equal-cost splitting, and the least cut that halves the devices.
// Internal to topology/; Boost.Graph stays in the .cpp.
#pragma once

#include "topology/fabric.hpp"

#include <memory>
#include <mutex>
#include <vector>

namespace orrery {

class GraphRoutes {
  public:
    explicit GraphRoutes(ExplicitGraph graph);
    ~GraphRoutes();

    const ExplicitGraph& graph() const { return graph_; }
    int devices() const { return static_cast<int>(devices_.size()); }
    const ExplicitGraph::Vertex& device(int d) const { return graph_.vertices[devices_[d]]; }

    // Shortest by latency, then by hops. At a vertex from which several edges lead on equally well, each takes an equal share; or, hashed,
    // the flow takes one of them.
    void append_route(int a, int b, bool hashed, std::vector<LinkShare>& out) const;

    // The fewest hops to (or from) a host vertex of the device's node; empty where it has none.
    std::vector<LinkShare> copy_route(int device, bool to_host) const;

    // Exact up to 12 devices (every half is tried); beyond that the least of the halves that lie close together, an upper bound.
    BytesPerSecond bisection() const;

    // The node's NICs in the order listed, and which is nearest to a device by hops; -1 where none can be reached inside the node.
    int nearest_nic(int device) const;
    BytesPerSecond out_of_device(int device) const; // to anything but a NIC or a host
    BytesPerSecond out_of_node(int node) const;     // of the node's NICs, towards switches or other nodes
    int nics_of(int node) const;
    LinkKind kind_of(int edge) const;

  private:
    struct Distance;
    using Distances = std::vector<Distance>;
    ExplicitGraph graph_;
    std::vector<int> devices_; // vertex of each device
    std::vector<std::vector<int>> edges_from_;
    mutable std::mutex mutex_;
    mutable std::vector<std::shared_ptr<const Distances>> to_; // by device: distances of every vertex to it, found when first asked

    std::shared_ptr<const Distances> distances_to(int device) const;
    double cut(const std::vector<char>& in_half) const;
};

} // namespace orrery

// The cluster as a graph of directed links, and the routes between devices. Built once per scenario from a Cluster.
// Device d (0 .. devices-1) is on node d / devices_per_node unless an explicit graph says otherwise.
#pragma once

#include "topology/cluster.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace orrery {

using LinkId = std::int32_t;

enum class LinkKind { scale_up, pcie, nic, trunk, copy };  // trunk: between switches; copy: device to host

struct Link {
    std::string name;              // "node3.gpu1 > nvswitch"
    LinkKind kind;
    BytesPerSecond capacity;       // of this direction
    Time latency;
    int node = -1;                 // the node it belongs to, -1 between switches
};

// A link and the share of a route's bytes it carries (1 but where equal-cost paths split).
struct LinkShare { LinkId link; double share; };

class Fabric {
  public:
    explicit Fabric(const Cluster& cluster);
    ~Fabric();
    Fabric(Fabric&&) noexcept;
    Fabric& operator=(Fabric&&) noexcept;

    int devices() const;
    int nodes() const;
    int node_of(int device) const;
    int local_index(int device) const;                     // its position inside its node
    int nic_of(int device) const;                          // node-local NIC a device's traffic leaves by
    std::span<const Link> links() const;

    // Links a byte from device a to device b crosses, with shares; empty where a == b. Parallel links between the same two
    // switches that always carry equal shares are one trunk link.
    std::vector<LinkShare> route(int a, int b) const;
    Time latency(int a, int b) const;
    // Bandwidth of the route's narrowest link (its capacity / share).
    BytesPerSecond narrowest(int a, int b) const;
    // Smallest total capacity, one direction, of a cut that halves the devices (exact for the built topologies, max-flow on a graph).
    BytesPerSecond bisection_bandwidth() const;

    // What a device can send out of (or take into) itself by scale-up links, and by its share of the node's NICs.
    BytesPerSecond scale_up_bandwidth(int device) const;
    BytesPerSecond nic_bandwidth(int device) const;
    int devices_per_nic() const;                           // devices that share one NIC (1 or more)

  private:
    struct Data;
    std::unique_ptr<Data> data_;
};

} // namespace orrery

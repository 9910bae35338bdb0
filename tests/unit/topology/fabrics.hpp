// Fabrics of tests: DGX H100 nodes under a network, a route by its links' names, a rate in GB/s.
#pragma once

#include "topology/catalog.hpp"
#include "topology/fabric.hpp"

#include <string>
#include <vector>

namespace orrery {

using Names = std::vector<std::string>;

inline Cluster dgx(int nodes, InterTopology topology, double oversubscription = 1) {
    Cluster c = *find_cluster("dgx-h100");
    c.nodes = nodes;
    c.inter.topology = topology;
    c.inter.oversubscription = oversubscription;
    c.inter.nodes_per_leaf = 0;
    return c;
}

inline Names names(const Fabric& f, int a, int b) {
    Names out;
    for (const auto& [link, share] : f.route(a, b)) out.push_back(f.link_name(link));
    return out;
}

inline double gb(BytesPerSecond r) { return r.gigabytes(); }

} // namespace orrery

// A site's fabric from its nccl-tests: constants of the laws between nodes (sim/cost/collectives.hpp), and how far a prediction is off.
#pragma once

#include "sim/fit/fit.hpp"
#include "sim/fit/nccl_tests.hpp"
#include "topology/cluster.hpp"

#include <span>
#include <string>
#include <vector>

namespace orrery {

// A curve on the cluster it was measured on: nodes as the file, the user (nodes > 0) or the cluster's devices per node say. Throws
// std::runtime_error where the curve's ranks do not fill nodes of the cluster.
struct PlacedCurve {
    NcclCurve curve;
    Cluster cluster;                                 // its nodes are the curve's
    std::shared_ptr<const OwnConstants> constants{}; // of a user's own, that a check or a fit starts from
};
PlacedCurve place(const NcclCurve& curve, Cluster cluster, int nodes);

// Each size of a curve beside the prediction by the constants in use; size classes: "up to 16 MB", "over 16 MB".
std::vector<Compared> compare_curve(const PlacedCurve& placed);

// Median and mean error of a set of points over and up to 16 MB.
struct FabricError {
    std::size_t n = 0;
    double median = 0, mean = 0, worst = 0;
};
struct FabricFit {
    std::string json;                 // a fabric for --calibration
    std::vector<std::string> said;    // what was fitted and how good it is, in lines
    FabricError large, small;         // on what was fitted
    FabricError large_out, small_out; // on curves left out in turn; n = 0: there was one curve only
};
// The constants that these curves depend on; the others stay those of the cluster's class. Throws where no curve leaves its node.
FabricFit fit_fabric(std::span<const PlacedCurve> curves);

} // namespace orrery

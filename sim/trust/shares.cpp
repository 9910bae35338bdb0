// The step again, with one group of durations a little longer each time.
#include "sim/trust/shares.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace orrery {

CostShares cost_shares(const Simulation& of) {
    CostShares shares{};
    if (of.step_time.ps <= 0) return shares;
    for (std::size_t g = 0; g < shares.size(); ++g)
        if (of.slower[g].ps > 0) shares[g] = std::max(0.0, std::log(of.slower[g].seconds() / of.step_time.seconds()) / std::log(slower_by));
    const double all = std::accumulate(shares.begin(), shares.end(), 0.0);
    if (all > 0)
        for (double& share : shares) share /= all;
    return shares;
}

} // namespace orrery

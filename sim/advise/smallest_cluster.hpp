// The fewest nodes on which a job fits: with its own strategy, or with the one that needs the least memory of those that teams would use.
#pragma once

#include "sim/advise/trial.hpp"

#include <functional>

namespace orrery {

struct SmallestCluster {
    std::optional<Trial> on_devices; // all on the devices (or where the job's own strategy puts it)
    std::optional<Trial> on_hosts;   // optimizer states in the hosts' memory: where fewer nodes do
    bool cut_short = false;          // smaller ones were left untried
};

// Tries several changes of the job, in order. Fewer trials than changes: no more are tried.
using Look = std::function<std::vector<Trial>(const std::vector<StrategyChange>&)>;
// More nodes than `job` has, of the same kind. Both are empty for a cluster that is given as a graph. hosts: on_hosts is looked for too.
SmallestCluster smallest_cluster(const Scenario& job, const Look& look, bool hosts = true);

} // namespace orrery

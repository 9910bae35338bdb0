// Shared by the kinds of rarer pairs (whatif_rare*.cpp).
#pragma once

#include "tests/laws/whatif.hpp"

namespace orrery::laws::rare {

// One field, from about `from`: more of it, or less.
Pair more(Random& random, const Json& job, const std::string& pointer, double from);
Pair less(Random& random, const Json& job, const std::string& pointer, double from);
// From one of a list, the worst first, to a later one.
Pair step_up(Random& random, const Json& job, const std::string& pointer, const std::vector<Json>& order);
// A small dense job on a cluster, with this number of replicas.
Json job_on(Random& random, const Json& cluster, int replicas, const Json& strategy, const char* precision = "bf16");
// Improvements everywhere: rates, latencies, counts of links, of devices and of hosts' launches.
Pair hardware(Random& random, const Json& job);

// Algorithms of switches, sizes of networks, links in trouble, devices, kernels.
Pair network(Random& random);
Pair machine(Random& random);

} // namespace orrery::laws::rare

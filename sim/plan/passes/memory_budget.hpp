// Which results a layer keeps within a budget of memory, as torch.compile's partitioner chooses them (torch/_functorch/config.py:
// activation_memory_budget, with its solver "dp" and its runtime estimator "flops"): of products and attention, that the partitioner keeps
// by itself, those whose work is largest in `budget` times the bytes of all. Element-wise results are made again, those of communication
// are kept, whatever the budget. Its knapsack is solved exactly.
#pragma once

#include "sim/graph/graph.hpp"

#include <set>

namespace orrery {

// Indices of the nodes of layers whose outputs are kept. budget: 0 to 1.
std::set<std::int32_t> kept_in_budget(const Graph& g, double budget);

} // namespace orrery

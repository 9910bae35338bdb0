// How tokens spread over the experts of a mixture: shares per expert, what the fullest rank gets, what a capacity drops. Loads may
// differ by layer: `mixture` counts the layers that have experts, in model order.
#pragma once

#include "sim/scenario/scenario.hpp"

#include <vector>

namespace orrery {

// Share of all routed rows that each expert gets; they add up to one. A token has an expert at most once, so no share exceeds 1/top_k.
std::vector<double> expert_shares(const MoeSpec& moe, int mixture = 0);

// Rows each expert takes from the `tokens` of one rank: capacity_factor x the mean, rounded up. Only where there is a capacity.
std::int64_t expert_capacity(const MoeSpec& moe, std::int64_t tokens);

// Rows of the rank with the most, over the mean, of `ranks` that hold neighbouring experts each. 1 where rows are padded to a capacity.
double fullest_share(const MoeSpec& moe, int ranks, int mixture = 0);

// Share of the rows that find their expert full. tokens: of one rank, a microbatch.
double dropped_share(const MoeSpec& moe, std::int64_t tokens, int mixture = 0);

} // namespace orrery

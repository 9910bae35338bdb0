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

// Rows that a rank's `tokens` send: one for each of its experts, all experts' capacity, or, not padded, what of it a capacity leaves.
std::int64_t rows_sent(const MoeSpec& moe, std::int64_t tokens, int mixture = 0);

// The most of them that a router can send to one of `ranks` that hold neighbouring experts each, whatever it chooses: a token has an expert
// at most once, and a full expert takes no more. (All that are sent: to one rank that holds all.)
std::int64_t most_rows_sent(const MoeSpec& moe, std::int64_t tokens, int ranks = 1);

// Rows of the rank with the most, over the mean, of `ranks` that hold neighbouring experts each. 1 where rows are padded to a capacity.
double fullest_share(const MoeSpec& moe, int ranks, int mixture = 0);

// Of that rank's rows, the share of each of its experts: they add up to one. Empty: all have as many.
std::vector<double> shares_of_fullest(const MoeSpec& moe, int ranks, int mixture = 0);

// Share of the rows that find their expert full. tokens: of one rank, a microbatch.
double dropped_share(const MoeSpec& moe, std::int64_t tokens, int mixture = 0);

} // namespace orrery

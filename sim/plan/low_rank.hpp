// PowerSGD's factors of a bucket (Vogels et al., arXiv:1905.13727; PyTorch's powerSGD_hook): which of its tensors are matrices worth
// factoring, and where the factors lie.
//
// A tensor of n rows (all its dimensions but the last) and m columns is factored where (n + m) r min_ratio < n m, with r = min(rank, n, m).
// The factors P [n, r] and Q [m, r] of all such tensors lie one behind the other in the bucket's order, and so do the tensors left whole.
// Example: 4096 x 4096 at rank 4 sends 2 x 4096 x 4 of 16.8 million elements: 0.2 %.
#pragma once

#include "sim/plan/plan.hpp"

#include <cstdint>
#include <vector>

namespace orrery {

struct LowRankMatrix {
    std::size_t tensor;       // in TensorBucket::tensors
    std::int64_t rows, cols;  // n, m
    std::int64_t rank;        // r
    std::int64_t begin, p, q; // its first element in the bucket, in the P's and in the Q's
};
struct LowRank {
    std::vector<LowRankMatrix> matrices;
    std::int64_t p = 0, q = 0, rest = 0; // elements of all P, of all Q, of the tensors left whole
};
LowRank low_rank(const Plan& plan, const TensorBucket& bucket, int rank, double min_ratio);

} // namespace orrery

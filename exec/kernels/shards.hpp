// Where a rank's part of a parameter lies in the logical tensor, by its placement.
#pragma once

#include "exec/kernels/kernel.hpp"

#include <vector>

namespace orrery {

// Per dimension: how long the tensor is, and where this rank's part begins. Parts are contiguous along each sharded dimension.
struct ShardView {
    std::vector<std::int64_t> local, whole, offset;
};

ShardView shard_view(const Plan& plan, const Buffer& buffer, const Coordinates& at, const Coordinates& expert_at);

Coordinates expert_coordinates(const Plan& plan, int rank);          // of a rank in plan.expert_mesh
int rank_of_experts(const Plan& plan, const Coordinates& expert_at); // the rank that has these

// Index in the whole tensor of element `i` of the part.
std::int64_t whole_index(const ShardView& view, std::int64_t i);

// The index of a rank's part of a bucket, `own`, among those of the ranks that reduce its gradients, or gather its parameters again.
std::int64_t own_index(const Plan& plan, const Buffer& own, const Coordinates& at);

} // namespace orrery

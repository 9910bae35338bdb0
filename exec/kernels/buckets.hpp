// How parameters lie in the flat buckets that data parallelism shards: ZeRO's gradient and parameter shards name elements of a bucket,
// which is its parameters one after the other, padded to equal shards. Rank i of the bucket's communicator holds the i-th part.
#pragma once

#include "exec/kernels/kernel.hpp"

#include <unordered_map>
#include <vector>

namespace orrery {

struct BucketSegment {
    BufferId tensor;         // parameter, or gradient, as the bucket's whole side names it
    std::int64_t begin, end; // in the bucket
};

struct BucketLayout {
    std::vector<BucketSegment> segments; // in order, without the padding
    CommId comm = -1;                    // whose ranks hold the shards
    std::int64_t shard = 0;              // elements of each, padding included
};

struct BucketLayouts {
    std::unordered_map<BufferId, BucketLayout> of; // by shard buffer (w.shard, g.shard, g.part) and by flat copy (shard 0: the whole)
    const BucketLayout* find(BufferId b) const {
        const auto it = of.find(b);
        return it == of.end() ? nullptr : &it->second;
    }
};

// From the plan's reduce-scatters, gathers and copies.
BucketLayouts bucket_layouts(const Plan& plan);

} // namespace orrery

// The plan's buckets by buffer: what lies where in ZeRO's gradient and parameter shards and in flat copies of a bucket.
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
    std::unordered_map<BufferId, BucketLayout> of; // by shard, and by flat copy (shard 0: the whole)
    const BucketLayout* find(BufferId b) const {
        const auto it = of.find(b);
        return it == of.end() ? nullptr : &it->second;
    }
};

BucketLayouts bucket_layouts(const Plan& plan);

} // namespace orrery

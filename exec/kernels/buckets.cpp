#include "exec/kernels/buckets.hpp"

#include "exec/kernels/kernel.hpp"

namespace orrery {
namespace {

enum class Side : std::uint8_t { none, parameters, gradients };

Side side_of(Role r) {
    switch (r) {
    case Role::parameter_shard:
    case Role::gathered_parameters:
        return Side::parameters;
    case Role::gradient_shard:
    case Role::gradient_part:
    case Role::flat_gradients:
        return Side::gradients;
    default:
        return Side::none;
    }
}

} // namespace

BucketLayouts bucket_layouts(const Plan& plan) {
    BucketLayouts all;
    for (std::size_t b = 0; b < plan.buffers.size(); ++b) {
        const Buffer& x = plan.buffers[b];
        const Side side = side_of(x.role);
        if (side == Side::none) continue;
        const TensorBucket& bucket = plan.buckets[x.bucket];
        BucketLayout& layout = all.of[static_cast<BufferId>(b)];
        for (const BucketTensor& t : bucket.tensors)
            layout.segments.push_back({side == Side::parameters ? t.parameter : t.gradient, t.begin, t.end});
        if (x.role == Role::gathered_parameters || x.role == Role::flat_gradients) continue;
        layout.comm = side == Side::parameters ? bucket.gather : bucket.reduce;
        layout.shard = bucket.shard;
    }
    return all;
}

} // namespace orrery

#include "exec/kernels/shards.hpp"

#include <algorithm>

namespace orrery {

ShardView shard_view(const Plan& plan, const Buffer& b, const Coordinates& at, const Coordinates& expert_at) {
    const Mesh& mesh = b.expert ? plan.expert_mesh : plan.mesh;
    const Coordinates& here = b.expert ? expert_at : at;
    ShardView v{b.shape, b.shape, std::vector<std::int64_t>(b.shape.size(), 0)};
    std::vector<std::int64_t> index(b.shape.size(), 0);
    for (int a = 0; a < axis_count; ++a) {
        const Axis axis = static_cast<Axis>(a);
        if (b.placement.on(axis) != PlacementKind::sharded) continue;
        const std::size_t d = static_cast<std::size_t>(b.placement.dim[static_cast<std::size_t>(a)]);
        v.whole[d] *= mesh.extent(axis);
        index[d] = index[d] * mesh.extent(axis) + here[a];
    }
    for (std::size_t d = 0; d < index.size(); ++d) v.offset[d] = index[d] * v.local[d];
    return v;
}

Coordinates expert_coordinates(const Plan& plan, int rank) {
    const int stride = plan.mesh.stride(Axis::pp), stages = plan.mesh.extent(Axis::pp);
    const int in_stage = rank % stride + rank / stride / stages * stride;
    Coordinates c{};
    if (plan.expert_mesh.order.empty()) return c;
    for (Axis a : plan.expert_mesh.order)
        c[a] = a == Axis::pp ? rank / stride % stages : in_stage / plan.expert_mesh.stride_in_stage(a) % plan.expert_mesh.extent(a);
    return c;
}

int rank_of_experts(const Plan& plan, const Coordinates& expert_at) {
    const int stride = plan.mesh.stride(Axis::pp), stages = plan.mesh.extent(Axis::pp);
    int in_stage = 0;
    for (Axis a : plan.expert_mesh.order)
        if (a != Axis::pp) in_stage += expert_at[a] * plan.expert_mesh.stride_in_stage(a);
    return in_stage % stride + (in_stage / stride * stages + expert_at[Axis::pp]) * stride;
}

std::int64_t whole_index(const ShardView& v, std::int64_t i) {
    std::int64_t index = 0, stride = 1;
    for (std::size_t d = v.local.size(); d-- > 0;) {
        index += (i % v.local[d] + v.offset[d]) * stride;
        i /= v.local[d];
        stride *= v.whole[d];
    }
    return index;
}

std::int64_t own_index(const Plan& plan, const Buffer& own, const Coordinates& at) {
    const TensorBucket& bucket = plan.buckets[own.bucket];
    const int rank = plan.mesh.rank_of(at);
    const std::vector<int> ranks = members(plan, own.role == Role::secondary_shard ? bucket.gather_again : bucket.reduce, rank);
    return std::find(ranks.begin(), ranks.end(), rank) - ranks.begin();
}

} // namespace orrery

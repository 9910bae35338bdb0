#include "exec/kernels/buckets.hpp"

#include "exec/kernels/kernel.hpp"

namespace orrery {
namespace {

BucketLayout layout_of(const Plan& plan, const std::vector<BufferId>& tensors) {
    BucketLayout layout;
    std::int64_t at = 0;
    for (BufferId t : tensors) {
        const std::int64_t n = elements(plan.buffers[static_cast<std::size_t>(t)]);
        layout.segments.push_back({t, at, at + n});
        at += n;
    }
    return layout;
}

} // namespace

BucketLayouts bucket_layouts(const Plan& plan) {
    BucketLayouts all;
    const auto flat = [&](BufferId b) { return plan.buffers[static_cast<std::size_t>(b)].shape.size() == 1; };
    const auto sharded = [&](BufferId shard, const BucketLayout& whole, CommId comm) {
        BucketLayout& s = all.of[shard] = whole;
        s.comm = comm;
        s.shard = elements(plan.buffers[static_cast<std::size_t>(shard)]);
    };
    const auto bucket_block = [](const Block& b) { return b.kind == BlockKind::reduce || b.kind == BlockKind::gather; };
    // Flat copies first: they stand on either side of what makes shards of them.
    for (const Block& block : plan.blocks)
        for (const Op& op : block.ops)
            if (const auto* p = std::get_if<Pointwise>(&op.work); p && bucket_block(block)) {
                if (p->kind == PointwiseKind::cast && op.out.size() == 1 && flat(op.out[0])) all.of[op.out[0]] = layout_of(plan, op.in);
                if (p->kind == PointwiseKind::copy && op.in.size() == 1 && flat(op.in[0])) all.of[op.in[0]] = layout_of(plan, op.out);
            }
    for (const Block& block : plan.blocks)
        for (const Op& op : block.ops) {
            if (!bucket_block(block)) continue;
            if (const auto* c = std::get_if<Collective>(&op.work)) {
                const bool scatters = c->kind == CollectiveKind::reduce_scatter;
                if (!scatters && c->kind != CollectiveKind::all_gather) continue;
                const auto& whole = scatters ? op.in : op.out;
                const BucketLayout* copied = whole.size() == 1 ? all.find(whole[0]) : nullptr;
                const BucketLayout layout = copied && copied->shard == 0 ? *copied : layout_of(plan, whole);
                sharded(scatters ? op.out[0] : op.in[0], layout, c->comm);
            } else if (const auto* p = std::get_if<Pointwise>(&op.work); p && p->kind == PointwiseKind::add) {
                if (const BucketLayout* part = all.find(op.in[0])) sharded(op.out[0], BucketLayout(*part), part->comm);
            }
        }
    return all;
}

} // namespace orrery

// Buckets that travel as whole numbers in blocks with a scale each, and second copies of parameters near by: ZeRO++ (arXiv:2306.10209)
// and gradients compressed to 8 or 4 bits.
//
// qwZ: a shard of parameters is cast before its gather, and what arrives is cast back. hpZ: of what the forward pass gathered each rank
// keeps a part, so that near ranks together have all of it and gather from each other in the backward pass. qgZ: there is no ring, whose
// every hop would round again: each rank sends every other the slice that it will add up, first inside a node, then between nodes. The
// slices are put in such an order before that the last sums land where their shards are.
#include "sim/plan/passes/bucket_blocks.hpp"

#include <algorithm>
#include <utility>

namespace orrery {

// A buffer inside a block: what travels, or what was made of it.
BufferId BucketBlocks::short_lived(const Bucket& b, const std::string& name, Role role, std::vector<std::int64_t> shape, DType dtype) {
    std::int64_t elements = 1;
    for (std::int64_t d : shape) elements *= d;
    const BufferId id = flat(b, name, role, elements, dtype, MemoryKind::communication, Scope::action,
                             role == Role::gathered_parameters ? PlacementKind::invariant
                             : is_gradient(role)               ? PlacementKind::partial
                                                               : PlacementKind::sharded);
    l.buffer(id).shape = std::move(shape);
    return id;
}

// From the ranks near each other outwards. The shards lie on them in the same order: near ranks follow one another. The mesh may be
// divided for second copies alone.
std::vector<BucketBlocks::Level> BucketBlocks::levels(const Bucket& b) {
    if (l.practice.exchange_ranks == 0) return {{planned(b).reduce, b.shards}};
    const int near = l.plan.mesh.extent(Axis::dp), far = l.plan.mesh.extent(Axis::dpr);
    return {{communicator(b, "dp.near", mask(Axis::dp)), near}, {communicator(b, "dp.far", mask(Axis::dpr)), far}};
}

// The sum of `whole` over all levels, slice by slice, into `into`. Kernels run on the collectives' own queues, and the computation goes on;
// the first where `first` says.
void BucketBlocks::exchange(Bucket& b, DType low, const std::vector<Level>& levels, std::vector<BufferId> whole, BufferId into,
                            QueueId first, Block& out) {
    const Phase phase = Phase::gradient_reduce;
    std::int64_t slices = 1;
    for (const Level& level : levels) slices *= level.ranks;
    std::int64_t slice = 1;
    for (std::int64_t d : l.buffer(into).shape) slice *= d;
    BufferId sums = -1; // of the level before
    for (std::size_t i = 0; i < levels.size(); ++i) {
        const Level& level = levels[i];
        slices /= level.ranks;
        const bool last = i + 1 == levels.size();
        const std::string name = bucket_name(b) + (levels.size() == 1 ? "" : i == 0 ? ".near" : ".far");
        const std::vector<std::int64_t> parts{level.ranks, slices, slice};
        const std::int64_t elements = level.ranks * slices * slice;
        const BufferId sent = short_lived(b, "g.sent." + std::to_string(i), Role::gradient_slices, parts, low),
                       received = short_lived(b, "g.received." + std::to_string(i), Role::gradient_summands, parts, low);
        const BufferId next =
            last ? into : short_lived(b, "g.sums." + std::to_string(i), Role::gradient_slices, {slices, slice}, grad_dtype);
        out.ops.push_back(memory_op(Alloc{sent}, phase));
        out.ops.push_back(pointwise_op("quantize." + name, i == 0 ? PointwiseKind::by_owner : PointwiseKind::cast, elements, phase,
                                       i == 0 ? whole : std::vector<BufferId>{sums}, {sent}));
        out.ops.back().queue = i == 0 ? first : queue_of(levels[0].comm);
        if (i == 0 && l.scenario.strategy.quantized_gradients != QuantizedGradients::none) {
            const auto vectors = // reduced one by one
                std::ranges::count_if(b.parameters, [&](std::int32_t p) { return !l.parameters[b.stage][p].matrix; });
            out.ops.back().modules = static_cast<std::uint8_t>(std::min<std::ptrdiff_t>(255, vectors));
        }
        if (sums >= 0) out.ops.push_back(memory_op(Free{sums}, phase));
        out.ops.push_back(memory_op(Alloc{received}, phase));
        out.ops.push_back(comm_op("exchange." + name, CollectiveKind::all_to_all, level.comm, bytes(parts, low), low, phase, {sent},
                                  {received}, Collective::Operands::each));
        out.ops.push_back(memory_op(Free{sent}, phase));
        if (!last) out.ops.push_back(memory_op(Alloc{next}, phase));
        out.ops.push_back(pointwise_op("sum." + name, PointwiseKind::sum_parts, elements, phase, {received}, {next}));
        out.ops.back().queue = queue_of(levels[0].comm);
        out.ops.push_back(memory_op(Free{received}, phase));
        sums = next;
    }
}

// Replicas: each adds one slice of the bucket's gradients up and gives it to all others, compressed both ways.
void BucketBlocks::reduce_in_blocks(Bucket& b, DType low, CommId comm, const std::vector<BufferId>& whole, Block& out) {
    const Phase phase = Phase::gradient_reduce;
    const int ranks = size(l.plan, comm);
    const std::int64_t slice = (b.elements + ranks - 1) / ranks;
    const std::string name = bucket_name(b);
    const BufferId sum = short_lived(b, "g.slice", Role::gradient_slices, {slice}, grad_dtype),
                   sent = short_lived(b, "g.slice.sent", Role::gradient_slices, {slice}, low),
                   all = short_lived(b, "g.slices", Role::gradient_slices, {ranks, slice}, low);
    out.ops.push_back(memory_op(Alloc{sum}, phase));
    exchange(b, low, {{comm, ranks}}, whole, sum, compute_queue, out); // the hook's own cast, as of 16 bits
    const auto on_its_queue = [&](Op op) {
        op.queue = queue_of(comm);
        out.ops.push_back(std::move(op));
    };
    out.ops.push_back(memory_op(Alloc{sent}, phase));
    on_its_queue(pointwise_op("quantize." + name + ".sum", PointwiseKind::cast, slice, phase, {sum}, {sent}));
    out.ops.push_back(memory_op(Free{sum}, phase));
    out.ops.push_back(memory_op(Alloc{all}, phase));
    out.ops.push_back(comm_op("share." + name, CollectiveKind::all_gather, comm, bytes({ranks, slice}, low), low, phase, {sent}, {all},
                              Collective::Operands::each));
    out.ops.push_back(memory_op(Free{sent}, phase));
    on_its_queue(pointwise_op("dequantize." + name, PointwiseKind::cast, b.elements, phase, {all}, whole));
    out.ops.push_back(memory_op(Free{all}, phase));
}

// Whole sums inside a node: of `packed`, [ranks] parts, each rank adds up one.
BucketBlocks::Near BucketBlocks::reduce_near(Bucket& b, std::vector<std::int64_t> part, const std::vector<BufferId>& whole, Block& out) {
    const Phase phase = Phase::gradient_reduce;
    const Level near = levels(b)[0];
    const std::string name = bucket_name(b);
    std::vector<std::int64_t> parts{near.ranks};
    parts.insert(parts.end(), part.begin(), part.end());
    const Near made{short_lived(b, "g.packed", Role::gradient_slices, parts, grad_dtype),
                    short_lived(b, "g.part.near", Role::gradient_slices, std::move(part), grad_dtype)};
    out.ops.push_back(memory_op(Alloc{made.packed}, phase));
    out.ops.push_back(pointwise_op("pack." + name, PointwiseKind::by_owner, b.elements, phase, whole, {made.packed}));
    out.ops.push_back(memory_op(Alloc{made.own}, phase));
    out.ops.push_back(comm_op("reduce." + name + ".near", CollectiveKind::reduce_scatter, near.comm, bytes(parts, grad_dtype), grad_dtype,
                              phase, {made.packed}, {made.own}, Collective::Operands::each));
    return made;
}

// ByteGrad (Gan et al., arXiv:2107.01499): whole sums inside a node, whole numbers between nodes. Where it has one rank of a node send for
// all, here each rank of a node sends a part: as many bytes cross, through all of the node's NICs.
void BucketBlocks::reduce_between_nodes(Bucket& b, DType low, const std::vector<BufferId>& whole, Block& out) {
    const Phase phase = Phase::gradient_reduce;
    const Level near = levels(b)[0], far = levels(b)[1];
    const std::string name = bucket_name(b);
    const std::int64_t part = (b.elements + near.ranks - 1) / near.ranks, slice = (part + far.ranks - 1) / far.ranks;
    const auto slices = [&](const char* what, std::vector<std::int64_t> shape, DType dtype) {
        return short_lived(b, what, Role::gradient_slices, std::move(shape), dtype);
    };
    const QueueId queue = queue_of(far.comm);
    const auto on_its_queue = [&](Op op) {
        op.queue = queue;
        out.ops.push_back(std::move(op));
    };
    const auto [packed, own] = reduce_near(b, {1, part}, whole, out);
    const BufferId sum = slices("g.slice", {slice}, grad_dtype), sent = slices("g.slice.sent", {slice}, low),
                   all = slices("g.slices", {far.ranks, slice}, low);
    out.ops.push_back(memory_op(Alloc{sum}, phase));
    exchange(b, low, {far}, {own}, sum, queue, out);
    out.ops.push_back(memory_op(Alloc{sent}, phase));
    on_its_queue(pointwise_op("quantize." + name + ".sum", PointwiseKind::cast, slice, phase, {sum}, {sent}));
    out.ops.push_back(memory_op(Free{sum}, phase));
    out.ops.push_back(memory_op(Alloc{all}, phase));
    out.ops.push_back(comm_op("share." + name + ".far", CollectiveKind::all_gather, far.comm, bytes({far.ranks, slice}, low), low, phase,
                              {sent}, {all}, Collective::Operands::each));
    out.ops.push_back(memory_op(Free{sent}, phase));
    on_its_queue(pointwise_op("dequantize." + name, PointwiseKind::cast, part, phase, {all}, {own}));
    out.ops.push_back(memory_op(Free{all}, phase));
    out.ops.push_back(comm_op("share." + name + ".near", CollectiveKind::all_gather, near.comm, bytes({near.ranks, part}, grad_dtype),
                              grad_dtype, phase, {own}, {packed}, Collective::Operands::each));
    out.ops.push_back(memory_op(Free{own}, phase));
    on_its_queue(pointwise_op("unpack." + name, PointwiseKind::cast, b.elements, phase, {packed}, whole));
    out.ops.push_back(memory_op(Free{packed}, phase));
}

// The same where sums end as shards, which lie node by node: nothing goes back.
void BucketBlocks::scatter_between_nodes(Bucket& b, DType low, const std::vector<BufferId>& whole, BufferId into, Block& out) {
    const Phase phase = Phase::gradient_reduce;
    const Level far = levels(b)[1];
    const auto [packed, own] = reduce_near(b, {far.ranks, b.shard_elements}, whole, out);
    out.ops.push_back(memory_op(Free{packed}, phase));
    exchange(b, low, {far}, {own}, into, queue_of(far.comm), out);
    out.ops.push_back(memory_op(Free{own}, phase));
}

void BucketBlocks::gather_in_blocks(Bucket& b, DType low, CommId comm, BufferId shard, int shards, const std::vector<BufferId>& into,
                                    Block& out) {
    const Phase phase = Phase::param_gather;
    const std::string name = bucket_name(b);
    const std::int64_t elements = l.buffer(shard).shape[0];
    const bool secondary = l.buffer(shard).role == Role::secondary_shard;
    const BufferId sent = short_lived(b, secondary ? "w.near.sent" : "w.sent", l.buffer(shard).role, {elements}, low),
                   all = short_lived(b, secondary ? "w.near.received" : "w.received", Role::gathered_parameters, {elements * shards}, low);
    const auto on_its_queue = [&](Op op) {
        op.queue = queue_of(comm);
        out.ops.push_back(std::move(op));
    };
    planned(b).gathered_in = low;
    out.ops.push_back(memory_op(Alloc{sent}, phase));
    on_its_queue(pointwise_op("quantize." + name, PointwiseKind::cast, elements, phase, {shard}, {sent}));
    out.ops.push_back(memory_op(Alloc{all}, phase));
    out.ops.push_back(
        comm_op("gather." + name, CollectiveKind::all_gather, comm, bytes({elements * shards}, low), low, phase, {sent}, {all}));
    out.ops.push_back(memory_op(Free{sent}, phase));
    on_its_queue(pointwise_op("dequantize." + name, PointwiseKind::cast, b.elements, phase, {all}, into));
    out.ops.push_back(memory_op(Free{all}, phase));
}

void BucketBlocks::make_secondary(Bucket& b) {
    const Phase phase = Phase::param_gather;
    const std::string name = bucket_name(b);
    const std::int64_t part = (b.elements + dp.secondary - 1) / dp.secondary;
    const CommId near = planned(b).gather_again = communicator(b, "dp.near", mask(Axis::dp));
    const BufferId second =
        flat(b, "w.secondary", Role::secondary_shard, part, b.dtype, MemoryKind::parameters, Scope::step, PlacementKind::sharded);
    l.buffer(second).placement = {};
    l.buffer(second).placement.set(Axis::dp, PlacementKind::sharded);
    Op keep = pointwise_op("keep." + name, PointwiseKind::own_part, part, phase, weights(b), {second});
    keep.queue = queue_of(planned(b).gather);
    l.plan.blocks[b.gather].ops.push_back(std::move(keep));
    Block out = block(b, BlockKind::gather, "gather_again");
    for (BufferId w : weights(b)) out.ops.push_back(memory_op(Alloc{w}, phase));
    if (l.scenario.strategy.quantized_weights != QuantizedWeights::none && b.dtype != DType::nf4)
        gather_in_blocks(b, DType::int8, near, second, dp.secondary, weights(b), out);
    else
        out.ops.push_back(comm_op("gather_again." + name, CollectiveKind::all_gather, near, bytes({part * dp.secondary}, b.dtype), b.dtype,
                                  phase, {second}, weights(b)));
    const Calls each = gathers_of(l, b), more = further_gathers_of(l, b);
    divide(l, b, CollectiveKind::all_gather, {each.count + more.count, each.elements + more.elements}, out);
    b.gather_again = l.add(std::move(out));
}

} // namespace orrery

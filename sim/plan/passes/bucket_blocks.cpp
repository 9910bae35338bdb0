#include "sim/plan/passes/bucket_blocks.hpp"

#include "sim/scenario/stage3.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <utility>

namespace orrery {

Op comm_op(std::string name, CollectiveKind kind, CommId comm, Bytes bytes, DType dtype, Phase phase, std::vector<BufferId> in,
           std::vector<BufferId> out, Collective::Operands operands) {
    Op op;
    op.name = std::move(name);
    Collective work{kind, comm, bytes, dtype};
    work.operands = operands;
    op.work = work;
    op.queue = queue_of(comm);
    op.phase = phase;
    op.in = std::move(in);
    op.out = std::move(out);
    return op;
}

Op pointwise_op(std::string name, PointwiseKind kind, std::int64_t elements, Phase phase, std::vector<BufferId> in,
                std::vector<BufferId> out) {
    Op op;
    op.name = std::move(name);
    op.work = Pointwise{kind, Direction::forward, elements, true};
    op.phase = phase;
    op.in = std::move(in);
    op.out = std::move(out);
    return op;
}

Op memory_op(Work work, Phase phase) {
    Op op;
    op.work = std::move(work);
    op.queue = host_queue;
    op.phase = phase;
    return op;
}

Op memory_op_beside(Work work, const Op& op) {
    Op beside = memory_op(std::move(work), op.phase);
    beside.layer = op.layer;
    beside.unit = op.unit;
    beside.port = op.port;
    return beside;
}

std::string bucket_name(const Bucket& b) {
    return fmt::format("c{}.u{}{}{}{}", b.chunk,
                       b.units.size() == 1 ? std::to_string(b.units[0]) : fmt::format("{}-{}", b.units.front(), b.units.back()),
                       b.expert ? ".experts" : "", b.muon ? ".muon" : "",
                       b.trained               ? ""
                       : b.dtype == DType::nf4 ? ".nf4"
                                               : ".frozen");
}

namespace {

// Wherever DeepSpeed lets go of parameters with a second copy near by, in both passes, it writes that copy anew on computation's stream,
// and the host waits for all that is there (synchronize in _partition_param_sec: deepspeed/runtime/zero/partition_parameters.py). It does
// so for each parameter, here once a unit.
Op stop_for_copy(std::vector<BufferId> weights) {
    Op op = memory_op(HostSync{}, Phase::param_gather);
    op.name = "second_copy.wait";
    op.in = op.out = std::move(weights); // what reads them has ended
    return op;
}

Calls all_of(const Bucket& b, std::int64_t count) { return {std::max<std::int64_t>(1, count), b.elements}; }

// A bucket of gradients is reduced ahead of one that it has no room for (reduce_independent_p_g_buckets_and_remove_grads of
// deepspeed/runtime/zero/stage3.py); under qgZ each matrix is exchanged by itself (all_to_all_quant_reduce of
// deepspeed/runtime/comm/coalesced_collectives.py).
Calls reductions_of(const Lowering& l, const Bucket& b, DType dtype) {
    const auto& all = l.parameters[b.stage];
    if (l.scenario.strategy.quantized_gradients != QuantizedGradients::none)
        return all_of(b, std::ranges::count_if(b.parameters, [&](std::int32_t i) { return all[i].matrix; }));
    const auto room = static_cast<std::int64_t>(static_cast<double>(l.scenario.strategy.bucket_bytes.count) / bytes_per_element(dtype));
    std::int64_t count = 1, open = 0;
    for (std::size_t k = b.parameters.size(); k-- > 0;) {
        const std::int64_t elements = all[b.parameters[k]].elements;
        if (open > 0 && open + elements > room) ++count, open = 0;
        open += elements;
    }
    return all_of(b, count);
}

} // namespace

// Modules ask ahead for parameters and gather them together, as many as fill a bucket of stage3_prefetch_bucket_size; a larger one is
// gathered by itself (fetch_sub_module of deepspeed/runtime/zero/partitioned_param_coordinator.py).
Calls gathers_of(const Lowering& l, const Bucket& b) {
    const stage3::Sizes sizes = stage3::sizes_of(l.scenario);
    std::int64_t count = 0, open = 0;
    for (const std::int32_t i : b.parameters) {
        const std::int64_t elements = l.parameters[b.stage][i].elements;
        if (elements <= sizes.param_persistence_threshold) continue;
        open += elements;
        if (open >= sizes.prefetch_bucket_size) ++count, open = 0;
    }
    return all_of(b, count + (open > 0 ? 1 : 0));
}

// A layer's forward pass made again lets go of those of its parameters behind which more than stage3_max_reuse_distance elements are used
// until its backward pass wants them: they are gathered once more (__params_to_release, in that file).
Calls further_gathers_of(const Lowering& l, const Bucket& b) {
    Calls more;
    const bool made_again = l.scenario.strategy.recompute == RecomputeKind::full && !l.scenario.strategy.recomputes_some();
    if (!made_again || b.expert || b.units.size() != 1 || l.graphs[b.chunk].unit_kinds[b.units[0]] != UnitKind::layer) return more;
    const std::int64_t small = stage3::sizes_of(l.scenario).param_persistence_threshold;
    std::int64_t behind = 0; // elements of the parameters that follow, all of which are used twice in between
    for (std::size_t k = b.parameters.size(); k-- > 0;) {
        const std::int64_t elements = l.parameters[b.stage][b.parameters[k]].elements;
        if (elements > small && 2 * behind >= stage3::max_reuse_distance) ++more.count, more.elements += elements;
        behind += elements;
    }
    return more;
}

void divide(const Lowering& l, const Bucket& b, CollectiveKind kind, Calls calls, Block& block) {
    if (!l.practice.copies_with_collectives || b.elements == 0) return;
    const double times = static_cast<double>(std::min<std::int64_t>(calls.count, 255)),
                 part = static_cast<double>(calls.elements) / static_cast<double>(b.elements) / times;
    for (Op& op : block.ops)
        if (auto* c = std::get_if<Collective>(&op.work); c != nullptr && c->kind == kind) {
            c->times = static_cast<std::uint8_t>(times);
            c->bytes.count = std::llround(static_cast<double>(c->bytes.count) * part);
        }
}

CommId BucketBlocks::communicator(const Bucket& b, std::string name, AxisMask axes) const {
    // The copies of a chunk that other directions run are on the stage opposite: their ranks are data-parallel ranks like the others.
    std::vector<std::int16_t> copies;
    if (l.plan.directions > 1 && (axes & mask(Axis::dp))) {
        const int other = l.plan.stages - 1 - b.stage;
        copies = {static_cast<std::int16_t>(std::min(b.stage, other)), static_cast<std::int16_t>(std::max(b.stage, other))};
        axes = static_cast<AxisMask>(axes | mask(Axis::pp));
        name += fmt::format(".{}-{}", copies[0], copies[1]);
    }
    const CommId id = b.expert ? l.add_expert_communicator("e" + name, axes) : l.add_communicator(std::move(name), axes);
    l.plan.communicators[id].stages = copies;
    return id;
}

std::vector<BufferId> BucketBlocks::gradients(const Bucket& b) const {
    std::vector<BufferId> out;
    for (std::int32_t i : b.parameters) out.push_back(parameter(b, i).gradient);
    return out;
}

std::vector<BufferId> BucketBlocks::weights(const Bucket& b) const {
    std::vector<BufferId> out;
    for (std::int32_t i : b.parameters) out.push_back(parameter(b, i).weight);
    return out;
}

Block BucketBlocks::block(const Bucket& b, BlockKind kind, const char* what) const {
    Block out;
    out.name = fmt::format("{}:{}", what, bucket_name(b));
    out.kind = kind;
    out.stage = static_cast<std::int16_t>(b.stage);
    out.chunk = static_cast<std::int16_t>(b.chunk);
    return out;
}

void BucketBlocks::lay_out(Bucket& b) {
    b.id = static_cast<std::int32_t>(l.plan.buckets.size());
    TensorBucket out;
    out.name = bucket_name(b);
    out.stage = static_cast<std::int16_t>(b.stage);
    out.chunk = static_cast<std::int16_t>(b.chunk);
    out.expert = b.expert;
    std::int64_t at = 0;
    for (std::int32_t i : b.parameters) {
        const Parameter& p = parameter(b, i);
        out.tensors.push_back({p.tensor, p.weight, p.gradient, at, at + p.elements});
        at += p.elements;
        l.buffer(p.weight).bucket = b.id;
        if (p.trained()) l.buffer(p.gradient).bucket = b.id;
    }
    l.plan.buckets.push_back(std::move(out));
}

BufferId BucketBlocks::flat(const Bucket& b, const std::string& name, Role role, std::int64_t elements, DType dtype, MemoryKind kind,
                            Scope scope, PlacementKind over_shards) {
    Buffer f;
    f.role = role;
    f.bucket = b.id;
    f.name = name + "." + bucket_name(b);
    f.shape = {elements};
    f.dtype = dtype;
    f.bytes = bytes(f.shape, dtype);
    f.kind = kind;
    f.scope = scope;
    f.stage = static_cast<std::int16_t>(b.stage);
    f.chunk = static_cast<std::int16_t>(b.chunk);
    f.expert = b.expert;
    for (Axis a : {Axis::dp, Axis::cp, Axis::dpr})
        if (dp.shard_axes & mask(a)) f.placement.set(a, over_shards);
    if (l.plan.directions > 1) f.placement.set(Axis::pp, over_shards);
    if (over_shards == PlacementKind::partial)
        for (Axis a : {Axis::dpr, Axis::dpw}) f.placement.set(a, over_shards);
    return l.add(std::move(f));
}

// The type gradients are cast to for their way (PyTorch DDP's fp16_compress_hook and bf16_compress_hook, those of the same names for FSDP
// in torch/distributed/algorithms/_comm_hooks/default_hooks.py, and DeepSpeed's communication_data_type: allreduce_bucket in
// stage_1_and_2.py, __avg_scatter_grads in stage3.py).
DType BucketBlocks::compressed() const {
    switch (l.scenario.strategy.compresses()) {
    case GradientCompression::fp16:
        return DType::fp16;
    case GradientCompression::bf16:
        return DType::bf16;
    case GradientCompression::int8:
        return DType::int8;
    case GradientCompression::int4:
        return DType::int4;
    default:
        return grad_dtype;
    }
}

// Cast into a flat copy, reduced there, and cast back on the collective's own stream, where the hook's callback runs.
void BucketBlocks::reduce_compressed(Bucket& b, DType low, CommId comm, const std::vector<BufferId>& whole, Block& out) {
    const Phase phase = Phase::gradient_reduce;
    const std::string name = bucket_name(b);
    const BufferId small =
        flat(b, "g.compressed", Role::flat_gradients, b.elements, low, MemoryKind::communication, Scope::action, PlacementKind::partial);
    planned(b).reduced_in = low;
    out.ops.push_back(memory_op(Alloc{small}, phase));
    out.ops.push_back(pointwise_op("compress." + name, PointwiseKind::cast, b.elements, phase, whole, {small}));
    out.ops.push_back(comm_op("reduce." + name, CollectiveKind::all_reduce, comm, bytes({b.elements}, low), low, phase, {small}, {small}));
    out.ops.push_back(pointwise_op("decompress." + name, PointwiseKind::cast, b.elements, phase, {small}, whole));
    out.ops.back().queue = queue_of(comm);
    out.ops.push_back(memory_op(Free{small}, phase));
}

// Gradients side by side in a buffer of their own, padded to whole shards, in the type they travel in.
BufferId BucketBlocks::flatten(const Bucket& b, const char* what, DType dtype, const std::vector<BufferId>& whole, Block& out) {
    const BufferId copy = flat(b, "g.flat", Role::flat_gradients, b.shard_elements * b.shards, dtype, MemoryKind::communication,
                               Scope::action, PlacementKind::partial);
    out.ops.push_back(memory_op(Alloc{copy}, Phase::gradient_reduce));
    out.ops.push_back(pointwise_op(what + bucket_name(b), PointwiseKind::cast, b.elements, Phase::gradient_reduce, whole, {copy}));
    return copy;
}

// A kernel of computation by which software moves gradients, or scales them, where the plan's buffer stays as it is.
void BucketBlocks::copy_beside(std::string name, const Bucket& b, const std::vector<BufferId>& list, Block& out) {
    out.ops.push_back(pointwise_op(std::move(name), PointwiseKind::copy, b.elements, Phase::gradient_reduce, list, list));
}

// A unit of FullyShardedDataParallel is one parameter: autograd joins the gradients of its views in their own type (the adjoint of
// torch.split), the whole is cast where it is reduced in another, and divided ahead of the reduction by about the root of the ranks
// (_reduce_grad of torch/distributed/fsdp/_runtime_utils.py, _get_gradient_predivide_factor; the rest of the division, of shards, is not
// counted). fully_shard copies and casts in one kernel (torch._chunk_cat), and NCCL divides.
BufferId BucketBlocks::flatten_unit(const Bucket& b, DType dtype, const std::vector<BufferId>& whole, Block& out) {
    const bool apart = l.practice.sharding == Sharding::flat_units;
    const std::string name = bucket_name(b);
    if (apart && l.buffer(whole.front()).dtype != dtype) copy_beside("join." + name, b, whole, out);
    const BufferId copy = flatten(b, "flatten.", dtype, whole, out);
    if (apart) copy_beside("divide." + name, b, {copy}, out);
    return copy;
}

// The sum over the copies of a shard group.
void BucketBlocks::add_replicas(Bucket& b, BufferId part, Block& out) {
    const CommId replica = planned(b).replicate = communicator(b, "dp.replica", mask(Axis::dpr));
    const DType dtype = l.buffer(part).dtype;
    out.ops.push_back(comm_op("replicate." + bucket_name(b), CollectiveKind::all_reduce, replica, bytes({b.shard_elements}, dtype), dtype,
                              Phase::gradient_reduce, {part}, {part}, Collective::Operands::summands));
}

// Once a step, after the last of its reductions.
Block BucketBlocks::replicate_block(Bucket& b, BufferId part) {
    Block out = block(b, BlockKind::reduce, "replicate");
    add_replicas(b, part, out);
    return out;
}

// Whether the bucket's gradients, whose sums end as shards, travel as something else than casts of them. Blocks of whole numbers go to
// those who add them up, the owners. Factors and the largest elements are of the whole bucket: every rank makes all of its sum and keeps
// its part (torch/distributed: a communication hook of DDP under ZeroRedundancyOptimizer, with_zero_step in ddp_zero_hook.py).
bool BucketBlocks::scatter_smaller(Bucket& b, CommId comm, const std::vector<BufferId>& whole, BufferId part, Block& out) {
    const GradientCompression kind = l.scenario.strategy.compresses();
    if (l.scenario.strategy.quantized_gradients != QuantizedGradients::none) {
        exchange(b, DType::int4, levels(b), whole, part, queue_of(levels(b)[0].comm), out);
        return true;
    }
    if (kind == GradientCompression::int8 || kind == GradientCompression::int4) {
        if (levels(b).size() > 1)
            scatter_between_nodes(b, compressed(), whole, part, out);
        else
            exchange(b, compressed(), levels(b), whole, part, compute_queue, out); // the hook's own cast, as of 16 bits
        return true;
    }
    if (kind != GradientCompression::powersgd && kind != GradientCompression::top_k) return false;
    reduce_smaller(b, comm, whole, out);
    out.ops.push_back(
        pointwise_op("own." + bucket_name(b), PointwiseKind::own_part, b.shard_elements, Phase::gradient_reduce, whole, {part}));
    out.ops.back().queue = queue_of(comm);
    return true;
}

// Whether the bucket's gradients travel as something else than they are.
bool BucketBlocks::reduce_smaller(Bucket& b, CommId comm, const std::vector<BufferId>& whole, Block& out) {
    const GradientCompression kind = l.scenario.strategy.compresses();
    const DType low = compressed();
    if (kind == GradientCompression::powersgd)
        reduce_low_rank(b, comm, whole, out);
    else if (kind == GradientCompression::top_k)
        reduce_largest(b, comm, whole, out);
    else if (low == grad_dtype)
        return false;
    else if (low == DType::int8 || low == DType::int4)
        levels(b).size() > 1 ? reduce_between_nodes(b, low, whole, out) : reduce_in_blocks(b, low, comm, whole, out);
    else
        reduce_compressed(b, low, comm, whole, out);
    return true;
}

bool BucketBlocks::begins_anew(const Bucket& b) const {
    const bool copies_each_run = b.replicas > 1 && l.scenario.strategy.gradient_sync != GradientSync::boundary;
    return b.accumulates && dp.sharded(b) && l.practice.gradients_none && l.scenario.strategy.offload.gradients == Tier::none &&
           !copies_each_run; // (what is summed over copies in its place counts as used)
}

// The block for a step's first reduction: it writes the sum where the later ones add to it.
Block BucketBlocks::first_reduction(const Bucket& b, BufferId part) const {
    Block out = l.plan.blocks[b.reduce];
    out.name.insert(out.name.find(':'), "_first");
    const BufferId sum = b.gradient_shard;
    const bool widens = l.buffer(part).dtype != l.buffer(sum).dtype;
    std::vector<Op> ops;
    if (b.comes_with_backward) ops.push_back(memory_op(Alloc{sum}, Phase::gradient_reduce));
    for (Op op : out.ops) {
        const auto* alloc = std::get_if<Alloc>(&op.work);
        const auto* free = std::get_if<Free>(&op.work);
        auto* add = std::get_if<Pointwise>(&op.work);
        if (add && add->kind == PointwiseKind::add) {
            if (!widens) continue;
            add->kind = PointwiseKind::cast;
            op.name = "widen." + bucket_name(b);
            op.in = {part};
        } else if (!widens) {
            if ((alloc && alloc->buffer == part) || (free && free->buffer == part)) continue;
            std::replace(op.in.begin(), op.in.end(), part, sum);
            std::replace(op.out.begin(), op.out.end(), part, sum);
        }
        ops.push_back(std::move(op));
    }
    out.ops = Indexed<std::int32_t, Op>(std::move(ops));
    return out;
}

// Frees what fully_shard's reduction read: its communication context holds that until the next unit's reduction begins, or the backward
// pass ends (reduce_scatter_state in FSDPParamGroup.post_backward and FSDPState._root_post_backward_final_callback:
// torch/distributed/fsdp/_fully_shard).
Block BucketBlocks::drop_block(const Bucket& b, BufferId flat_copy) const {
    Block out = block(b, BlockKind::release, "drop");
    out.ops.push_back(memory_op(Free{flat_copy}, Phase::gradient_reduce));
    return out;
}

// Software copies a collective's operands to and from its buffer, on the collective's stream; here they lie there, and the copy takes time
// alone.
void BucketBlocks::copy_in_place(std::string name, const Bucket& b, CommId comm, Phase phase, const std::vector<BufferId>& list,
                                 Block& out) {
    out.ops.push_back(pointwise_op(std::move(name), PointwiseKind::copy, b.elements, phase, list, list));
    out.ops.back().queue = queue_of(comm);
}

// The part that a reduction left becomes the sum that the optimizer takes, or is added to it: on the collective's own stream, as FSDP does,
// so that computation need not wait for the reduction.
void BucketBlocks::add_to_sum(const Bucket& b, BufferId part, QueueId queue, Block& out) {
    const Phase phase = Phase::gradient_reduce;
    const BufferId sum = b.gradient_shard;
    out.ops.push_back(b.accumulates
                          ? pointwise_op("accumulate." + bucket_name(b), PointwiseKind::add, b.shard_elements, phase, {part, sum}, {sum})
                          : pointwise_op("widen." + bucket_name(b), PointwiseKind::cast, b.shard_elements, phase, {part}, {sum}));
    out.ops.back().queue = queue;
    out.ops.push_back(memory_op(Free{part}, phase));
}

void BucketBlocks::make_reduce(Bucket& b) {
    Block out = block(b, BlockKind::reduce, "reduce");
    const Phase phase = Phase::gradient_reduce;
    // Unsharded, replicas of a shard group are ranks like the others.
    const AxisMask axes = static_cast<AxisMask>(dp.sharded(b) ? dp.shard_axes : dp.shard_axes | mask(Axis::dpr));
    const CommId comm = communicator(b, dp.fsdp && dp.sharded(b) ? "dp.shard" : "dp.reduce", axes);
    std::vector<BufferId> whole = gradients(b);
    const bool casts = dp.sharded(b) && is_cast(l.scenario.strategy.compresses());
    const DType sent = casts ? compressed() : grad_dtype; // others: reduce_smaller, scatter_smaller
    const Bytes full = bytes({dp.sharded(b) ? b.shard_elements * b.shards : b.elements}, sent);
    planned(b).reduce = comm;
    planned(b).reduced_in = sent;
    const std::string name = bucket_name(b);
    if (l.practice.copies_to_buckets) // the copies back follow the backward pass, and take their time here
        for (const char* how : {"to_bucket.", "from_bucket."}) copy_beside(how + name, b, whole, out);
    if (!dp.sharded(b)) {
        if (!reduce_smaller(b, comm, whole, out))
            out.ops.push_back(comm_op("reduce." + name, CollectiveKind::all_reduce, comm, full, grad_dtype, phase, whole, whole));
        b.reduce = l.add(std::move(out));
        return;
    }
    BufferId flat_copy = -1;
    std::vector<BufferId> held;    // gradients that stay while a copy of them travels
    if (dp.fsdp && dp.zero >= 2) { // FSDP copies a unit's gradients into one flat buffer, in the dtype they are reduced in
        flat_copy = flatten_unit(b, sent, whole, out);
        for (BufferId g : whole) out.ops.push_back(memory_op(Free{g}, phase));
        whole = {flat_copy};
    } else if (sent != grad_dtype) { // cast for their way, and back where they arrive
        flat_copy = flatten(b, "compress.", sent, whole, out);
        held = std::exchange(whole, {flat_copy});
    }
    BufferId part = b.gradient_shard;
    if (b.comes_with_backward && !b.accumulates) out.ops.push_back(memory_op(Alloc{part}, phase));
    const bool widens = l.buffer(part).dtype != sent;
    if (b.accumulates || widens) {
        part = flat(b, "g.part", Role::gradient_part, b.shard_elements, sent, MemoryKind::communication, Scope::action,
                    PlacementKind::sharded);
        out.ops.push_back(memory_op(Alloc{part}, phase));
    }
    if (!scatter_smaller(b, comm, whole, part, out)) {
        if (l.practice.copies_with_collectives)
            for (const char* how : {"to_bucket.", "join.", "divide."}) copy_in_place(how + name, b, comm, phase, whole, out);
        out.ops.push_back(comm_op("reduce." + name, CollectiveKind::reduce_scatter, comm, full, sent, phase, whole, {part}));
        std::get<Collective>(out.ops.back().work).whole = l.practice.reduces_whole;
    }
    for (const CollectiveKind kind : {CollectiveKind::reduce_scatter, CollectiveKind::all_to_all})
        divide(l, b, kind, reductions_of(l, b, grad_dtype), out);
    if (flat_copy >= 0 && l.practice.sharding == Sharding::per_parameter)
        b.drop = l.add(drop_block(b, flat_copy));
    else if (flat_copy >= 0)
        out.ops.push_back(memory_op(Free{flat_copy}, phase));
    if (dp.zero >= 2)
        for (BufferId g : flat_copy >= 0 ? held : whole) out.ops.push_back(memory_op(Free{g}, phase));
    const bool once = b.accumulates && l.scenario.strategy.gradient_sync == GradientSync::boundary;
    if (b.replicas > 1 && once) b.replicate = l.add(replicate_block(b, b.gradient_shard));
    if (b.replicas > 1 && !once) add_replicas(b, part, out);
    if (part != b.gradient_shard) add_to_sum(b, part, queue_of(comm), out);
    b.reduce = l.add(std::move(out));
    if (begins_anew(b)) b.reduce_first = l.add(first_reduction(b, part));
}

// Bytes of what is gathered of a bucket's elements: matrices of layers as they are multiplied where they are cast before (torchao).
Bytes BucketBlocks::gathered_bytes(const Bucket& b) const {
    std::int64_t low = 0;
    for (std::int32_t i : b.parameters)
        if (l.buffer(parameter(b, i).weight).dtype == DType::fp8) low += parameter(b, i).elements;
    return bytes({b.shard_elements * b.shards - low}, b.dtype) + bytes({low}, DType::fp8);
}

// Weights of layers' linears that are cast before they are gathered: whole ones have 8 bits.
void BucketBlocks::gather_low(const Bucket& b) {
    for (std::int32_t i : b.parameters) {
        const Parameter& p = parameter(b, i);
        if (!p.matrix || l.graphs[p.chunk].unit_kinds[p.unit] != UnitKind::layer) continue;
        set_dtype(l.buffer(p.weight), DType::fp8);
    }
}

// The copy of a wide shard that is gathered, on a stream of its own: it is there before the gather ahead of it has ended.
BufferId BucketBlocks::cast_shard(Bucket& b, Block& out) {
    const Phase phase = Phase::param_gather;
    const BufferId low =
        flat(b, "w.cast", Role::parameter_shard, b.shard_elements, b.dtype, MemoryKind::parameters, Scope::action, PlacementKind::sharded);
    out.ops.push_back(memory_op(Alloc{low}, phase));
    out.ops.push_back(pointwise_op("cast." + bucket_name(b), PointwiseKind::cast, b.shard_elements, phase, {b.weight_shard}, {low}));
    out.ops.back().queue = queue_of(l.add_communicator("dp.cast", 0));
    return low;
}

// The block of both passes, or another for the backward pass (without a second copy near by, which has one: make_secondary).
void BucketBlocks::gather_as_called(Bucket& b, Block out) {
    const Calls each = gathers_of(l, b), more = further_gathers_of(l, b);
    const bool again = l.practice.copies_with_collectives && dp.gathers_in_step && more.count > 0 && dp.secondary == 1 &&
                       l.scenario.strategy.offload.parameters == Tier::none;
    if (again) {
        Block backward = out;
        backward.name.insert(backward.name.find(':'), "_more");
        divide(l, b, CollectiveKind::all_gather, {each.count + more.count, each.elements + more.elements}, backward);
        b.gather_again = l.add(std::move(backward));
    }
    if (dp.gathers_in_step) divide(l, b, CollectiveKind::all_gather, each, out);
    b.gather = l.add(std::move(out));
}

void BucketBlocks::make_gather(Bucket& b) {
    if (l.scenario.runtime.fp8_all_gather && l.scenario.training.precision == DType::fp8 && dp.gathers_in_step) gather_low(b);
    Block out = block(b, BlockKind::gather, "gather");
    const Phase phase = Phase::param_gather;
    const CommId comm = communicator(b, dp.fsdp ? "dp.shard" : "dp.gather", dp.shard_axes);
    const Bytes full = gathered_bytes(b);
    planned(b).gather = comm;
    planned(b).gathered_in = b.dtype;
    const std::string name = bucket_name(b);
    const bool copies_out = l.practice.sharding == Sharding::per_parameter && dp.gathers_in_step;
    const bool casts = dp.wide_shards && b.trained;
    const BufferId shard = casts ? cast_shard(b, out) : b.weight_shard;
    std::vector<BufferId> into = weights(b);
    if (copies_out) {
        into = {flat(b, "w.flat", Role::gathered_parameters, b.shard_elements * b.shards, b.dtype, MemoryKind::communication, Scope::action,
                     PlacementKind::invariant)};
        l.buffer(into.front()).bytes = full;
        out.ops.push_back(memory_op(Alloc{into.front()}, phase));
    } else if (dp.gathers_in_step) {
        for (BufferId w : into) out.ops.push_back(memory_op(Alloc{w}, phase));
    }
    if (l.scenario.strategy.quantized_weights != QuantizedWeights::none && b.dtype != DType::nf4)
        gather_in_blocks(b, DType::int8, comm, shard, b.shards, into, out);
    else {
        out.ops.push_back(comm_op("gather." + name, CollectiveKind::all_gather, comm, full, b.dtype, phase, {shard}, into));
        if (l.practice.copies_with_collectives && dp.gathers_in_step) copy_in_place("join." + name, b, comm, phase, into, out);
    }
    if (casts) out.ops.push_back(memory_op(Free{shard}, phase));
    gather_as_called(b, std::move(out));
    if (copies_out) { // a block of its own: computation copies where it needs the parameters, not where they were asked for
        Block copy = block(b, BlockKind::gather, "copy_out");
        for (BufferId w : weights(b)) copy.ops.push_back(memory_op(Alloc{w}, phase));
        copy.ops.push_back(pointwise_op("copy_out." + name, PointwiseKind::copy, b.elements, phase, into, weights(b)));
        copy.ops.push_back(memory_op(Free{into.front()}, phase));
        b.copy_out = l.add(std::move(copy));
    }
    if (!dp.gathers_in_step) return;
    Block release = block(b, BlockKind::release, "release");
    if (dp.secondary > 1 && l.practice.copies_with_collectives) release.ops.push_back(stop_for_copy(weights(b)));
    for (BufferId w : weights(b)) release.ops.push_back(memory_op(Free{w}, phase));
    b.release = l.add(std::move(release));
}

void BucketBlocks::make_acquire(Bucket& b) {
    Block out = block(b, BlockKind::other, "acquire");
    for (BufferId g : gradients(b)) {
        if (!dp.made_in_backward) l.buffer(g).scope = Scope::action;
        out.ops.push_back(memory_op(Alloc{g}, Phase::backward_weight));
    }
    b.acquire = l.add(std::move(out));
}

// Padding after a bucket's tensors, so that its shards are whole: bytes that no op touches.
void BucketBlocks::pad(const Bucket& b, BufferId first, const char* name) {
    const std::int64_t elements = b.shard_elements * b.shards - b.elements;
    if (elements == 0) return;
    const BufferId id =
        flat(b, name, Role::padding, elements, l.buffer(first).dtype, MemoryKind::communication, Scope::run, PlacementKind::invariant);
    l.buffer(id).placement = {};
}

void BucketBlocks::make_shards(Bucket& b) {
    // Megatron pads a bucket so that every rank's part is whole; 128 elements keep parts aligned.
    const std::int64_t granule = static_cast<std::int64_t>(b.shards) * (dp.fsdp ? 1 : 128);
    b.shard_elements = (b.elements + granule - 1) / granule * granule / b.shards;
    planned(b).shard = b.shard_elements;
    const bool own_storage = dp.zero >= 2;
    // FSDP's shards of gradients have the dtype of the parameters' shards, whatever they are reduced in (_cast_grad_to_param_dtype of
    // FullyShardedDataParallel, foreach_reduce of fully_shard).
    const DType held = l.scenario.training.master_weights ? DType::fp32 : b.dtype, kept = dp.fsdp && own_storage ? held : grad_dtype;
    if (b.trained)
        b.gradient_shard =
            flat(b, "g.shard", Role::gradient_shard, b.shard_elements, kept, MemoryKind::gradients, Scope::step, PlacementKind::sharded);
    if (b.trained && !own_storage) { // in place, in the bucket's own memory
        l.buffer(b.gradient_shard).storage = gradients(b)[0];
        pad(b, gradients(b)[0], "pad.gradients");
    }
    b.weight_shard = flat(b, "w.shard", Role::parameter_shard, b.shard_elements, dp.wide_shards && b.trained ? DType::fp32 : b.dtype,
                          MemoryKind::parameters, Scope::run, PlacementKind::sharded);
    if (!dp.gathers_in_step) {
        l.buffer(b.weight_shard).storage = weights(b)[0];
        pad(b, weights(b)[0], "pad.weights");
    }
    if (dp.gathers_in_step)
        for (BufferId w : weights(b)) l.buffer(w).scope = Scope::action;
}

} // namespace orrery

// Gradients in the host's memory. Where several runs of microbatches add to one, the first of a step leaves its own at its home. After that
// the sum so far comes back to be added to (DeepSpeed accumulates in the host's memory by way of the device), or the host adds what comes
// to it (Practice::adds_on_host). A sum that passes on to NVMe is written there when the step has made it; until then the host has it.
#include "sim/plan/passes/offload_shards.hpp"

#include "sim/plan/passes/bucket_blocks.hpp"
#include "sim/plan/passes/offload_ends.hpp"
#include "sim/plan/passes/offload_homes.hpp"

#include <algorithm>

namespace orrery {
namespace {

std::int32_t store_block(Lowering& l, const Bucket& b, const std::vector<BufferId>& homes) {
    Block out = block_of(l, b, BlockKind::reduce, "store");
    for (BufferId home : homes) store(l, home, out.ops);
    return l.add(std::move(out));
}

// The place of a run among those of a step that add to one gradient.
enum class Run : std::uint8_t { only, first, middle, last };

// Where the sum of some runs waits for the next one's: at its home, or beside it where that is wide.
BufferId waiting_place(Lowering& l, BufferId gradient, BufferId home) {
    if (l.buffer(gradient).dtype == l.buffer(home).dtype) return home;
    Buffer x = l.buffer(home);
    x.name += ".so_far";
    x.dtype = l.buffer(gradient).dtype;
    x.bytes = bytes(x.shape, x.dtype);
    return l.add(std::move(x));
}

// The host adds what comes to it, in `landing`, to the sum at its home.
Op add_on_host(const Lowering& l, BufferId landing, BufferId home) {
    Op add = pointwise_op("accumulate." + l.plan.buffers[home].name, PointwiseKind::add, elements_of(l.plan.buffers[home]), Phase::offload,
                          {landing, home}, {home});
    add.queue = host_queue;
    return add;
}

BufferId landing_for(Lowering& l, BufferId home) {
    Buffer x = l.buffer(home);
    x.name += ".new";
    x.kind = MemoryKind::communication;
    x.scope = Scope::action;
    return l.add(std::move(x));
}

// The thread that adds is the one that launches kernels.
Op wait_for_sums(std::vector<BufferId> homes) {
    Op op;
    op.name = "accumulate.wait";
    op.work = HostSync{};
    op.phase = Phase::offload;
    op.in = std::move(homes);
    return op;
}

// The result of one run's reduction, in the shard's dtype, on its way to the host.
std::vector<Op> leaves(Lowering& l, const Bucket& b, BufferId part, BufferId to, QueueId queue) {
    const BufferId shard = b.gradient_shard;
    if (l.buffer(part).dtype == l.buffer(shard).dtype) return {copy_op(l, part, to)};
    Op cast = pointwise_op("widen." + bucket_name(b), PointwiseKind::cast, b.shard_elements, Phase::gradient_reduce, {part}, {shard});
    cast.queue = queue;
    return {memory_op(Alloc{shard}, Phase::offload), std::move(cast), copy_op(l, shard, to), memory_op(Free{shard}, Phase::offload)};
}

// A reduction that adds to a shard, `add`, as one for each of a step's runs.
struct ShardSum {
    BufferId shard, home, waits; // waits: where the sum of some runs does
    Op add;
    QueueId queue; // of the reduction

    std::vector<Op> of(Lowering& l, const Bucket& b, Run run) const {
        const BufferId part = add.in.front();
        std::vector<Op> ops;
        if (run == Run::first) {
            if (l.disks.contains(home)) ops.push_back(memory_op(Alloc{home}, Phase::offload));
            append(ops, leaves(l, b, part, waits, queue));
            return ops;
        }
        if (l.practice.adds_on_host && b.replicate < 0) {
            const BufferId landing = landing_for(l, home);
            ops.push_back(memory_op(Alloc{landing}, Phase::offload));
            append(ops, leaves(l, b, part, landing, queue));
            append(ops, {add_on_host(l, landing, home), wait_for_sums({home}), memory_op(Free{landing}, Phase::offload)});
            return ops;
        }
        ops = {memory_op(Alloc{shard}, Phase::offload), copy_op(l, waits, shard), add};
        append(ops, leave_for_home(l, shard, run == Run::last ? home : waits));
        return ops;
    }
};

Block of_run(Block like, Run run, std::vector<Op> ops) {
    if (run == Run::first || run == Run::last) like.name.insert(like.name.find(':'), run == Run::first ? "_first" : "_last");
    like.ops = Indexed<std::int32_t, Op>(std::move(ops));
    return like;
}

// One reduction of several: the first finds no sum, the last leaves the whole one.
void send_sum(Lowering& l, Bucket& b) {
    const BufferId shard = b.gradient_shard, home = home_of(l, shard), waits = waiting_place(l, shard, home);
    const QueueId queue = queue_of(l.plan.buckets[b.id].reduce);
    const Block reduce = l.plan.blocks[b.reduce];
    const auto middle = std::find_if(reduce.ops.begin(), reduce.ops.end(), [](const Op& op) {
        const auto* p = std::get_if<Pointwise>(&op.work);
        return p && p->kind == PointwiseKind::add;
    });
    const ShardSum sum{shard, home, waits, *middle, queue};
    const auto make = [&](Run run) {
        std::vector<Op> ops(reduce.ops.begin(), middle);
        append(ops, sum.of(l, b, run));
        ops.insert(ops.end(), middle + 1, reduce.ops.end());
        return of_run(reduce, run, std::move(ops));
    };
    b.reduce_first = l.add(make(Run::first));
    l.plan.blocks[b.reduce] = make(Run::middle);
    if (b.replicate < 0 && waits != home) b.reduce_last = l.add(make(Run::last));
    if (b.replicate < 0) return;
    std::vector<Op> ends = leave_for_home(l, shard, home); // the sum over the copies of the shard, at the end of the step
    Block& replicate = l.plan.blocks[b.replicate];
    insert(replicate, replicate.ops.size(), std::move(ends));
    insert(replicate, 0, {memory_op(Alloc{shard}, Phase::offload), copy_op(l, waits, shard)});
}

} // namespace

void send_shard(Lowering& l, Bucket& b) {
    const BufferId shard = b.gradient_shard, home = home_of(l, shard);
    const bool on_disk = l.disks.contains(home);
    if (b.accumulates) {
        send_sum(l, b);
        if (on_disk) b.store = store_block(l, b, {home});
        return;
    }
    std::vector<Op> ends;
    if (on_disk) ends.push_back(memory_op(Alloc{home}, Phase::offload));
    append(ends, leave_for_home(l, shard, home));
    if (on_disk) store(l, home, ends);
    Block& reduce = l.plan.blocks[b.reduce];
    insert(reduce, reduce.ops.size(), std::move(ends));
    insert(reduce, 0, {memory_op(Alloc{shard}, Phase::offload)});
}

namespace {

// A whole gradient of a rank that shares nothing: what one run does with it.
struct WholeSum {
    BufferId gradient, home, waits, so_far = -1; // so_far: the sum where it is on the device for a while

    std::vector<Op> of(Lowering& l, Run run) {
        const bool on_disk = l.disks.contains(home);
        std::vector<Op> ops;
        if (run == Run::only || run == Run::first) {
            if (on_disk) ops.push_back(memory_op(Alloc{home}, Phase::offload));
            append(ops, leave_for_home(l, gradient, run == Run::only ? home : waits));
            if (on_disk && run == Run::only) store(l, home, ops);
            return ops;
        }
        if (l.practice.adds_on_host) {
            const BufferId landing = landing_for(l, home);
            ops.push_back(memory_op(Alloc{landing}, Phase::offload));
            append(ops, leave_for_home(l, gradient, landing));
            append(ops, {add_on_host(l, landing, home), memory_op(Free{landing}, Phase::offload)});
            return ops;
        }
        if (so_far < 0) {
            Buffer x = summed_over_tensor_parallel(l.buffer(gradient));
            x.name += ".so_far";
            so_far = l.add(std::move(x));
        }
        ops = {memory_op(Alloc{so_far}, Phase::offload), copy_op(l, waits, so_far),
               pointwise_op("accumulate." + l.buffer(gradient).name, PointwiseKind::add, elements_of(l.buffer(gradient)),
                            Phase::gradient_reduce, {gradient, so_far}, {so_far}),
               memory_op(Free{gradient}, Phase::offload)};
        append(ops, leave_for_home(l, so_far, run == Run::last ? home : waits));
        return ops;
    }
};

} // namespace

void send_whole(Lowering& l, Bucket& b) {
    const Block send = block_of(l, b, BlockKind::reduce, "send");
    std::vector<WholeSum> sums;
    std::vector<BufferId> homes;
    bool apart = false; // sums wait elsewhere than at their homes
    for (std::int32_t i : b.parameters) {
        const BufferId gradient = l.parameters[b.stage][i].gradient, home = home_of(l, gradient);
        const BufferId waits = b.accumulates ? waiting_place(l, gradient, home) : home;
        sums.push_back({gradient, home, waits});
        homes.push_back(home);
        apart = apart || waits != home;
    }
    const auto make = [&](Run run) {
        std::vector<Op> ops;
        for (WholeSum& sum : sums) append(ops, sum.of(l, run));
        if (l.practice.adds_on_host && run == Run::middle) ops.push_back(wait_for_sums(homes));
        return l.add(of_run(send, run, std::move(ops)));
    };
    if (!b.accumulates) {
        b.reduce = make(Run::only);
        return;
    }
    b.reduce_first = make(Run::first);
    b.reduce = make(Run::middle);
    if (apart) b.reduce_last = make(Run::last);
    if (l.disks.contains(homes.front())) b.store = store_block(l, b, homes);
}

void sum_over_tensor_parallel(Lowering& l, const Bucket& b) {
    std::vector<BufferId> partial;
    Bytes all;
    for (std::int32_t i : b.parameters) {
        const Parameter& p = l.parameters[b.stage][i];
        if (p.expert || !p.trained() || l.buffer(p.gradient).placement.on(Axis::tp) != PlacementKind::partial) continue;
        partial.push_back(p.gradient);
        all += bytes({p.elements}, l.buffer(p.gradient).dtype);
    }
    if (partial.empty() || l.tp() == 1) return;
    const DType dtype = l.buffer(partial.front()).dtype;
    for (const std::int32_t block : {b.reduce, b.reduce_first, b.reduce_last})
        if (block >= 0)
            insert(l.plan.blocks[block], 0,
                   {comm_op("finalize.tp." + bucket_name(b), CollectiveKind::all_reduce, l.comm("tp"), all, dtype, Phase::gradient_reduce,
                            partial, partial, Collective::Operands::summands)});
}

} // namespace orrery

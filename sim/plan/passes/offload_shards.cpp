// Parameters and gradients in the host's memory (ZeRO-Offload, arXiv:2101.06840; ZeRO-3 Offload; FSDP's CPUOffloadPolicy). A rank's shard
// of a unit's parameters comes from its home on the host over the rank's own link, and is gathered with the others' (ZeRO-Infinity,
// arXiv:2104.07857: all links carry shares of one unit). Where several runs of microbatches add to a gradient, the sum so far comes back to
// be added to: DeepSpeed accumulates in the host's memory by way of the device.
//
// Under tensor parallelism a rank has its part of each tensor there. Under a pipeline (fully_shard alone) a stage gathers and reduces once
// a step: its parameters stay on the device from then on, and offload_optimizer has the one copy of each shard either way.
//
// On NVMe (ZeRO-Infinity) both pass through the host: a shard is read from NVMe some units before it is copied to the device, and that a
// unit before it is gathered. A sum of gradients is written when the step has made it; until then the host has it.
//
// After it: such shards are on the device inside a block alone, and Lowering::homes says where on the host each lives, or passes through on
// its way to where Lowering::disks says.
#include "sim/plan/passes/offload_shards.hpp"
#include "sim/plan/passes/bucket_blocks.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <set>

namespace orrery {
namespace {

// A gradient as it is when it leaves the device: summed over tensor-parallel ranks.
Buffer summed_over_tensor_parallel(Buffer b) {
    if (b.placement.on(Axis::tp) == PlacementKind::partial) b.placement.set(Axis::tp, PlacementKind::invariant);
    return b;
}

// Where `b` lives from now on, on the host or behind it; on the device it is inside an action alone.
BufferId home_of(Lowering& l, BufferId b) {
    const auto [it, fresh] = l.homes.try_emplace(b, -1);
    if (!fresh) return it->second;
    const bool weight = l.buffer(b).kind == MemoryKind::parameters;
    const Offload& o = l.scenario.strategy.offload;
    Buffer x = summed_over_tensor_parallel(l.buffer(b));
    l.buffer(b).scope = Scope::action;
    x.storage = -1;
    x.scope = weight ? Scope::run : Scope::step;
    BufferId disk = -1;
    if ((weight ? o.parameters : o.gradients) == Tier::nvme) {
        Buffer away = x;
        away.name = "disk." + x.name;
        away.space = Space::nvme;
        disk = l.add(std::move(away));
        x.scope = Scope::action;
    }
    x.name = "host." + x.name;
    x.space = Space::host;
    it->second = l.add(std::move(x));
    if (disk >= 0) l.disks[it->second] = disk;
    return it->second;
}

// From the host to NVMe, which leaves the host without it.
void store(Lowering& l, BufferId home, std::vector<Op>& ops) {
    ops.push_back(copy_op(l, home, l.disks.at(home)));
    ops.push_back(memory_op(Free{home}, Phase::offload));
}

Block block_of(const Lowering& l, const Bucket& b, BlockKind kind, const char* what) {
    const Graph& g = l.graphs[b.chunk];
    Block out;
    out.name = fmt::format("{}:c{}.u{}", what, g.chunk, b.units.front());
    out.kind = kind;
    out.stage = static_cast<std::int16_t>(b.stage);
    out.chunk = static_cast<std::int16_t>(b.chunk);
    return out;
}

std::size_t find(const Block& b, bool (*is)(const Op&)) {
    return static_cast<std::size_t>(std::find_if(b.ops.begin(), b.ops.end(), is) - b.ops.begin());
}

void insert(Block& b, std::size_t place, std::vector<Op> ops) {
    b.ops.insert(b.ops.begin() + static_cast<std::ptrdiff_t>(place), std::make_move_iterator(ops.begin()),
                 std::make_move_iterator(ops.end()));
}

} // namespace

Op copy_op(const Lowering& l, BufferId from, BufferId to) {
    const Buffer &a = l.plan.buffers[from], &b = l.plan.buffers[to];
    struct Way {
        CopyKind kind;
        QueueId queue;
        const char* prefix;
    };
    const Way way = a.space == Space::device ? Way{CopyKind::device_to_host, d2h_queue, "to_host."}
                    : a.space == Space::nvme ? Way{CopyKind::nvme_to_host, from_disk_queue, "from_disk."}
                    : b.space == Space::nvme ? Way{CopyKind::host_to_nvme, to_disk_queue, "to_disk."}
                                             : Way{CopyKind::host_to_device, h2d_queue, "from_host."};
    const bool leaves = way.kind == CopyKind::device_to_host || way.kind == CopyKind::host_to_nvme;
    Op op;
    op.name = way.prefix + (leaves ? a : b).name;
    op.work = Copy{way.kind, a.bytes};
    op.queue = way.queue;
    op.phase = Phase::offload;
    op.in = {from};
    op.out = {to};
    return op;
}

namespace {

// The block that reads these homes' contents from NVMe; -1 where they live on the host.
std::int32_t read_block(Lowering& l, const Bucket& b, const std::vector<BufferId>& homes) {
    if (!l.disks.contains(homes.front())) return -1;
    Block read = block_of(l, b, BlockKind::other, "read");
    for (BufferId home : homes) {
        read.ops.push_back(memory_op(Alloc{home}, Phase::offload));
        read.ops.push_back(copy_op(l, l.disks.at(home), home));
    }
    return l.add(std::move(read));
}

std::int32_t store_block(Lowering& l, const Bucket& b, const std::vector<BufferId>& homes) {
    Block out = block_of(l, b, BlockKind::reduce, "store");
    for (BufferId home : homes) store(l, home, out.ops);
    return l.add(std::move(out));
}

} // namespace

void fetch_shard(Lowering& l, Bucket& b) {
    const BufferId shard = b.weight_shard, home = home_of(l, shard);
    b.read = read_block(l, b, {home});
    Block& gather = l.plan.blocks[b.gather];
    const std::size_t at = find(gather, [](const Op& op) { return std::holds_alternative<Collective>(op.work); });
    insert(gather, at + 1, {memory_op(Free{shard}, Phase::offload)});
    if (b.read >= 0) insert(gather, at, {memory_op(Free{home}, Phase::offload)});
    insert(gather, at, {memory_op(Alloc{shard}, Phase::offload), copy_op(l, home, shard)});
}

void send_shard(Lowering& l, Bucket& b) {
    const BufferId shard = b.gradient_shard, home = home_of(l, shard);
    const bool on_disk = l.disks.contains(home);
    if (b.replicate >= 0) { // the sum over the copies of the shard, at the end of the step
        Block& replicate = l.plan.blocks[b.replicate];
        insert(replicate, replicate.ops.size(), {copy_op(l, shard, home), memory_op(Free{shard}, Phase::offload)});
        insert(replicate, 0, {memory_op(Alloc{shard}, Phase::offload), copy_op(l, home, shard)});
    }
    if (on_disk && b.accumulates) b.store = store_block(l, b, {home});
    Block& reduce = l.plan.blocks[b.reduce];
    if (!b.accumulates) {
        std::vector<Op> leaves{copy_op(l, shard, home), memory_op(Free{shard}, Phase::offload)};
        if (on_disk) {
            leaves.insert(leaves.begin(), memory_op(Alloc{home}, Phase::offload));
            store(l, home, leaves);
        }
        insert(reduce, reduce.ops.size(), std::move(leaves));
        insert(reduce, 0, {memory_op(Alloc{shard}, Phase::offload)});
        return;
    }
    const std::size_t at = find(reduce, [](const Op& op) {
        const auto* p = std::get_if<Pointwise>(&op.work);
        return p && p->kind == PointwiseKind::add;
    });
    insert(reduce, at + 1, {copy_op(l, shard, home), memory_op(Free{shard}, Phase::offload)});
    insert(reduce, at, {memory_op(Alloc{shard}, Phase::offload), copy_op(l, home, shard)});
}

void fetch_whole(Lowering& l, Bucket& b) {
    Block gather = block_of(l, b, BlockKind::gather, "fetch"), release = block_of(l, b, BlockKind::release, "release");
    std::vector<BufferId> homes;
    for (std::int32_t i : b.parameters) {
        const BufferId w = l.parameters[b.stage][i].weight;
        const BufferId home = home_of(l, w);
        homes.push_back(home);
        gather.ops.push_back(memory_op(Alloc{w}, Phase::offload));
        gather.ops.push_back(copy_op(l, home, w));
        if (l.disks.contains(home)) gather.ops.push_back(memory_op(Free{home}, Phase::offload));
        release.ops.push_back(memory_op(Free{w}, Phase::offload));
    }
    b.read = read_block(l, b, homes);
    b.gather = l.add(std::move(gather));
    b.release = l.add(std::move(release));
}

void send_whole(Lowering& l, Bucket& b) {
    Block send = block_of(l, b, BlockKind::reduce, "send");
    std::vector<BufferId> homes;
    for (std::int32_t i : b.parameters) {
        const Parameter& p = l.parameters[b.stage][i];
        const BufferId home = home_of(l, p.gradient);
        const bool on_disk = l.disks.contains(home);
        homes.push_back(home);
        if (!b.accumulates) {
            if (on_disk) send.ops.push_back(memory_op(Alloc{home}, Phase::offload));
            send.ops.push_back(copy_op(l, p.gradient, home));
            send.ops.push_back(memory_op(Free{p.gradient}, Phase::offload));
            if (on_disk) store(l, home, send.ops);
            continue;
        }
        Buffer so_far = summed_over_tensor_parallel(l.buffer(p.gradient));
        so_far.name += ".so_far";
        const BufferId sum = l.add(std::move(so_far));
        send.ops.push_back(memory_op(Alloc{sum}, Phase::offload));
        send.ops.push_back(copy_op(l, home, sum));
        Op add;
        add.name = "accumulate." + l.buffer(p.gradient).name;
        add.work = Pointwise{PointwiseKind::add, Direction::forward, p.elements, true};
        add.phase = Phase::gradient_reduce;
        add.in = {p.gradient, sum};
        add.out = {sum};
        send.ops.push_back(std::move(add));
        send.ops.push_back(memory_op(Free{p.gradient}, Phase::offload));
        send.ops.push_back(copy_op(l, sum, home));
        send.ops.push_back(memory_op(Free{sum}, Phase::offload));
    }
    if (b.accumulates && l.disks.contains(homes.front())) b.store = store_block(l, b, homes);
    b.reduce = l.add(std::move(send));
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
    insert(l.plan.blocks[b.reduce], 0,
           {comm_op("finalize.tp." + bucket_name(b), CollectiveKind::all_reduce, l.comm("tp"), all, dtype, Phase::gradient_reduce, partial,
                    partial, Collective::Operands::summands)});
}

void read_ahead(const Lowering& l, Draft& draft) {
    std::map<std::int32_t, std::int32_t> gather_of; // by block that reads
    std::set<std::int32_t> gathers;
    for (const auto& of_chunk : l.data_parallel.buckets)
        for (const Bucket& b : of_chunk)
            if (b.read >= 0) gather_of[b.read] = b.gather, gathers.insert(b.gather);
    std::vector<DraftAction> reads, rest;
    for (DraftAction& a : draft.actions) (gather_of.contains(a.run.block) ? reads : rest).push_back(std::move(a));
    const auto buffers = static_cast<std::size_t>(l.scenario.strategy.offload.buffers);
    draft.actions.clear();
    std::vector<std::int32_t> taken; // ids of the gathers so far
    std::size_t next = 0;
    // A read begins when one of the rooms is free: when the gather that many places earlier has taken its parameters from there.
    const auto read = [&](std::size_t until) {
        for (; next < reads.size() && next < until; ++next) {
            const std::int32_t own = gather_of.at(reads[next].run.block);
            if (std::count_if(reads.begin() + static_cast<std::ptrdiff_t>(taken.size()), reads.begin() + static_cast<std::ptrdiff_t>(next),
                              [&](const DraftAction& r) { return gather_of.at(r.run.block) == own; }) > 0)
                return; // its own room is still taken
            const std::int32_t op = first_timed_op(l.plan.blocks[reads[next].run.block], 0, reads[next].run.last);
            if (next >= buffers) reads[next].waits.push_back({op, taken[next - buffers]});
            draft.actions.push_back(std::move(reads[next]));
        }
    };
    for (DraftAction& a : rest) {
        if (gathers.contains(a.run.block)) {
            read(taken.size() + buffers);
            taken.push_back(a.id);
        }
        draft.actions.push_back(std::move(a));
    }
}

} // namespace orrery

// Parameters and gradients in the host's memory (ZeRO-Offload, arXiv:2101.06840; ZeRO-3 Offload; FSDP's CPUOffloadPolicy). A rank's shard
// of a unit's parameters comes from its home on the host over the rank's own link, and is gathered with the others' (ZeRO-Infinity,
// arXiv:2104.07857: all links carry shares of one unit). Where several runs of microbatches add to a gradient, the sum so far comes back to
// be added to: DeepSpeed accumulates in the host's memory by way of the device.
//
// After it: such shards are on the device inside a block alone, and Lowering::homes says where each lives.
#include "sim/plan/passes/offload_shards.hpp"
#include "sim/plan/passes/bucket_blocks.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace orrery {
namespace {

Op copy_op(const Lowering& l, BufferId from, BufferId to) {
    const Buffer& x = l.plan.buffers[static_cast<std::size_t>(from)];
    const bool leaves = x.space == Space::device;
    Op op;
    op.name = leaves ? "to_host." + x.name : "from_host." + l.plan.buffers[static_cast<std::size_t>(to)].name;
    op.work = Copy{leaves ? CopyKind::device_to_host : CopyKind::host_to_device, x.bytes};
    op.queue = leaves ? d2h_queue : h2d_queue;
    op.phase = Phase::offload;
    op.in = {from};
    op.out = {to};
    return op;
}

// Where `b` lives from now on; on the device it is inside an action alone.
BufferId home_of(Lowering& l, BufferId b) {
    const auto [it, fresh] = l.homes.try_emplace(b, -1);
    if (!fresh) return it->second;
    Buffer x = l.buffer(b);
    x.name = "host." + x.name;
    x.space = Space::host;
    x.scope = x.kind == MemoryKind::parameters ? Scope::run : Scope::step;
    x.storage = -1;
    l.buffer(b).scope = Scope::action;
    return it->second = l.add(std::move(x));
}

Block block_of(const Lowering& l, const Bucket& b, BlockKind kind, const char* what) {
    const Graph& g = l.graphs[static_cast<std::size_t>(b.chunk)];
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

void fetch_shard(Lowering& l, Bucket& b) {
    const BufferId shard = b.weight_shard, home = home_of(l, shard);
    Block& gather = l.plan.blocks[static_cast<std::size_t>(b.gather)];
    const std::size_t at = find(gather, [](const Op& op) { return std::holds_alternative<Collective>(op.work); });
    insert(gather, at + 1, {memory_op(Free{shard}, Phase::offload)});
    insert(gather, at, {memory_op(Alloc{shard}, Phase::offload), copy_op(l, home, shard)});
}

void send_shard(Lowering& l, Bucket& b) {
    const BufferId shard = b.gradient_shard, home = home_of(l, shard);
    Block& reduce = l.plan.blocks[static_cast<std::size_t>(b.reduce)];
    if (!b.accumulates) {
        insert(reduce, reduce.ops.size(), {copy_op(l, shard, home), memory_op(Free{shard}, Phase::offload)});
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
    for (std::int32_t i : b.parameters) {
        const BufferId w = l.parameters[static_cast<std::size_t>(b.stage)][static_cast<std::size_t>(i)].weight;
        const BufferId home = home_of(l, w);
        gather.ops.push_back(memory_op(Alloc{w}, Phase::offload));
        gather.ops.push_back(copy_op(l, home, w));
        release.ops.push_back(memory_op(Free{w}, Phase::offload));
    }
    b.gather = l.add(std::move(gather));
    b.release = l.add(std::move(release));
}

void send_whole(Lowering& l, Bucket& b) {
    Block send = block_of(l, b, BlockKind::reduce, "send");
    for (std::int32_t i : b.parameters) {
        const Parameter& p = l.parameters[static_cast<std::size_t>(b.stage)][static_cast<std::size_t>(i)];
        const BufferId home = home_of(l, p.gradient);
        if (!b.accumulates) {
            send.ops.push_back(copy_op(l, p.gradient, home));
            send.ops.push_back(memory_op(Free{p.gradient}, Phase::offload));
            continue;
        }
        Buffer so_far = l.buffer(p.gradient);
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
    b.reduce = l.add(std::move(send));
}

} // namespace orrery

#include "sim/plan/passes/offload_homes.hpp"

#include "sim/plan/passes/bucket_blocks.hpp"
#include "sim/plan/passes/offload_ends.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace orrery {
namespace {

// In fp32, on the device for a while.
BufferId wide_copy(Lowering& l, BufferId b) {
    Buffer x = summed_over_tensor_parallel(l.buffer(b));
    x.name += ".fp32";
    if (x.kind == MemoryKind::parameters) x.role = Role::master_copy;
    x.kind = MemoryKind::communication;
    x.scope = Scope::action;
    x.storage = -1;
    set_dtype(x, DType::fp32);
    return l.add(std::move(x));
}

Op cast_op(const Lowering& l, BufferId from, BufferId to, QueueId queue, Phase phase) {
    Op op = pointwise_op("cast." + l.plan.buffers[from].name, PointwiseKind::cast, elements_of(l.plan.buffers[from]), phase, {from}, {to});
    op.queue = queue;
    return op;
}

// A frozen parameter, or a bucket of them, keeps its own type at its home: nothing updates it there.
bool is_trained(const Lowering& l, const Buffer& b) {
    const std::vector<BucketTensor>* tensors = b.bucket >= 0 ? &l.plan.buckets[b.bucket].tensors : nullptr;
    const TensorId t = b.tensor < 0 && tensors && !tensors->empty() ? tensors->front().tensor : b.tensor;
    return t < 0 || l.plan.tensors[t].trained;
}

} // namespace

Buffer summed_over_tensor_parallel(Buffer b) {
    if (b.placement.on(Axis::tp) == PlacementKind::partial) b.placement.set(Axis::tp, PlacementKind::invariant);
    return b;
}

Buffer as_on_host(const Lowering& l, Buffer b) {
    const bool narrow = b.dtype == DType::fp16 || b.dtype == DType::bf16,
               widens = b.kind == MemoryKind::parameters ? l.practice.fp32_homes : l.practice.crosses_in_fp32;
    if (narrow && widens && is_trained(l, b)) set_dtype(b, DType::fp32);
    b.name = "host." + b.name;
    b.space = Space::host;
    b.storage = -1;
    return b;
}

BufferId home_of(Lowering& l, BufferId b) {
    const auto [it, fresh] = l.homes.try_emplace(b, -1);
    if (!fresh) return it->second;
    const bool weight = l.buffer(b).kind == MemoryKind::parameters;
    const Offload& o = l.scenario.strategy.offload;
    Buffer x = as_on_host(l, summed_over_tensor_parallel(l.buffer(b)));
    l.buffer(b).scope = Scope::action;
    x.scope = weight ? Scope::run : Scope::step;
    BufferId disk = -1;
    if ((weight ? o.parameters : o.gradients) == Tier::nvme) {
        Buffer away = x;
        away.space = Space::nvme;
        away.name = "disk." + l.buffer(b).name;
        disk = l.add(std::move(away));
        x.scope = Scope::action;
    }
    it->second = l.add(std::move(x));
    if (disk >= 0) l.disks[it->second] = disk;
    return it->second;
}

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

std::vector<Op> to_home(Lowering& l, BufferId here, BufferId home) {
    if (l.buffer(here).dtype == l.buffer(home).dtype) return {copy_op(l, here, home)};
    const BufferId wide = wide_copy(l, here);
    return {memory_op(Alloc{wide}, Phase::offload), cast_op(l, here, wide, d2h_queue, Phase::offload), copy_op(l, wide, home),
            memory_op(Free{wide}, Phase::offload)};
}

std::vector<Op> leave_for_home(Lowering& l, BufferId here, BufferId home) {
    std::vector<Op> ops = to_home(l, here, home);
    const auto read = std::find_if(ops.begin(), ops.end(), [&](const Op& op) { return !op.in.empty() && op.in.front() == here; });
    ops.insert(read + 1, memory_op(Free{here}, Phase::offload));
    return ops;
}

std::vector<Op> from_home(Lowering& l, BufferId home, BufferId here) {
    if (l.buffer(here).dtype == l.buffer(home).dtype) return {copy_op(l, home, here)};
    const BufferId wide = wide_copy(l, here);
    return {memory_op(Alloc{wide}, Phase::offload), copy_op(l, home, wide), cast_op(l, wide, here, h2d_queue, Phase::param_gather),
            memory_op(Free{wide}, Phase::offload)};
}

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

void append(std::vector<Op>& to, std::vector<Op> ops) {
    to.insert(to.end(), std::make_move_iterator(ops.begin()), std::make_move_iterator(ops.end()));
}

void insert(Block& b, std::size_t place, std::vector<Op> ops) {
    b.ops.insert(b.ops.begin() + static_cast<std::ptrdiff_t>(place), std::make_move_iterator(ops.begin()),
                 std::make_move_iterator(ops.end()));
}

} // namespace orrery

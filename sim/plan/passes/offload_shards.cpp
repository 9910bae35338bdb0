// Parameters and gradients in the host's memory (ZeRO-Offload, arXiv:2101.06840; ZeRO-3 Offload; FSDP's CPUOffloadPolicy). A rank's shard
// of a unit's parameters comes from its home on the host over the rank's own link, and is gathered with the others' (ZeRO-Infinity,
// arXiv:2104.07857: all links carry shares of one unit). Gradients go the other way: offload_gradients.cpp.
//
// A tensor that is narrow on the device and wide at its home passes through a wide copy on the device (Practice::fp32_homes,
// crosses_in_fp32).
//
// Under tensor parallelism a rank has its part of each tensor there. Under a pipeline (fully_shard alone) a stage gathers and reduces once
// a step: its parameters stay on the device from then on, and offload_optimizer has the one copy of each shard either way.
//
// On NVMe (ZeRO-Infinity) both pass through the host: a shard is read from NVMe some units before it is copied to the device, and that a
// unit before it is gathered.
//
// After it: such shards are on the device inside a block alone, and Lowering::homes says where on the host each lives, or passes through on
// its way to where Lowering::disks says.
#include "sim/plan/passes/offload_shards.hpp"

#include "sim/plan/passes/bucket_blocks.hpp"
#include "sim/plan/passes/offload_homes.hpp"

#include <algorithm>
#include <map>
#include <set>

namespace orrery {
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

} // namespace

void fetch_shard(Lowering& l, Bucket& b) {
    const BufferId shard = b.weight_shard, home = home_of(l, shard);
    b.read = read_block(l, b, {home});
    std::vector<Op> comes{memory_op(Alloc{shard}, Phase::offload)};
    append(comes, from_home(l, home, shard));
    Block& gather = l.plan.blocks[b.gather];
    const auto is_gather = [](const Op& op) { return std::holds_alternative<Collective>(op.work); };
    const auto at = static_cast<std::size_t>(std::find_if(gather.ops.begin(), gather.ops.end(), is_gather) - gather.ops.begin());
    insert(gather, at + 1, {memory_op(Free{shard}, Phase::offload)});
    if (b.read >= 0) insert(gather, at, {memory_op(Free{home}, Phase::offload)});
    insert(gather, at, std::move(comes));
}

void fetch_whole(Lowering& l, Bucket& b) {
    Block gather = block_of(l, b, BlockKind::gather, "fetch"), release = block_of(l, b, BlockKind::release, "release");
    std::vector<BufferId> homes;
    for (std::int32_t i : b.parameters) {
        const BufferId w = l.parameters[b.stage][i].weight;
        const BufferId home = home_of(l, w);
        homes.push_back(home);
        gather.ops.push_back(memory_op(Alloc{w}, Phase::offload));
        for (Op& op : from_home(l, home, w)) gather.ops.push_back(std::move(op));
        if (l.disks.contains(home)) gather.ops.push_back(memory_op(Free{home}, Phase::offload));
        release.ops.push_back(memory_op(Free{w}, Phase::offload));
    }
    b.read = read_block(l, b, homes);
    b.gather = l.add(std::move(gather));
    b.release = l.add(std::move(release));
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

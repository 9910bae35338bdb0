// The schedule: which compute steps each stage runs, in which order. The schedule's own file says the order; here it is told the shape and,
// where it plans with times, how long a step's parts take.
//
// After it: Lowering::order has every stage's steps, without transfers.
#include "sim/plan/inputs.hpp"
#include "sim/plan/passes/passes.hpp"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <set>

namespace orrery {
namespace {

double block_flops(const Plan& plan, std::int32_t block) {
    double sum = 0;
    if (block >= 0)
        for (const Op& op : plan.blocks[static_cast<std::size_t>(block)].ops) sum += flops(op.work).count;
    return sum;
}

// Bytes of a microbatch's own buffers that the blocks `from` write and the blocks `to` read: what is held in between.
double bytes_kept(const Plan& plan, std::initializer_list<std::int32_t> from, std::initializer_list<std::int32_t> to) {
    const auto buffer = [&](BufferId b) -> const Buffer& { return plan.buffers[static_cast<std::size_t>(b)]; };
    std::set<BufferId> written, kept;
    for (std::int32_t block : from)
        for (const Op& op : plan.blocks[static_cast<std::size_t>(block)].ops)
            for (BufferId b : op.out)
                if (buffer(b).scope == Scope::microbatch) written.insert(storage(plan, b));
    for (std::int32_t block : to)
        for (const Op& op : plan.blocks[static_cast<std::size_t>(block)].ops)
            for (BufferId b : op.in)
                if (written.contains(storage(plan, b))) kept.insert(storage(plan, b));
    double bytes = 0;
    for (BufferId b : kept) bytes += static_cast<double>(buffer(b).bytes.count);
    return bytes;
}

// What a microbatch still holds when only its weight step is left, of all that its forward step leaves behind: in sixteenths, rounded up.
double share_owed(const Plan& plan, const ChunkBlocks& chunk) {
    if (chunk.weight < 0) return 1;
    const double whole = bytes_kept(plan, {chunk.forward}, {chunk.backward, chunk.weight});
    const double owed = bytes_kept(plan, {chunk.forward, chunk.backward}, {chunk.weight});
    return whole > 0 ? std::clamp(std::ceil(16 * owed / whole) / 16, 1.0 / 16, 1.0) : 1;
}

// Schedules that plan with times get them from the middle chunk's FLOPs, and a transfer's from the NIC: rough, as the real
// planner's profile would be better, but the same for every cost model, so that the plan does not depend on it.
void set_relative_times(const Lowering& l, ScheduleShape& shape) {
    if (!l.schedule->splits_backward) return;
    const ChunkBlocks& middle = l.chunks[l.chunks.size() / 2];
    const double forward = block_flops(l.plan, middle.forward);
    if (forward <= 0) return;
    shape.owed = share_owed(l.plan, middle);
    // In eighths of a forward step: finer differences would only make orders that alike chunks do not share.
    shape.input = std::max(1.0, std::round(8 * block_flops(l.plan, middle.backward) / forward)) / 8;
    shape.weight = std::max(1.0, std::round(8 * block_flops(l.plan, middle.weight) / forward)) / 8;
    const ScheduleRates rates = schedule_rates(l.scenario);
    if (rates.peak <= 0 || middle.input < 0) return;
    constexpr double usual_efficiency = 0.5; // of the peak: what dense training reaches
    const double seconds = forward / (usual_efficiency * rates.peak);
    const double transfer = static_cast<double>(l.plan.buffers[static_cast<std::size_t>(middle.input)].bytes.count) / rates.link;
    shape.communication = std::floor(16 * transfer / seconds) / 16;
}

} // namespace

void schedule(Lowering& l) {
    const ScheduleInfo& info = *l.schedule;
    const Strategy& st = l.scenario.strategy;
    ScheduleShape shape;
    shape.stages = l.plan.stages;
    shape.chunks_per_stage = st.virtual_pipeline;
    shape.microbatches = l.plan.microbatches;
    shape.post_validation = st.post_validation;
    shape.join = st.overlap.expert_parallel && (st.expert_parallel > 1 || info.joins_without_experts);
    set_relative_times(l, shape);
    l.order = info.make(shape);
}

} // namespace orrery

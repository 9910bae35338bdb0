// The ends of a step: before the first microbatch, gradients that live all step become zero, and those go that the backward pass makes
// anew; after the last, the remaining reductions (of norms' gradients under sequence parallelism, of tied embeddings across stages), the
// gradient norm and clipping, the optimizer on this rank's part, and the gathers of what it has changed.
//
// After it: every parameter is updated once a step, and drafts are whole steps. Optimizer states have their buffers.
#include "sim/plan/passes/optimizer_block.hpp"
#include "sim/plan/passes/passes.hpp"
#include "sim/scenario/stage3.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace orrery {
namespace {

std::int32_t make_begin_block(Lowering& l, const DataParallel& dp, int stage) {
    Block out;
    out.name = fmt::format("begin:{}", stage);
    out.kind = BlockKind::other;
    out.stage = static_cast<std::int16_t>(stage);
    std::vector<BufferId> zeroed;
    std::int64_t elements = 0;
    if (l.scenario.training.optimizer_in_backward) { // each update has freed its gradients
    } else if (dp.made_in_backward) {
        for (const Parameter& p : l.parameters[stage])
            if (p.trained()) out.ops.push_back(step_op({}, Free{p.gradient}, {}, {}, host_queue));
    } else if (dp.reduces_each_run()) {
        for (const auto& buckets : dp.buckets)
            for (const Bucket& b : buckets)
                if (b.stage == stage && b.gradient_shard >= 0) {
                    if (b.comes_with_backward) out.ops.push_back(step_op({}, Free{b.gradient_shard}, {}, {}, host_queue));
                    if (!b.accumulates || b.reduce_first >= 0) continue; // the one reduction writes it, or the first
                    zeroed.push_back(b.gradient_shard);
                    elements += b.shard_elements;
                } else if (b.stage == stage && b.trained && !dp.reduces_each_run(b))
                    for (std::int32_t i : b.parameters) {
                        zeroed.push_back(l.parameters[stage][i].gradient);
                        elements += l.parameters[stage][i].elements;
                    }
    } else {
        for (const Parameter& p : l.parameters[stage]) {
            if (!p.trained()) continue;
            zeroed.push_back(p.gradient);
            elements += p.elements;
        }
    }
    if (!zeroed.empty())
        out.ops.push_back(step_op("zero_gradients", Pointwise{PointwiseKind::zero, Direction::forward, elements, true}, {}, zeroed));
    return l.add(std::move(out));
}

// The parameters of the next step, in the order its forward pass wants them. Where that pass does not hide them, each gather is a call that
// the device's computation waits for, as does the next gather, whatever communicator it is on: Megatron-Core's step_with_ready_grads calls
// start_param_sync() of each model chunk (core/optimizer/distrib_optimizer.py), which without --overlap-param-gather is synchronous
// (async_op = False in core/distributed/param_and_grad_buffer.py); DeepSpeed's ZeRO 1 and 2 end a step with blocking
// dist.all_gather_into_tensor (all_gather_into_tensor_dp_groups in runtime/utils.py). The host goes on.
void gather_for_next_step(Lowering& l, int stage, Draft& draft) {
    std::int32_t before = -1; // the gather before, and the queue it ends on
    QueueId queue = -1;
    const auto gather = [&](std::int32_t id) {
        DraftAction action = run_of(l.plan, draft, id);
        Block& block = l.plan.blocks[id];
        const std::int32_t first = first_timed_op(block, 0, action.run.last), last = last_timed_op(block, 0, action.run.last);
        if (!l.scenario.strategy.overlap.param_gather && last >= 0) {
            block.blocking = true;
            if (before >= 0 && block.ops[first].queue != queue) action.waits.push_back({first, before});
            before = action.id;
            queue = block.ops[last].queue;
        }
        draft.actions.push_back(std::move(action));
    };
    for (int c : l.chunks_in_model_order()) {
        const auto& buckets = l.data_parallel.buckets[c];
        for (std::size_t k = buckets.size(); k-- > 0;)
            if (buckets[k].stage == stage && buckets[k].gather >= 0) gather(buckets[k].gather);
    }
}

// Behind the step of ZeRO 3 the small parameters, which are whole in all passes, are gathered one by one, and the host waits for them
// (Practice::gathers_small_apart). They are of the buckets here, whose gathers bring them again: what these gathers take is time.
std::int32_t make_small_gathers(Lowering& l, const DataParallel& dp, int stage) {
    const std::int64_t small = stage3::sizes_of(l.scenario).param_persistence_threshold;
    std::int64_t elements = 0;
    int count = 0;
    for (const Parameter& p : l.parameters[stage])
        if (!p.expert && p.elements <= small) {
            elements += p.elements;
            ++count;
        }
    if (count == 0) return -1;
    const CommId comm = l.add_communicator("dp.gather", dp.shard_axes);
    const std::int64_t ranks = size(l.plan, comm), part = (elements / count + ranks - 1) / ranks;
    if (ranks < 2) return -1;
    const DType dtype = activation_dtype(l.scenario);
    const auto room = [&](const char* name, std::int64_t of, PlacementKind over) {
        Buffer b;
        b.role = Role::step_gradients;
        b.name = name;
        b.shape = {of};
        b.dtype = dtype;
        b.bytes = bytes(b.shape, dtype);
        b.kind = MemoryKind::workspace;
        b.scope = Scope::action;
        b.stage = static_cast<std::int16_t>(stage);
        for (Axis a : {Axis::dp, Axis::cp, Axis::dpr})
            if (dp.shard_axes & mask(a)) b.placement.set(a, over);
        return l.add(std::move(b));
    };
    const BufferId own = room("opt.small.part", part, PlacementKind::sharded),
                   all = room("opt.small", part * ranks, PlacementKind::invariant);
    Block out;
    out.name = fmt::format("small:{}", stage);
    out.kind = BlockKind::gather;
    out.stage = static_cast<std::int16_t>(stage);
    for (BufferId b : {own, all}) out.ops.push_back(step_op({}, Alloc{b}, {}, {}, host_queue));
    out.ops.push_back(step_op("small.part", Pointwise{PointwiseKind::zero, Direction::forward, part, true}, {}, {own}));
    constexpr int at_once = 255; // Collective::times
    for (int left = count; left > 0; left -= at_once) {
        Collective work{CollectiveKind::all_gather, comm, bytes({part * ranks}, dtype), dtype};
        work.times = static_cast<std::uint8_t>(std::min(left, at_once));
        out.ops.push_back(step_op("gather.small", work, {own}, {all}, queue_of(comm)));
    }
    out.ops.push_back(step_op("small.wait", HostSync{}, {all}, {}, host_queue));
    for (BufferId b : {own, all}) out.ops.push_back(step_op({}, Free{b}, {}, {}, host_queue));
    return l.add(std::move(out));
}

// How many parameters the host goes over for the step (Practice::steps_by_parameter): written to the first part of it.
void count_parameters(Lowering& l, int stage, std::int32_t step) {
    const auto& all = l.parameters[stage];
    for (Op& op : l.plan.blocks[step].ops)
        if (auto* work = std::get_if<OptimizerStep>(&op.work); work && work->kind != OptimizerKind::muon) {
            work->matrices = std::count_if(all.begin(), all.end(), [](const Parameter& p) { return p.trained(); });
            return;
        }
}

} // namespace

void optimizer(Lowering& l) {
    const DataParallel& dp = l.data_parallel;
    for (int stage = 0; stage < l.plan.stages; ++stage) {
        Draft& draft = l.drafts[stage];
        const std::int32_t begin = make_begin_block(l, dp, stage);
        if (!l.plan.blocks[begin].ops.empty()) draft.actions.insert(draft.actions.begin(), run_of(l.plan, draft, begin));
        const std::int32_t step = make_optimizer_block(l, stage);
        if (l.practice.steps_by_parameter) count_parameters(l, stage, step);
        // Updates in the backward pass leave the check of their norm, if anything.
        if (!l.scenario.training.optimizer_in_backward || dp.norm >= 0) draft.actions.push_back(run_of(l.plan, draft, step));
        if (dp.sharded() && !dp.gathers_in_step) gather_for_next_step(l, stage, draft);
        if (l.practice.gathers_small_apart && dp.sharded() && dp.gathers_in_step)
            if (const std::int32_t small = make_small_gathers(l, dp, stage); small >= 0)
                draft.actions.push_back(run_of(l.plan, draft, small));
    }
}

} // namespace orrery

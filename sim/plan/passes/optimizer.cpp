// The ends of a step: before the first microbatch, gradients that live all step become zero, those go that the backward pass makes anew,
// and data are loaded; after the last, the remaining reductions (of norms' gradients under sequence parallelism, of tied embeddings across
// stages), the gradient norm and clipping, the optimizer on this rank's part, and the gathers of what it has changed.
//
// After it: every parameter is updated once a step, and drafts are whole steps. Optimizer states have their buffers.
#include "sim/plan/passes/optimizer_block.hpp"
#include "sim/plan/passes/passes.hpp"

#include <fmt/format.h>

namespace orrery {
namespace {

std::int32_t make_begin_block(Lowering& l, const DataParallel& dp, int stage) {
    Block out;
    out.name = fmt::format("begin:{}", stage);
    out.kind = BlockKind::other;
    out.stage = static_cast<std::int16_t>(stage);
    std::vector<BufferId> batch;
    for (std::size_t i = 0; i < l.plan.buffers.size(); ++i)
        if (l.plan.buffers[i].stage == stage && l.plan.buffers[i].role == Role::batch) batch.push_back(static_cast<BufferId>(i));
    if (l.scenario.runtime.dataloader_us > 0 && !batch.empty())
        out.ops.push_back(
            step_op("load_data", HostWork{Time::microseconds(l.scenario.runtime.dataloader_us)}, {}, batch, host_queue, Phase::forward));
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
                    if (!b.accumulates) continue; // the one reduction writes it
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

// The parameters of the next step, in the order its forward pass wants them.
void gather_for_next_step(Lowering& l, int stage, Draft& draft) {
    for (int c : l.chunks_in_model_order()) {
        const auto& buckets = l.data_parallel.buckets[c];
        for (std::size_t k = buckets.size(); k-- > 0;)
            if (buckets[k].stage == stage && buckets[k].gather >= 0) draft.actions.push_back(run_of(l.plan, draft, buckets[k].gather));
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
        // Updates in the backward pass leave the check of their norm, if anything.
        if (!l.scenario.training.optimizer_in_backward || dp.norm >= 0) draft.actions.push_back(run_of(l.plan, draft, step));
        if (dp.sharded() && !dp.gathers_in_step) gather_for_next_step(l, stage, draft);
    }
}

} // namespace orrery

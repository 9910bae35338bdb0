// The schedule: which compute steps each stage runs, in which order. The schedule's own file says the order; here it is told the shape and,
// where it plans with times, how long a step's parts take.
//
// After it: every stage's draft has its compute steps, an action a step, or an action for two that are joined; no transfers yet.
#include "sim/plan/passes/passes.hpp"

#include "sim/scenario/layers.hpp"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <set>

namespace orrery {
namespace {

double block_flops(const Plan& plan, std::int32_t block) {
    double sum = 0;
    if (block >= 0)
        for (const Op& op : plan.blocks[block].ops) sum += flops(op.work).count;
    return sum;
}

// Bytes of a microbatch's own buffers that the blocks `from` write and the blocks `to` read: what is held in between.
double bytes_kept(const Plan& plan, std::initializer_list<std::int32_t> from, std::initializer_list<std::int32_t> to) {
    const auto buffer = [&](BufferId b) -> const Buffer& { return plan.buffers[b]; };
    std::set<BufferId> written, kept;
    for (std::int32_t block : from)
        for (const Op& op : plan.blocks[block].ops)
            for (BufferId b : op.out)
                if (buffer(b).scope == Scope::microbatch) written.insert(storage(plan, b));
    for (std::int32_t block : to)
        for (const Op& op : plan.blocks[block].ops)
            for (BufferId b : op.in)
                if (written.contains(storage(plan, b))) kept.insert(storage(plan, b));
    double bytes = 0;
    for (BufferId b : kept) bytes += static_cast<double>(buffer(b).bytes.count);
    return bytes;
}

// The share that a microbatch still holds when only its weight step is left, of all that its forward step left: in sixteenths, rounded up.
double share_owed(const Plan& plan, const ChunkBlocks& chunk) {
    if (chunk.weight < 0) return 1;
    const double whole = bytes_kept(plan, {chunk.forward}, {chunk.backward, chunk.weight});
    const double owed = bytes_kept(plan, {chunk.forward, chunk.backward}, {chunk.weight});
    return whole > 0 ? std::clamp(std::ceil(16 * owed / whole) / 16, 1.0 / 16, 1.0) : 1;
}

// Schedules that plan with times get them from the middle chunk's FLOPs: rough, as the real planner's profile would be better, but the same
// for every cost model and cluster. With an order that depended on rates, better hardware would now and then lose by another order more
// than it brings. For transfers time is kept that links between stages rarely exceed: a steady state planned without any waits at every
// microbatch.
void set_relative_times(const Lowering& l, ScheduleShape& shape) {
    if (!l.schedule->splits_backward) return;
    const ChunkBlocks& middle = l.chunks[(l.chunks.size() - 1) / 2]; // of two the one without the loss
    const double forward = block_flops(l.plan, middle.forward);
    if (forward <= 0) return;
    shape.owed = share_owed(l.plan, middle);
    // In eighths of a forward step: finer differences would only make orders that alike chunks do not share.
    shape.input = std::max(1.0, std::round(8 * block_flops(l.plan, middle.backward) / forward)) / 8;
    shape.weight = std::max(1.0, std::round(8 * block_flops(l.plan, middle.weight) / forward)) / 8;
    shape.communication = 1.0 / 8;
}

void add_parts(const ChunkBlocks& chunk, const ScheduleStep& step, std::uint8_t port, std::vector<DraftPart>& parts) {
    const auto add = [&](StepKind kind, std::int32_t block) {
        parts.push_back({step, block, port});
        parts.back().step.kind = kind;
    };
    if (step.kind == StepKind::forward)
        add(StepKind::forward, chunk.forward);
    else if (step.kind == StepKind::weight)
        add(StepKind::weight, chunk.weight);
    else if (step.kind == StepKind::input || chunk.weight < 0)
        add(step.kind, chunk.backward);
    else {
        add(StepKind::input, chunk.backward);
        add(StepKind::weight, chunk.weight);
    }
}

Draft draft_of(const Lowering& l, const std::vector<ScheduleStep>& steps) {
    Draft draft;
    draft.actions.reserve(steps.size());
    for (std::size_t i = 0; i < steps.size(); ++i) {
        DraftAction action;
        action.id = draft.ids++;
        action.run.block = -1;
        for (std::uint8_t port = 0;; ++port, ++i) {
            add_parts(l.chunks[steps[i].chunk], steps[i], port, action.parts);
            action.run.microbatch[port] = steps[i].microbatch;
            if (!steps[i].joined) break;
        }
        if (action.parts.size() == 1) {
            action.run.block = action.parts[0].block;
            action.run.last = static_cast<std::int32_t>(l.plan.blocks[action.run.block].ops.size());
        }
        draft.actions.push_back(std::move(action));
    }
    return draft;
}

// The weight gradients of the output layer of the first microbatches go behind all steps of their rank.
std::vector<ScheduleStep> with_deferred_outputs(const Lowering& l, std::vector<ScheduleStep> steps) {
    const std::int64_t deferred = deferred_output_gradients(l.scenario);
    std::vector<ScheduleStep> last;
    for (ScheduleStep& step : steps) {
        if (step.kind != StepKind::backward || step.microbatch >= deferred || !l.defers_output(step.chunk)) continue;
        step.kind = StepKind::input;
        last.push_back({StepKind::weight, step.chunk, step.microbatch});
    }
    steps.insert(steps.end(), last.begin(), last.end());
    return steps;
}

} // namespace

void schedule(Lowering& l) {
    const ScheduleInfo& info = *l.schedule;
    const Strategy& st = l.scenario.strategy;
    ScheduleShape shape = shape_of(st);
    shape.microbatches = l.plan.microbatches;
    shape.post_validation = st.post_validation;
    shape.join = st.overlap.expert_parallel && (st.expert_parallel > 1 || info.joins_without_experts);
    set_relative_times(l, shape);
    for (const std::vector<ScheduleStep>& steps : info.make(shape).ranks) l.drafts.push_back(draft_of(l, with_deferred_outputs(l, steps)));
}

} // namespace orrery

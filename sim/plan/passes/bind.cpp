// Drafts become programs, and get dependencies from the buffers ops share (hazards.hpp).
//
// After them: Op::deps orders every hazard inside a block, Program::deps every one between actions, the previous step's included.
#include "sim/plan/hazards.hpp"
#include "sim/plan/passes/passes.hpp"

#include <algorithm>

namespace orrery {
namespace {

// The ops that an op must wait for, given the history of each storage it touches; updates the history.
template <class HistoryOf> void visit(const Plan& plan, const Op& op, const Spot& self, Latest& waits, HistoryOf&& history_of) {
    const auto read = [&](BufferId at) {
        History& h = history_of(at);
        if (h.writer.action >= 0 && !uses_queue(op, h.writer.queue)) waits.merge(h.writer);
        h.touch(false, self);
    };
    const auto write = [&](BufferId at) {
        History& h = history_of(at);
        if (h.writer.action >= 0 && !uses_queue(op, h.writer.queue)) waits.merge(h.writer);
        h.readers.each([&](const Spot& r) {
            if (!uses_queue(op, r.queue) && (r.action != self.action || r.op != self.op)) waits.merge(r);
        });
        h.touch(true, self);
    };
    for (BufferId b : op.in) each_storage(plan, b, read);
    for (BufferId b : op.out) each_storage(plan, b, write);
}

// `history`: by buffer, and once more for the second port of blocks made of others, whose microbatch has buffers of its own.
void bind_block(const Plan& plan, Block& block, std::vector<History>& history) {
    std::vector<std::size_t> touched;
    Latest waits;
    std::int32_t last_compute = -1;
    for (std::size_t i = 0; i < block.ops.size(); ++i) {
        Op& op = block.ops[i];
        if (is_memory_op(op.work)) continue;
        waits.clear();
        visit(plan, op, {0, static_cast<std::int32_t>(i), op.queue}, waits, [&](BufferId at) -> History& {
            std::size_t instance = static_cast<std::size_t>(at);
            if (!block.parts.empty() && op.port > 0 && per_microbatch(plan.buffers[instance])) instance += plan.buffers.size();
            touched.push_back(instance);
            return history[instance];
        });
        if (follows_computation(op) && last_compute >= 0) waits.merge({0, last_compute, compute_queue});
        if (op.queue == compute_queue) last_compute = static_cast<std::int32_t>(i);
        waits.each([&](const Spot& w) {
            if (std::find(op.deps.begin(), op.deps.end(), w.op) == op.deps.end()) op.deps.push_back(w.op);
        });
        std::sort(op.deps.begin(), op.deps.end());
    }
    for (std::size_t instance : touched) history[instance] = {};
}

Program program_of(const Draft& draft, int stage) {
    Program program;
    program.stage = static_cast<std::int16_t>(stage);
    program.actions.reserve(draft.actions.size());
    auto begin = draft.step_begins.begin();
    for (const DraftAction& action : draft.actions) {
        if (begin != draft.step_begins.end() && action.id == *begin) {
            program.step_begins.push_back(static_cast<std::int32_t>(program.actions.size()));
            ++begin;
        }
        program.actions.push_back(action.run);
    }
    return program;
}

// The draft's waits by place, in the order of the actions that wait.
std::vector<ExplicitDep> waits_of(const Plan& plan, const Draft& draft) {
    std::vector<std::int32_t> place(static_cast<std::size_t>(draft.ids), -1);
    for (std::size_t i = 0; i < draft.actions.size(); ++i) place[draft.actions[i].id] = static_cast<std::int32_t>(i);
    std::vector<ExplicitDep> deps;
    for (std::size_t i = 0; i < draft.actions.size(); ++i)
        for (const DraftWait& wait : draft.actions[i].waits) {
            const std::int32_t on = place[wait.on];
            const Action& a = draft.actions[on].run;
            const std::int32_t op = last_timed_op(plan.blocks[a.block], a.first, a.last);
            if (op >= 0) deps.push_back({static_cast<std::int32_t>(i), {wait.op, on, op}});
        }
    return deps;
}

// The program's actions get their waits. cyclic: its runs follow one another, so that one waits for the run before it too; other programs
// begin when all before them has ended (PlanPhase::behind).
void bind_program(const Lowering& l, Program& program, const std::vector<ExplicitDep>& explicit_deps, bool cyclic) {
    auto waits = waits_between_actions(l.plan, program, explicit_deps, l.skips_repeats);
    for (std::size_t i = 0; i < program.actions.size(); ++i) {
        program.actions[i].deps_begin = static_cast<std::int32_t>(program.deps.size());
        std::vector<ActionDep>& found = waits[i];
        if (!cyclic) std::erase_if(found, [](const ActionDep& dep) { return dep.on_action < 0; });
        std::stable_sort(found.begin(), found.end(), [](const ActionDep& a, const ActionDep& b) { return a.op < b.op; });
        program.deps.insert(program.deps.end(), found.begin(), found.end());
        program.actions[i].deps_end = static_cast<std::int32_t>(program.deps.size());
    }
}

} // namespace

void programs(Lowering& l) {
    for (const Draft& draft : l.drafts) l.plan.programs.push_back(program_of(draft, static_cast<int>(l.plan.programs.size())));
}

void bind(Lowering& l) {
    std::vector<History> history(2 * l.plan.buffers.size());
    for (Block& b : l.plan.blocks) bind_block(l.plan, b, history);
    for (std::size_t stage = 0; stage < l.drafts.size(); ++stage)
        bind_program(l, l.plan.programs[stage], waits_of(l.plan, l.drafts[stage]), true);
    for (PlanPhase& phase : l.plan.further)
        for (Program& program : phase.programs)
            if (program.actions.size() > 1) bind_program(l, program, {}, false);
}

} // namespace orrery

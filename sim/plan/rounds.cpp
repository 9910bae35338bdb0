#include "sim/plan/rounds.hpp"

#include <algorithm>
#include <map>

namespace orrery {
namespace {

// The first or last op of each queue in one run of a program.
struct Edge {
    std::int32_t action, op;
};
using Edges = std::map<QueueId, Edge>;

void add_queues(const Op& op, Edge edge, bool keep_first, Edges& edges) {
    const auto put = [&](QueueId q) { keep_first ? void(edges.try_emplace(q, edge)) : void(edges[q] = edge); };
    if (is_memory_op(op.work)) return;
    put(op.queue);
    if (const auto* x = std::get_if<Exchange>(&op.work))
        for (const Transfer& t : x->transfers) put(queue_of(t.comm));
}

Edges edges_of(const Plan& plan, const Program& program, bool first) {
    Edges edges;
    for (std::size_t a = 0; a < program.actions.size(); ++a) {
        const Action& action = program.actions[a];
        const Block& block = plan.blocks[action.block];
        for (std::int32_t i = action.first; i < action.last; ++i) add_queues(block.ops[i], {static_cast<std::int32_t>(a), i}, first, edges);
    }
    return edges;
}

struct Before {
    const Program* program;
    std::int32_t end;
};

// Runs of one stage's programs, one after the other.
class Unroller {
  public:
    explicit Unroller(const Plan& plan) : plan_(plan) {}
    std::int32_t of_last_step = 0; // from the end of the round to the end of its last training step: at most 0

    // `previous`: the phases that this one stands behind, and where in `out` they end (0: in the round before); empty where this is the
    // only one, or begins at once. shift: of microbatches.
    void run(const Program& program, std::int32_t shift, bool step, const std::vector<Before>& previous, bool all_ended) {
        const auto base = static_cast<std::int32_t>(out.actions.size());
        if (step && any_step_) out.step_begins.push_back(base);
        any_step_ = any_step_ || step;
        std::vector<std::vector<ActionDep>> barrier(program.actions.size());
        for (const Before& phase : previous) stand_behind(program, *phase.program, phase.end, barrier);
        for (std::size_t a = 0; a < program.actions.size(); ++a) {
            Action action = program.actions[a];
            for (std::int32_t& m : action.microbatch)
                if (m >= 0) m += shift;
            std::vector<ActionDep> deps = std::move(barrier[a]);
            for (std::int32_t d = action.deps_begin; d < action.deps_end; ++d) {
                ActionDep dep = program.deps[d];
                if (dep.on_action < 0 && !previous.empty() && all_ended) continue; // the phase before has ended
                if (dep.on_action >= 0)
                    dep.on_action += base;
                else if (step_end_ > 0) // of the step before, whatever phases stand between
                    dep.on_action += step_end_;
                else
                    dep.on_action += of_last_step;
                deps.push_back(dep);
            }
            std::stable_sort(deps.begin(), deps.end(), [](const ActionDep& x, const ActionDep& y) { return x.op < y.op; });
            action.deps_begin = static_cast<std::int32_t>(out.deps.size());
            out.deps.insert(out.deps.end(), deps.begin(), deps.end());
            action.deps_end = static_cast<std::int32_t>(out.deps.size());
            out.actions.push_back(action);
        }
        if (step) step_end_ = static_cast<std::int32_t>(out.actions.size());
    }

    Program out;

  private:
    // previous_end: after its last action in `out`; 0: in the round before, counted from the end.
    void stand_behind(const Program& program, const Program& previous, std::int32_t previous_end,
                      std::vector<std::vector<ActionDep>>& barrier) const {
        const Edges last = edges_of(plan_, previous, false);
        const auto begin = previous_end - static_cast<std::int32_t>(previous.actions.size());
        for (const auto& [queue, edge] : edges_of(plan_, program, true))
            for (const auto& [on_queue, on] : last)
                if (on_queue != queue) barrier[edge.action].push_back({edge.op, begin + on.action, on.op});
    }

    const Plan& plan_;
    std::int32_t step_end_ = 0; // after the last training step so far
    bool any_step_ = false;
};

} // namespace

bool has_rounds(const Plan& plan) { return plan.repeat > 1 || !plan.further.empty(); }

std::int64_t runs_of_round(const Plan& plan, std::int64_t most) {
    std::int64_t runs = std::min(plan.repeat, most);
    for (const PlanPhase& phase : plan.further)
        if (phase.steps) runs += std::min(phase.repeat, most);
    return runs;
}

Plan unrolled(const Plan& plan, std::int64_t most) {
    if (!has_rounds(plan)) return plan;
    Plan round = plan;
    round.repeat = 1;
    round.further.clear();
    const std::int64_t steps = runs_of_round(plan, most);
    round.steps = plan.steps * steps;
    round.microbatches = plan.microbatches * steps;
    // Gathers of the steps before read the shards that a phase writes, on a queue of their own.
    const bool sharded =
        std::any_of(plan.buffers.begin(), plan.buffers.end(), [](const Buffer& b) { return b.role == Role::parameter_shard; });
    for (std::size_t stage = 0; stage < plan.programs.size(); ++stage) {
        Unroller unroller(plan);
        const auto program_of = [&](const PlanPhase& phase) { return phase.steps ? &plan.programs[stage] : &phase.programs[stage]; };
        const auto end = [&] { return static_cast<std::int32_t>(unroller.out.actions.size()); };
        // A last phase that stood behind an earlier one alone does not say that the steps before it have ended.
        const bool all_ended = plan.further.empty() || plan.further.back().behind == PlanPhase::before;
        std::int64_t step = 0;
        const auto run = [&](const Program& program, std::int64_t repeat, bool steps_here, std::vector<Before> previous) {
            for (std::int64_t k = 0; k < std::min(repeat, most); ++k) {
                const auto shift = steps_here ? static_cast<std::int32_t>(step++ * plan.microbatches) : 0;
                unroller.run(program, shift, steps_here, previous, all_ended);
                previous.clear();
            }
        };
        for (std::size_t k = plan.further.size(); k-- > 0 && !plan.further[k].steps;)
            for (std::int64_t r = 0; r < std::min(plan.further[k].repeat, most); ++r)
                unroller.of_last_step -= static_cast<std::int32_t>(program_of(plan.further[k])->actions.size());
        using Befores = std::vector<Before>;
        run(plan.programs[stage], plan.repeat, true, plan.further.empty() ? Befores{} : Befores{{program_of(plan.further.back()), 0}});
        const Program* previous = &plan.programs[stage];
        std::vector<std::int32_t> ends;
        for (const PlanPhase& phase : plan.further) {
            const Program& program = *program_of(phase);
            Befores before;
            if (phase.behind >= 0) before.push_back({program_of(plan.further[phase.behind]), ends[phase.behind]});
            if (phase.behind == PlanPhase::before || (phase.behind >= 0 && sharded)) before.push_back({previous, end()});
            run(program, phase.repeat, phase.steps, before);
            ends.push_back(end());
            previous = &program;
        }
        unroller.out.stage = plan.programs[stage].stage;
        round.programs[stage] = std::move(unroller.out);
    }
    return round;
}

} // namespace orrery

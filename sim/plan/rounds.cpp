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

// Runs of one stage's programs, one after the other.
class Unroller {
  public:
    explicit Unroller(const Plan& plan) : plan_(plan) {}

    // `previous`: the phase before this one, null where this is the only one. shift: of microbatches.
    void run(const Program& program, std::int32_t shift, bool step, const Program* previous, bool wraps) {
        const auto base = static_cast<std::int32_t>(out.actions.size());
        if (step && any_step_) out.step_begins.push_back(base);
        any_step_ = any_step_ || step;
        std::vector<std::vector<ActionDep>> barrier(program.actions.size());
        if (previous) stand_behind(program, *previous, wraps ? 0 : base, barrier);
        for (std::size_t a = 0; a < program.actions.size(); ++a) {
            Action action = program.actions[a];
            for (std::int32_t& m : action.microbatch)
                if (m >= 0) m += shift;
            std::vector<ActionDep> deps = std::move(barrier[a]);
            for (std::int32_t d = action.deps_begin; d < action.deps_end; ++d) {
                ActionDep dep = program.deps[static_cast<std::size_t>(d)];
                if (dep.on_action < 0 && previous) continue; // the phase before has ended
                if (dep.on_action >= 0 || base > 0) dep.on_action += base;
                deps.push_back(dep);
            }
            std::stable_sort(deps.begin(), deps.end(), [](const ActionDep& x, const ActionDep& y) { return x.op < y.op; });
            action.deps_begin = static_cast<std::int32_t>(out.deps.size());
            out.deps.insert(out.deps.end(), deps.begin(), deps.end());
            action.deps_end = static_cast<std::int32_t>(out.deps.size());
            out.actions.push_back(action);
        }
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
                if (on_queue != queue) barrier[static_cast<std::size_t>(edge.action)].push_back({edge.op, begin + on.action, on.op});
    }

    const Plan& plan_;
    bool any_step_ = false;
};

} // namespace

bool has_rounds(const Plan& plan) { return plan.repeat > 1 || !plan.further.empty(); }

Plan unrolled(const Plan& plan, std::int64_t most) {
    if (!has_rounds(plan)) return plan;
    Plan round = plan;
    round.repeat = 1;
    round.further.clear();
    round.steps = plan.steps * std::min(plan.repeat, most);
    round.microbatches = plan.microbatches * std::min(plan.repeat, most);
    for (std::size_t stage = 0; stage < plan.programs.size(); ++stage) {
        Unroller unroller(plan);
        const Program* previous = plan.further.empty() ? nullptr : &plan.further.back().programs[stage];
        for (std::int64_t k = 0; k < std::min(plan.repeat, most); ++k) {
            unroller.run(plan.programs[stage], static_cast<std::int32_t>(k * plan.microbatches), true, previous, k == 0);
            previous = nullptr;
        }
        previous = &plan.programs[stage];
        for (const PlanPhase& phase : plan.further) {
            const Program& program = phase.programs[stage];
            for (std::int64_t k = 0; k < std::min(phase.repeat, most); ++k) {
                unroller.run(program, 0, false, previous, false);
                previous = nullptr;
            }
            previous = &program;
        }
        unroller.out.stage = plan.programs[stage].stage;
        round.programs[stage] = std::move(unroller.out);
    }
    return round;
}

} // namespace orrery

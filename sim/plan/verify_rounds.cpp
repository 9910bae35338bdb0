// Rounds: phases have a program for each stage, and where ranks are workers their parameters meet: each that the optimizer keeps is summed
// over all workers and averaged exactly once a round, after the steps and never in one. Where an fp32 copy is kept it is the copy that is
// averaged, and the parameters are written from it. With an outer optimizer it is what each moved that is averaged, and its step that
// writes them. Under ZeRO that holds of shards, and whole parameters that stay are gathered from them. Where workers weigh unlike, each
// brings its share to the sum. Workers that meet outside the plan are joined by nothing in it.
#include "sim/plan/verify_parts.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace orrery::verification {
namespace {

struct MetInRound {
    int sums = 0, averages = 0, copies = 0, shares = 0; // in a round
};

template <class F> void each_op(const Plan& plan, const Program& program, F&& f) {
    for (const Action& a : program.actions)
        for (std::int32_t i = a.first; i < a.last; ++i) f(plan.blocks[at(a.block)].ops[at(i)]);
}

bool crosses_workers(const Plan& plan, const Op& op) {
    const auto* c = std::get_if<Collective>(&op.work);
    return c && (plan.communicators[at(c->comm)].axes & plan.workers) != 0;
}

void check_steps(const Plan& plan, Findings& findings) {
    for (const Program& program : plan.programs)
        each_op(plan, program, [&](const Op& op) {
            if (crosses_workers(plan, op))
                findings.add("worker-averaged", fmt::format("stage {}", program.stage), op.name + " joins workers inside a step");
        });
}

void visit(const Plan& plan, const Op& op, std::vector<MetInRound>& met, Findings& findings, std::int16_t stage) {
    if (crosses_workers(plan, op)) {
        const auto& c = std::get<Collective>(op.work);
        const bool in_place = c.kind == CollectiveKind::all_reduce && op.in == op.out,
                   of_slices = c.kind == CollectiveKind::all_to_all || c.kind == CollectiveKind::all_gather;
        if ((!in_place && !of_slices) || plan.communicators[at(c.comm)].axes != plan.workers)
            findings.add("worker-averaged", fmt::format("stage {}", stage), op.name + " is no sum over exactly the workers, in place");
        if (of_slices) met[at(op.out[0])] = met[at(op.in[0])];
        if (c.kind != CollectiveKind::all_gather)
            for (BufferId b : op.out) ++met[at(b)].sums;
    }
    // Replicas of a worker gather what their shards have become.
    if (const auto* c = std::get_if<Collective>(&op.work); c && c->kind == CollectiveKind::all_gather && !crosses_workers(plan, op))
        for (BufferId b : op.out)
            if (plan.buffers[at(b)].role == Role::parameter) met[at(b)] = met[at(op.in[0])];
    if (const auto* c = std::get_if<Compress>(&op.work)) {
        if (c->part == Compress::Part::apply_drift)
            for (BufferId b : op.out) met[at(b)].sums += met[at(op.in[0])].sums, met[at(b)].averages += met[at(op.in[0])].averages;
        else
            met[at(op.out[0])] = c->part == Compress::Part::feed_drift ? MetInRound{} : met[at(op.in[0])];
    }
    if (std::holds_alternative<Copy>(op.work)) met[at(op.out[0])] = met[at(op.in[0])];
    const auto* p = std::get_if<Pointwise>(&op.work);
    if (!p) return;
    if (plan.buffers[at(op.out[0])].role == Role::pseudo_gradient && p->kind != PointwiseKind::average)
        met[at(op.out[0])] = p->kind == PointwiseKind::difference ? MetInRound{} : met[at(op.in[0])]; // moved on, to or from the wire
    if (p->kind == PointwiseKind::outer_step)
        for (BufferId b : op.out) met[at(b)].sums += met[at(op.in[0])].sums, met[at(b)].averages += met[at(op.in[0])].averages;
    if (p->kind == PointwiseKind::own_share)
        for (BufferId b : op.out) met[at(b)].shares += met[at(b)].sums == 0 ? 1 : 2; // a sum has no share
    if (p->kind == PointwiseKind::average)
        for (BufferId b : op.out) met[at(b)].averages += met[at(b)].sums == 1 ? 1 : 2; // before its sum it is no average
    if (p->kind == PointwiseKind::cast && std::all_of(op.in.begin(), op.in.end(), [&](BufferId b) { return met[at(b)].averages == 1; }))
        for (BufferId b : op.out) ++met[at(b)].copies;
}

bool trained_shard(const Plan& plan, const Buffer& shard) {
    return shard.bucket >= 0 && !plan.buckets[shard.bucket].tensors.empty() &&
           plan.tensors[at(plan.buffers[at(plan.buckets[shard.bucket].tensors.front().parameter)].tensor)].trained;
}

void check_stage(const Plan& plan, std::size_t stage, Findings& findings) {
    std::vector<MetInRound> met(plan.buffers.size());
    for (const PlanPhase& phase : plan.further)
        for (std::int64_t k = 0; !phase.steps && k < std::min<std::int64_t>(phase.repeat, 2); ++k)
            each_op(plan, phase.programs[stage], [&](const Op& op) { visit(plan, op, met, findings, static_cast<std::int16_t>(stage)); });
    bool copied = false;
    for (std::size_t b = 0; b < plan.buffers.size(); ++b) {
        const Buffer& x = plan.buffers[b];
        copied = copied || (x.stage == static_cast<std::int16_t>(stage) && x.role == Role::master);
    }
    for (std::size_t b = 0; b < plan.buffers.size(); ++b) {
        const Buffer& x = plan.buffers[b];
        if (x.stage != static_cast<std::int16_t>(stage)) continue;
        const MetInRound& m = met[b];
        const bool followed = m.sums == 0 && m.averages == 0 && m.copies == 1, averaged = m.sums == 1 && m.averages == 1 && m.copies == 0;
        if (x.role == Role::parameter && (!plan.tensors[at(x.tensor)].trained || x.scope == Scope::action)) continue;
        if (x.role == Role::parameter_shard && x.scope == Scope::action) continue; // made of a shard that stays
        const bool weights = x.role == Role::parameter || (x.role == Role::parameter_shard && trained_shard(plan, x)),
                   must = weights || x.role == Role::master || (x.role == Role::outer_parameters && x.scope == Scope::run);
        if (must && !(weights && copied ? followed : averaged))
            findings.add("worker-averaged", fmt::format("stage {}", stage),
                         fmt::format("{} is summed over the workers {} times, averaged {} times and written from an average {} times in a "
                                     "round",
                                     x.name, m.sums, m.averages, m.copies));
        if (m.averages > 0 && m.shares != (plan.shares.empty() ? 0 : 1))
            findings.add("worker-averaged", fmt::format("stage {}", stage),
                         fmt::format("{} takes the worker's share {} times before it is summed", x.name, m.shares));
    }
}

} // namespace

void check_rounds(const Plan& plan, Findings& findings) {
    if (plan.repeat < 1) findings.add("round", plan.name, "runs its steps less than once a round");
    for (std::size_t k = 0; k < plan.further.size(); ++k) {
        const PlanPhase& phase = plan.further[k];
        if (phase.repeat < 1 || phase.programs.size() != (phase.steps ? 0 : plan.programs.size()))
            return findings.add("round", plan.name, "has a phase without a program for each stage, or one that never runs");
        if (phase.behind >= static_cast<std::int32_t>(k)) return findings.add("round", plan.name, "has a phase that waits for a later one");
        if (phase.steps) continue;
        Plan alone = plan;
        alone.programs = phase.programs;
        alone.further.clear();
        check_structure(alone, findings);
    }
    if (plan.workers == 0 || !findings.empty()) return;
    check_steps(plan, findings);
    if (plan.apart) return;
    for (std::size_t stage = 0; stage < plan.programs.size(); ++stage) check_stage(plan, stage, findings);
}

} // namespace orrery::verification

#include "sim/plan/lower.hpp"

#include "sim/model/forward.hpp"
#include "sim/plan/emit.hpp"
#include "sim/plan/passes/passes.hpp"
#include "topology/check.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <span>
#include <stdexcept>

namespace orrery {
namespace {

void build_forward(Lowering& l) {
    const Strategy& s = l.scenario.strategy;
    l.schedule = find_schedule(s.schedule);
    Plan& plan = l.plan;
    plan.name = l.scenario.name;
    plan.stages = s.pipeline_parallel;
    plan.chunks_per_stage = s.virtual_pipeline;
    plan.steps = l.schedule->asynchronous ? s.flush_every : 1;
    plan.microbatches = plan.steps * l.scenario.microbatches();
    // Gradients are summed over data and context ranks alike, so that a shard group spans both.
    // Workers share no gradients: they lie along an axis of their own, and the replicas of one along the other two. Where ZeRO++ has two
    // levels the second of these is the one between nodes.
    const int sharing = s.replicas_of_worker(), shard = l.practice.near_ranks() > 0 ? l.practice.near_ranks()
                                                        : s.shard_group_size > 0    ? std::max(1, s.shard_group_size / s.context_parallel)
                                                                                    : sharing;
    plan.mesh.size = {s.tensor_parallel, s.context_parallel, 1, shard, sharing / shard, s.worker_count(), s.pipeline_parallel};
    plan.mesh.order = s.rank_order;
    if (s.workers()) {
        plan.workers = mask(Axis::dpw);
        plan.apart = s.loose();
        plan.served = s.served();
        const std::vector<int>& samples = s.synchronization.samples;
        const double all = std::accumulate(samples.begin(), samples.end(), 0.0);
        if (s.synchronization.kind == Synchronization::Kind::fedavg)
            for (int n : samples) plan.shares.push_back(n * static_cast<double>(samples.size()) / all);
        plan.repeat = s.compresses() == GradientCompression::zero_one_adam ? s.compression.local_steps
                      : plan.apart                                         ? 1
                                                                           : s.synchronization.inner_steps;
    }
    l.add_communicator("tp", mask(Axis::tp));
    l.parameters.resize(plan.stages);
    l.graphs = forward_graphs(l.scenario);
    l.chunks.resize(l.graphs.size());
    for (Graph& g : l.graphs) g.stage = l.schedule->stage_of(g.chunk, plan.stages);
}

void emit_blocks(Lowering& l) {
    for (int c = 0; c < static_cast<int>(l.graphs.size()); ++c) emit_chunk(l, c);
}

struct Pass {
    const char* name;
    void (*run)(Lowering&);
    const char* why;
};

// The recipe. Each pass's file says what holds after it; `why` says why it stands here.
constexpr Pass recipe[] = {
    {"forward", build_forward, "the model, whole, a graph per chunk"},
    {"fine-tuning", fine_tuning, "what is trained, and adapters beside what is not: sharded after it like all else"},
    {"tensor-parallel", tensor_parallel, "first of the sharding passes: it sets the regions the others look at"},
    {"sequence-parallel", sequence_parallel, "needs the regions' ends"},
    {"context-parallel", context_parallel,
     "after tensor and sequence parallelism: its gathers and exchanges move what these left of K and V"},
    {"expert-parallel", expert_parallel, "rows are counted from what the passes before left of the tokens"},
    {"loss", loss_logits, "after the passes that divide values: what it joins or cuts is not divided again"},
    {"precision", precision, "casts go inside the regions, so that gathers move the small type"},
    {"tensor-overlap", tensor_overlap, "looks for linears at the ends of regions, which the passes above still move"},
    {"recompute", mark_recompute, "marks nodes; needs all of them"},
    {"directions", copy_directions, "the last that copies graphs: all passes above need one copy alone"},
    {"adjoint", emit_blocks, "graphs become forward, backward and weight blocks"},
    {"lifetimes", lifetimes, "needs every access of a chunk's buffers"},
    {"offload-activations", offload_activations, "cuts lifetimes in two; needs them whole"},
    {"buckets", buckets, "the blocks that gather, release and reduce parameters; needs every parameter"},
    {"schedule", schedule, "compute steps in order, the first draft of the programs; its times need the blocks"},
    {"exchange", exchange, "transfers between stages; needs the order of the steps, and goes before data parallelism cuts them"},
    {"data-parallel", data_parallel, "gathers before what reads them, reductions after the last summand; needs whole steps"},
    {"join", join, "steps that run as one become one block; after data parallelism, which looks at each of them"},
    {"optimizer", optimizer, "the ends of a step: around all that computes gradients"},
    {"asynchronous", asynchronous, "repeats the ends of a step wherever one ends; needs both of them"},
    {"offload-optimizer", offload_optimizer, "needs the optimizer's step and its states, however they came about"},
    {"synchronization", synchronization, "what workers do between their steps; needs all that the optimizer steps on, and where it lies"},
    {"programs", programs, "drafts become programs; after all that changes what runs when"},
    {"bind", bind, "last: the dependencies of all that is there"},
};
constexpr std::span<const Pass> whole(recipe), unbound = whole.first(whole.size() - 1);

void run(std::span<const Pass> passes, Lowering& l, StopFlag stop) {
    require(l.scenario.strategy.recompute_segments >= 0,
            "strategy.recompute = {segments: auto} was not settled (sim/memory/best_segments.hpp)");
    for (const Pass& pass : passes) {
        stop_if(stop);
        pass.run(l);
    }
}

Plan lowered(const Scenario& scenario, StopFlag stop, bool skips_repeats) {
    Lowering l{scenario};
    l.skips_repeats = skips_repeats;
    run(whole, l, stop);
    return std::move(l.plan);
}

} // namespace

Plan lower(const Scenario& scenario, StopFlag stop) { return lowered(scenario, stop, true); }
Plan lower_action_by_action(const Scenario& scenario) { return lowered(scenario, nullptr, false); }

UnboundPlan::UnboundPlan(const Scenario& scenario) : lowering_(std::make_unique<Lowering>(scenario)) { run(unbound, *lowering_, nullptr); }
UnboundPlan::~UnboundPlan() = default;
const Plan& UnboundPlan::plan() const { return lowering_->plan; }
Plan UnboundPlan::take() && { return std::move(lowering_->plan); }
Plan UnboundPlan::bound() && {
    run(whole.subspan(unbound.size()), *lowering_, nullptr);
    return std::move(lowering_->plan);
}

void reorder_ranks(Plan& plan, const RankOrder& order) {
    plan.mesh.order = order;
    if (!plan.expert_mesh.order.empty()) plan.expert_mesh.order = order;
}

std::vector<std::string> pass_names() {
    std::vector<std::string> names;
    for (const Pass& pass : recipe) names.emplace_back(pass.name);
    return names;
}

std::string text_after(const Scenario& scenario, std::string_view wanted) {
    Lowering l{scenario};
    for (const Pass& pass : recipe) {
        pass.run(l);
        if (pass.name != wanted) continue;
        if (l.plan.blocks.empty()) {
            std::string text;
            for (const Graph& g : l.graphs) text += to_text(g);
            return text;
        }
        return to_text(l.plan) + (l.plan.programs.empty() ? to_text(l.plan, l.drafts) : "");
    }
    throw std::invalid_argument("no pass is called '" + std::string(wanted) + "'");
}

} // namespace orrery

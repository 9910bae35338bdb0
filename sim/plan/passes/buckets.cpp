// Buckets: parameters that are reduced and gathered together, and the blocks that do it. Bucketed gradient reduction, ZeRO-1/2/3
// (Rajbhandari et al., arXiv:1910.02054), FSDP (arXiv:2304.11277), HSDP.
//
// zero 0: all-reduce of each bucket. 1: reduce-scatter, optimizer on the shard, all-gather of parameters. 2: gradients live only
// from a run's first backward step to its reduce-scatter; their sum is kept sharded. 3: parameters too, gathered unit by unit.
//
// After it: every parameter that is replicated is in one bucket of Lowering::data_parallel. No program runs the buckets' blocks yet.
#include "sim/plan/passes/bucket_blocks.hpp"
#include "sim/plan/passes/gradients_anew.hpp"
#include "sim/plan/passes/muon.hpp"
#include "sim/plan/passes/offload_shards.hpp"
#include "sim/plan/passes/optimizer_block.hpp"
#include "sim/plan/passes/passes.hpp"

#include <algorithm>
#include <set>
#include <utility>

namespace orrery {
namespace {

// An embedding on several stages, whose gradients these sum: where it is sharded it has a bucket to itself, so that a rank's part of it is
// the same on both (Megatron-Core, does_param_require_new_bucket).
bool stands_alone(const Lowering& l, const Parameter& p) {
    return l.scenario.strategy.zero_stage > 0 && l.plan.tensors[p.tensor].use == TensorUse::embedding && !stages_of_embedding(l).empty();
}

// A bucket of one unit as a bucket for each parameter that is large, and one of the rest.
std::vector<Bucket> apart(const Lowering& l, const Bucket& whole, std::int64_t large) {
    std::vector<Bucket> out;
    Bucket rest = whole;
    rest.parameters.clear();
    rest.elements = 0;
    for (std::int32_t i : whole.parameters) {
        const std::int64_t elements = l.parameters[whole.stage][i].elements;
        Bucket by_itself = whole;
        by_itself.parameters = {i};
        by_itself.elements = elements;
        by_itself.alone = true;
        if (elements > large)
            out.push_back(std::move(by_itself));
        else {
            rest.parameters.push_back(i);
            rest.elements += elements;
        }
    }
    if (!rest.parameters.empty()) out.push_back(std::move(rest));
    return out;
}

std::vector<Bucket> cut(const Lowering& l, int chunk, Bytes limit, DType grad_dtype, bool one_unit_each) {
    const Graph& g = l.graphs[chunk];
    const auto& parameters = l.parameters[g.stage];
    std::vector<Bucket> buckets;
    // Shared parameters and experts, each divided into trained, frozen and 4-bit ones, and trained ones whose shards Muon steps on: they
    // travel apart.
    Bucket open[2][4];
    const bool parted = l.data_parallel.zero > 0;
    const auto kind_of = [&](const Parameter& p) {
        return parted && by_muon(l, p) ? 3 : p.trained() ? 0 : l.plan.buffers[p.weight].dtype == DType::nf4 ? 2 : 1;
    };
    const auto close = [&](Bucket& b) {
        if (const std::int64_t large = l.practice.alone_beyond; !b.parameters.empty() && large > 0)
            for (Bucket& one : apart(l, b, large)) buckets.push_back(std::move(one));
        else if (!b.parameters.empty())
            buckets.push_back(b);
        b = Bucket{};
    };
    for (int unit = g.units; unit-- > 0;)
        for (const auto& [expert, kind] :
             {std::pair{false, 0}, {false, 3}, {false, 1}, {false, 2}, {true, 0}, {true, 3}, {true, 1}, {true, 2}}) {
            if ((kind == 1 || kind == 2) && !l.data_parallel.gathers_in_step) continue; // nothing of it travels
            Bucket& b = open[expert][kind];
            // In the order of the backward pass, so that what is full can go while the rest of its unit is still being made; a unit that is
            // gathered and reduced by itself keeps its own order.
            for (std::size_t at = 0; at < parameters.size(); ++at) {
                const std::size_t i = one_unit_each ? at : parameters.size() - 1 - at;
                if (parameters[i].chunk != chunk || parameters[i].unit != unit || parameters[i].expert != expert) continue;
                if (kind_of(parameters[i]) != kind) continue;
                if (l.scenario.strategy.streaming() && !b.parameters.empty() && fragment_of(l, b) != fragment_of(l, parameters[i]))
                    close(b); // fragments travel apart
                b.trained = parameters[i].trained();
                b.muon = kind == 3;
                b.dtype = l.plan.buffers[parameters[i].weight].dtype;
                if (stands_alone(l, parameters[i])) {
                    Bucket alone;
                    alone.stage = g.stage;
                    alone.chunk = chunk;
                    alone.expert = expert;
                    alone.trained = b.trained;
                    alone.dtype = b.dtype;
                    alone.units = {unit};
                    alone.parameters = {static_cast<std::int32_t>(i)};
                    alone.elements = parameters[i].elements;
                    buckets.push_back(std::move(alone));
                    continue;
                }
                b.stage = g.stage;
                b.chunk = chunk;
                b.expert = expert;
                b.parameters.push_back(static_cast<std::int32_t>(i));
                b.elements += parameters[i].elements;
                if (b.units.empty() || b.units.back() != unit) b.units.push_back(unit);
                if (!one_unit_each && bytes({b.elements}, grad_dtype) >= limit) close(b);
            }
            if (one_unit_each) close(b);
        }
    for (auto& of_kind : open)
        for (Bucket& b : of_kind) close(b);
    return buckets;
}

// Whether another chunk of the stage has runs of its own that add to the bucket's gradients (tied embeddings).
bool used_elsewhere(const Lowering& l, const Bucket& b) {
    const auto& parameters = l.parameters[b.stage];
    const auto is = [&](const Value& v, std::int32_t i) { return l.plan.tensors[parameters[i].tensor].name == v.name; };
    return std::any_of(l.graphs.begin(), l.graphs.end(), [&](const Graph& g) {
        return g.stage == b.stage && g.chunk != b.chunk && std::any_of(g.values.begin(), g.values.end(), [&](const Value& v) {
                   return v.parameter && std::any_of(b.parameters.begin(), b.parameters.end(), [&](std::int32_t i) { return is(v, i); });
               });
    });
}

// The degrees of sharing, and when in a step gathers and reductions happen.
void share_out(Lowering& l) {
    const Strategy& st = l.scenario.strategy;
    DataParallel& dp = l.data_parallel;
    dp.strategy = &st;
    // Each direction has its own microbatches, as data-parallel ranks have.
    const int directions = l.plan.directions;
    dp.shards = l.plan.mesh.extent(Axis::dp) * l.plan.mesh.extent(Axis::cp) * directions;
    dp.replicas = l.plan.mesh.extent(Axis::dpr);
    if (l.practice.near_ranks() > 0) { // both levels share one set of shards
        dp.shard_axes = static_cast<AxisMask>(dp.shard_axes | mask(Axis::dpr));
        dp.shards *= std::exchange(dp.replicas, 1);
        dp.secondary = std::max(1, l.practice.second_copy_ranks);
    }
    if (l.scenario.model.moe) {
        dp.expert_shards = l.plan.expert_mesh.extent(Axis::dp) * directions;
        dp.expert_replicas = l.plan.expert_mesh.extent(Axis::dpr);
    }
    dp.zero = st.zero_stage;
    dp.fsdp = l.practice.fully_sharded();
    if (std::max(dp.shards, dp.expert_shards) == 1) dp.zero = 0; // replicas only: there is nothing to shard over
    if (l.practice.once_a_step(l.plan.stages)) dp.zero = std::min(dp.zero, 1);
    dp.gathers_in_step = std::max(dp.shards, dp.expert_shards) > 1 && (dp.zero == 3 || (dp.zero == 2 && dp.fsdp && l.plan.stages == 1));
    const bool one = std::max(dp.shards, dp.expert_shards) * std::max(dp.replicas, dp.expert_replicas) == 1;
    dp.fetches = one && st.offload.parameters != Tier::none;
    dp.sends = one && st.offload.gradients != Tier::none;
    dp.gathers_in_step = dp.gathers_in_step || dp.fetches;
    dp.keeps_until_backward = dp.gathers_in_step && dp.zero == 2;
    // (The optimizer has masters of its own where one rank has an expert's parameters alone, and where states are offloaded.)
    const bool all_sharded = dp.shards > 1 && (!l.scenario.model.moe || dp.expert_shards > 1);
    dp.wide_shards = dp.gathers_in_step && all_sharded && l.practice.fp32_shards && st.offload.parameters == Tier::none &&
                     st.offload.optimizer == Tier::none;
    // Gradients stay whole until the last microbatch, which is synchronised.
    if (st.gradient_sync == GradientSync::no_sync && l.scenario.microbatches() > 1) dp.zero = std::min(dp.zero, 1);
    // (In a pipeline most microbatches come after the first backward pass, where all gradients are there. Where replicas share them, the
    // first of several microbatches is not told from the others, nor the first of the two halves of a backward pass.)
    const bool halves = std::any_of(l.chunks.begin(), l.chunks.end(), [](const ChunkBlocks& c) { return c.weight >= 0; });
    const bool updated = l.scenario.training.optimizer_in_backward,
               shared_once = dp.active() && dp.zero == 0 && l.practice.gradients_none && !updated && l.plan.microbatches == 1 && !halves &&
                             !st.sends_signs() && !l.scenario.runtime.fused_weight_gradient_accumulation;
    dp.made_in_backward = ((!dp.active() && !dp.sends && (l.practice.gradients_none || updated)) || shared_once) && l.plan.stages == 1 &&
                          !l.schedule->asynchronous;
}

// Whether one pass alone adds to the bucket's gradients, between the moments when they come and when they are used: then autograd's
// products write them, and nothing is added. run: as make_blocks has it.
bool made_by_one_pass(const Lowering& l, const Bucket& b, std::int64_t run) {
    const DataParallel& dp = l.data_parallel;
    if (l.chunks[b.chunk].weight >= 0) return false; // halves of several microbatches are under way at once
    const bool by_run = dp.fsdp && dp.sharded(b) && dp.reduces_each_run(b) && run == 1,
               by_step = dp.made_in_backward && l.practice.gradients_none && l.plan.microbatches == 1;
    return (by_run || by_step) && b.trained && l.plan.directions == 1 && !l.practice.adds_in_products && !used_elsewhere(l, b);
}

// The blocks that reduce, gather and move one bucket. runs: how often a step reduces its gradients, of `run` backward steps each.
void make_blocks(Lowering& l, BucketBlocks& maker, Bucket& b, std::int64_t run, int runs) {
    const Strategy& st = l.scenario.strategy;
    const DataParallel& dp = l.data_parallel;
    b.shards = b.expert ? dp.expert_shards : dp.shards;
    b.replicas = b.expert ? dp.expert_replicas : dp.replicas;
    b.made_anew = made_by_one_pass(l, b, run);
    if (dp.made_in_backward && b.trained && !b.made_anew) maker.make_acquire(b);
    if (!dp.active(b)) { // of one rank, or experts of one
        b.sends = b.trained && dp.reduces_each_run() && st.offload.gradients != Tier::none;
        b.accumulates = b.sends && (runs > 1 || used_elsewhere(l, b));
        if (dp.gathers_in_step && st.offload.parameters != Tier::none) fetch_whole(l, b);
        if (!b.sends) return;
        send_whole(l, b);
        sum_over_tensor_parallel(l, b);
        maker.make_acquire(b);
        return;
    }
    if (st.sends_signs()) return; // the momentum travels, after the backward pass
    maker.lay_out(b);
    if (dp.sharded(b)) maker.make_shards(b);
    if (!b.trained) { // gathered where it is read, and never reduced
        if (dp.sharded(b)) maker.make_gather(b);
        if (dp.sharded(b) && dp.secondary > 1) maker.make_secondary(b);
        if (dp.sharded(b) && dp.gathers_in_step && st.offload.parameters != Tier::none) fetch_shard(l, b);
        return;
    }
    // FSDP leaves a microbatch's gradient in the parameter's dtype where nothing is accumulated unsharded.
    if (dp.fsdp && dp.reduces_each_run(b) && run == 1)
        for (BufferId g : maker.gradients(b)) set_dtype(l.buffer(g), maker.act);
    b.accumulates = dp.reduces_each_run(b) && (runs > 1 || used_elsewhere(l, b));
    const bool goes = l.practice.gradients_none || l.scenario.training.optimizer_in_backward;
    b.comes_with_backward = dp.fsdp && st.offload.gradients == Tier::none && goes && dp.zero >= 2 && dp.reduces_each_run(b) &&
                            (!b.accumulates || maker.begins_anew(b));
    maker.make_reduce(b);
    if (dp.sharded(b)) maker.make_gather(b);
    if (dp.sharded(b) && dp.secondary > 1) maker.make_secondary(b);
    if (dp.reduces_each_run(b) && !b.made_anew) maker.make_acquire(b);
    if (dp.gathers_in_step && st.offload.parameters != Tier::none) fetch_shard(l, b);
    if (dp.reduces_each_run(b) && st.offload.gradients != Tier::none) {
        send_shard(l, b);
        sum_over_tensor_parallel(l, b);
    }
}

// Weights of a chunk's linears in 8 bits are parameters of 8 bits (Practice::gathers_low_parameters). After its buckets are cut, which go
// by the dtype that parameters had.
void narrow_weights(Lowering& l, int chunk) {
    const Graph& g = l.graphs[chunk];
    std::set<TensorId> low;
    for (const Node& n : g.nodes)
        if (multiplies_in_fp8(n))
            for (const ValueId p : n.params)
                if (g.value(p).shape.size() >= 2) low.insert(l.tensor(g.value(p)));
    for (const Parameter& p : l.parameters[g.stage])
        if (low.contains(p.tensor)) set_dtype(l.buffer(p.weight), DType::fp8);
}

} // namespace

void buckets(Lowering& l) {
    const Strategy& st = l.scenario.strategy;
    share_out(l);
    DataParallel& dp = l.data_parallel;
    const int directions = l.plan.directions;
    const DType grad_dtype = l.scenario.training.gradient_dtype;
    BucketBlocks maker{l, dp, grad_dtype, activation_dtype(l.scenario)};
    if (directions > 1)
        for (const auto& of_stage : l.parameters)
            for (const Parameter& p : of_stage)
                if (p.trained()) l.buffer(p.gradient).placement.set(Axis::pp, PlacementKind::partial);
    const bool one_unit_each = dp.zero >= 2 || dp.gathers_in_step || (dp.made_in_backward && !dp.active()) || dp.sends;
    for (int c = 0; c < static_cast<int>(l.chunks.size()); ++c) {
        auto of_chunk = cut(l, c, st.bucket_bytes, grad_dtype, one_unit_each);
        const std::int64_t microbatches = l.plan.microbatches / directions;
        const std::int64_t run = dp.reduces_each_run() ? st.run_of(l.plan.chunks_per_stage, microbatches) : 1;
        const int runs = dp.reduces_each_run() ? static_cast<int>((microbatches + run - 1) / run) : 1;
        if (l.practice.gathers_low_parameters) narrow_weights(l, c);
        for (Bucket& b : of_chunk) make_blocks(l, maker, b, run, runs);
        make_gradients_anew(l, c, of_chunk);
        if (l.scenario.training.optimizer_in_backward)
            for (Bucket& b : of_chunk)
                if (b.trained) b.update = make_update_block(l, b);
        dp.buckets.push_back(std::move(of_chunk));
    }
    // A backward pass in two halves makes a weight's gradient in another block than it reads the weight.
    const bool halves = std::any_of(l.chunks.begin(), l.chunks.end(), [](const ChunkBlocks& c) { return c.weight >= 0; });
    const auto any_alone = [](const std::vector<Bucket>& of_chunk) {
        return std::any_of(of_chunk.begin(), of_chunk.end(), [](const Bucket& b) { return b.alone; });
    };
    dp.weight_by_weight = dp.gathers_in_step && l.practice.sharding == Sharding::compiler && !halves &&
                          std::any_of(dp.buckets.begin(), dp.buckets.end(), any_alone);
}

} // namespace orrery

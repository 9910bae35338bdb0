// The gathers of ZeRO-3 and FSDP and what waits for them: without prefetch a step takes what computation and gathers take together, and
// DeepSpeed of 2021 gathers a parameter at a time; FSDP2 hides what it can.
#include "sim/plan/verify.hpp"
#include "sim/report/report.hpp"
#include "tests/laws/scenarios.hpp"
#include "tests/laws/simulations.hpp"

#include <algorithm>
#include <map>
#include <tuple>

namespace orrery::laws {
namespace {

Scenario three(int year) {
    Gpt g;
    g.framework = "deepspeed";
    g.zero = 3;
    g.dp = 8;
    g.microbatches = 2;
    Scenario s = g.make();
    s.runtime.year = year;
    s.runtime.plan_allocator = true; // simexec's runtime, which no hooks hold up: these laws are of links
    return s;
}

long gathers_of(const Scenario& s, const std::string& unit) {
    const Plan plan = lower(s);
    return std::count_if(plan.blocks.begin(), plan.blocks.end(), [&](const Block& b) { return b.name == "gather:" + unit; });
}

TEST(GatherLaws, WithoutPrefetchComputationWaits) {
    Scenario with = three(2023), without = with;
    with.strategy.overlap.param_gather = with.strategy.overlap.grad_reduce = true;
    without.strategy.overlap.param_gather = without.strategy.overlap.grad_reduce = false;
    Scenario slow_with = with, slow_without = without;
    for (Scenario* s : {&slow_with, &slow_without}) s->cluster.intra.bandwidth = s->cluster.intra.bandwidth * 0.5;
    EXPECT_LT(step_of(with), step_of(without));
    // All that a slower link adds is waited for, where without prefetch nothing hides it.
    EXPECT_LT(step_of(slow_with) - step_of(with), step_of(slow_without) - step_of(without));
}

TEST(GatherLaws, DeepSpeedJoinsAModulesParametersSince2022) {
    EXPECT_EQ(gathers_of(three(2022), "c0.u1"), 1);
    EXPECT_EQ(gathers_of(three(2021), "c0.u1"), 5); // query-key-value, projection, two of the MLP; the rest together
}

TEST(GatherLaws, APartOfAListCostsACopyForEachMember) {
    Scenario earlier = three(2021), later = three(2022);
    for (Scenario* s : {&earlier, &later}) s->strategy.overlap.param_gather = s->strategy.overlap.grad_reduce = false;
    // Two microbatches gather four layers' five parts twice and reduce them once: 8 copies of 12 us each time, less what the optimizer
    // hides.
    const double copies = 2 * 4 * 5 * 3 * 8 * 12e-6;
    EXPECT_GT(step_of(earlier) - step_of(later), 0.8 * copies);
    EXPECT_LT(step_of(earlier) - step_of(later), 1.6 * copies);
}

// Llama 3 8B on eight H100 under FSDP2, a layer's computation some ten times as long as its gather.
const char* sharded = R"({"model": "llama3-8b", "cluster": {"preset": "dgx-h100", "nodes": 1},
    "training": {"global_batch_size": 8, "micro_batch_size": 1, "sequence_length": 8192, "precision": "bf16"},
    "strategy": {"framework": "fsdp2", "overlap": {"grad_reduce": true, "param_gather": true}}})";

TEST(GatherLaws, ALayerAheadIsGatheredAndCopiedWithoutAWait) {
    const Scenario s = scenario(sharded);
    SimulateOptions options;
    options.trace = true;
    const Prediction p = predict(s, {.simulate = options});
    double moving = 0, first_and_last = 0;
    const Trace& t = *p.simulation.trace;
    for (const Span& span : t.lanes.front().spans) {
        if (span.kind != SpanKind::op || t.queues[span.queue] != "dp.shard") continue;
        moving += (span.end - span.begin).seconds();
        first_and_last = std::max(first_and_last, (span.end - span.begin).seconds());
    }
    const double exposed = p.simulation.lanes.front().breakdown[Category::exposed_dp].seconds();
    EXPECT_GT(moving, 20 * first_and_last); // there is something to hide
    EXPECT_LT(exposed, 3 * first_and_last); // the first gathers and the last reduction
}

TEST(GatherLaws, UnderAPipelineFsdp2GathersAndReducesOnceAStep) {
    const auto bytes_of = [](const char* framework, int microbatches) {
        Gpt g;
        g.framework = framework;
        g.zero = 3;
        g.pp = 2;
        g.dp = 4;
        g.microbatches = microbatches;
        const Plan plan = lower(g.make());
        double bytes = 0;
        for (const Action& a : plan.programs.front().actions)
            for (std::int32_t i = a.first; i < a.last; ++i) {
                const Op& op = plan.blocks[a.block].ops[i];
                if (const auto* c = std::get_if<Collective>(&op.work);
                    c && (op.phase == Phase::param_gather || op.phase == Phase::gradient_reduce))
                    bytes += static_cast<double>(c->bytes.count);
            }
        return bytes;
    };
    EXPECT_EQ(bytes_of("fsdp2", 8), bytes_of("fsdp2", 4));
    EXPECT_GT(bytes_of("fsdp", 8), 1.5 * bytes_of("fsdp", 4)); // FullyShardedDataParallel reshards behind each microbatch
}

Scenario flat(const std::string& more, int microbatches = 2) {
    return scenario(fmt::format(
        R"({{"model": {{"layers": 16, "hidden_size": 4096, "attention_heads": 32, "vocab_size": 32000, "tied_embeddings": false}},
        "cluster": {{"preset": "dgx-h100", "nodes": 2, "inter_node": {{"gbit_per_s": 100}}}},
        "training": {{"global_batch_size": {}, "micro_batch_size": 1, "sequence_length": 4096, "precision": "bf16"}},
        "strategy": {{{}}}}})",
        16 * microbatches, more));
}

// NO_PREFETCH: gathers of the backward pass stand behind the reductions of the units before, and nothing hides either; those of the forward
// pass are hidden. Gathers of no_sync's microbatches that reduce nothing are asked for in time.
TEST(GatherLaws, WithoutBackwardPrefetchGathersWaitForReductions) {
    const std::string fsdp = R"("framework": "fsdp", "overlap": {"grad_reduce": true, "param_gather": )";
    const auto time = [&](const char* gather, const char* prefetch, const std::string& more = "") {
        return step_of(flat(fsdp + gather + R"(, "backward_prefetch": )" + prefetch + "}" + more));
    };
    const double both = time("true", "true"), forward = time("true", "false"), none = time("false", "true");
    EXPECT_LT(both, forward);
    EXPECT_LT(forward, none);
    EXPECT_EQ(time("false", "false"), none);
    const std::string once = R"(, "gradient_sync": "no_sync")";
    const double synced = forward - both, unsynced = time("true", "false", once) - time("true", "true", once);
    EXPECT_GE(unsynced, 0);
    EXPECT_LT(unsynced, 0.75 * synced) << "of two microbatches one reduces";
}

TEST(GatherLaws, BackwardPrefetchIsOfFlatUnits) {
    for (const auto& [framework, more, idle] : {std::tuple{"fsdp", "", false},
                                                {"composer", "", false},
                                                {"deepspeed", R"(, "zero_stage": 3)", false},
                                                {"fsdp2", "", true},
                                                {"torchtitan", "", true},
                                                {"fsdp", R"(, "zero_stage": 2)", true}}) {
        const std::string strategy = fmt::format(R"("framework": "{}"{}, "overlap": {{"backward_prefetch": )", framework, more);
        const Scenario with = flat(strategy + "true}"), without = flat(strategy + "false}");
        const bool told = std::any_of(without.notes.begin(), without.notes.end(), [](const std::string& note) {
            return note.starts_with("strategy.overlap.backward_prefetch has no effect");
        });
        EXPECT_EQ(told, idle) << framework << more;
        EXPECT_EQ(step_of(with) == step_of(without), idle) << framework << more;
        EXPECT_LE(step_of(with), step_of(without)) << framework << more;
    }
}

// The output layer stays from the forward pass to the backward pass, which wants it first. The embedding stays with it where both are one
// unit; elsewhere it is let go of behind the forward pass, and its bytes are free where a layer's backward pass is at its peak.
TEST(GatherLaws, TheEmbeddingStaysWhereItIsOneUnitWithTheOutputLayer) {
    for (const auto& [framework, year, stays] : {std::tuple{"fsdp", 2025, true},
                                                 {"fsdp2", 2025, true},
                                                 {"torchtitan", 2024, true},
                                                 {"torchtitan", 2025, true},
                                                 {"torchtitan", 2026, false},
                                                 {"deepspeed", 2021, true},
                                                 {"deepspeed", 2025, false}}) {
        Scenario s =
            flat(fmt::format(R"("framework": "{}", "zero_stage": 3, "overlap": {{"param_gather": true, "grad_reduce": true}})", framework));
        s.runtime.year = year;
        const Plan plan = lower(s);
        EXPECT_EQ(verify(plan).size(), 0u) << framework << to_text(verify(plan));
        std::map<std::string, int> gathers; // of parameters, by name
        bool table = false;                 // is there now
        int behind = 0;                     // backward pieces of layers beside which it is
        for (const Action& a : plan.programs[0].actions) {
            const Block& b = plan.blocks[a.block];
            bool layer = false;
            for (std::int32_t i = a.first; i < a.last; ++i) {
                const Op& op = b.ops[i];
                const auto embeds = [&](BufferId x) {
                    const Buffer& y = plan.buffers[x];
                    return y.role == Role::parameter && plan.tensors[y.tensor].use == TensorUse::embedding;
                };
                if (const auto* x = std::get_if<Alloc>(&op.work); x && embeds(x->buffer)) table = true, ++gathers["embedding"];
                if (const auto* x = std::get_if<Free>(&op.work); x && embeds(x->buffer)) table = false;
                if (const auto* x = std::get_if<Alloc>(&op.work); x && plan.buffers[x->buffer].role == Role::parameter)
                    ++gathers[plan.buffers[x->buffer].name];
                layer = layer || op.layer == 8;
            }
            behind += b.kind == BlockKind::backward && layer && table;
        }
        EXPECT_EQ(gathers["embedding"], stays ? 2 : 4) << framework << year << ": once or twice a microbatch";
        EXPECT_EQ(behind > 0, stays) << framework << year;
        for (const auto& [name, n] : gathers) {
            if (name.find("head.weight") == std::string::npos) continue;
            EXPECT_EQ(n, 2) << framework << year << name;
        }
    }
}

// The first computation of a step waits for the last gather of the step before it.
bool begins_behind_gathers(const Plan& plan) {
    const Program& p = plan.programs.front();
    const auto actions = static_cast<std::int32_t>(p.actions.size());
    for (const Action& a : p.actions)
        for (std::int32_t i = a.first; i < a.last; ++i) {
            const Op& op = plan.blocks[a.block].ops[i];
            if (op.queue != compute_queue || is_memory_op(op.work)) continue;
            return std::any_of(p.deps.begin() + a.deps_begin, p.deps.begin() + a.deps_end, [&](const ActionDep& d) {
                return d.op == i && d.on_action == -1 && plan.blocks[p.actions[actions - 1].block].kind == BlockKind::gather;
            });
        }
    return false;
}

// ZeRO 1 and 2 gather at a step's end. Without overlap nothing computes meanwhile: a step takes what kernels and gathers take together.
TEST(GatherLaws, ZeroOneAndTwoWaitForTheirGathersUnlessTheNextStepHidesThem) {
    for (const auto& [framework, zero] : {std::pair{"megatron", 1}, {"deepspeed", 1}, {"deepspeed", 2}}) {
        const auto job = [&](bool overlap) {
            return flat(fmt::format(R"("framework": "{}", "zero_stage": {}, "overlap": {{"param_gather": {}}})", framework, zero, overlap),
                        1);
        };
        const Scenario waits = job(false), hides = job(true);
        EXPECT_TRUE(begins_behind_gathers(lower(waits))) << framework << zero;
        EXPECT_FALSE(begins_behind_gathers(lower(hides))) << framework << zero;
        EXPECT_EQ(verify(lower(waits)).size(), 0u) << framework << zero << to_text(verify(lower(waits)));
        SimulateOptions options;
        options.trace = true;
        const Prediction p = predict(waits, {.simulate = options});
        const Trace& t = *p.simulation.trace;
        double computing = 0, gathering = 0;
        for (const Span& span : t.lanes.front().spans) {
            if (span.kind != SpanKind::op) continue;
            if (t.queues[span.queue] == "compute") computing += (span.end - span.begin).seconds();
            if (t.queues[span.queue] == "dp.gather") gathering += (span.end - span.begin).seconds();
        }
        EXPECT_GT(gathering, 0.02 * computing) << framework << zero << ": there is something to wait for";
        EXPECT_GE(p.report.step_time_s * (1 + 1e-9), computing + gathering) << framework << zero;
        EXPECT_LT(step_of(hides), p.report.step_time_s) << framework << zero;
        Scenario slow_waits = waits, slow_hides = hides;
        for (Scenario* s : {&slow_waits, &slow_hides}) s->cluster.inter.nic_bandwidth = s->cluster.inter.nic_bandwidth * 0.5;
        EXPECT_GE(step_of(slow_waits) - p.report.step_time_s, 0.7 * gathering)
            << framework << zero << ": but for latencies all of a gather is waited for";
        EXPECT_LE(step_of(slow_hides), step_of(slow_waits)) << framework << zero;
    }
}

// Experts' parameters are gathered by other ranks: the calls are one after another all the same.
TEST(GatherLaws, GathersThatBlockFollowOneAnother) {
    const Plan plan = lower(scenario(R"({"model": {"layers": 2, "hidden_size": 256, "attention_heads": 4, "vocab_size": 1000,
            "moe": {"experts": 4, "top_k": 2}},
        "cluster": {"preset": "dgx-h100", "nodes": 1},
        "training": {"global_batch_size": 8, "micro_batch_size": 1, "sequence_length": 128, "precision": "bf16"},
        "strategy": {"framework": "megatron", "expert_parallel": 2, "zero_stage": 1, "overlap": {"param_gather": false}}})"));
    const Program& p = plan.programs.front();
    std::int32_t before = -1;
    int crossings = 0;
    for (std::int32_t a = 0; a < static_cast<std::int32_t>(p.actions.size()); ++a) {
        const Block& b = plan.blocks[p.actions[a].block];
        if (b.kind != BlockKind::gather) continue;
        if (before >= 0 && plan.blocks[p.actions[before].block].ops.back().queue != b.ops.front().queue) {
            ++crossings;
            EXPECT_TRUE(std::any_of(p.deps.begin() + p.actions[a].deps_begin, p.deps.begin() + p.actions[a].deps_end,
                                    [&](const ActionDep& d) { return d.on_action == before; }))
                << b.name;
        }
        before = a;
    }
    EXPECT_GT(crossings, 0);
}

} // namespace
} // namespace orrery::laws

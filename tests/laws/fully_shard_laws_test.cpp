// Memory of PyTorch's fully sharded data parallelism: streams with segments of their own, what reductions hold, and what a compiler or a
// policy of checkpointing keeps beside what is read.
#include "sim/memory/memory.hpp"
#include "sim/memory/segments.hpp"
#include "sim/plan/verify.hpp"
#include "tests/laws/scenarios.hpp"

#include <algorithm>
#include <set>
#include <tuple>

namespace orrery::laws {
namespace {

Scenario sharded_llama(const std::string& strategy, const std::string& training = "", const std::string& runtime = R"("year": 2025)",
                       int nodes = 1) {
    return scenario(fmt::format(
        R"({{"model": "llama3-8b", "cluster": {{"preset": "dgx-h100", "nodes": {}}},
            "training": {{"global_batch_size": {}, "micro_batch_size": 1, "sequence_length": 4096, "precision": "bf16"{}}},
            "strategy": {{{}}}, "runtime": {{{}}}}})",
        nodes, 8 * nodes, training, strategy, runtime));
}

// The streams of a plan's buffers whose names begin so.
std::set<int> streams(const Plan& plan, Sharding sharding, const std::string& name) {
    std::set<int> out;
    for (const Buffer& b : plan.buffers)
        if (b.name.starts_with(name) && (b.scope == Scope::action || b.role == Role::gradient_shard))
            out.insert(allocation_stream(plan, b, sharding));
    return out;
}

TEST(FullyShardLaws, BuffersLieOnTheStreamsThatAllocateThem) {
    const std::string wide = R"(, "gradient_dtype": "fp32")", narrow = R"(, "gradient_dtype": "bf16")";
    using One = std::set<int>;
    const Plan parameters = lower(sharded_llama(R"("framework": "fsdp2")", wide)),
               units = lower(sharded_llama(R"("framework": "fsdp")", wide)), same = lower(sharded_llama(R"("framework": "fsdp")", narrow));
    const auto of = [&](const char* name) {
        return std::tuple{streams(parameters, Sharding::per_parameter, name), streams(units, Sharding::flat_units, name)};
    };
    EXPECT_EQ(of("w.cast.c0"), (std::tuple{One{1}, One{3}}));
    EXPECT_EQ(of("w.l0."), (std::tuple{One{0}, One{1}})) << "copied out by computation, or parts of what is gathered";
    EXPECT_EQ(of("g.shard.c0"), (std::tuple{One{2}, One{2}}));
    EXPECT_EQ(of("g.flat.c0"), (std::tuple{One{0}, One{2}}));
    EXPECT_EQ(streams(parameters, Sharding::per_parameter, "w.flat.c0"), One{1});
    EXPECT_EQ(streams(same, Sharding::flat_units, "g.flat.c0"), One{0}) << "nothing is cast";
    for (const Buffer& b : parameters.buffers) EXPECT_EQ(allocation_stream(parameters, b, Sharding::buckets), 0) << b.name;
}

// A long step is followed at its beginning and its end: it reserves what a short one does.
TEST(FullyShardLaws, ManyMicrobatchesReserveWhatSomeDo) {
    const auto reserved = [](int microbatches) {
        Scenario s = sharded_llama(R"("framework": "fsdp2", "zero_stage": 3)");
        s.training.global_batch_size = 8 * microbatches;
        return static_cast<double>(peak_as(memory(lower(s), s).stages[0], MemoryMeasure::reserved).count);
    };
    const double some = reserved(64); // the cache takes a few dozen to settle
    for (const int more : {128, 512}) EXPECT_NEAR(reserved(more), some, 0.02 * some) << more;
}

struct Levels {
    Bytes computation, gradients; // the peak of what computation allocates; all shards of gradients
};

Levels levels(const Plan& plan, Sharding sharding) {
    Levels out;
    std::int64_t level = 0;
    const auto computed = [&](const Buffer& b) { return b.space == Space::device && allocation_stream(plan, b, sharding) == 0; };
    for (const Buffer& b : plan.buffers) {
        if (b.role == Role::gradient_shard) out.gradients += b.bytes;
        if (lasts(b, plan.programs[0], Space::device) && b.role != Role::first_moment && b.role != Role::second_moment && computed(b) &&
            b.scope == Scope::run)
            level += b.bytes.count;
    }
    for (const Action& a : plan.programs[0].actions)
        for (std::int32_t i = a.first; i < a.last; ++i) {
            const Op& op = plan.blocks[a.block].ops[i];
            if (const auto* x = std::get_if<Alloc>(&op.work); x && computed(plan.buffers[x->buffer]))
                level += plan.buffers[x->buffer].bytes.count;
            if (const auto* x = std::get_if<Free>(&op.work); x && computed(plan.buffers[x->buffer]))
                level -= plan.buffers[x->buffer].bytes.count;
            out.computation = std::max(out.computation, Bytes{level});
        }
    return out;
}

// Activations cannot use what gradients lie in, nor gradients what activations left.
TEST(FullyShardLaws, ReservedIsAtLeastComputationsPeakAndAllGradients) {
    for (const auto& [framework, sharding] :
         {std::pair{"fsdp", Sharding::flat_units}, {"fsdp2", Sharding::per_parameter}, {"torchtitan", Sharding::per_parameter}})
        for (const char* recompute : {"none", "full"}) {
            const Plan plan = lower(sharded_llama(fmt::format(R"("framework": "{}", "recompute": "{}")", framework, recompute)));
            const auto reserved = [&](Sharding s) {
                return reserved_peak(plan, plan.programs[0], {s, false, true}, Bytes::gigabytes(1000)).count;
            };
            const Levels least = levels(plan, sharding);
            EXPECT_GT(least.gradients.count, 0);
            EXPECT_GE(reserved(sharding), least.computation.count + least.gradients.count) << framework << recompute;
            EXPECT_GT(reserved(sharding), reserved(Sharding::buckets)) << framework << recompute << ": one stream serves all";
        }
}

// Twice the ranks have half the gradients each: what lies beside what is allocated becomes less.
TEST(FullyShardLaws, MoreRanksReserveLessBesideWhatIsAllocated) {
    for (const char* framework : {"fsdp", "fsdp2"}) {
        double before = 0;
        for (const int nodes : {1, 2, 4}) {
            const Scenario s =
                sharded_llama(fmt::format(R"("framework": "{}", "recompute": "full")", framework), "", R"("year": 2025)", nodes);
            const MemoryReport m = memory(lower(s), s);
            const StageMemory& stage = fullest(m);
            const double slack =
                static_cast<double>((peak_as(stage, MemoryMeasure::reserved) - peak_as(stage, MemoryMeasure::allocated)).count);
            if (before > 0) { EXPECT_LT(slack, before) << framework << nodes; }
            before = slack;
        }
    }
}

// What a reduce-scatter of fully_shard reads is there until the next one, or the pass, has come to its end: one at a time, beside the
// backward pass of the next unit. Flat units let go of theirs at once.
TEST(FullyShardLaws, AReductionsInputLivesUntilTheNextOne) {
    for (const auto& [framework, held] : {std::pair{"fsdp", 0}, {"fsdp2", 1}})
        for (const int microbatches : {1, 2}) {
            Scenario s = sharded_llama(fmt::format(R"("framework": "{}")", framework));
            s.training.global_batch_size *= microbatches;
            const Plan plan = lower(s);
            EXPECT_EQ(verify(plan).size(), 0u) << framework << to_text(verify(plan));
            int now = 0, beside = 0, reductions = 0;
            for (const Action& a : plan.programs[0].actions) {
                const Block& b = plan.blocks[a.block];
                for (std::int32_t i = a.first; i < a.last; ++i) {
                    const auto* x = std::get_if<Alloc>(&b.ops[i].work);
                    const auto* y = std::get_if<Free>(&b.ops[i].work);
                    if (x && plan.buffers[x->buffer].role == Role::flat_gradients) ++now, ++reductions;
                    if (y && plan.buffers[y->buffer].role == Role::flat_gradients) --now;
                    EXPECT_LE(now, 1) << framework;
                }
                if (b.kind == BlockKind::backward && reductions > 0) beside = std::max(beside, now);
                if (b.kind == BlockKind::forward) { EXPECT_EQ(now, 0) << framework << ": the pass before has ended"; }
            }
            EXPECT_EQ(now, 0) << framework;
            EXPECT_EQ(beside, held) << framework;
            EXPECT_GE(reductions, 33 * microbatches) << framework;
        }
}

// Op by op a policy stores the result of a layer's last product, which nobody reads; a compiler does not. Time is the same.
TEST(FullyShardLaws, EagerPoliciesByOpStoreWhatNobodyReads) {
    const auto left = [](const char* recompute, const char* fused, const char* part) {
        const Plan plan = lower(sharded_llama(fmt::format(R"("framework": "torchtitan", "recompute": "{}", "fused": {})", recompute, fused),
                                              "", R"("year": 2025, "fused_norm": true)"));
        EXPECT_EQ(verify(plan).size(), 0u) << to_text(verify(plan));
        std::int64_t bytes = 0;
        for (const Block& b : plan.blocks)
            if (b.kind == BlockKind::forward)
                for (const Op& op : b.ops) {
                    const auto* x = std::get_if<Alloc>(&op.work);
                    const auto* y = std::get_if<Free>(&op.work);
                    const auto named = [&](BufferId id) { return plan.buffers[id].name.ends_with(part); };
                    if (x && named(x->buffer)) bytes += plan.buffers[x->buffer].bytes.count;
                    if (y && named(y->buffer)) bytes -= plan.buffers[y->buffer].bytes.count;
                }
        return bytes;
    };
    EXPECT_EQ(left("selective", "false", ".fc2"), 2LL * 4096 * 4096 * 32) << "2 bytes x tokens x hidden x layers";
    EXPECT_EQ(left("selective", "true", ".fc2"), 0);
    EXPECT_EQ(left("full", "false", ".fc2"), 0);
    EXPECT_EQ(left("none", "false", ".fc2"), 0);
}

// torch.compile keeps a copy of each whole weight in 8 bits, one byte for each of its elements, where the layer is not made again.
TEST(FullyShardLaws, CompilersKeepCastWeightsOfLayersThatAreNotMadeAgain) {
    const auto kept = [](const char* recompute, const char* fused = "true", DType precision = DType::fp8, int year = 2025) {
        Scenario s = sharded_llama(fmt::format(R"("framework": "torchtitan", "recompute": {}, "fused": {})", recompute, fused), "",
                                   fmt::format(R"("year": {})", year));
        s.training.precision = precision;
        if (precision == DType::mxfp8) s.runtime.fp8_recipe = ScalingRecipe::mxfp8;
        const Plan plan = lower(s);
        EXPECT_EQ(verify(plan).size(), 0u) << to_text(verify(plan));
        std::int64_t bytes = 0;
        for (const Buffer& b : plan.buffers)
            if (b.name.ends_with(".weight.cast")) {
                EXPECT_EQ(b.scope, Scope::microbatch) << b.name << ": until the backward pass";
                bytes += b.bytes.count;
            }
        return bytes;
    };
    const std::int64_t layer = 4096LL * (6144 + 4096 + 3 * 14336); // queries, keys and values; projection; gate, up and down
    EXPECT_EQ(kept(R"("none")"), 32 * layer);
    EXPECT_EQ(kept(R"("full")"), 0);
    EXPECT_EQ(kept(R"("selective")"), 0);
    EXPECT_EQ(kept(R"("full", "recompute_layers": {"every": 2})"), 16 * layer);
    EXPECT_EQ(kept(R"("none")", "false"), 0);
    EXPECT_EQ(kept(R"("none")", "true", DType::bf16), 0);
    EXPECT_EQ(kept(R"("none")", "true", DType::mxfp8), 0) << "scales of blocks";
    EXPECT_EQ(kept(R"("none")", "true", DType::fp8, 2026), 0) << "PyTorch 2.8";
}

} // namespace
} // namespace orrery::laws

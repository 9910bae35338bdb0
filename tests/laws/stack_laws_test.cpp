// What software of 2025-26 does and a scenario can say: packed documents, layers in 16 bits, moments and gathers in 8, mixtures in
// PyTorch's own operators, hooks, and memory that optimizers and streams need.
#include "sim/memory/memory.hpp"
#include "sim/plan/verify.hpp"
#include "sim/report/report.hpp"
#include "tests/laws/scenarios.hpp"

#include <algorithm>

namespace orrery::laws {
namespace {

Scenario llama(const std::string& training, const std::string& strategy, const std::string& runtime, const char* model = "llama3-8b") {
    return scenario(fmt::format(
        R"({{"model": "{}", "cluster": {{"preset": "dgx-h100", "nodes": 1}},
            "training": {{"global_batch_size": 8, "micro_batch_size": 1, "sequence_length": 8192, "precision": "bf16"{}}},
            "strategy": {{"framework": "torchtitan"{}}}, "runtime": {{{}}}}})",
        model, training, strategy, runtime.find("year") != std::string::npos ? runtime.substr(2) : R"("year": 2025)" + runtime));
}

template <class W, class F> double sum_of(const Plan& plan, F&& value) {
    double sum = 0;
    for (const Block& b : plan.blocks)
        for (const Op& op : b.ops)
            if (const auto* w = std::get_if<W>(&op.work)) sum += value(op, *w);
    return sum;
}

std::int64_t bytes_named(const Plan& plan, const std::string& part) {
    std::int64_t sum = 0;
    for (const Buffer& b : plan.buffers)
        if (b.name.find(part) != std::string::npos && b.storage < 0) sum += b.bytes.count;
    return sum;
}

// Documents of a quarter of the sequence: a quarter of the scores. A document as long as the sequence changes nothing.
TEST(StackLaws, PackedDocumentsAttendToThemselves) {
    const auto attention = [](const std::string& documents) {
        return sum_of<Attention>(lower(llama(documents, "", "")),
                                 [](const Op&, const Attention& w) { return static_cast<double>(flops(Work{w}).count); });
    };
    const double whole = attention("");
    EXPECT_NEAR(attention(R"(, "document_tokens": 2048)") / whole, 0.25, 1e-9);
    EXPECT_DOUBLE_EQ(attention(R"(, "document_tokens": 8192)"), whole);
}

constexpr const char* context_kinds[] = {"ring", "allgather", "ulysses"};

std::string on_four_ranks(const char* kind) {
    return fmt::format(R"(, "data_parallel": 2, "context_parallel": 4, "context_parallel_kind": "{}")", kind);
}

TEST(StackLaws, ShorterDocumentsAreNeverSlower) {
    for (const std::string& strategy : {std::string(), on_four_ranks("ring"), on_four_ranks("allgather"), on_four_ranks("ulysses")}) {
        double before = 0;
        for (const int tokens : {8192, 4096, 2048, 1024, 512}) {
            const double step = predict(llama(fmt::format(R"(, "document_tokens": {})", tokens), strategy, "")).report.step_time_s;
            if (before > 0) { EXPECT_LE(step, before) << tokens << strategy; }
            before = step;
        }
    }
}

// Each document is dealt out to all ranks: the pairs of a rank are its part of all, and what is sent does not depend on documents.
TEST(StackLaws, ContextParallelRanksShareDocuments) {
    const auto sums = [](const std::string& documents, const std::string& strategy) {
        const Plan plan = lower(llama(documents, strategy, ""));
        double attention = 0, sent = 0;
        for (const Block& b : plan.blocks)
            for (const Op& op : b.ops) {
                if (const auto* w = std::get_if<Attention>(&op.work)) attention += static_cast<double>(flops(Work{*w}).count);
                if (const auto* w = std::get_if<Collective>(&op.work)) sent += static_cast<double>(w->bytes.count);
            }
        return std::pair{attention, sent};
    };
    const std::string documents = R"(, "document_tokens": 2048)";
    const double alone = sums(documents, R"(, "data_parallel": 8)").first;
    for (const char* kind : context_kinds) {
        const auto [attention, sent] = sums(documents, on_four_ranks(kind));
        EXPECT_NEAR(attention / alone, 0.25, 1e-6) << kind;
        EXPECT_EQ(sent, sums("", on_four_ranks(kind)).second) << kind;
        EXPECT_DOUBLE_EQ(sums(R"(, "document_tokens": 8192)", on_four_ranks(kind)).first, sums("", on_four_ranks(kind)).first) << kind;
    }
}

TEST(StackLaws, LayersAtTheEndsStayInSixteenBits) {
    const auto low = [](const std::string& ends) {
        Scenario s = llama(ends, "", "");
        s.training.precision = DType::fp8;
        return sum_of<Linear>(lower(s), [](const Op&, const Linear& w) { return w.dtype == DType::fp8 ? 1.0 : 0.0; });
    };
    const double all = low("");
    EXPECT_DOUBLE_EQ(low(R"(, "bf16_first_layers": 1, "bf16_last_layers": 3)"), all * 28 / 32);
    EXPECT_DOUBLE_EQ(low(R"(, "bf16_first_layers": 40)"), 0);
}

TEST(StackLaws, MomentsOfEightBitsAreAByteEach) {
    const auto moments = [](const char* dtype) {
        return bytes_named(lower(llama(fmt::format(R"(, "moment_dtype": "{}")", dtype), "", "")), "moment");
    };
    EXPECT_EQ(moments("fp32"), 4 * moments("int8"));
}

// Matrices of layers travel in 8 bits, embedding, head and norms in 16.
TEST(StackLaws, GathersInEightBitsAreHalfOfTheLayers) {
    const auto gathered = [](bool low) {
        Scenario s = llama("", "", "");
        s.training.precision = DType::fp8;
        s.runtime.fp8_all_gather = low;
        return sum_of<Collective>(lower(s), [](const Op& op, const Collective& c) {
            return op.phase == Phase::param_gather ? static_cast<double>(c.bytes.count) : 0.0;
        });
    };
    EXPECT_LT(gathered(true) / gathered(false), 0.62);
    EXPECT_GT(gathered(true) / gathered(false), 0.5);
}

// A step of torch's eager Adam takes the root of all second moments at once: 10 bytes a parameter where all states have 16 bits.
TEST(StackLaws, AnEagerStepHoldsTheRootsOfTheMoments) {
    const std::string narrow = R"(, "gradient_dtype": "bf16", "master_weights": false, "moment_dtype": "bf16")";
    const auto states = [&](const char* fused) {
        Scenario s =
            llama(narrow, R"(, "recompute": "full")", fmt::format(R"(, "loss": "chunked", "fused_optimizer": {})", fused), "llama3-70b");
        s.training.sequence_length = 512;
        return static_cast<double>(fullest(memory(lower(s), s)).allocated_peak.count) * 8 / 70.55e9;
    };
    EXPECT_NEAR(states("false"), 10, 0.1);
    EXPECT_LT(states("true"), 9.5);
}

// An update in the backward pass frees a unit's gradients at once: those of the largest units are alive, not those of all.
TEST(StackLaws, UpdatesInTheBackwardPassLeaveNoGradients) {
    const auto one = [](bool at_once) {
        return scenario(fmt::format(
            R"({{"model": "llama3-8b", "cluster": {{"preset": "dgx-h100", "nodes": 1, "devices_per_node": 1}},
                "training": {{"global_batch_size": 1, "sequence_length": 8192, "master_weights": false, "gradient_dtype": "bf16",
                             "gradient_clipping": 0, "optimizer_in_backward": {}}},
                "strategy": {{"framework": "torchtitan", "recompute": "full"}}}})",
            at_once));
    };
    const auto gradients = [](const Scenario& s) { // the most that are alive at once
        const Plan plan = lower(s);
        EXPECT_EQ(verify(plan).size(), 0u) << to_text(verify(plan));
        double alive = resident(plan, 0)[MemoryKind::gradients], most = alive;
        const auto count = [&](BufferId id, double sign) {
            const Buffer& b = plan.buffers[id];
            if (b.kind == MemoryKind::gradients) alive += sign * static_cast<double>(b.bytes.count);
            most = std::max(most, alive);
        };
        for (const Action& a : plan.programs[0].actions)
            for (std::int32_t i = a.first; i < a.last; ++i) {
                const Work& work = plan.blocks[a.block].ops[i].work;
                if (const auto* x = std::get_if<Alloc>(&work)) count(x->buffer, 1);
                if (const auto* x = std::get_if<Free>(&work)) count(x->buffer, -1);
            }
        return most;
    };
    EXPECT_NEAR(gradients(one(false)), 2 * 8.03e9, 1e8) << "all of them, in 16 bits";
    EXPECT_LT(gradients(one(true)), 2 * 2 * 128256 * 4096 * 1.01) << "those of embedding and head";
    EXPECT_LE(predict(one(true)).report.step_time_s, 1.002 * predict(one(false)).report.step_time_s);
}

TEST(StackLaws, UpdatesInTheBackwardPassOfShardsCostNoTime) {
    Scenario at_once = llama(R"(, "gradient_clipping": 0, "optimizer_in_backward": true)", R"(, "recompute": "full")", ""),
             at_end = at_once;
    at_end.training.optimizer_in_backward = false;
    EXPECT_EQ(verify(lower(at_once)).size(), 0u);
    const auto updates = [](const Scenario& s) {
        return sum_of<OptimizerStep>(lower(s), [](const Op&, const OptimizerStep& o) { return static_cast<double>(o.elements); });
    };
    EXPECT_EQ(updates(at_once), updates(at_end));
    const Report early = predict(at_once).report, late = predict(at_end).report;
    EXPECT_LE(early.step_time_s, 1.002 * late.step_time_s);
    EXPECT_LE(early.memory.stages[0].allocated_peak.count, late.memory.stages[0].allocated_peak.count);
}

// On the host the update is long: begun in the backward pass, it runs beside it.
TEST(StackLaws, UpdatesOnTheHostBeginInTheBackwardPass) {
    for (const std::string overlap : {"false", "true"}) {
        const auto job = [&](const std::string& at_once) {
            return llama(R"(, "gradient_clipping": 0, "optimizer_in_backward": )" + at_once,
                         R"(, "recompute": "full", "offload": {"optimizer": "cpu"}, "overlap": {"offload": )" + overlap + "}", "");
        };
        const Scenario at_once = job("true"), at_end = job("false");
        EXPECT_EQ(verify(lower(at_once)).size(), 0u) << to_text(verify(lower(at_once)));
        const auto on_host = [](const Scenario& s) {
            return sum_of<OptimizerStep>(lower(s),
                                         [](const Op&, const OptimizerStep& o) { return o.on_host ? static_cast<double>(o.elements) : 0; });
        };
        EXPECT_GT(on_host(at_once), 0);
        EXPECT_EQ(on_host(at_once), on_host(at_end));
        const Report early = predict(at_once).report, late = predict(at_end).report;
        // With copies beside it and nothing to clip, the update at the end is of buckets, and each begins as early.
        EXPECT_LT(early.step_time_s, (overlap == "true" ? 1 : 0.8) * late.step_time_s);
        EXPECT_LE(early.memory.stages[0].allocated_peak.count, late.memory.stages[0].allocated_peak.count);
    }
}

// With clipping, too, where the norm is checked afterwards: it is summed bucket by bucket, and no update waits for it.
TEST(StackLaws, UpdatesOnTheHostDoNotWaitForTheNormThatIsCheckedAfterwards) {
    const auto job = [&](const std::string& training, const std::string& strategy) {
        return llama(", " + training, R"(, "recompute": "full", "offload": {"optimizer": "cpu"})" + strategy, "");
    };
    const std::string later = R"(, "optimizer_sync": "post-validation")", early = R"("optimizer_in_backward": true)";
    const Scenario unclipped = job(R"("gradient_clipping": 0, )" + early, ""), checked = job(R"("gradient_clipping": 1, )" + early, later),
                   waits = job(R"("gradient_clipping": 1)", "");
    const Plan plan = lower(checked);
    EXPECT_EQ(verify(plan).size(), 0u) << to_text(verify(plan));
    const auto counted = [](const Plan& p) {
        return sum_of<GradientNorm>(p, [](const Op&, const GradientNorm& g) { return static_cast<double>(g.elements); });
    };
    EXPECT_GT(counted(plan), 0);
    EXPECT_EQ(counted(plan), counted(lower(waits))) << "every gradient once";
    EXPECT_EQ(counted(lower(unclipped)), 0);
    const double none = predict(unclipped).report.step_time_s, free = predict(checked).report.step_time_s;
    EXPECT_GE(free, none);
    EXPECT_LE(free, 1.01 * none);
    EXPECT_LT(free, 0.8 * predict(waits).report.step_time_s);
    EXPECT_EQ(job(early, later).training.gradient_clipping, waits.training.gradient_clipping) << "the usual norm, as it is checked";
}

Scenario undoing(double share, const std::string& overlap = "false") {
    return llama(R"(, "gradient_clipping": 1, "optimizer_in_backward": true)",
                 fmt::format(R"(, "recompute": "full", "optimizer_sync": "post-validation", "overlap": {{"offload": {}}},
                                "offload": {{"optimizer": "cpu", "undone_steps": {}}})",
                             overlap, share),
                 "");
}

// Steps that are undone take two updates more, and the parameters' way back: never less for more of them, and in the mean a share of it.
TEST(StackLaws, MoreUndoneStepsAreNeverFaster) {
    for (const std::string overlap : {"false", "true"}) {
        double before = 0;
        for (const double share : {0.0, 0.001, 0.01, 0.05, 0.25, 0.5, 1.0}) {
            const double now = predict(undoing(share, overlap)).report.step_time_s;
            EXPECT_GE(now, before) << share;
            before = now;
        }
        const double none = predict(undoing(0, overlap)).report.step_time_s;
        EXPECT_GT(before, 1.05 * none);
        Scenario unchecked = undoing(0, overlap);
        unchecked.training.gradient_clipping = 0;
        EXPECT_GE(none, predict(unchecked).report.step_time_s);
        EXPECT_LE(none, 1.01 * predict(unchecked).report.step_time_s);
        PredictOptions whole;
        whole.simulate.fold = false;
        const double folded = predict(undoing(0.25, overlap)).report.step_time_s;
        EXPECT_NEAR(predict(undoing(0.25, overlap), whole).report.step_time_s, folded, 1e-9 * folded);
    }
}

// What undoes them has no room of its own but two numbers: the states' own place, and gradients that the host has until the check.
TEST(StackLaws, UndoneStepsTakeNoMemory) {
    Scenario unchecked = undoing(0);
    unchecked.training.gradient_clipping = 0;
    const Report without = predict(unchecked).report, undone = predict(undoing(0.1)).report;
    for (const MemoryKind kind : {MemoryKind::parameters, MemoryKind::gradients, MemoryKind::optimizer_states})
        EXPECT_EQ(undone.memory.host.used.by_kind[kind], without.memory.host.used.by_kind[kind]);
    EXPECT_LE(undone.memory.host.used.peak.count, without.memory.host.used.peak.count + 8 * 2 * 4);
}

TEST(StackLaws, WhatIsUndoneIsMadeAgain) {
    const auto without = [](auto&& is) {
        Plan plan = lower(undoing(0.1));
        EXPECT_EQ(verify(plan).size(), 0u) << to_text(verify(plan));
        for (Block& block : plan.blocks)
            for (Op& op : block.ops)
                if (is(op)) op.work = HostSync{}, op.in.clear(), op.out.clear();
        return to_text(verify(plan));
    };
    const auto part = [](OptimizerStep::Part wanted) {
        return [wanted](const Op& op) {
            const auto* step = std::get_if<OptimizerStep>(&op.work);
            return step && step->part == wanted;
        };
    };
    EXPECT_NE(without(part(OptimizerStep::Part::again)).find("is undone, and not updated again"), std::string::npos);
    EXPECT_NE(without(part(OptimizerStep::Part::undo)).find("is updated again, and was not undone"), std::string::npos);
    EXPECT_NE(without(part(OptimizerStep::Part::whole)).find("is undone, and was not updated"), std::string::npos);
    const auto returns = [](const Op& op) {
        return std::holds_alternative<Copy>(op.work) && op.share < 1 && op.name.starts_with("from_host");
    };
    EXPECT_NE(without(returns).find("parameter-stale"), std::string::npos);
}

TEST(StackLaws, UpdatesInTheBackwardPassThatCannotBeAreRefused) {
    const auto refused = [](const std::string& training, const std::string& strategy, const std::string& model = "llama3-8b") {
        const ParseResult r = parse_scenario(fmt::format(R"({{"model": "{}", "cluster": {{"preset": "dgx-h100", "nodes": 1}},
                "training": {{"global_batch_size": 8, "sequence_length": 8192, "optimizer_in_backward": true{}}},
                "strategy": {{"framework": "torchtitan"{}}}}})",
                                                         model, training, strategy),
                                             {});
        return r.scenario ? std::string() : to_text(r.problems);
    };
    EXPECT_EQ(refused("", ""), "");
    EXPECT_NE(refused("", R"(, "schedule": "pipedream-async")").find("lets them go"), std::string::npos);
    const std::string divided = R"(, "tensor_parallel": 2, "data_parallel": 4, "sequence_parallel": false)";
    EXPECT_EQ(refused("", divided).find("qk_norm"), std::string::npos);
    EXPECT_NE(refused("", divided, "qwen3-4b").find("qk_norm has weights whose gradients are summed"), std::string::npos);
    EXPECT_NE(refused(R"(, "gradient_clipping": 1)", "").find("/training/gradient_clipping"), std::string::npos);
    EXPECT_NE(refused(R"(, "gradient_clipping": 1)", R"(, "optimizer_sync": "post-validation")").find("/training/gradient_clipping"),
              std::string::npos)
        << "on the device nothing undoes an update";
    EXPECT_NE(refused(R"(, "micro_batch_size": 1)", R"(, "data_parallel": 4, "tensor_parallel": 2)").find("/training/global_batch_size"),
              std::string::npos);
    EXPECT_NE(refused(R"(, "optimizer": "lamb")", "").find("/training/optimizer"), std::string::npos);
    EXPECT_NE(refused("", R"(, "zero_stage": 0)").find("/strategy/zero_stage"), std::string::npos);
    EXPECT_EQ(refused("", R"(, "offload": {"optimizer": "cpu"})"), "");
    for (const char* offload :
         {R"("optimizer": "nvme")", R"("optimizer": "cpu", "gradients": "cpu")", R"("optimizer": "cpu", "parameters": "cpu")",
          R"("optimizer": "cpu", "optimizer_fraction": 0.5)", R"("optimizer": "cpu", "delayed_update": true)"})
        EXPECT_NE(refused("", fmt::format(R"(, "offload": {{{}}})", offload)).find("/strategy/offload"), std::string::npos) << offload;
}

// zero_grad() lets gradients go: their shards come with the first reduction of a step, which adds to nothing.
TEST(StackLaws, GradientShardsComeWithTheBackwardPass) {
    const auto at_loss = [](int microbatches) {
        Scenario s = llama("", R"(, "recompute": "full")", "");
        s.training.global_batch_size = 8 * microbatches;
        const Plan plan = lower(s);
        return std::any_of(plan.blocks.begin(), plan.blocks.end(), [&](const Block& b) {
            return std::any_of(b.ops.begin(), b.ops.end(), [&](const Op& op) {
                const auto* a = std::get_if<Alloc>(&op.work);
                return a && plan.buffers[a->buffer].role == Role::gradient_shard;
            });
        });
    };
    EXPECT_TRUE(at_loss(1));
    EXPECT_TRUE(at_loss(2));
}

// What other streams hold counts where the allocator's segments are counted, and not for whether the job fits.
TEST(StackLaws, OtherStreamsSegmentsAreReservedAndNotNeeded) {
    const auto items = [](const char* allocator) {
        const Scenario s = llama("", "", std::string(", \"allocator\": \"") + allocator + "\"");
        const MemoryReport m = memory(lower(s), s);
        const StageMemory& stage = fullest(m);
        Bytes kept;
        for (const ReserveItem& i : stage.reserve)
            if (i.kept) kept += i.bytes;
        EXPECT_EQ(peak_as(stage, MemoryMeasure::device).count, stage.peak.count + kept.count);
        return stage.reserve;
    };
    const auto of = [](const std::vector<ReserveItem>& list, const char* name) {
        const auto found = std::find_if(list.begin(), list.end(), [&](const ReserveItem& i) { return i.name == name; });
        return found == list.end() ? Bytes{} : found->bytes;
    };
    const auto caching = items("caching"), expandable = items("expandable");
    EXPECT_GT(of(expandable, "allocator slack").count, 0);
    EXPECT_GT(of(expandable, "allocator pages").count, 0);
    EXPECT_GE(of(caching, "allocator slack"), of(expandable, "allocator slack")) << "segments that grow leave less unused";
}

// Spelt out, an RMS norm keeps what it squares: its input in fp32. Its kernels' traffic counted that before.
TEST(StackLaws, NormsInStepsKeepTheirInputInFp32) {
    const auto plan = [](const char* fused) {
        return lower(llama("", R"(, "recompute": "none", "fused": false)", std::string(", \"fused_norm\": ") + fused));
    };
    const auto kept = [](const Plan& p) {
        double sum = 0;
        for (const Buffer& b : p.buffers)
            if (b.name.ends_with("norm1.wide") || b.name.ends_with("norm2.wide")) {
                EXPECT_EQ(b.dtype, DType::fp32);
                EXPECT_EQ(b.scope, Scope::microbatch) << "until the backward pass";
                sum += static_cast<double>(b.bytes.count);
            }
        return sum;
    };
    const Plan apart = plan("false");
    EXPECT_EQ(kept(plan("true")), 0);
    double norms = 0;
    for (const Buffer& b : apart.buffers)
        if (b.name.ends_with(".norm1") || b.name.ends_with(".norm2")) norms += static_cast<double>(b.bytes.count);
    EXPECT_EQ(kept(apart), 2 * norms) << "four bytes where their results have two";
}

// Rows are gathered twice, and kept in fp32 for the gradient of their weights.
TEST(StackLaws, MixturesInPlainOperatorsCopyTheirRows) {
    const auto plan = [](const char* more) { return lower(llama("", R"(, "recompute": "none")", more, "qwen3-30b-a3b")); };
    const Plan plain = plan(""), kernels = plan(R"(, "permute_fusion": true)");
    const double rows = 8192 * 8 * 2048;
    EXPECT_DOUBLE_EQ(static_cast<double>(bytes_named(plain, "l0.unpermute.rows.fp32")), 4 * rows);
    EXPECT_EQ(bytes_named(kernels, "rows.fp32"), 0);
    const auto pads = [](const Plan& p) {
        return sum_of<Pointwise>(p, [](const Op&, const Pointwise& w) { return w.kind == PointwiseKind::pad_rows ? 1.0 : 0.0; });
    };
    EXPECT_DOUBLE_EQ(pads(plain), 48 * 4); // to the experts, back, and the gradients of both
    EXPECT_DOUBLE_EQ(pads(kernels), 0);
}

// Since April 2026 no row is padded in 16 bits, and each is weighted by itself: a compiler keeps the rows as they are, PyTorch's operators
// one by one a copy in fp32.
TEST(StackLaws, MixturesOf2026AddTheirRows) {
    const auto plan = [](const char* strategy) {
        return lower(llama("", fmt::format(R"(, "recompute": "none"{})", strategy), R"(, "year": 2026)", "qwen3-30b-a3b"));
    };
    const Plan compiled = plan(""), eager = plan(R"(, "fused": false)");
    const auto of_kind = [](const Plan& p, PointwiseKind kind) {
        return sum_of<Pointwise>(p, [&](const Op&, const Pointwise& w) { return w.kind == kind ? 1.0 : 0.0; });
    };
    for (const Plan* p : {&compiled, &eager}) {
        EXPECT_DOUBLE_EQ(of_kind(*p, PointwiseKind::pad_rows), 0);
        EXPECT_DOUBLE_EQ(of_kind(*p, PointwiseKind::score_rows), 48 * 2);
    }
    EXPECT_EQ(bytes_named(compiled, "rows.fp32"), 0);
    EXPECT_EQ(bytes_named(eager, "l0.unpermute.rows.fp32"), 4LL * 8192 * 8 * 2048);
    const auto rows =
        std::find_if(compiled.buffers.begin(), compiled.buffers.end(), [](const Buffer& b) { return b.name.ends_with(".l0.expert_fc2"); });
    ASSERT_NE(rows, compiled.buffers.end());
    EXPECT_EQ(rows->scope, Scope::microbatch) << "until the backward pass";
}

// Counts of rows stay on the device where nothing is sent to other ranks.
TEST(StackLaws, MixturesInPyTorchsOperatorsTellTheHostNothing) {
    const auto waits = [](const char* strategy, const char* runtime) {
        const Plan p = lower(llama("", strategy, runtime, "qwen3-30b-a3b"));
        return sum_of<HostSync>(p, [](const Op&, const HostSync&) { return 1.0; });
    };
    EXPECT_EQ(waits("", ""), 0);
    EXPECT_GT(waits(R"(, "expert_parallel": 8)", ""), 0);
    EXPECT_GT(waits("", R"(, "permute_fusion": true)"), 0) << "another's kernels";
}

// Recomputation ends with the experts' second linear: nothing reads the sum of its rows.
TEST(StackLaws, RecomputedMixturesOf2026SumNoRowsAgain) {
    const auto sums = [](int year) {
        const Plan p = lower(llama("", R"(, "recompute": "full")", fmt::format(R"(, "year": {})", year), "qwen3-30b-a3b"));
        int again = 0, products = 0;
        for (const Block& b : p.blocks)
            for (const Op& op : b.ops) {
                if (op.phase != Phase::recompute) continue;
                const auto* moved = std::get_if<Permute>(&op.work);
                again += moved && moved->part == Permute::Part::scatter;
                products += std::holds_alternative<Linear>(op.work) && op.name.find("expert_fc2") != std::string::npos;
            }
        return std::pair{again, products};
    };
    EXPECT_EQ(sums(2025), (std::pair{48, 48}));
    EXPECT_EQ(sums(2026), (std::pair{0, 48}));
}

TEST(StackLaws, RecomputingTheMixtureKeepsNothingOfIt) {
    const auto kept = [](const char* recompute) {
        const Scenario s = llama("", fmt::format(R"(, "recompute": {})", recompute), "", "qwen3-30b-a3b");
        return left_allocated(lower(s), block_named(lower(s), "F0"));
    };
    const double none = static_cast<double>(kept(R"("none")")), mixture = static_cast<double>(kept(R"(["moe"])")),
                 full = static_cast<double>(kept(R"("full")"));
    EXPECT_LT(mixture, 0.6 * none);
    EXPECT_LT(full, mixture);
}

// Hooks of DeepSpeed's ZeRO-3: a step of few tokens takes the host's time, whatever the device.
TEST(StackLaws, HooksOfModulesBoundSmallSteps) {
    const auto step = [](int zero, const char* device) {
        return predict(scenario(fmt::format(
                           R"({{"model": "llama3-8b", "cluster": {{"device": "{}", "nodes": 1, "devices_per_node": 8}},
            "training": {{"global_batch_size": 8, "micro_batch_size": 1, "sequence_length": 256, "precision": "bf16"}},
            "strategy": {{"framework": "deepspeed", "fused": false, "zero_stage": {}}}, "runtime": {{"year": 2025}}}})",
                           device, zero)))
            .report.step_time_s;
    };
    const double there = 13 * 168e-6 + 7 * 357e-6, // of a layer: seven linears, two norms, four modules without parameters
        back = 13 * 115e-6 + 7 * 252e-6 + 9 * 95e-6;
    EXPECT_GT(step(3, "h100-sxm-80gb"), 32 * (there + back));
    EXPECT_NEAR(step(3, "h100-sxm-80gb") / step(3, "b200-192gb"), 1, 0.15);
}

// Behind the step of DeepSpeed's ZeRO-3 each small parameter is gathered by a collective of its own, where several ranks share them.
TEST(StackLaws, SmallParametersAreGatheredOneByOne) {
    const auto gathers = [](const char* model, const char* strategy, int year) {
        const Plan plan = lower(scenario(fmt::format(
            R"({{"model": "{}", "cluster": {{"preset": "dgx-h100", "nodes": 1}},
            "training": {{"global_batch_size": 8, "micro_batch_size": 1, "sequence_length": 256, "precision": "bf16"}},
            "strategy": {}, "runtime": {{"year": {}}}}})",
            model, strategy, year)));
        int times = 0;
        for (const Block& block : plan.blocks)
            for (const Op& op : block.ops)
                if (const auto* c = std::get_if<Collective>(&op.work);
                    c && op.phase == Phase::optimizer && c->kind == CollectiveKind::all_gather)
                    times += c->times;
        return times;
    };
    const char* three = R"({"framework": "deepspeed", "fused": false, "zero_stage": 3})";
    EXPECT_EQ(gathers("llama3-8b", three, 2025), 65) << "norms: two of each of 32 layers, and the last";
    EXPECT_GT(gathers("llama3-70b", three, 2025), 65);
    EXPECT_GT(gathers("gpt3-6.7b", three, 2025), 255) << "biases too, more than one op counts";
    EXPECT_EQ(gathers("llama3-8b", three, 2021), 0);
    EXPECT_EQ(gathers("llama3-8b", R"({"framework": "deepspeed", "fused": false, "zero_stage": 2})", 2025), 0);
    EXPECT_EQ(gathers("llama3-8b", R"({"framework": "fsdp", "zero_stage": 3})", 2025), 0);
}

// ZeRO-3's collectives as DeepSpeed makes them: parameters of 5e7 elements by themselves, smaller ones together until they are as many;
// gradients as many as the bucket takes; and what a layer made again lets go, since more than 1e9 elements stand before its next use, once
// more.
Scenario under_zero_3(int hidden, const char* strategy) {
    return scenario(fmt::format(
        R"({{"model": {{"layers": 2, "hidden_size": {}, "attention_heads": 32, "ffn_size": {}, "activation": "gelu",
                           "norm": "layernorm", "vocab_size": 50304, "tied_embeddings": true, "position": "learned", "bias": true}},
                "cluster": {{"device": "v100-sxm2-32gb", "nodes": 4, "devices_per_node": 16, "intra_node": {{"kind": "nvswitch"}},
                            "inter_node": {{"kind": "infiniband", "nics_per_node": 4, "gbit_per_s": 100}}}},
                "training": {{"global_batch_size": 64, "micro_batch_size": 1, "sequence_length": 512, "precision": "fp16",
                             "gradient_dtype": "fp16"}},
                "strategy": {{"framework": "deepspeed", "fused": true, "zero_stage": 3, "recompute": "full"{}}},
                "runtime": {{"year": 2023}}}})",
        hidden, 4 * hidden, strategy));
}

TEST(StackLaws, DeepSpeedGathersLargeParametersOneByOne) {
    const auto calls = [](const Plan& p, const char* block, CollectiveKind kind) {
        std::pair<int, double> sum; // calls, bytes
        for (const Block& b : p.blocks)
            for (const Op& op : b.ops)
                if (const auto* c = std::get_if<Collective>(&op.work); c && c->kind == kind && b.name == block)
                    sum.first += c->times, sum.second += static_cast<double>(c->times * c->bytes.count);
        return sum;
    };
    constexpr CollectiveKind gather = CollectiveKind::all_gather, scatter = CollectiveKind::reduce_scatter;
    const Plan small = lower(under_zero_3(6144, "")), large = lower(under_zero_3(8192, "")),
               buckets = lower(under_zero_3(6144, R"(, "bucket_bytes": 20000000)"));
    const auto layer = [](double hidden) { return 2 * 12 * hidden * hidden; };
    EXPECT_EQ(calls(small, "gather:c0.u1", gather).first, 3) << "the projection of attention goes with the MLP's first linear";
    EXPECT_NEAR(calls(small, "gather:c0.u1", gather).second / layer(6144), 1, 0.001);
    EXPECT_EQ(calls(small, "gather_more:c0.u1", gather).first, 0);
    EXPECT_EQ(calls(small, "reduce:c0.u1", scatter).first, 1);
    EXPECT_GE(calls(buckets, "reduce:c0.u1", scatter).first, 4);
    Scenario whole = under_zero_3(6144, R"(, "bucket_bytes": 800000000)"),
             cast = under_zero_3(6144, R"(, "bucket_bytes": 800000000, "gradient_compression": "fp16")");
    whole.training.gradient_dtype = cast.training.gradient_dtype = DType::fp32;
    EXPECT_EQ(calls(lower(whole), "reduce:c0.u1", scatter).first, 3);
    EXPECT_EQ(calls(lower(cast), "reduce:c0.u1", scatter).first, 3) << "a bucket has as many elements, whatever they travel as";
    EXPECT_EQ(calls(large, "gather:c0.u1", gather).first, 4);
    EXPECT_EQ(calls(large, "gather_more:c0.u1", gather).first, 6) << "attention's linears once more";
    EXPECT_NEAR(calls(large, "gather_more:c0.u1", gather).second / layer(8192), 4.0 / 3, 0.001);
    EXPECT_TRUE(verify(small).empty() && verify(large).empty());
}

// Hugging Face's Trainer asks ahead for 0.9 hidden^2 elements: each linear of Llama 3 8B is gathered by itself, not two or three together.
TEST(StackLaws, DeepSpeedsTrainerGathersEachLinear) {
    const auto gathers = [](const char* sequence) {
        const Plan plan = lower(scenario(fmt::format(R"({{"model": {{"preset": "llama3-8b", "layers": 2}},
            "cluster": {{"preset": "dgx-h100", "nodes": 1}},
            "training": {{"global_batch_size": 8, "micro_batch_size": 1, "sequence_length": 4096, "precision": "bf16"}},
            "strategy": {{"framework": "deepspeed", "zero_stage": 3{}}}, "runtime": {{"year": 2024}}}})",
                                                     sequence)));
        EXPECT_TRUE(verify(plan).empty());
        int count = 0;
        for (const Block& b : plan.blocks)
            for (const Op& op : b.ops)
                if (const auto* c = std::get_if<Collective>(&op.work); c && b.name == "gather:c0.u1") count += c->times;
        return count;
    };
    EXPECT_EQ(gathers(""), 4);
    EXPECT_EQ(gathers(R"(, "context_parallel": 2)"), 2) << "Megatron-DeepSpeed's, with DeepSpeed's own 5e7";
}

// Between nodes forward passes gather ahead where two layers are within 1e9 elements; backward passes do where the scenario says so.
TEST(StackLaws, DeepSpeedGathersAheadOfForwardPassesBetweenNodes) {
    EXPECT_TRUE(under_zero_3(6144, "").strategy.overlap.param_gather);
    EXPECT_FALSE(under_zero_3(6144, "").strategy.overlap.backward_prefetch);
    EXPECT_FALSE(under_zero_3(8192, "").strategy.overlap.param_gather);
    const auto step = [](const char* strategy) { return predict(under_zero_3(6144, strategy)).report.step_time_s; };
    const double usual = step("");
    EXPECT_LT(usual, step(R"(, "overlap": {"param_gather": false})"));
    EXPECT_EQ(step(R"(, "overlap": {"param_gather": true})"), usual) << "it is so anyway";
    EXPECT_LT(step(R"(, "overlap": {"backward_prefetch": true})"), usual);
}

// Adapters of all linears have three times as many modules with parameters, but no gathers of their own, and few gradients fill a bucket.
TEST(StackLaws, HooksOfAdaptersAreNotThoseOfWeights) {
    const auto step = [](const char* trainable) {
        return predict(scenario(fmt::format(
                           R"({{"model": {{"preset": "llama3-8b"{}}}, "cluster": {{"preset": "dgx-h100", "nodes": 1}},
            "training": {{"global_batch_size": 8, "micro_batch_size": 1, "sequence_length": 256, "precision": "bf16"}},
            "strategy": {{"framework": "deepspeed", "fused": false, "zero_stage": 3}}, "runtime": {{"year": 2025}}}})",
                           trainable)))
            .report.step_time_s;
    };
    const double full = step(""), lora = step(R"(, "trainable": {"lora": {"rank": 16}})"),
                 few = step(R"(, "trainable": {"lora": {"rank": 16, "targets": ["qkv"]}})");
    EXPECT_GT(lora, full);
    EXPECT_LT(lora, 2 * full);
    EXPECT_LT(few, lora);
}

// The tensor-parallel collectives of layer 1, forward and backward, each counted as often as the software makes it.
struct LayerTraffic {
    int gathers = 0, reductions = 0;
};
LayerTraffic traffic_of_layer(const Plan& plan) {
    LayerTraffic t;
    for (const Block& b : plan.blocks)
        for (const Op& op : b.ops)
            if (const auto* c = std::get_if<Collective>(&op.work); c && op.layer == 1 && plan.communicators[c->comm].name == "tp")
                (c->kind == CollectiveKind::all_gather ? t.gathers : t.reductions) += c->times;
    return t;
}

// Queries, keys, values, gate and up gather their input and reduce its gradient each by itself in plain DTensor plans: 12 gathers and 8
// reductions of a layer that is made again, as KempnerForge's profile counts. torchtitan prepares the input of a module once.
TEST(StackLaws, LinearsOfPlainPlansGatherEachForItself) {
    const auto plan = [](const char* framework) {
        return scenario(fmt::format(R"({{"model": "llama3-8b", "cluster": {{"preset": "dgx-h100", "nodes": 1}},
            "training": {{"global_batch_size": 1, "micro_batch_size": 1, "sequence_length": 4096, "precision": "bf16"}},
            "strategy": {{"framework": "{}", "tensor_parallel": 8, "sequence_parallel": true, "recompute": "full"}},
            "runtime": {{"year": 2026}}}})",
                                    framework));
    };
    const LayerTraffic plain = traffic_of_layer(lower(plan("fsdp2"))), prepared = traffic_of_layer(lower(plan("torchtitan")));
    EXPECT_EQ(plain.gathers, 12);
    EXPECT_EQ(plain.reductions, 8);
    EXPECT_EQ(prepared.gathers, 6);
    EXPECT_EQ(prepared.reductions, 5);
    Scenario once = plan("fsdp2");
    const Prediction apart = predict(once);
    once.strategy.overlap.tensor_parallel = true; // the trait's other side: gathered once
    EXPECT_LT(predict(once).report.step_time_s, apart.report.step_time_s);
}

// Each gather and each reduction has its copy, as many as linears meet apart; gathers of one sequence have none from 2026 on.
TEST(StackLaws, CopiesAroundCollectivesAreAsManyAsThese) {
    for (const char* framework : {"fsdp2", "torchtitan"})
        for (const int year : {2025, 2026})
            for (const int sequences : {1, 2}) {
                const Plan plan = lower(scenario(fmt::format(
                    R"({{"model": "llama3-8b", "cluster": {{"preset": "dgx-h100", "nodes": 1}},
                        "training": {{"global_batch_size": 2, "micro_batch_size": {}, "sequence_length": 4096, "precision": "bf16"}},
                        "strategy": {{"framework": "{}", "tensor_parallel": 8, "sequence_parallel": true, "recompute": "none"}},
                        "runtime": {{"year": {}}}}})",
                    sequences, framework, year)));
                int turns = 0;
                for (const Block& b : plan.blocks)
                    for (const Op& op : b.ops)
                        if (op.layer == 1 && op.name.ends_with(".turn")) turns += op.modules;
                const LayerTraffic t = traffic_of_layer(plan);
                EXPECT_EQ(turns, t.reductions + (year >= 2026 && sequences == 1 ? 0 : t.gathers)) << framework << year << sequences;
            }
}

// Each reduction of maxima costs its latency and two small kernels, and nothing hides it; over fewer ranks it is never slower.
TEST(StackLaws, ReductionsOfMaximaStandBare) {
    const auto job = [](int tensor, const std::string& runtime) {
        return scenario(fmt::format(R"({{"model": "llama3-8b", "cluster": {{"preset": "dgx-h100", "nodes": 1}},
            "training": {{"global_batch_size": 32, "micro_batch_size": 1, "sequence_length": 8192, "precision": "fp8"}},
            "strategy": {{"framework": "megatron", "tensor_parallel": {}, "sequence_parallel": {}, "overlap": {{"grad_reduce": false, "param_gather": false}}}},
            "runtime": {{"year": 2024, "fp8_recipe": "delayed"{}}}}})",
                                    tensor, tensor > 1, runtime));
    };
    const std::string few = R"(, "tensor_parallel_maxima": true)";
    const Scenario all = job(1, "");
    const Fabric fabric(all.cluster);
    const CostModel cost(all, fabric);
    const Collective list{CollectiveKind::all_reduce, 0, Bytes{4 * 3 * 4 * 32}, DType::fp32};
    const std::vector<int> ranks{0, 1, 2, 3, 4, 5, 6, 7};
    const double latency = cost.collective(list, ranks).latency.seconds(), count = 2 * 4; // microbatches, both ways
    const double more = predict(all).report.step_time_s - predict(job(1, few)).report.step_time_s;
    EXPECT_GT(more, 0.9 * count * latency);
    EXPECT_LT(more, count * (latency + 40e-6));
    for (const int tensor : {2, 4, 8})
        EXPECT_LE(predict(job(tensor, few)).report.step_time_s, predict(job(tensor, "")).report.step_time_s) << tensor;
}

// Gathers in pieces hide more than gathers that stand bare, and parameters of 8 bits are gathered in fewer bytes and have no copies.
TEST(StackLaws, BuffersAndParametersOfEightBitsAreNeverSlower) {
    const auto job = [](const char* cluster, const char* precision, int tensor, const std::string& runtime) {
        return predict(scenario(fmt::format(
            R"({{"model": "llama3-8b", "cluster": {{"preset": "{}", "nodes": 2}},
                "training": {{"global_batch_size": 32, "micro_batch_size": 1, "sequence_length": 8192, "precision": "{}"}},
                "strategy": {{"tensor_parallel": {}, "sequence_parallel": true}}, "runtime": {{"year": 2025{}}}}})",
            cluster, precision, tensor, runtime)));
    };
    const auto peak = [](const Prediction& p) { return fullest(p.report.memory).peak.count; };
    for (const char* cluster : {"dgx-h100", "dgx-b200"})
        for (const char* precision : {"bf16", "fp8"})
            for (const int tensor : {2, 4, 8}) {
                const Prediction bare = job(cluster, precision, tensor, R"(, "tensor_parallel_buffers": false)"),
                                 hidden = job(cluster, precision, tensor, R"(, "tensor_parallel_buffers": true)");
                EXPECT_LT(hidden.report.step_time_s, bare.report.step_time_s) << cluster << precision << tensor;
                EXPECT_GT(peak(hidden), peak(bare)) << "buffers take memory";
                if (precision == std::string("bf16")) continue;
                const Prediction low = job(cluster, precision, tensor, R"(, "tensor_parallel_buffers": false, "fp8_parameters": true)");
                EXPECT_LE(low.report.step_time_s, bare.report.step_time_s) << cluster << tensor;
                EXPECT_LT(peak(low), peak(bare)) << "no copies beside parameters of 16 bits";
            }
}

// Long rows spend more in the kernels than in the casts ahead of them, and what is saved is half as large.
TEST(StackLaws, AttentionInEightBitsIsFasterOfLongRows) {
    for (const char* cluster : {"dgx-h100", "dgx-b200"})
        for (const char* recipe : {"delayed", "current", "blockwise"})
            for (const int sequence : {8192, 32768}) {
                const auto job = [&](const char* dtype) {
                    return predict(scenario(fmt::format(
                        R"({{"model": "llama3-8b", "cluster": {{"preset": "{}", "nodes": 1}},
                            "training": {{"global_batch_size": 8, "micro_batch_size": 1, "sequence_length": {}, "precision": "fp8"}},
                            "strategy": {{"framework": "megatron", "tensor_parallel": 4, "sequence_parallel": true}},
                            "runtime": {{"year": 2025, "fp8_recipe": "{}", "attention_dtype": "{}"}}}})",
                        cluster, sequence, recipe, dtype)));
                };
                const Report wide = job("16-bit").report, low = job("fp8").report;
                // (Short rows on B200 spend as much in the casts.)
                EXPECT_LT(low.step_time_s, (sequence > 8192 ? 1 : 1.01) * wide.step_time_s) << cluster << recipe << sequence;
                EXPECT_LT(low.memory.stages[0].peak.count, wide.memory.stages[0].peak.count) << cluster << recipe << sequence;
            }
}

// torchtitan's list keeps reduce_scatter_tensor alone: gathered inputs are not saved, and are gathered again.
TEST(StackLaws, SelectiveRecomputationGathersAgain) {
    const auto job = [](const char* recompute) {
        return llama(R"(, "gradient_clipping": 1)", fmt::format(R"(, "tensor_parallel": 8, "recompute": "{}")", recompute), "");
    };
    const Scenario none = job("none"), selective = job("selective");
    EXPECT_TRUE(selective.strategy.sequence_parallel) << "torchtitan's plans have it";
    EXPECT_GT(traffic_of_layer(lower(selective)).gathers, traffic_of_layer(lower(none)).gathers);
    const auto entered = [](const Scenario& s) {
        std::int32_t most = 0;
        const Report report = predict(s).report;
        for (const LiveBuffer& u : report.memory.stages[0].largest)
            if (u.name.find("entered") != std::string::npos) most = std::max(most, u.count);
        return most;
    };
    EXPECT_LE(entered(selective), 2);
    EXPECT_GT(entered(none), 2);
}

} // namespace
} // namespace orrery::laws

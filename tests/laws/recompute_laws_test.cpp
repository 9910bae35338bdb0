// Recomputation belongs to the backward pass: no stage begins it before the gradient is there, as autograd is called with it.
#include "sim/engine/compile.hpp"
#include "sim/plan/verify.hpp"
#include "sim/report/report.hpp"
#include "tests/laws/scenarios.hpp"

#include <algorithm>
#include <set>

namespace orrery::laws {
namespace {

TEST(RecomputeLaws, WaitsForTheGradient) {
    for (const char* schedule : {"1f1b", "interleaved-1f1b", "zb-h1"}) {
        Gpt gpt;
        gpt.layers = 8;
        gpt.pp = 4;
        gpt.vp = std::string(schedule) == "interleaved-1f1b" ? 2 : 1;
        gpt.microbatches = 8;
        gpt.tied = false;
        gpt.recompute = "full";
        gpt.schedule = schedule;
        gpt.extra_strategy = R"(, "overlap": {"pipeline": true})";
        const Plan plan = lower(gpt.make());
        int waits = 0;
        for (const Program& program : plan.programs)
            for (std::int32_t i = 0; i < static_cast<std::int32_t>(program.actions.size()); ++i) {
                const Action& a = program.actions[i];
                const Block& block = plan.blocks[a.block];
                if (block.kind != BlockKind::backward || a.first > 0) continue;
                std::int32_t first = -1;
                for (std::int32_t op = a.first; op < a.last && first < 0; ++op)
                    if (block.ops[op].queue == compute_queue) first = op;
                for (std::int32_t d = a.deps_begin; d < a.deps_end; ++d) {
                    const ActionDep& dep = program.deps[d];
                    const std::int32_t on =
                        dep.on_action < 0 ? dep.on_action + static_cast<std::int32_t>(program.actions.size()) : dep.on_action;
                    if (plan.blocks[program.actions[on].block].kind != BlockKind::exchange || block.ops[dep.op].queue != compute_queue)
                        continue;
                    EXPECT_EQ(dep.op, first) << schedule << ", stage " << program.stage << ", action " << i;
                    EXPECT_EQ(block.ops[dep.op].phase, Phase::recompute) << schedule;
                    ++waits;
                }
            }
        EXPECT_GE(waits, 3 * 8 / 2) << schedule; // of three stages and eight microbatches; one wait may imply the next
    }
}

// A larger budget keeps more and makes less again, to the product: a knapsack of five results a layer has few steps.
TEST(RecomputeLaws, ALargerMemoryBudgetIsNeverSlower) {
    const auto with = [](const std::string& recompute) {
        return scenario(fmt::format(
            R"({{"model": "llama3-8b", "cluster": {{"preset": "dgx-h100", "nodes": 1}},
                "training": {{"global_batch_size": 8, "sequence_length": 8192}},
                "strategy": {{"framework": "torchtitan", "recompute": {}}}}})",
            recompute));
    };
    const auto activations = [](const Report& r) { return r.memory.stages[0].by_kind[MemoryKind::activations].count; };
    const auto made_again = [](const Plan& plan) {
        double sum = 0;
        for (const Block& b : plan.blocks)
            for (const Op& op : b.ops)
                if (op.phase == Phase::recompute) sum += flops(op.work).count;
        return sum;
    };
    const Report full = predict(with(R"("full")")).report, none = predict(with(R"("none")")).report;
    double before = 1e9, work = 1e30;
    std::int64_t kept = 0;
    std::set<std::int64_t> steps;
    for (int tenths = 0; tenths <= 10; ++tenths) {
        const Scenario s = with(fmt::format(R"({{"memory_budget": {:.1f}}})", tenths / 10.0));
        const Plan plan = lower(s);
        EXPECT_EQ(verify(plan).size(), 0u) << to_text(verify(plan));
        const Report r = predict(s).report;
        EXPECT_LE(r.step_time_s, 1.003 * before) << tenths; // work is counted in FLOPs, of which narrow products do fewer a second
        EXPECT_LE(made_again(plan), work) << tenths;
        EXPECT_GE(activations(r), kept) << tenths;
        before = r.step_time_s, work = made_again(plan), kept = activations(r);
        steps.insert(kept);
        if (tenths == 0) { EXPECT_NEAR(r.step_time_s, full.step_time_s, 0.01 * full.step_time_s); }
    }
    EXPECT_EQ(work, 0) << "all products and attention are kept";
    EXPECT_GE(steps.size(), 4u);
    EXPECT_LT(kept, activations(none)) << "element-wise results are not kept";
}

// Making more again is never faster, whatever else a framework does where it makes nothing again (torchtitan's repeated heads). Layers are
// large enough for kernels to take longer than their launches.
TEST(RecomputeLaws, MoreIsNeverFaster) {
    for (const char* framework : {"torchtitan", "fsdp2", "fsdp", "ddp", "megatron", "nemo", "deepspeed", "nanotron", "jax"})
        for (const char* kind : {"full", "selective"}) {
            const auto step = [&](const std::string& recompute) {
                return predict(
                           scenario(fmt::format(
                               R"({{"name": "law", "model": {{"layers": 8, "hidden_size": 4096, "attention_heads": 32, "kv_heads": 8, "vocab_size": 4096,
                    "ffn_size": 14336, "activation": "swiglu", "norm": "rmsnorm", "position": "rope", "bias": false}},
                    "cluster": {{"preset": "dgx-h100", "nodes": 1, "devices_per_node": 2}},
                    "training": {{"global_batch_size": 4, "micro_batch_size": 2, "sequence_length": 4096, "precision": "bf16"}},
                    "strategy": {{"framework": "{}", {}}}, "runtime": {{"year": 2025}}}})",
                               framework, recompute)))
                    .report.step_time_s;
            };
            double before = step(R"("recompute": "none")");
            for (int every : {8, 4, 2, 1}) {
                const double now = step(fmt::format(R"("recompute": "{}", "recompute_layers": {{"every": {}}})", kind, every));
                EXPECT_GE(now, before * (1 - 1e-9)) << framework << " " << kind << " every " << every;
                before = now;
            }
        }
}

} // namespace
} // namespace orrery::laws

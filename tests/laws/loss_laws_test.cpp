// The part of the logits that exists at once (runtime.loss): bytes a logit, messages between ranks, and which is faster.
#include "sim/memory/memory.hpp"
#include "sim/plan/verify.hpp"
#include "sim/report/report.hpp"
#include "tests/laws/scenarios.hpp"

#include <algorithm>

namespace orrery::laws {
namespace {

Gpt model(const char* framework, int layers, int vocab = 51200) {
    Gpt g;
    g.framework = framework;
    g.layers = layers;
    g.vocab = vocab;
    return g;
}

Scenario with(Gpt g, LossKind loss, int chunks = 8) {
    Scenario s = g.make();
    s.runtime.loss = loss;
    s.runtime.loss_chunks = chunks;
    return s;
}

// Most bytes of buffers of the output layer and the loss alive at one moment of the stage's forward and backward blocks.
std::int64_t peak_of_logits(const Plan& plan) {
    std::int64_t level = 0, peak = 0;
    for (const char* name : {"F0", "B0"})
        for (const Op& op : block_named(plan, name).ops) {
            const auto* a = std::get_if<Alloc>(&op.work);
            const auto* f = std::get_if<Free>(&op.work);
            if (!a && !f) continue;
            const Buffer& b = plan.buffers[a ? a->buffer : f->buffer];
            if (b.name.find("loss") == std::string::npos && b.name.find("logits") == std::string::npos) continue;
            if (b.role == Role::gradient_summand) continue; // of the weight
            level += a ? b.bytes.count : -b.bytes.count;
            peak = std::max(peak, level);
        }
    return peak;
}

long ops_on(const Plan& plan, const std::string& block, CollectiveKind kind) {
    const Block& b = block_named(plan, block);
    return std::count_if(b.ops.begin(), b.ops.end(), [&](const Op& op) {
        const auto* c = std::get_if<Collective>(&op.work);
        return c && c->kind == kind;
    });
}

// PyTorch's eager loss: at its gradient an fp32 copy, the log-softmax and a gradient of it, 12 bytes a logit, and the gradient in 16 bits;
// Transformers' trainers hold another fp32 copy. Statistics are a few bytes a token beside. Divided, each rank has its part.
TEST(LossLaws, WholeLogitsTakeTheSameBytesWhateverTheTensorDegree) {
    Gpt g = model("fsdp2", 1);
    const std::int64_t logits = 2 * 512 * 51200, one = peak_of_logits(lower(with(g, LossKind::whole)));
    EXPECT_NEAR(static_cast<double>(one) / static_cast<double>(logits), 14, 0.1);
    const Gpt transformers = model("fsdp", 1);
    EXPECT_NEAR(static_cast<double>(peak_of_logits(lower(with(transformers, LossKind::whole)))) / static_cast<double>(logits), 18, 0.1);
    g.tp = 4;
    EXPECT_NEAR(static_cast<double>(peak_of_logits(lower(with(g, LossKind::whole)))) / static_cast<double>(one), 1, 0.15);
    EXPECT_NEAR(static_cast<double>(peak_of_logits(lower(with(g, LossKind::vocabulary_parallel)))) / static_cast<double>(one), 0.25, 0.05);
}

// Since 2025 the loss casts by itself, and no copy of the logits outlives it: the log-softmax and two gradients in fp32 are the most,
// before the one in 16 bits comes. A chunk's logits stay until its gradient is made.
TEST(LossLaws, ALossThatCastsByItselfTakes12BytesALogit) {
    const double logits = 2 * 512 * 51200;
    for (const char* framework : {"fsdp2", "torchtitan", "fsdp"}) {
        Scenario s = with(model(framework, 1), LossKind::whole);
        s.runtime.year = 2025, s.runtime.fused_loss = false;
        EXPECT_NEAR(static_cast<double>(peak_of_logits(lower(s))) / logits, 12, 0.1) << framework;
    }
    Scenario chunked = with(model("fsdp2", 1), LossKind::chunked, 4);
    chunked.runtime.year = 2025;
    EXPECT_NEAR(static_cast<double>(peak_of_logits(lower(chunked))) * 4 / logits, 14, 1);
    Gpt g = model("fsdp2", 1);
    g.tp = 2;
    Scenario divided = with(g, LossKind::vocabulary_parallel);
    divided.runtime.year = 2025;
    EXPECT_NEAR(static_cast<double>(peak_of_logits(lower(divided))) * 2 / logits, 16, 0.2);
}

// DTensor's loss parallelism makes the gradient out of four copies in fp32.
TEST(LossLaws, APartOfTheVocabularyTakes16BytesALogitUnderDTensor) {
    Gpt g = model("fsdp2", 1);
    const double logits = 2 * 512 * 51200;
    for (const int tp : {2, 4}) {
        g.tp = tp;
        EXPECT_NEAR(static_cast<double>(peak_of_logits(lower(with(g, LossKind::vocabulary_parallel)))) * tp / logits, 16, 0.2) << tp;
    }
}

TEST(LossLaws, AChunkTakesTheBytesOfItsOwnLogits) {
    const Gpt g = model("fsdp2", 1);
    const double whole = static_cast<double>(peak_of_logits(lower(with(g, LossKind::whole))));
    for (int chunks : {2, 8, 32})
        EXPECT_NEAR(static_cast<double>(peak_of_logits(lower(with(g, LossKind::chunked, chunks)))) * chunks / whole, 1, 0.35) << chunks;
}

// Whole: logits are gathered once forward, and no statistics travel. Divided: maximum and sums, each chunk its own.
TEST(LossLaws, RanksTellEachOtherLogitsOrStatistics) {
    Gpt g = model("fsdp2", 1);
    g.tp = 4;
    const Plan divided = lower(with(g, LossKind::vocabulary_parallel)), whole = lower(with(g, LossKind::whole)),
               chunked = lower(with(g, LossKind::chunked, 4));
    EXPECT_EQ(ops_on(whole, "F0", CollectiveKind::all_gather), 1 + ops_on(divided, "F0", CollectiveKind::all_gather));
    EXPECT_EQ(ops_on(divided, "F0", CollectiveKind::all_reduce), 2 + ops_on(whole, "F0", CollectiveKind::all_reduce));
    EXPECT_EQ(ops_on(chunked, "B0", CollectiveKind::all_reduce), 2 * 4 + ops_on(divided, "B0", CollectiveKind::all_reduce));
}

// The same multiplications: chunks change when they are made, not how many there are.
TEST(LossLaws, ChunksMultiplyAsMuch) {
    for (const bool sp : {false, true}) {
        Gpt g = model("fsdp2", 2);
        g.tp = 2;
        g.sp = sp;
        const auto flops_of = [](const Plan& plan) {
            double sum = 0;
            for (const Block& b : plan.blocks)
                for (const Op& op : b.ops)
                    if (std::holds_alternative<Linear>(op.work)) sum += static_cast<double>(flops(op.work).count);
            return sum;
        };
        EXPECT_DOUBLE_EQ(flops_of(lower(with(g, LossKind::chunked, 7))), flops_of(lower(with(g, LossKind::vocabulary_parallel))));
    }
}

TEST(LossLaws, EveryPlanIsSound) {
    for (const char* schedule : {"1f1b", "gpipe", "zb-h1"})
        for (const int tp : {1, 2})
            for (const LossKind loss : {LossKind::whole, LossKind::chunked}) {
                Gpt g = model("megatron", 4);
                g.tp = tp;
                g.sp = tp > 1;
                g.pp = 2;
                g.schedule = schedule;
                EXPECT_EQ(to_text(verify(lower(with(g, loss, 5)))), "") << schedule << " " << tp << " " << name(loss);
            }
}

// Memory of the fullest stage: chunked <= divided <= whole; and gathering logits takes time.
TEST(LossLaws, LessOfTheLogitsIsLessMemory) {
    Gpt g = model("fsdp2", 2, 128256);
    g.tp = 4;
    const auto peak = [&](LossKind k) {
        const Scenario s = with(g, k);
        return fullest(memory(lower(s), s)).allocated_peak.count;
    };
    EXPECT_LT(peak(LossKind::chunked), peak(LossKind::vocabulary_parallel));
    EXPECT_LT(peak(LossKind::vocabulary_parallel), peak(LossKind::whole));
    const auto step = [&](LossKind k) { return predict(with(g, k)).report.step_time_s; };
    EXPECT_LT(step(LossKind::vocabulary_parallel), step(LossKind::whole));
}

} // namespace
} // namespace orrery::laws

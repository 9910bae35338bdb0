// Do the plan's own buffers add up to the published activation formulas? (Korthikanti et al., arXiv:2205.05198, section 4.)
// Each counts what one more layer leaves allocated behind the forward block; only the norms' statistics (8 bytes a token and
// norm) are beyond the formulas, which leave them out.
#include "tests/laws/scenarios.hpp"

namespace orrery::laws {
namespace {

double bytes_of_one_layer(Gpt g) {
    g.layers = 3;
    const Plan more = lower(g.make());
    g.layers = 2;
    const Plan fewer = lower(g.make());
    return static_cast<double>(left_allocated(more, block_named(more, "F0")) - left_allocated(fewer, block_named(fewer, "F0")));
}

struct Sizes {
    double s, b, h, a;
};
Sizes sizes(const Gpt& g) { return {double(g.sequence), double(g.micro_batch), double(g.hidden), double(g.heads)}; }

TEST(ActivationLaws, OneLayerWithoutParallelism) {
    const Gpt g;
    const auto [s, b, h, a] = sizes(g);
    EXPECT_DOUBLE_EQ(bytes_of_one_layer(g), s * b * h * (34 + 5 * a * s / h) + 16 * s * b);
}

TEST(ActivationLaws, TensorParallelismDividesWhatIsInsideItsRegions) {
    for (int t : {2, 4, 8}) {
        Gpt g;
        g.tp = t;
        const auto [s, b, h, a] = sizes(g);
        EXPECT_DOUBLE_EQ(bytes_of_one_layer(g), s * b * h * (10 + 24.0 / t + 5 * a * s / (h * t)) + 16 * s * b) << "t = " << t;
    }
}

TEST(ActivationLaws, SequenceParallelismDividesAllOfIt) {
    for (int t : {2, 4, 8}) {
        Gpt g;
        g.tp = t;
        g.sp = true;
        const auto [s, b, h, a] = sizes(g);
        EXPECT_DOUBLE_EQ(bytes_of_one_layer(g), (s * b * h * (34 + 5 * a * s / h) + 16 * s * b) / t) << "t = " << t;
    }
}

TEST(ActivationLaws, SelectiveRecomputationKeeps34) {
    for (int t : {1, 4}) {
        Gpt g;
        g.tp = t;
        g.sp = t > 1;
        g.recompute = "selective";
        const auto [s, b, h, a] = sizes(g);
        EXPECT_DOUBLE_EQ(bytes_of_one_layer(g), (34 * s * b * h + 16 * s * b) / t) << "t = " << t;
    }
}

TEST(ActivationLaws, FullRecomputationKeepsTheInput) {
    for (int t : {1, 4}) {
        Gpt g;
        g.tp = t;
        g.sp = t > 1;
        g.recompute = "full";
        const auto [s, b, h, a] = sizes(g);
        EXPECT_DOUBLE_EQ(bytes_of_one_layer(g), 2 * s * b * h / t) << "t = " << t;
    }
}

TEST(ActivationLaws, FlashAttentionStoresNoSquare) {
    Gpt g;
    g.flash = true;
    const auto [s, b, h, a] = sizes(g);
    EXPECT_DOUBLE_EQ(bytes_of_one_layer(g), 34 * s * b * h + 4 * a * s * b + 16 * s * b); // + the log-sum-exp
    Gpt longer = g;
    longer.sequence *= 4;
    EXPECT_DOUBLE_EQ(bytes_of_one_layer(longer), 4 * bytes_of_one_layer(g)) << "linear in the sequence";
}

// The result of attention is kept where a checkpointed function returned it, and made again where XLA's policy does not name it.
TEST(ActivationLaws, XlaKeepsOfALayerWhatItsPolicyNames) {
    const auto kept = [](const char* framework, const char* recompute) {
        const Scenario s = scenario(fmt::format(
            R"({{"model": {{"layers": 2, "hidden_size": 1024, "attention_heads": 16, "vocab_size": 32000}}, "cluster": {{"preset": "dgx-h100", "nodes": 1, "devices_per_node": 1}},
            "training": {{"global_batch_size": 2, "micro_batch_size": 1, "sequence_length": 512, "precision": "bf16"}}, "strategy": {{"framework": "{}", "recompute": {}, "flash_attention": true}}}})",
            framework, recompute));
        const Plan plan = lower(s);
        return left_allocated(plan, block_named(plan, "F0"));
    };
    const std::int64_t result = 2 * 512 * 1024 * 2,
                       sums = 2 * 512 * 16 * 4; // of two layers: attention's results in 16 bits, log-sum-exps in fp32
    EXPECT_EQ(kept("megatron", "\"none\"") - kept("megatron", "[\"attention\"]"), sums);
    EXPECT_EQ(kept("jax", "\"none\"") - kept("jax", "[\"attention\"]"), result + sums);
}

// Queries, keys and values are kept in 8 bits; the result, which the projection keeps apart, by delayed scaling.
TEST(ActivationLaws, AttentionInEightBitsKeepsAByteAnElement) {
    const auto kept = [](const char* recipe, const char* dtype) {
        const Plan plan = lower(scenario(fmt::format(
            R"({{"model": {{"layers": 2, "hidden_size": 1024, "attention_heads": 16, "kv_heads": 4, "vocab_size": 32000, "position": "rope"}},
            "cluster": {{"preset": "dgx-h100", "nodes": 1, "devices_per_node": 1}},
            "training": {{"global_batch_size": 2, "micro_batch_size": 1, "sequence_length": 512, "precision": "fp8"}},
            "strategy": {{"framework": "megatron"}}, "runtime": {{"year": 2025, "fp8_recipe": "{}", "attention_dtype": "{}"}}}})",
            recipe, dtype)));
        return left_allocated(plan, block_named(plan, "F0"));
    };
    const std::int64_t tokens = 512, hidden = 1024, keys = 2 * 4 * 64;
    EXPECT_EQ(kept("current", "16-bit") - kept("current", "fp8"), 2 * tokens * (hidden + keys));
    EXPECT_EQ(kept("delayed", "16-bit") - kept("delayed", "fp8"), 2 * tokens * (2 * hidden + keys));
}

// torchtitan repeated keys and values for every head until 2026: attention keeps three rows of all heads for each token.
TEST(ActivationLaws, RepeatedHeadsAreKept) {
    const auto layer = [](int year, int kv_heads, const char* recompute) {
        const auto of = [&](int layers) {
            const Plan plan = lower(scenario(fmt::format(
                R"({{"name": "law", "model": {{"layers": {}, "hidden_size": 1024, "attention_heads": 16, "kv_heads": {}, "vocab_size": 4096,
                     "activation": "swiglu", "norm": "rmsnorm", "position": "rope", "bias": false}},
                    "cluster": {{"preset": "dgx-h100", "nodes": 1, "devices_per_node": 1}},
                    "training": {{"global_batch_size": 2, "micro_batch_size": 2, "sequence_length": 512, "precision": "bf16"}},
                    "strategy": {{"framework": "torchtitan", "zero_stage": 0, "recompute": "{}"}},
                    "runtime": {{"year": {}, "loss": "whole", "attention_kernel": "flash-2"}}}})",
                layers, kv_heads, recompute, year)));
            return static_cast<double>(left_allocated(plan, block_named(plan, "F0")));
        };
        return of(3) - of(2);
    };
    const double tokens = 2 * 512, head = 64 * 2;
    EXPECT_DOUBLE_EQ(layer(2025, 4, "none") - layer(2026, 4, "none"), tokens * 2 * (16 - 4) * head);
    EXPECT_DOUBLE_EQ(layer(2025, 16, "none"), layer(2026, 16, "none"));
    EXPECT_DOUBLE_EQ(layer(2025, 4, "full"), layer(2026, 4, "full")); // made again
}

TEST(ActivationLaws, ForwardThenBackwardLeavesNothing) {
    for (const char* recompute : {"none", "selective", "full"})
        for (int t : {1, 2}) {
            Gpt g;
            g.tp = t;
            g.sp = t > 1;
            g.recompute = recompute;
            const Plan plan = lower(g.make());
            EXPECT_EQ(left_allocated(plan, block_named(plan, "F0")) + left_allocated(plan, block_named(plan, "B0")), 0)
                << recompute << " t = " << t;
        }
}

} // namespace
} // namespace orrery::laws

// The cost of quantising: which recipe moves what, on which device, with which software.
#include "fixture.hpp"

#include "sim/cost/quantize.hpp"

namespace orrery {
namespace {

using namespace cost_test;

Quantizer with(const char* recipe, const char* architecture, const char* framework = "megatron") {
    Scenario s;
    s.strategy.framework = named<Framework>(framework).value();
    return quantizer(pointwise_table().quantize, named<ScalingRecipe>(recipe).value(), architecture, practice_of(s), true);
}

TEST(Quantizing, OnlyProductsThatWantTheContractionInnermostTurnTheInput) {
    EXPECT_EQ(weight_gradient_extra(with("delayed", "hopper"), 1000, 1).bytes, 2000);
    EXPECT_EQ(weight_gradient_extra(with("delayed", "cdna3"), 1000, 1).bytes, 2000); // by its software
    EXPECT_EQ(weight_gradient_extra(with("delayed", "blackwell"), 1000, 1).bytes, 0);
    EXPECT_EQ(weight_gradient_extra(with("mxfp8", "blackwell"), 1000, 1).bytes, 0); // its cast wrote columns, too
}

TEST(Quantizing, AGradientIsWantedByRowsAndByColumns) {
    const Quantizer hopper = with("delayed", "hopper"), blocks = with("mxfp8", "blackwell");
    EXPECT_EQ(cast_extra(hopper, false, 1000, 2, 1).bytes, 0);
    EXPECT_EQ(cast_extra(hopper, true, 1000, 2, 1).bytes, 1000);
    EXPECT_EQ(cast_extra(blocks, false, 1000, 2, 1).bytes, cast_extra(blocks, true, 1000, 2, 1).bytes);
    EXPECT_EQ(cast_extra(with("delayed", "blackwell"), true, 1000, 2, 1).bytes, 0);
}

TEST(Quantizing, ThePresentMaximumIsReadFirst) {
    const Extra delayed = cast_extra(with("delayed", "hopper"), false, 1000, 2, 1),
                current = cast_extra(with("current", "hopper"), false, 1000, 2, 1);
    EXPECT_EQ(current.bytes - delayed.bytes, 2000);
    EXPECT_EQ(current.kernels - delayed.kernels, 1);
    EXPECT_GT(norm_extra(with("current", "hopper"), 1000, 2, 1).bytes, norm_extra(with("delayed", "hopper"), 1000, 2, 1).bytes);
}

// torch.compile: maxima inside the kernels before, but the cast behind them, by rows and by columns in one kernel; blocks along columns in
// two.
TEST(Quantizing, ACompilerHidesMaximaButCastsBothWaysOnAnyDevice) {
    for (const char* architecture : {"hopper", "blackwell"}) {
        const Quantizer q = with("current", architecture, "torchtitan");
        EXPECT_EQ(cast_extra(q, false, 1000, 2, 1).bytes, 1000);
        EXPECT_EQ(cast_extra(q, true, 1000, 2, 1).bytes, 1000);
        EXPECT_EQ(norm_extra(q, 1000, 2, 1).bytes, 5000); // bf16 written and read, and columns
        EXPECT_EQ(weight_gradient_extra(q, 1000, 1).bytes, 0);
    }
    EXPECT_EQ(cast_extra(with("mxfp8", "blackwell", "torchtitan"), false, 1000, 2, 1).bytes, 3000);
}

TEST(Quantizing, ShardedWeightsAreCastWhereTheyAreUsed) {
    const Quantizer kept = with("current", "hopper", "megatron"), sharded = with("current", "hopper", "fsdp2"),
                    late = with("delayed", "hopper", "fsdp");
    EXPECT_EQ(weight_extra(kept, false, 1000, 2, 1).bytes, 0); // once a step, by the optimizer
    EXPECT_EQ(weight_extra(sharded, false, 1000, 2, 1).bytes, 5000);
    EXPECT_EQ(weight_extra(sharded, true, 1000, 2, 1).bytes, 3000); // its maximum is known
    EXPECT_EQ(weight_extra(late, false, 1000, 2, 1).bytes, 3000);
}

// Rows of 16 experts of 1024 and 2880 columns: what an all-to-all brings is copied into a padded layout, and back behind the second linear.
TEST(Quantizing, ExpertsAreFedFromPaddedCopiesOnlyWhereTheirCountsAreAnyNumber) {
    auto us = [](auto change) {
        Scenario s = on_device("b200-192gb");
        s.model.hidden_size = 2880;
        s.model.moe = MoeSpec{};
        s.model.moe->experts = 128;
        s.training.precision = DType::mxfp8;
        s.runtime.fp8_recipe = ScalingRecipe::mxfp8;
        s.strategy.framework = Framework::megatron;
        change(s);
        return Costs(s).compute_us(Linear{Direction::forward, 1024, 5760, 2880, 16, s.training.precision, DType::bf16, false});
    };
    const double padded = us([](Scenario&) {});
    const double copy = 2 * 2.0 * 16 * 1024 * 2880 / (0.6 * 8e6) + 2;
    EXPECT_NEAR(padded - us([](Scenario& s) { s.model.moe->capacity_factor = 1; }), copy, 0.5);
    EXPECT_NEAR(padded - us([](Scenario& s) { s.runtime.token_dispatcher = TokenDispatcher::hybridep; }), copy, 0.5);
    EXPECT_GT(padded - us([](Scenario& s) { s.runtime.fused_experts = true; }), copy); // and their tiles are packed
    EXPECT_EQ(us([](Scenario& s) { s.training.precision = DType::bf16; }),
              us([](Scenario& s) { s.training.precision = DType::bf16, s.model.moe->capacity_factor = 1; }));
}

TEST(Quantizing, ALinearsWeightGradientPaysForTheTurnedInputOnHopperAlone) {
    const Linear wide{Direction::weight_gradient, 8192, 4096, 4096, 1, DType::fp8, DType::fp32, true};
    auto longer = [&](const char* device, int year = 2025, const char* framework = "megatron") {
        Scenario eight = on_device(device), compiled = eight;
        eight.runtime.year = compiled.runtime.year = year;
        eight.training.precision = compiled.training.precision = DType::fp8;
        eight.strategy.framework = named<Framework>(framework).value(), compiled.strategy.framework = Framework::torchtitan;
        eight.runtime.fp8_recipe = compiled.runtime.fp8_recipe = ScalingRecipe::delayed;
        return Costs(eight).compute_us(wide) - Costs(compiled).compute_us(wide);
    };
    // 2 x 8192 x 4096 bytes at 0.6 of 3.35 TB/s, and a kernel.
    EXPECT_NEAR(longer("h100-sxm-80gb"), 2 * 8192 * 4096 / (0.6 * 3.35e6) + 2, 0.5);
    EXPECT_EQ(longer("b200-192gb"), 0);
    EXPECT_NEAR(longer("h100-sxm-80gb", 2024), 2.1 * 2 * 8192 * 4096 / (0.6 * 3.35e6) + 2, 0.5); // the kernels of before
    EXPECT_EQ(longer("h100-sxm-80gb", 2024, "te"), longer("h100-sxm-80gb"));                     // but not in its own layers
    // MI300X: the software turns it, by kernels that were translated until 2025, of 0.16 of 5.3 TB/s, and ported until 2026, of 0.35.
    EXPECT_NEAR(longer("mi300x", 2024, "te"), 2 * 8192 * 4096 / (0.16 * 5.3e6) + 3, 0.5);
    EXPECT_NEAR(longer("mi300x", 2024, "megatron"), 2 * 8192 * 4096 / (0.16 * 5.3e6) + 3, 0.5);
    EXPECT_NEAR(longer("mi300x", 2025, "te"), 2 * 8192 * 4096 / (0.35 * 5.3e6) + 3, 0.5);
    EXPECT_NEAR(longer("mi300x", 2026, "te"), 2 * 8192 * 4096 / (0.6 * 5.3e6) + 3, 0.5);
}

} // namespace
} // namespace orrery

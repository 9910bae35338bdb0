// Products, heads and experts' rows on systolic arrays, and mixtures as XLA runs them there.
#include "tests/unit/cost/fixture.hpp"

namespace orrery::cost_test {
namespace {

Scenario with_experts(std::string_view device, double capacity_factor) {
    Scenario s = on_device(device, 4);
    s.strategy.framework = Framework::jax;
    s.training.sequence_length = 4096;
    s.training.precision = DType::bf16;
    s.model.hidden_size = 4096;
    s.model.moe = MoeSpec{};
    s.model.moe->experts = 8;
    s.model.moe->top_k = 2;
    s.model.moe->capacity_factor = capacity_factor;
    return s;
}

TEST(Systolic, ColumnsAndDepthsFillWholeArrays) {
    struct Case {
        const char* device;
        std::int64_t array;
    };
    for (const Case& c : {Case{"tpu-v5p", 128}, Case{"tpu-v6e", 256}, Case{"tpu-v7x", 256}}) {
        const Costs costs(on_device(c.device, 4));
        const auto us = [&](std::int64_t n, std::int64_t k) { return costs.compute_us(Linear{Direction::forward, 16384, n, k}); };
        const std::int64_t filled = (2880 + c.array - 1) / c.array * c.array;
        EXPECT_NEAR(us(2880, 8192) / us(filled, 8192), 1, 0.01) << c.device;
        EXPECT_NEAR(us(8192, 2880) / us(8192, filled), 1, 0.01) << c.device;
        EXPECT_GT(us(filled + 1, 8192), 1.02 * us(filled, 8192)) << c.device;
    }
}

// A tile of 512 rows in which one expert's end and another's begin is worked on for both; rows of a capacity are each expert's own.
TEST(Systolic, TilesThatExpertsShareAreWorkedOnTwice) {
    const Costs sorted(with_experts("tpu-v5p", 0)), slots(with_experts("tpu-v5p", 1.25));
    const auto ratio = [&](const Linear& experts) { return sorted.compute_us(experts) / slots.compute_us(experts); };
    for (const Direction direction : {Direction::forward, Direction::input_gradient, Direction::weight_gradient}) {
        for (std::int64_t rows : {1536, 8192}) {
            const double m = static_cast<double>(rows);
            EXPECT_NEAR(ratio({direction, rows, 2048, 7168, 64}), (64 * m + 63 * 512) / (64 * m), 0.02) << rows;
        }
        // The time to read and write weights and gradients is not repeated: few rows of many experts are not 64 times slower.
        EXPECT_LT(ratio({direction, 8, 2048, 7168, 64}), 8);
        EXPECT_GE(ratio({direction, 8, 2048, 7168, 64}), 1);
    }
}

TEST(Systolic, QueriesKeysAndValuesFillLanes) {
    const auto us = [](const char* device, std::int64_t qk, std::int64_t v) {
        Scenario s = on_device(device, 4);
        s.runtime.year = 2025;
        return Costs(s).compute_us(
            Attention{Direction::forward, 4, 8192, 8192, 16, 16, qk, v, true, 0.5, DType::bf16, AttentionKernel::flash2, 0});
    };
    EXPECT_DOUBLE_EQ(us("tpu-v5p", 192, 128), us("tpu-v5p", 256, 128));
    EXPECT_DOUBLE_EQ(us("tpu-v5p", 64, 64), us("tpu-v5p", 128, 128));
    EXPECT_LT(us("h100-sxm-80gb", 192, 128), us("h100-sxm-80gb", 256, 128));
    EXPECT_LT(us("tpu-v5p", 256, 256), 1.5 * us("tpu-v5p", 128, 128)) << "wide heads keep the array busy";
}

// One-hot masks: 4 sequences of 4096 tokens and 10240 slots each; backward of what fetches rows back there is the mask's gradient as well.
TEST(Systolic, SlotsAreFilledByProducts) {
    const std::int64_t tokens = 4 * 4096, slots = 4 * 10240;
    const Costs by_products(with_experts("tpu-v6e", 1.25)), by_copies(with_experts("tpu-v6e", 0));
    const auto permute = [&](Permute::Part part, Direction direction) { return Permute{part, direction, tokens, slots, 4096, false}; };
    const double product = 4 * 2.0 * 4096 * 4096 * 10240 / (0.85 * 0.76 * 918e6); // us at what a product reaches
    EXPECT_NEAR(by_products.compute_us(permute(Permute::Part::gather, Direction::forward)) / product, 1, 0.03);
    EXPECT_NEAR(by_products.compute_us(permute(Permute::Part::gather, Direction::backward)) / product, 2, 0.06);
    // Rows copied take their bytes: 1.25 times read and written, at half of what a GPU's gather reaches.
    const double bytes = static_cast<double>(slots) * 4096 * 4 * 1.25;
    EXPECT_NEAR(by_copies.compute_us(permute(Permute::Part::gather, Direction::forward)) / (bytes / (0.5 * 0.65 * 0.95 * 1640e3)), 1, 0.05);
}

} // namespace
} // namespace orrery::cost_test

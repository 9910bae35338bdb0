// Do products between lighter kernels run faster, never past the burst's clock, and is less work of any kind never slower?
#include "sim/cost/clocks.hpp"
#include "sim/cost/own_constants.hpp"

#include "fixture.hpp"

#include <cmath>

namespace orrery {
namespace {

using namespace cost_test;

// A layer's forward and backward products (of 8,192 rows, 4,096 deep), with sums over so many bytes between them.
Plan layer_of(double bytes, std::int16_t layer = 0, Phase phase = Phase::forward) {
    Plan plan;
    Buffer moved;
    moved.name = "x";
    moved.bytes = {static_cast<std::int64_t>(bytes)};
    plan.buffers.push_back(moved);
    for (const BlockKind kind : {BlockKind::forward, BlockKind::backward}) {
        Block block;
        block.kind = kind;
        Op product;
        product.name = "product";
        product.work = Linear{kind == BlockKind::forward ? Direction::forward : Direction::input_gradient, 8192, 14336, 4096};
        product.layer = layer;
        product.phase = kind == BlockKind::forward ? Phase::forward : Phase::backward_input;
        block.ops.push_back(product);
        Op sum = product;
        sum.name = "sum";
        sum.work = Pointwise{PointwiseKind::add, Direction::forward, moved.bytes.count / 2, true};
        sum.in = {0};
        if (phase == Phase::recompute) sum.phase = phase;
        block.ops.push_back(sum);
        plan.blocks.push_back(block);
    }
    return plan;
}

double seconds_of(const Costs& c, const Plan& plan) {
    const LayerClocks clocks = c.model.clocks(plan);
    double sum = 0;
    for (const Block& block : plan.blocks)
        for (const Op& op : block.ops) sum += c.model.compute(plan, op, 0, clocks).duration.seconds();
    return sum;
}

double product_us(const Costs& c, const Plan& plan) {
    return microseconds(c.model.compute(plan, plan.blocks[0].ops[0], 0, c.model.clocks(plan)).duration);
}

TEST(Clocks, TheMeanPowerIsTheLimit) {
    for (const double share : {0.8, 0.95, 1.0})
        for (const double power : {0.2, 0.43, 0.7})
            for (const double others : {0.0, 0.05, 0.4, 1.5}) {
                const double r = mixed_clock(1, others, share, power), p = (1 - (1 - share) * power) / share;
                EXPECT_NEAR((p * r + power * others) / (1 / r + others), 1, 1e-12) << share << " " << power << " " << others;
            }
    EXPECT_NEAR(mixed_clock(0.92, 0.08, 0.92, 0.43), 1, 1e-12); // the mix that the sustained clock is of
    EXPECT_NEAR(mixed_clock(0.7, 0.3, 1, 0.43), 1.130, 0.001);
    EXPECT_EQ(mixed_clock(0, 1, 1, 0.43), 1);
}

TEST(Clocks, MoreOfAnythingIsNeverFaster) {
    for (const double power : {0.0, 0.43, 0.9})
        for (double others = 0; others < 4; others += 0.1) {
            const double now = 1 / mixed_clock(1, others, 1, power) + others, more = others + 0.01;
            EXPECT_GT(1 / mixed_clock(1, more, 1, power) + more, now) << others;
            EXPECT_GE(1.01 / mixed_clock(1.01, others, 1, power), 1 / mixed_clock(1, others, 1, power)) << others;
        }
}

TEST(Clocks, ProductsBetweenLighterKernelsRunFasterUpToTheBursts) {
    const Costs c(on_device("h200-sxm-141gb"));
    const double alone = product_us(c, layer_of(0)), few = product_us(c, layer_of(4e8)), many = product_us(c, layer_of(4e9)),
                 most = product_us(c, layer_of(4e10));
    EXPECT_LT(few, alone);
    EXPECT_LT(many, few);
    EXPECT_EQ(many, most);
    EXPECT_NEAR(many / alone, 0.845, 0.01);
    const Plan plan = layer_of(4e9, -1); // no layer's, as the loss
    EXPECT_EQ(c.model.compute(plan, plan.blocks[0].ops[0], 0, c.model.clocks(plan)).duration.ps,
              c.model.compute(plan, plan.blocks[0].ops[0]).duration.ps);
    const Plan again = layer_of(4e9, 0, Phase::recompute); // what runs again is not counted
    EXPECT_EQ(product_us(c, again), microseconds(c.model.compute(again, again.blocks[0].ops[0]).duration));
    Scenario with_more = on_device("h200-sxm-141gb");
    with_more.cluster.device.memory_bandwidth.value *= 1.3;
    for (const double bytes : {1e7, 1e8, 4e8, 1e9, 2e9})
        EXPECT_LE(seconds_of(Costs(with_more), layer_of(bytes)), seconds_of(c, layer_of(bytes))) << bytes;
}

// Other kernels draw the same watts under a lower limit: where these are all of it, products between them get nothing.
TEST(Clocks, ALowerLimitLeavesLessToProducts) {
    Scenario s = on_device("h200-sxm-141gb");
    double before = 0;
    for (const double limit : {700.0, 500.0, 350.0}) {
        s.cluster.device.power_limit_w = limit;
        const Costs c(s);
        const double gain = product_us(c, layer_of(0)) / product_us(c, layer_of(4e8));
        EXPECT_GT(gain, 1) << limit;
        if (before > 0) { EXPECT_LT(gain, before) << limit; }
        before = gain;
    }
    s.cluster.device.power_limit_w = 300;
    const Costs c(s);
    EXPECT_NEAR(product_us(c, layer_of(4e9)), product_us(c, layer_of(0)), 1e-6 * product_us(c, layer_of(0)));
}

// A clock that training rows gave serves all mixes.
TEST(Clocks, OnlyAClockOfAKnownMixChanges) {
    for (const char* device : {"h100-sxm-80gb", "a100-sxm-80gb", "b200-192gb", "mi300x", "tpu-v5p"}) {
        const Costs c(on_device(device));
        EXPECT_TRUE(c.model.clocks(layer_of(4e9)).empty()) << device;
    }
    EXPECT_FALSE(Costs(on_device("h200-sxm-141gb")).model.clocks(layer_of(4e9)).empty());
    OwnConstants own; // clocks of one's own are of a mix only where the file says so
    own.add(R"({"device": "h200-sxm-141gb", "sustained": {"bf16": 0.9, "fp8": 0.8, "other": 0.95}})");
    EXPECT_EQ(kernel_tables(*find_device("h200-sxm-141gb"), {}, &own).matrix_share, 0);
    EXPECT_EQ(kernel_tables(*find_device("h200-sxm-141gb")).matrix_share, 1);
}

// 16 products one after another on an H200 (pytorch/pytorch pull request 156203), and the backward pass of Llama 3 8B's layers on ours
// (scenarios/validation/measured/h200-llama3-8b-check.json), 0.95 of whose time products and attention have: 1.015 times the sustained
// clock.
TEST(Clocks, LongProductsOfAnH200TakeAsLongAsMeasured) {
    const Costs c(on_device("h200-sxm-141gb"));
    EXPECT_NEAR(16 * c.compute_us(Linear{Direction::forward, 128000, 7168, 7168}), 298.7e3, 0.03 * 298.7e3);
    const double backward[][4] = {
        {8192, 4096, 28672, 2653.9}, {8192, 14336, 4096, 1372.2}, {8192, 4096, 6144, 594.5}, {8192, 4096, 4096, 402.6}};
    for (const auto& [m, n, k, us] : backward) {
        const Linear w{Direction::forward, std::llround(m), std::llround(n), std::llround(k)};
        EXPECT_NEAR(c.compute_us(w) / 1.015, us, 0.03 * us) << n << " " << k;
    }
}

} // namespace
} // namespace orrery

// Optimizers against PyTorch's own numbers; the gradients' norm, clipping and dropout.
#include "tests/unit/kernels/arrays.hpp"

namespace orrery::test {
namespace {

// Three steps from (1, -2, 0.5) with gradients (0.1 (i + 1), -0.2, 0.3 (i - 1)) and a rate of 0.1, by torch 2.15's torch.optim.
struct Case {
    const char* name;
    OptimizerKind kind;
    bool decoupled;
    double decay;
    std::vector<double> expected;
};
const Case cases[] = {{"sgd", OptimizerKind::sgd, false, 0, {0.94, -1.94, 0.5}},
                      {"momentum", OptimizerKind::momentum, false, 0, {0.9048999999999999, -1.8878, 0.5513}},
                      {"adam", OptimizerKind::adam, false, 0, {0.7076816955448426, -1.700000015, 0.6584190478266312}},
                      {"adamw", OptimizerKind::adam, true, 0.01, {0.7049811127213315, -1.6943059129850049, 0.6566536415110403}}};

// Two tensors of one step, states one after the other, with master weights or without.
TEST(Optimizer, StepsAsPyTorchDoes) {
    for (const Case& c : cases)
        for (const bool masters : {false, true}) {
            Rank rank;
            rank.facts.optimizer.learning_rate = 0.1;
            rank.facts.optimizer.weight_decay = c.decay;
            rank.facts.optimizer.decoupled = c.decoupled;
            Array w1 = zeros({2}, MemoryKind::parameters), w2 = zeros({1}, MemoryKind::parameters), g1 = zeros({2}, MemoryKind::gradients),
                  g2 = zeros({1}, MemoryKind::gradients), factor = zeros({1});
            w1.data = {1, -2};
            w2.data = {0.5};
            const int moments = c.kind == OptimizerKind::sgd ? 0 : c.kind == OptimizerKind::momentum ? 1 : 2;
            Array master = zeros({3}, MemoryKind::optimizer_states), m = master, v = master;
            master.data = {1, -2, 0.5};
            for (; rank.step < 3; ++rank.step) {
                const double i = static_cast<double>(rank.step);
                g1.data = {0.1 * (i + 1), -0.2};
                g2.data = {0.3 * (i - 1)};
                std::vector<Arg> in{g1, g2, factor}, out{w1, w2};
                const auto state = [&](Array& s) { in.emplace_back(s), out.emplace_back(s); };
                if (masters) state(master);
                if (moments > 0) state(m);
                if (moments > 1) state(v);
                rank.run(OptimizerStep{c.kind, 3, true, false}, in, out, "optimizer", Phase::optimizer);
            }
            EXPECT_NEAR(w1[0], c.expected[0], 1e-12) << c.name;
            EXPECT_NEAR(w1[1], c.expected[1], 1e-12) << c.name;
            EXPECT_NEAR(w2[0], c.expected[2], 1e-12) << c.name;
        }
}

TEST(Clipping, ScalesToTheNormAndNeverUp) {
    Rank rank;
    rank.facts.optimizer.clip = 1;
    for (const double size : {3.0, 0.2}) {
        Array a = zeros({2}), b = zeros({1}), total = zeros({1}), factor = zeros({1});
        a.data = {size * 2 / 3, size / 3};
        b.data = {size * 2 / 3};
        rank.run(GradientNorm{3, true}, {a, b}, {total}, "gradient_norm", Phase::optimizer);
        EXPECT_NEAR(total[0], size * size, 1e-14);
        rank.run(Pointwise{PointwiseKind::clip, Direction::forward, 3, true}, {total, a, b}, {factor, a, b}, "clip", Phase::optimizer);
        EXPECT_NEAR(std::sqrt(a[0] * a[0] + a[1] * a[1] + b[0] * b[0]), std::min(size, 1.0), 2e-6);
    }
}

// The norm's summands are added over tensor-parallel ranks: what all of them hold must count once.
TEST(Clipping, CountsOnceWhatAllRanksHold) {
    Array shared = zeros({1}), cut = zeros({1}), total = zeros({1});
    shared.data = {3};
    cut.data = {4};
    cut.buffer.placement.set(Axis::tp, PlacementKind::sharded, 0);
    total.buffer.placement.set(Axis::tp, PlacementKind::partial);
    double sum = 0;
    for (int r = 0; r < 2; ++r) {
        Rank rank;
        rank.on(Axis::tp, 2, r).run(GradientNorm{2, true}, {shared, cut}, {total}, "gradient_norm", Phase::optimizer);
        sum += total[0];
    }
    EXPECT_EQ(sum, 9 + 16 + 16);
}

// Dropout depends on the place, the step and the token, not on the rank that does it.
TEST(Dropout, IsTheSameHoweverTokensAreSpread) {
    constexpr std::int64_t rows = 8, cols = 64;
    const auto rank_with = [](int tp, int r) {
        Rank rank;
        rank.on(Axis::tp, tp, r);
        rank.facts.micro_batch = 2;
        rank.facts.sequence = 4;
        rank.facts.dropout = 0.25;
        return rank;
    };
    const auto at = [&](DropoutSite site) {
        Pointwise work{PointwiseKind::dropout, Direction::forward, rows * cols, true};
        work.site = site;
        return work;
    };
    const Pointwise work = at(DropoutSite::after_attention);
    Array x = zeros({rows, cols}), y = x;
    x.data.assign(x.data.size(), 1.0);
    Flags mask({rows, cols}), second = mask;
    Rank whole = rank_with(1, 0);
    whole.run(work, {x}, {y, mask});
    double kept = 0;
    for (double v : y.data) {
        ASSERT_TRUE(v == 0 || v == 1 / 0.75);
        kept += v > 0;
    }
    EXPECT_NEAR(kept / rows / cols, 0.75, 5 * std::sqrt(0.25 * 0.75 / rows / cols));
    for (int r = 0; r < 2; ++r) {
        Array part = zeros({rows / 2, cols}), out = part;
        part.data.assign(part.data.size(), 1.0);
        out.buffer.placement.set(Axis::tp, PlacementKind::sharded, 0);
        Flags flags({rows / 2, cols});
        rank_with(2, r).run(work, {part}, {out, flags}, "again");
        for (std::int64_t i = 0; i < rows / 2 * cols; ++i) ASSERT_EQ(out[i], y[r * rows / 2 * cols + i]);
    }
    Array other = y;
    whole.run(at(DropoutSite::after_mlp), {x}, {other, second});
    EXPECT_NE(other.data, y.data);
    whole.step = 1;
    whole.run(work, {x}, {other, second});
    EXPECT_NE(other.data, y.data);
}

} // namespace
} // namespace orrery::test

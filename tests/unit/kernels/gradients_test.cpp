// Whole models on one rank: is every parameter's gradient the derivative of the loss? In fp64, by central differences.
#include "tests/unit/kernels/models.hpp"
#include "tests/unit/kernels/single_rank.hpp"

#include <cmath>

namespace orrery::test {
namespace {

class Gradients : public testing::TestWithParam<Model> {};

TEST_P(Gradients, AreTheDerivativesOfTheLoss) {
    SingleRank rank(tiny_scenario(GetParam().overrides));
    // Larger weights than a model starts with, biases and norms off their constants: every term of a gradient must show.
    for (BufferId w : rank.parameters())
        for (std::int64_t i = 0; i < elements(rank.plan().buffers[w]); ++i)
            rank.set(w, i, rank.value(w, i) + 0.25 * normal(3, static_cast<std::uint64_t>(w), static_cast<std::uint64_t>(i)));
    const double loss = rank.run(true);
    ASSERT_TRUE(std::isfinite(loss));
    std::vector<std::vector<double>> gradients;
    for (BufferId w : rank.parameters()) gradients.push_back(rank.values(rank.gradient_of(w)));
    std::size_t index = 0;
    for (BufferId w : rank.parameters()) {
        const std::vector<double>& gradient = gradients[index++];
        if (rank.plan().buffers[w].name.ends_with("router.bias")) continue; // corrected by loads, not by a derivative
        double size = 1e-4;
        for (double g : gradient) size = std::max(size, std::abs(g));
        for (int sample = 0; sample < 6; ++sample) {
            const std::int64_t i = static_cast<std::int64_t>(uniform(5, static_cast<std::uint64_t>(w), static_cast<std::uint64_t>(sample)) *
                                                             static_cast<double>(gradient.size()));
            constexpr double h = 1e-5;
            const double x = rank.value(w, i);
            rank.set(w, i, x + h);
            const double up = rank.run(false);
            rank.set(w, i, x - h);
            const double down = rank.run(false);
            rank.set(w, i, x);
            EXPECT_NEAR(gradient[i], (up - down) / (2 * h), 1e-6 * size + 1e-9) << rank.plan().buffers[w].name << "[" << i << "]";
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Models, Gradients, testing::ValuesIn(models()), [](const auto& instance) { return instance.param.name; });

TEST(Recomputation, ChangesNoBit) {
    SingleRank kept(tiny_scenario({"model.dropout=0.2"}), DType::fp32),
        again(tiny_scenario({"model.dropout=0.2", "strategy.recompute=full"}), DType::fp32);
    EXPECT_EQ(kept.run(true), again.run(true));
    for (BufferId w : kept.parameters()) {
        const std::string& name = kept.plan().buffers[w].name;
        EXPECT_EQ(kept.values(kept.gradient_of(w)), again.values(again.gradient_of(again.find(name)))) << name;
    }
}

TEST(Precision, SingleAgreesWithDouble) {
    SingleRank single(tiny_scenario(llama), DType::fp32), twice(tiny_scenario(llama), DType::fp64);
    EXPECT_NEAR(single.run(true), twice.run(true), 1e-6);
    for (BufferId w : single.parameters()) {
        const auto a = single.values(single.gradient_of(w)), b = twice.values(twice.gradient_of(w));
        double difference = 0, size = 0;
        for (std::size_t i = 0; i < a.size(); ++i) difference += (a[i] - b[i]) * (a[i] - b[i]), size += b[i] * b[i];
        EXPECT_LT(std::sqrt(difference), 1e-5 * std::sqrt(size)) << single.plan().buffers[w].name;
    }
}

TEST(Training, LowersTheLossWithEveryOptimizer) {
    for (const char* optimizer : {"sgd", "momentum", "adam", "adamw", "lamb", "lars"}) {
        SingleRank rank(tiny_scenario({std::string("training.optimizer=") + optimizer, "training.gradient_clipping=1.0"}), DType::fp32);
        if (optimizer == std::string("lars")) rank.facts().optimizer.trust = 0.1;
        const double before = rank.run(true, true);
        double after = before;
        for (rank.step = 1; rank.step < 40; ++rank.step) after = rank.run(true, true);
        EXPECT_LT(after, before - 0.02) << optimizer;
    }
}

} // namespace
} // namespace orrery::test

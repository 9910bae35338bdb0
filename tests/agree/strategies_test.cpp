// Does every strategy train like one rank, and those whose sums have one order like each other to the bit? Is memory as predicted?
#include "agree.hpp"

#include <gtest/gtest.h>

namespace orrery::agree {
namespace {

class Parity : public testing::TestWithParam<Case> {};

TEST_P(Parity, LikeOneRank) {
    const Scenario scenario = tiny(GetParam().fields);
    const Trained many = train(scenario, {.steps = 20}), one = train(on_one_rank(scenario), {.steps = 20});
    expect_trained_alike(one, many);
}

TEST_P(Parity, LikeOneRankInSinglePrecision) {
    const Scenario scenario = tiny(GetParam().fields);
    const TrainOptions once{.steps = 1, .real = DType::fp32};
    constexpr double rounding = 1e-3; // what a tensor's gradients are measured against at least: some are zero but for rounding
    const Difference gradients =
        difference(train(on_one_rank(scenario), once).first_gradients, train(scenario, once).first_gradients, rounding);
    EXPECT_LE(gradients.relative, 1e-5) << gradients.worst;
}

TEST_P(Parity, MemoryIsAsPredicted) {
    const Scenario scenario = tiny(GetParam().fields);
    expect_peaks_as_predicted(scenario, train(scenario, {.steps = 2, .real = DType::fp32}));
}

INSTANTIATE_TEST_SUITE_P(Strategies, Parity, testing::ValuesIn(strategies()), [](const auto& tested) { return tested.param.name; });

TEST(Agree, OneRankLearns) {
    const Trained t = train(tiny(), {.steps = 20});
    EXPECT_LT(t.losses.back(), t.losses.front() - 0.3);
}

} // namespace
} // namespace orrery::agree

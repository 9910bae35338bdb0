// Do data parallelism and its sharded forms train like one rank, and like each other to the bit?
#include "agree.hpp"

#include "sim/memory/memory.hpp"

#include <gtest/gtest.h>

namespace orrery::agree {
namespace {

void expect_like_one_rank(const Scenario& scenario, double tolerance = 1e-12) {
    const Trained many = train(scenario), one = train(alone(scenario));
    const Difference gradients = difference(one.first_gradients, many.first_gradients), parameters = difference(one.parameters, many.parameters);
    EXPECT_LE(gradients.relative, tolerance) << gradients.worst;
    EXPECT_LE(parameters.relative, 100 * tolerance) << parameters.worst;
    for (std::size_t i = 0; i < one.losses.size(); ++i) EXPECT_NEAR(many.losses[i], one.losses[i], tolerance) << "step " << i;
    EXPECT_EQ(many.disagreement, 0);
}

TEST(Agree, OneRankLearns) {
    const Trained t = train(tiny(), {.steps = 20});
    EXPECT_LT(t.losses.back(), t.losses.front() - 0.3);
}

TEST(Agree, DataParallel) { expect_like_one_rank(tiny({"strategy.data_parallel=4"})); }

} // namespace
} // namespace orrery::agree

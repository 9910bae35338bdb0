// Does every strategy train like one rank, and those whose sums have one order like each other to the bit? Is memory as predicted?
#include "agree.hpp"

#include "sim/memory/memory.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

namespace orrery::agree {
namespace {

struct Case { std::string name; std::vector<std::string> fields; };
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

// tests/agree/strategies.txt: a name and its fields a line.
std::vector<Case> read_cases() {
    std::ifstream file(ORRERY_SOURCE_DIR "/tests/agree/strategies.txt");
    std::vector<Case> cases;
    for (std::string line; std::getline(file, line);) {
        std::istringstream words(line);
        Case c;
        words >> c.name;
        if (c.name.empty() || c.name[0] == '#') continue;
        for (std::string field; words >> field;) c.fields.push_back(field);
        cases.push_back(std::move(c));
    }
    return cases;
}

class Parity : public testing::TestWithParam<Case> {};

TEST_P(Parity, LikeOneRank) {
    const Scenario scenario = tiny(GetParam().fields);
    const Trained many = train(scenario, {.steps = 20}), one = train(on_one_rank(scenario), {.steps = 20});
    const Difference gradients = difference(one.first_gradients, many.first_gradients), parameters = difference(one.parameters, many.parameters), states = difference(one.states, many.states);
    EXPECT_LE(gradients.relative, 1e-12) << gradients.worst;
    EXPECT_LE(parameters.relative, 1e-10) << parameters.worst;
    EXPECT_LE(states.relative, 1e-10) << states.worst;
    for (std::size_t i = 0; i < one.losses.size(); ++i) EXPECT_NEAR(many.losses[i], one.losses[i], 1e-10) << "step " << i;
    EXPECT_EQ(many.disagreement, 0);
}

TEST_P(Parity, LikeOneRankInSinglePrecision) {
    const Scenario scenario = tiny(GetParam().fields);
    const TrainOptions once{.steps = 1, .real = DType::fp32};
    constexpr double rounding = 1e-3;   // what a tensor's gradients are measured against at least: some are zero but for rounding
    const Difference gradients = difference(train(on_one_rank(scenario), once).first_gradients, train(scenario, once).first_gradients, rounding);
    EXPECT_LE(gradients.relative, 1e-5) << gradients.worst;
}

TEST_P(Parity, MemoryIsAsPredicted) {
    const Scenario scenario = tiny(GetParam().fields);
    const Trained t = train(scenario, {.steps = 2, .real = DType::fp32});
    const MemoryReport predicted = memory(t.world->plan, scenario);
    for (const auto& rank : t.world->ranks)
        EXPECT_EQ(rank->memory.device().highest, predicted.stages[static_cast<std::size_t>(rank->stage)].allocated_peak.count) << "rank " << rank->rank;
}

INSTANTIATE_TEST_SUITE_P(Strategies, Parity, testing::ValuesIn(read_cases()), [](const auto& tested) { return tested.param.name; });

TEST(Agree, OneRankLearns) {
    const Trained t = train(tiny(), {.steps = 20});
    EXPECT_LT(t.losses.back(), t.losses.front() - 0.3);
}

} // namespace
} // namespace orrery::agree

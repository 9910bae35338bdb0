// The interval of a difference between two predicted steps.
#include "sim/report/pair_bar.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace orrery {
namespace {

Configuration on(int tensor, CostGroup group = CostGroup::products) {
    Configuration c;
    c.device = "h100", c.architecture = "hopper", c.tensor = tensor;
    c.shares[group] = 0.4;
    c.shares[CostGroup::products] += 0.6;
    return c;
}

// Pairs of one job each: the first run predicted rightly, the second off by `error`.
std::vector<Experience> pairs(const std::string& source, int n, double error) {
    std::vector<Experience> rows;
    for (int i = 0; i < n; ++i)
        for (const bool second : {false, true})
            rows.push_back({on(second ? 4 : 8), source, std::to_string(2 * i + second), second ? error : 0.0, std::nullopt, true,
                            "job " + std::to_string(i), second ? 1.0 : 1.1});
    return rows;
}

TEST(PairBar, IsTheErrorOfDifferencesThatWerePredicted) {
    const auto rows = pairs("a", 10, 0.1);
    const PairBar bar = pair_bar({on(8), 1.1}, {on(4), 1.0}, rows, judged_spreads);
    EXPECT_EQ(bar.pairs, 10) << "rows of other jobs make no pair";
    EXPECT_EQ(bar.sources, 1);
    EXPECT_NEAR(bar.width, std::log(1.1), 1e-9);
    EXPECT_NEAR(pair_bar({on(4), 1.0}, {on(8), 1.1}, rows, judged_spreads).width, bar.width, 1e-12) << "either way round";
}

TEST(PairBar, AnErrorOfBothRunsIsNone) {
    auto rows = pairs("a", 10, 0.1);
    for (Experience& e : rows) e.step_time = 0.3;
    EXPECT_EQ(pair_bar({on(8), 1.1}, {on(4), 1.0}, rows, judged_spreads).width, 0.02) << "the least";
}

TEST(PairBar, IsWiderWhereTheTwoRestOnOtherConstants) {
    const auto rows = pairs("a", 10, 0.1);
    const double alike = pair_bar({on(8), 1.1}, {on(4), 1.0}, rows, judged_spreads).width;
    EXPECT_GT(pair_bar({on(8), 1.1}, {on(4, CostGroup::memory), 1.0}, rows, judged_spreads).width, 1.2 * alike);
    EXPECT_GT(pair_bar({on(8), 3.0}, {on(4), 1.0}, rows, judged_spreads).width, 1.2 * alike) << "a larger difference is less sure";
}

TEST(PairBar, NothingIsSaidWithoutPairs) {
    EXPECT_EQ(pair_bar({on(8), 1}, {on(4), 1}, {}, judged_spreads).width, 0);
    EXPECT_EQ(pair_bar({on(8), 0}, {on(4), 1}, pairs("a", 3, 0.1), judged_spreads).width, 0) << "no step time";
}

TEST(PairBar, HoldsForPairsOfSourcesItHasNotSeen) {
    const Coverage c = left_out_pairs(validated_rows());
    EXPECT_GE(c.rows, 100);
    EXPECT_GE(c.sources, 8);
    EXPECT_GE(c.covered, 0.7);
    EXPECT_LE(c.covered, 0.9);
}

} // namespace
} // namespace orrery

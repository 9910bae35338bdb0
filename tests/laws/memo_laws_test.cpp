// Is what a memo of the last run gives what the run gives? For random jobs in two orders of ranks, and on other networks.
#include "sim/engine/memo.hpp"
#include "sim/report/report.hpp"
#include "tests/laws/scenarios.hpp"
#include "tests/laws/simulations.hpp"

#include <algorithm>
#include <random>

namespace orrery::laws {
namespace {

Simulation run_of(const Plan& plan, const Scenario& s, RunMemo* memo) {
    const Fabric fabric(s.cluster);
    const CostModel cost(s, fabric);
    return simulate(plan, s, fabric, cost, {.memo = memo});
}

// The names, too.
void expect_same(const Simulation& a, const Simulation& b) {
    ASSERT_NO_FATAL_FAILURE(expect_identical(a, b));
    EXPECT_EQ(a.lane_of_rank, b.lane_of_rank);
    EXPECT_EQ(a.link_class, b.link_class);
    for (std::size_t l = 0; l < a.lanes.size(); ++l) {
        EXPECT_EQ(a.lanes[l].rank, b.lanes[l].rank);
        EXPECT_EQ(a.lanes[l].stage, b.lanes[l].stage);
    }
    for (std::size_t l = 0; l < a.links.size(); ++l) {
        EXPECT_EQ(a.links[l].link, b.links[l].link);
        EXPECT_EQ(a.links[l].capacity, b.links[l].capacity);
    }
}

TEST(MemoLaws, GivesWhatTheRunGives) {
    std::mt19937 random(5);
    const std::vector<std::string> orders{"tp-cp-ep-dp-pp", "tp-cp-ep-pp-dp", "dp-tp-cp-ep-pp"};
    int known = 0, other = 0;
    for (int i = 0; i < 60; ++i) {
        Gpt g;
        g.tp = random() % 2 ? 8 : 4;
        g.pp = random() % 2 ? 4 : 2;
        g.dp = random() % 2 ? 4 : 2;
        g.layers = 4;
        g.zero = static_cast<int>(random() % 3);
        std::vector<Scenario> all;
        for (int k = 0; k < 4; ++k) {
            g.extra_strategy = ", \"rank_order\": \"" + orders[random() % orders.size()] + "\"";
            all.push_back(scenario(g.text()));
            if (k == 3) all.back().cluster.inter.nic_bandwidth = BytesPerSecond::gigabits(30);
        }
        Plan plan = lower(all[0]);
        RunMemo memo;
        for (const Scenario& s : all) {
            reorder_ranks(plan, s.strategy.rank_order);
            const Simulation with = run_of(plan, s, &memo), again = run_of(plan, s, &memo), without = run_of(plan, s, nullptr);
            expect_same(with, without);
            expect_same(again, without);
            const bool had = memo.result.lanes.front().rank != with.lanes.front().rank ||
                             !std::ranges::equal(memo.result.links, with.links, {}, &LinkUse::link, &LinkUse::link);
            ++(had ? known : other); // it is of a machine with other names
        }
    }
    EXPECT_GT(known, 5);
    EXPECT_GT(other, 60);
}

} // namespace
} // namespace orrery::laws

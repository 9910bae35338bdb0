// Is what a memo of the last run gives what the run gives? For random jobs in other orders of ranks, on other devices and hosts, whose ops
// take other times in the same programs, and on other networks.
#include "sim/engine/memo.hpp"
#include "sim/memory/ready.hpp"
#include "sim/report/report.hpp"
#include "tests/laws/scenarios.hpp"
#include "tests/laws/simulations.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
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
            if (k == 2 && i % 2) all.back().cluster.device.memory_bandwidth = BytesPerSecond::gigabytes(1500);
            if (k == 2 && i % 3 == 0) all.back().runtime.launch_us = 30;
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

// Orders whose groups lie as near differ in links that never decide (deciding.hpp): nothing is run again, and the bytes on each link are
// those of its own order.
TEST(MemoLaws, RunsOnceWhereOtherLinksDecideNothing) {
    Gpt g;
    g.tp = 8, g.pp = 4, g.dp = 64;
    g.layers = 4, g.zero = 1;
    g.cluster = R"({"preset": "dgx-h100", "nodes": 256})";
    g.extra_strategy = ", \"rank_order\": \"tp-cp-ep-dp-pp\"";
    const Scenario near = scenario(g.text());
    g.extra_strategy = ", \"rank_order\": \"tp-cp-ep-pp-dp\"";
    const Scenario far = scenario(g.text());
    Plan plan = lower(near);
    RunMemo memo;
    run_of(plan, near, &memo);
    memo.result.stats.lanes = -1; // says which runs are this one
    for (const Scenario* s : {&far, &far, &near}) {
        reorder_ranks(plan, s->strategy.rank_order);
        Simulation with = run_of(plan, *s, &memo);
        const Simulation without = run_of(plan, *s, nullptr);
        EXPECT_EQ(with.stats.lanes, -1);
        with.stats.lanes = without.stats.lanes;
        expect_same(with, without);
    }
}

// One op stands for all that are alike: none of them may have another price, whatever the job.
TEST(MemoLaws, OpsAlikeTakeAsLong) {
    int shared = 0;
    for (const auto& file : std::filesystem::directory_iterator(std::string(ORRERY_SOURCE_DIR) + "/scenarios")) {
        const std::string path = file.path().string();
        if (!file.is_regular_file() || !path.ends_with(".json") || path.find("16k") != path.npos) continue;
        std::ifstream in(path);
        ParseOptions parsing;
        parsing.base_dir = file.path().parent_path();
        const ParseResult parsed = ready_scenario(std::string(std::istreambuf_iterator<char>(in), {}), parsing);
        if (!parsed.scenario || !parsed.problems.empty()) continue; // a sweep, or a run of jobs
        const Scenario& s = *parsed.scenario;
        const Plan plan = lower(s);
        if (plan.programs.empty()) continue;
        SCOPED_TRACE(path);
        const Fabric fabric(s.cluster);
        const CostModel cost(s, fabric);
        const Costs costs = costs_of(cost, plan, s, fabric);
        if (!costs.layers) continue; // experts' loads differ layer by layer
        Compilation c{plan, costs, {}, {}};
        begin_machine(c, wires_of(s, fabric));
        compile_programs(c, s.runtime.launch_blocking);
        const std::vector<CompiledOp> each = c.machine.ops;
        EXPECT_FALSE(price_programs(c, alike_ops(plan, c.machine)));
        EXPECT_EQ(c.machine.ops, each);
        shared += alike_ops(plan, c.machine).count < static_cast<int>(each.size()) / 2;
    }
    EXPECT_GT(shared, 10);
}

} // namespace
} // namespace orrery::laws

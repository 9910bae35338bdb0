// Points with "run": a sweep ranks by what becomes of them in months, and keeps it.
#include "sim/job/whole_run.hpp"
#include "sim/scenario/parse.hpp"
#include "sim/sweep/deal.hpp"
#include "sim/sweep/store.hpp"
#include "sim/sweep/sweep.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

namespace orrery {
namespace {

constexpr const char* saves = R"({"name": "saves", "model": {"layers": 4, "hidden_size": 1024, "attention_heads": 16, "vocab_size": 32000},
    "cluster": {"preset": "dgx-h100", "nodes": 64, "storage": {"write_gb_per_s": 0.05, "read_gb_per_s": 1}},
    "training": {"global_batch_size": 512, "micro_batch_size": 1, "sequence_length": 1024}, "strategy": {},
    "run": {"tokens": 1e12, "seeds": 8, "failures": {"per_node_day": 0.05}},
    "sweep": {"/run/checkpoint/kind": ["sync", "async"], "/cluster/price_usd_per_device_hour": [2, 3], "/run/spares/nodes": [4, 40]}})";

std::string fresh_file(const char* name) {
    const std::string file = testing::TempDir() + name;
    std::filesystem::remove(file);
    return file;
}

TEST(SweepOfRuns, RanksByGoodputTimeAndCostOfTheWholeRun) {
    const SweepResult parsed = parse_sweep(saves);
    ASSERT_TRUE(parsed.document && parsed.problems.empty()) << to_text(parsed.problems);
    const std::string file = fresh_file("runs.sqlite");
    const SweepRun run = run_sweep(*parsed.document, file);
    ASSERT_EQ(run.rows.size(), 8u);
    for (const SweepRow& r : run.rows) {
        ASSERT_EQ(r.status, PointStatus::fits) << r.reason;
        ASSERT_EQ(r.run_finished, 1) << r.label;
        EXPECT_GE(r.run_tokens, 1e12);
        EXPECT_GT(r.run_goodput, 0);
        EXPECT_LT(r.run_goodput, 1);
        // What a run costs is more than its steps, by what it loses and by its spares.
        EXPECT_GT(r.run_usd_per_trillion_tokens(), r.per_trillion_tokens(r.cost_usd));
    }
    EXPECT_GT(run.rows.back().run_goodput, run.rows.front().run_goodput + 0.01) << "an asynchronous save beside a slow synchronous one";
    for (const RankBy by : {RankBy::goodput, RankBy::run_time, RankBy::run_cost}) {
        const std::vector<std::size_t> order = ranked(run, by);
        ASSERT_EQ(order.size(), run.rows.size());
        const auto lost = [&](std::size_t i) {
            const SweepRow& r = run.rows[i];
            return by == RankBy::goodput ? std::round(1 / r.run_goodput * 1000) : by == RankBy::run_time ? r.run_s : r.run_cost_usd;
        };
        for (std::size_t k = 1; k < order.size(); ++k) EXPECT_LE(lost(order[k - 1]), lost(order[k])) << name(by);
    }
    const auto cheapest = static_cast<std::int64_t>(ranked(run, RankBy::run_cost).front());
    EXPECT_EQ(parsed.document->point(cheapest).values[1], "2") << "the lower price";
    const SweepRun again = run_sweep(*parsed.document, file);
    EXPECT_EQ(again.rows, run.rows) << "read back from the file";
    EXPECT_EQ(again.reused, 8);
    EXPECT_EQ(row_of(bytes_of(run.rows.front())), run.rows.front()) << "sent between ranks";
}

// The report says the same of a point as the sweep does.
TEST(SweepOfRuns, FiguresAreThoseOfTheReport) {
    const SweepResult parsed = parse_sweep(saves);
    ASSERT_TRUE(parsed.document);
    const SweepRow row = evaluate(parsed.document->point(3), 3, "");
    const ParseResult one = parse_scenario(parsed.document->point(3).json);
    ASSERT_TRUE(one.scenario) << to_text(one.problems);
    const WholeRunReport report = whole_run(*one.scenario, predict(*one.scenario));
    EXPECT_DOUBLE_EQ(row.run_goodput, report.goodput.p50);
    EXPECT_DOUBLE_EQ(row.run_s, report.wall_s.p50);
    EXPECT_NEAR(row.run_cost_usd, report.cost_usd, 1e-9 * report.cost_usd);
}

// A point whose saves find no room on its nodes is none to rank.
TEST(SweepOfRuns, SavesWithoutRoomAreTooBig) {
    const SweepResult parsed = parse_sweep(saves);
    ASSERT_TRUE(parsed.document);
    SweepPoint point = parsed.document->point(3);
    nlohmann::json scenario = nlohmann::json::parse(point.json);
    scenario["run"]["checkpoint"]["kind"] = "async";
    scenario["cluster"]["host"]["memory_gb"] = 0.001;
    point.json = scenario.dump();
    const SweepRow row = evaluate(point, 3, "");
    EXPECT_EQ(row.status, PointStatus::too_big) << row.reason;
    EXPECT_NE(row.reason.find("copies of saves need"), std::string::npos) << row.reason;
    EXPECT_LT(row.run_finished, 0);
}

// A file of before runs were simulated holds rows without their figures: they are computed, not taken as nothing.
TEST(SweepOfRuns, RowsThatLackARunAreComputedAgain) {
    const SweepResult parsed = parse_sweep(saves);
    ASSERT_TRUE(parsed.document);
    const std::string file = fresh_file("old.sqlite");
    const SweepRun run = run_sweep(*parsed.document, file);
    {
        SweepRow old = run.rows[2];
        old.run_finished = -1;
        old.run_goodput = old.run_s = old.run_tokens = old.run_cost_usd = 0;
        SweepStore(file).commit(std::vector<SweepRow>{old});
    }
    const SweepRun again = run_sweep(*parsed.document, file);
    EXPECT_EQ(again.reused, 7);
    EXPECT_EQ(again.rows, run.rows);
}

// A run that never ends has no figures, stands last, and says so.
TEST(SweepOfRuns, RunsWithoutAnEndStandLast) {
    std::string text = saves;
    text.replace(text.find(R"("sweep": )"), std::string::npos,
                 R"("sweep": {"/run/failures/per_node_day": [0.05, 200], "/run/checkpoint/every": [{"steps": 100000}]}})");
    const SweepResult parsed = parse_sweep(text);
    ASSERT_TRUE(parsed.document && parsed.problems.empty()) << to_text(parsed.problems);
    const SweepRun run = run_sweep(*parsed.document, fresh_file("endless.sqlite"));
    ASSERT_EQ(run.rows.size(), 2u);
    ASSERT_EQ(run.rows[1].status, PointStatus::fits) << run.rows[1].reason;
    EXPECT_LT(run.rows[1].run_finished, 1);
    EXPECT_EQ(run.rows[1].run_cost_usd, 0);
    EXPECT_EQ(ranked(run, RankBy::goodput).back(), 1u);
    EXPECT_EQ(ranked(run, RankBy::run_cost).back(), 1u);
}

// Where nothing fails all goodputs are 1, or as near as simulated runs can tell: the fastest of them leads.
TEST(SweepOfRuns, TheFastestOfAsGoodGoodputsLeads) {
    SweepRun run;
    for (const auto& [goodput, seconds] : {std::pair(1.0, 300.0), {0.9999, 200.0}, {0.95, 100.0}, {1.0, 250.0}}) {
        SweepRow& r = run.rows.emplace_back();
        r.status = PointStatus::fits;
        r.run_finished = 1, r.run_goodput = goodput, r.run_s = seconds, r.run_tokens = 1e9;
    }
    EXPECT_EQ(ranked(run, RankBy::goodput), (std::vector<std::size_t>{1, 3, 0, 2}));
}

} // namespace
} // namespace orrery

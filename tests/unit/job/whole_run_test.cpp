// From a scenario to the report of its whole run: sizes of saves, their best interval, what the text and the JSON say.
#include "sim/job/whole_run.hpp"
#include "sim/scenario/parse.hpp"
#include "topology/input_error.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <numeric>

namespace orrery {
namespace {

Scenario scenario(const std::vector<std::string>& fields) {
    ParseOptions options;
    options.overrides = fields;
    const ParseResult parsed =
        parse_scenario(R"({"name": "job", "model": {"layers": 4, "hidden_size": 1024, "attention_heads": 16, "vocab_size": 32000},
        "cluster": {"preset": "dgx-a100-80gb", "nodes": 8}, "training": {"global_batch_size": 256, "sequence_length": 1024},
        "strategy": {"framework": "megatron", "tensor_parallel": 8},
        "run": {"days": 40, "failures": {"per_node_day": 0.1}, "seeds": 10}})",
                       options);
    EXPECT_TRUE(parsed.scenario.has_value()) << to_text(parsed.problems);
    return *parsed.scenario;
}

// MLPerf Storage's checkpoints (mlcommons/storage): 105, 912 and 5,290 GiB of 8, 70 and 405 billion parameters, 14 bytes each.
TEST(WholeRun, SavesAreAsLargeAsMlperfs) {
    const Scenario s = scenario({});
    EXPECT_NEAR(state_bytes(s, 8.03e9) / 1073741824, 105, 0.02 * 105);
    EXPECT_NEAR(state_bytes(s, 70.6e9) / 1073741824, 912, 0.02 * 912);
    EXPECT_NEAR(state_bytes(s, 405.9e9) / 1073741824, 5290, 0.02 * 5290);
    EXPECT_EQ(state_bytes(scenario({"training.precision=fp32"}), 1), 12);
    EXPECT_EQ(state_bytes(scenario({"run.checkpoint.gb=7"}), 1), 7e9);
}

// BLOOM's: 2.3 TB in 40 s at 57.5 GB/s (bigscience chronicles).
TEST(WholeRun, ASaveIsItsBytesAtTheRateOfStorage) {
    const Scenario s =
        scenario({"run.checkpoint.kind=sync", "cluster.storage.write_gb_per_s=57.5", "cluster.storage.per_node_gb_per_s=20"});
    EXPECT_NEAR(save_cost(s, 2.3e12).block_s, 40, 1e-9);
    const Scenario client =
        scenario({"run.checkpoint.kind=sync", "cluster.storage.write_gb_per_s=57.5", "cluster.storage.per_node_gb_per_s=1"});
    EXPECT_NEAR(save_cost(client, 2.3e12).block_s, 2300 / 8.0, 1e-9) << "eight clients of 1 GB/s";
    const Scenario requests = scenario({"run.checkpoint.kind=sync", "cluster.storage.latency_us=1000",
                                        "cluster.storage.requests_per_node=1", "cluster.storage.write_gb_per_s=1000"});
    EXPECT_NEAR(save_cost(requests, 3.2e10).block_s, 1, 1e-9) << "4 MB in 1 ms from each of 8 nodes";
    const SaveCost async = save_cost(scenario({"cluster.storage.write_gb_per_s=1", "run.checkpoint.copy_gb_per_s=10"}), 6.4e11);
    EXPECT_NEAR(async.block_s, 1, 1e-9) << "each of 64 devices copies 10 GB";
    EXPECT_NEAR(async.write_s, 640, 1e-9);
}

TEST(WholeRun, ItsReportAddsUp) {
    const Scenario s = scenario({});
    const Prediction p = predict(s);
    const WholeRunReport r = whole_run(s, p, {2, {}});
    EXPECT_EQ(r.finished, 10);
    EXPECT_NEAR(r.productive_s + std::accumulate(r.lost_s.begin(), r.lost_s.end(), 0.0), r.mean_wall_s, 1e-6 * r.mean_wall_s);
    EXPECT_NEAR(r.mean_wall_s, 40 * 86400, 1e-3);
    EXPECT_NEAR(r.failures, 8 * 0.1 * 40, 8) << "32 in the mean";
    EXPECT_TRUE(r.save_auto);
    EXPECT_LE(r.goodput.p10, r.goodput.p50);
    EXPECT_LE(r.goodput.p50, r.goodput.p90);
    EXPECT_GT(r.goodput.p50, 0.5);
    EXPECT_FALSE(r.elastic.empty());
    const nlohmann::json j = nlohmann::json::parse(to_json(r));
    EXPECT_EQ(j["lost_s"].size(), lost_times);
    EXPECT_EQ(j["seeds"], 10);
    const std::string text = to_text(r, s);
    for (const char* word : {"goodput", "wasted progress", "Young", "Daly", "drop-replica", "device hours"})
        EXPECT_NE(text.find(word), std::string::npos) << word << "\n" << text;
    EXPECT_FALSE(nlohmann::json::parse(timeline_perfetto(r)).empty());
    EXPECT_NE(timeline_csv(r).find("restart"), std::string::npos);
    EXPECT_EQ(to_json(whole_run(s, p, {1, {}})), to_json(r)) << "the number of threads changes nothing";
}

// As good as the best, and the least that storage has to do; never while the last save is written.
TEST(WholeRun, AutoSavesAsSeldomAsItMay) {
    const std::vector<IntervalPoint> curve{{1, 0.9}, {10, 0.95}, {30, 0.9505}, {60, 0.9497}, {90, 0.9}, {600, 0.5}};
    EXPECT_EQ(best_interval(curve, 0, 1).steps, 60);
    EXPECT_EQ(best_interval(curve, 50, 1).steps, 60);
    EXPECT_EQ(best_interval(curve, 61, 1).steps, 90);
    EXPECT_EQ(best_interval(curve, 1e6, 1).steps, 600);
    TrainingJob job;
    job.run.checkpoint.kind = CheckpointKind::async;
    job.save.write_s = 5;
    EXPECT_EQ(least_interval_s(job, 0), 60);
    EXPECT_EQ(least_interval_s(job, 100), 10);
    job.save.write_s = 300;
    EXPECT_EQ(least_interval_s(job, 100), 300);
    job.run.checkpoint.kind = CheckpointKind::peer; // every 10th goes to storage, for 50 s
    job.save.write_s = 2;
    job.save.storage_s = 50;
    EXPECT_EQ(least_interval_s(job, 1000), 5);
    const Scenario s = scenario({"run.failures.per_node_day=0.004"});
    const WholeRunReport r = whole_run(s, predict(s), {2, {}});
    EXPECT_GE(static_cast<double>(r.save_every) * r.step_s, r.least_s * (1 - 1e-9));
    EXPECT_GE(r.least_s, 60);
}

TEST(WholeRun, StatesAreSimulatedByTheStepModel) {
    const Scenario s = scenario({"model.hidden_size=4096", "training.sequence_length=4096",
                                 "run.slow_node={\"per_node_day\": 0.1, \"factor\": 2}", "run.elastic=drop-replica"});
    const Prediction p = predict(s);
    const auto pace = paces(s, p);
    MachineState slow;
    slow.slow_node = true;
    EXPECT_GT(pace(slow).step_s, 1.5 * p.report.step_time_s);
    MachineState less;
    less.replicas_lost = 4; // of 8: twice the sequences for each that is left
    EXPECT_NEAR(pace(less).step_s / p.report.step_time_s, 2, 0.3);
    EXPECT_EQ(pace(less).share, 1);
    EXPECT_EQ(replicas_per_node(s), 1);
    EXPECT_EQ(replicas_per_node(scenario({"strategy.tensor_parallel=2"})), 4);
}

TEST(WholeRun, WhatCannotBeCountedIsRefused) {
    const Scenario s = scenario({"run.days=36500", "run.failures.per_node_day=1000", "run.seeds=100000"});
    const Prediction p = predict(s);
    try {
        (void)whole_run(s, p, {1, {}});
        FAIL() << "it was simulated";
    } catch (const InputError& e) { EXPECT_NE(std::string(e.what()).find("fewer run.seeds"), std::string::npos) << e.what(); }
}

} // namespace
} // namespace orrery

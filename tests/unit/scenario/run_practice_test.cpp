// Defaults of "run" from elsewhere: does the nearer source win, and is each named?
#include "sim/scenario/parse.hpp"
#include "sim/scenario/run_practice.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <unistd.h>

namespace orrery {
namespace {

ParseResult parsed_practice(const std::string& run, const std::string& more_of_cluster = "",
                            const std::vector<std::string>& overrides = {}) {
    ParseOptions options;
    options.overrides = overrides;
    return parse_scenario(R"({"model": {"layers": 2, "hidden_size": 64, "attention_heads": 4, "vocab_size": 256},
        "cluster": {"preset": "dgx-h100", "nodes": 4)" +
                              more_of_cluster + R"(}, "training": {"global_batch_size": 32, "sequence_length": 32}, "strategy": {})" +
                              (run.empty() ? "" : ", \"run\": " + run) + "}",
                          options);
}
Scenario scenario(const std::string& run, const std::string& more_of_cluster = "") {
    const ParseResult r = parsed_practice(run, more_of_cluster);
    EXPECT_TRUE(r.scenario.has_value()) << to_text(r.problems);
    return *r.scenario;
}

TEST(RunPractice, EachSetsItsRowsAndNamesTheirSources) {
    for (const RunDefault& row : run_defaults()) {
        const Scenario s = scenario(R"({"days": 1, "practice": ")" + std::string(name(row.practice)) + "\"}");
        std::string pointer = "/" + std::string(row.field);
        std::ranges::replace(pointer, '.', '/');
        ASSERT_TRUE(s.defaults.contains(pointer)) << pointer;
        EXPECT_EQ(s.defaults.at(pointer), std::string(row.value) + ": " + row.source);
        EXPECT_FALSE(std::string(row.source).empty());
    }
    const Scenario torch = scenario(R"({"days": 1, "practice": "torchelastic"})"),
                   ray = scenario(R"({"days": 1, "practice": "ray-train"})");
    EXPECT_EQ(torch.run->elastic, Elasticity::shrink_batch);
    EXPECT_EQ(torch.run->detect.hang, 600);
    EXPECT_EQ(torch.run->spares.nodes, 0);
    EXPECT_EQ(ray.run->detect.hang, 1800);
    EXPECT_EQ(ray.run->spares.nodes, -1);
    EXPECT_FALSE(ray.run->spares.warm);
    EXPECT_EQ(scenario(R"({"days": 1, "practice": "usual"})").run->detect.hang, WholeRun{}.detect.hang);
}

TEST(RunPractice, WhatTheRunStatesStands) {
    const Scenario s = scenario(R"({"days": 1, "practice": "torchelastic", "elastic": "none", "detect_s": {"hang": 7},
        "checkpoint": {"every": {"steps": 5}}})");
    EXPECT_EQ(s.run->elastic, Elasticity::none);
    EXPECT_EQ(s.run->detect.hang, 7);
    EXPECT_EQ(s.run->detect.crash, 15) << "of the practice: its section was opened";
    EXPECT_EQ(s.run->checkpoint.kind, CheckpointKind::sync);
    EXPECT_FALSE(s.defaults.contains("/run/detect_s/hang"));
}

TEST(RunPractice, AClustersOwnFiguresComeBehindThePractices) {
    const std::string own =
        R"(, "run": {"restart": {"init_s": 3}, "detect_s": {"crash": 0.5, "hang": 2}, "checkpoint": {"kind": "local"}})";
    const std::string host = own + R"(, "host": {"nvme_gb_per_s": 5})";
    const Scenario plain = scenario(R"({"days": 1})", host), torch = scenario(R"({"days": 1, "practice": "torchelastic"})", host);
    EXPECT_EQ(plain.run->restart.init_s, 3);
    EXPECT_EQ(plain.run->detect.crash, 0.5);
    EXPECT_EQ(plain.run->checkpoint.kind, CheckpointKind::local);
    EXPECT_EQ(plain.defaults.at("/run/restart/init_s"), "3: the cluster's own (cluster.run)");
    EXPECT_EQ(torch.run->restart.init_s, 3) << "no practice says otherwise";
    EXPECT_EQ(torch.run->detect.hang, 600);
    EXPECT_EQ(scenario(R"({"days": 1, "restart": {"init_s": 4}})", host).run->restart.init_s, 4);
    EXPECT_FALSE(scenario("", host).run.has_value()) << "a cluster's figures are no run";
}

TEST(RunPractice, ProblemsOfAClustersRunAreItsOwn) {
    for (const auto& [run, word] : {std::pair{R"({"steps": 3})", "/cluster/run/steps"},
                                    {R"({"restart": {"init": 3}})", "init_s"},
                                    {R"({"detect_s": {"crash": -1}})", "/cluster/run/detect_s/crash"},
                                    {R"([])", "must be an object"}}) {
        const ParseResult r = parsed_practice("", std::string(", \"run\": ") + run);
        EXPECT_FALSE(r.scenario.has_value()) << run;
        EXPECT_NE(to_text(r.problems).find(word), std::string::npos) << to_text(r.problems);
    }
}

// A file, and fields in the place of its own: what --set cluster.nodes=8 makes of "cluster": "own.json".
TEST(RunPractice, AFieldOfAClusterFileCanBeSet) {
    const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / ("orrery_cluster_" + std::to_string(getpid()));
    std::filesystem::create_directories(folder);
    std::ofstream(folder / "own.json") << R"({"preset": "dgx-h100", "nodes": 2, "run": {"restart": {"init_s": 9}}})";
    std::ofstream(folder / "twice.json") << R"({"preset": "own.json", "nodes": 2})";
    ParseOptions options;
    options.base_dir = folder.string();
    options.overrides = {"cluster.nodes=8"};
    const auto of = [&](const std::string& file) {
        return parse_scenario(R"({"model": "llama3-8b", "cluster": ")" + file +
                                  R"(", "training": {"global_batch_size": 64, "sequence_length": 32}, "strategy": {}, "run": {"days": 1}})",
                              options);
    };
    const ParseResult r = of("own.json"), twice = of("twice.json");
    std::filesystem::remove_all(folder);
    ASSERT_TRUE(r.scenario.has_value()) << to_text(r.problems);
    EXPECT_EQ(r.scenario->cluster.nodes, 8);
    EXPECT_EQ(r.scenario->run->restart.init_s, 9);
    EXPECT_FALSE(twice.scenario.has_value());
    EXPECT_NE(to_text(twice.problems).find("its preset is a file too"), std::string::npos) << to_text(twice.problems);
}

} // namespace
} // namespace orrery

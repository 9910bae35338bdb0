// Are the fields of a whole run read, checked against each other, and named where they do nothing?
#include "sim/scenario/parse.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <unistd.h>

namespace orrery {
namespace {

ParseResult parsed(const std::string& run, std::vector<std::string> overrides = {}, const std::string& dir = "") {
    ParseOptions options;
    options.base_dir = dir;
    options.overrides = std::move(overrides);
    return parse_scenario(
        R"({"model": {"layers": 2, "hidden_size": 256, "attention_heads": 8, "vocab_size": 1024}, "cluster": {"preset": "dgx-h100", "nodes": 2},
        "training": {"global_batch_size": 64, "sequence_length": 128}, "run": )" +
            run + "}",
        options);
}

bool says(const ParseResult& result, const std::string& where, const std::string& what) {
    return std::any_of(result.problems.begin(), result.problems.end(),
                       [&](const Problem& p) { return p.where == where && p.what.find(what) != std::string::npos; });
}

TEST(WholeRunFields, AreRead) {
    const ParseResult r =
        parsed(R"({"tokens": 1e12, "failures": {"per_node_day": 0.01, "by": {"gpu": 3, "hang": 1}, "distribution": "weibull",
        "shape": 0.7}, "checkpoint": {"every": {"seconds": 1800}, "kind": "tiers"}, "elastic": "drop-replica", "seeds": 7})",
               {"cluster.storage.write_gb_per_s=100"});
    ASSERT_TRUE(r.scenario) << to_text(r.problems);
    const WholeRun& run = *r.scenario->run;
    EXPECT_EQ(run.tokens, 1e12);
    EXPECT_EQ(run.failures.by[FailingPart::gpu], 3);
    EXPECT_EQ(run.failures.by[FailingPart::hbm], 0) << "weights that are given replace all others";
    EXPECT_EQ(run.failures.shape, 0.7);
    EXPECT_EQ(run.checkpoint.every_seconds, 1800);
    EXPECT_EQ(run.checkpoint.kind, CheckpointKind::tiers);
    EXPECT_EQ(run.elastic, Elasticity::drop_replica);
    EXPECT_EQ(run.seeds, 7);
    EXPECT_EQ(r.scenario->cluster.storage.write.gigabytes(), 100);
    EXPECT_FALSE(parsed("{\"days\": 1}").scenario->training.data.has_value());
}

TEST(WholeRunFields, RulesBetweenThem) {
    EXPECT_TRUE(says(parsed("{}"), "/run", "one of \"steps\", \"tokens\" and \"days\""));
    EXPECT_TRUE(says(parsed(R"({"steps": 10, "days": 3})"), "/run", "keep one"));
    EXPECT_TRUE(says(parsed(R"({"tokens": 1e17})"), "/run/tokens", "at most 8192000000000000"));
    EXPECT_TRUE(says(parsed(R"({"days": 3, "failures": {"distribution": "trace"}})"), "/run/failures/distribution", "run.failures.file"));
    EXPECT_TRUE(says(parsed(R"({"days": 3, "failures": {"racks": {"per_day": 1}}})"), "/run/failures/racks/nodes", "how many nodes"));
    EXPECT_TRUE(says(parsed(R"({"days": 3, "failures": {"by": {"gpu": 0}}})"), "/run/failures/by", "no weight"));
    EXPECT_TRUE(says(parsed(R"({"days": 3, "repair": {"days": [1,1,1,1,1,1,1,1,1], "mean_days": 0.5}})"), "/run/repair/mean_days",
                     "at least 0.95"));
    EXPECT_TRUE(
        says(parsed(R"({"days": 3, "checkpoint": {"kind": "peer", "replicas": 2}})"), "/run/checkpoint/replicas", "more than 2 nodes"));
    EXPECT_TRUE(says(parsed(R"({"days": 3, "checkpoint": {"every": {"steps": 0}}})"), "/run/checkpoint/every", "whole number"));
    EXPECT_TRUE(says(parsed(R"({"days": 3})", {"training.convergence={\"min_samples\": 100}"}), "/training/convergence", "needs two"));
    const ParseResult target = parsed(R"({"days": 3})", {"training.convergence={\"min_samples\": 100, \"min_steps\": 4}"});
    ASSERT_TRUE(target.scenario) << to_text(target.problems);
    EXPECT_EQ(target.scenario->training.convergence->critical_batch_size, 25);
}

TEST(WholeRunFields, OfNoEffectAreNamed) {
    const auto notes = [](const std::string& run) {
        std::string all;
        const ParseResult result = parsed(run);
        for (const std::string& note : result.scenario.value().notes) all += note + "\n";
        return all;
    };
    EXPECT_NE(notes(R"({"days": 1, "failures": {"shape": 2}})").find("run.failures.shape has no effect"), std::string::npos);
    EXPECT_NE(notes(R"({"days": 1, "checkpoint": {"replicas": 1}})").find("run.checkpoint.replicas has no effect"), std::string::npos);
    EXPECT_NE(notes(R"({"days": 1, "slow_node": {"factor": 1.2}})").find("run.slow_node has no effect"), std::string::npos);
    EXPECT_EQ(notes(R"({"days": 1, "failures": {"distribution": "weibull", "shape": 2}})").find("failures.shape"), std::string::npos);
    struct Case {
        const char *run, *idle, *at_work;
    };
    for (const Case& c : {Case{R"({"days": 1, "failures": {"distribution": "weibull", "bursts": {"size": 3}}})", "run.failures.bursts",
                               R"({"days": 1, "failures": {"bursts": {"size": 3}}})"},
                          {R"({"days": 1, "failures": {"bursts": {"hours": 3}}})", "run.failures.bursts.hours",
                           R"({"days": 1, "failures": {"bursts": {"size": 2, "hours": 3}}})"},
                          {R"({"days": 1, "failures": {"lemons": {"share": 0.1}}})", "run.failures.lemons.share",
                           R"({"days": 1, "failures": {"lemons": {"share": 0.1, "factor": 3}}})"},
                          {R"({"days": 1, "failures": {"lemons": {"factor": 4}}})", "run.failures.lemons.factor",
                           R"({"days": 1, "failures": {"lemons": {"share": 0.1, "factor": 3}}})"},
                          {R"({"days": 1, "failures": {"planned_s": 60}})", "run.failures.planned_s",
                           R"({"days": 1, "failures": {"planned_s": 60, "planned_per_day": 1}})"},
                          {R"({"days": 1, "failures": {"by": {"gpu": 1}}, "detect_s": {"hang": 60}})", "run.detect_s.hang",
                           R"({"days": 1, "detect_s": {"hang": 60}})"},
                          {R"({"days": 1, "failures": {"by": {"gpu": 1}}, "detect_s": {"sdc": 60}})", "run.detect_s.sdc",
                           R"({"days": 1, "detect_s": {"sdc": 60}})"},
                          {R"({"days": 1, "failures": {"by": {"gpu": 1}}, "checkpoint": {"keep": 2}})", "run.checkpoint.keep",
                           R"({"days": 1, "checkpoint": {"keep": 2}})"},
                          {R"({"days": 1, "detect_s": {"slow": 60}})", "run.detect_s.slow",
                           R"({"days": 1, "detect_s": {"slow": 60}, "slow_link": {"per_node_day": 1, "factor": 2}})"},
                          {R"({"days": 1, "evaluation": {"seconds": 60}})", "run.evaluation.seconds",
                           R"({"days": 1, "evaluation": {"seconds": 60, "every_steps": 9}})"},
                          {R"({"days": 1, "evaluation": {"every_steps": 9}})", "run.evaluation.every_steps",
                           R"({"days": 1, "evaluation": {"seconds": 60, "every_steps": 9}})"}}) {
        const std::string note = std::string(c.idle) + " has no effect";
        EXPECT_NE(notes(c.run).find(note), std::string::npos) << c.run << "\n" << notes(c.run);
        EXPECT_EQ(notes(c.at_work).find(note), std::string::npos) << c.at_work << "\n" << notes(c.at_work);
    }
    // These fields act only on the options that the run is compared with, which start cold spares and regroup survivors.
    for (const auto& [run, field] : {std::pair{R"({"days": 1, "spares": {"cold_s": 300}})", "run.spares.cold_s"},
                                     {R"({"days": 1, "restart": {"regroup_s": 10}})", "run.restart.regroup_s"}}) {
        EXPECT_NE(notes(run).find(std::string(field) + " has no effect on this run, only on the options compared: "), std::string::npos)
            << notes(run);
        const ParseResult result = parsed(run, {"run.failures.per_node_day=0"});
        ASSERT_TRUE(result.scenario) << to_text(result.problems);
        EXPECT_TRUE(std::ranges::any_of(result.scenario->notes, [&](const std::string& n) {
            return n.starts_with(std::string(field) + " has no effect: ");
        })) << "nothing fails, and nothing is compared";
    }
    const auto of = [](const char* kind, const std::vector<std::string>& fields) {
        std::string all;
        const ParseResult result = parsed(R"({"days": 1, "checkpoint": {"kind": ")" + std::string(kind) + "\"}}", fields);
        EXPECT_TRUE(result.scenario) << to_text(result.problems);
        for (const std::string& note : result.scenario.value_or(Scenario{}).notes) all += note + "\n";
        return all;
    };
    const std::string read = "cluster.host.nvme_read_gb_per_s", write = "cluster.host.nvme_write_gb_per_s", no = " has no effect";
    const std::vector<std::string> both{read + "=3", write + "=2"}, all{read + "=3", write + "=2", "cluster.host.nvme_gb_per_s=1"};
    EXPECT_EQ(of("local", both).find("nvme"), std::string::npos) << of("local", both);
    EXPECT_EQ(of("tiers", both).find(write + no), std::string::npos);
    EXPECT_NE(of("tiers", both).find(read + no), std::string::npos) << "peers have copies";
    EXPECT_NE(of("async", both).find(write + no), std::string::npos) << "storage has them";
    EXPECT_NE(of("local", all).find("cluster.host.nvme_gb_per_s" + no), std::string::npos) << "both directions are said";
    EXPECT_NE(of("async", {"cluster.host.nvme_gb=1"}).find("cluster.host.nvme_gb" + no), std::string::npos);
    EXPECT_EQ(of("tiers", {"cluster.host.nvme_gb=1"}).find("cluster.host.nvme_gb" + no), std::string::npos);
    const std::string slow = R"({"days": 1, "slow_link": {"per_node_day": 1, "factor": 2}})";
    const ParseResult one = parsed(slow, {"cluster.nodes=1"});
    ASSERT_TRUE(one.scenario) << to_text(one.problems);
    EXPECT_TRUE(
        std::ranges::any_of(one.scenario->notes, [](const std::string& n) { return n.find("slow_link has no effect") < n.size(); }));
    EXPECT_EQ(notes(slow).find("slow_link"), std::string::npos);
}

TEST(WholeRunFields, ATraceIsAFile) {
    const std::filesystem::path dir = std::filesystem::path(testing::TempDir()) / ("orrery_trace_" + std::to_string(getpid()));
    std::filesystem::create_directories(dir);
    const auto with = [&](const std::string& text) {
        std::ofstream(dir / "faults.csv") << text;
        return parsed(R"({"days": 3, "failures": {"distribution": "trace", "file": "faults.csv"}})", {}, dir.string());
    };
    const ParseResult good = with("node,class,start_day,end_day\n1,\"GPU, x\",2.5,3\n0,NIC,0.5,0.75\n");
    ASSERT_TRUE(good.scenario) << to_text(good.problems);
    ASSERT_EQ(good.scenario->run->failures.trace.size(), 2u);
    EXPECT_EQ(good.scenario->run->failures.trace[0].node, 0) << "in the order of time";
    EXPECT_EQ(good.scenario->run->failures.trace[1].end_s, 3 * 86400);
    const ParseResult marked = with("\xef\xbb\xbfnode, start_day, end_day\r\n1, 0.5, 1\r\n");
    ASSERT_TRUE(marked.scenario) << to_text(marked.problems);
    EXPECT_EQ(marked.scenario->run->failures.trace[0].begin_s, 43200);
    EXPECT_TRUE(says(with("node,start_day,end_day\n1,0,0\n"), "/run/failures/file", "covers no time"));
    EXPECT_TRUE(says(with("node,begin\n"), "/run/failures/file", "column names"));
    EXPECT_TRUE(says(with("node,start_day,end_day\n1,3,2\n"), "/run/failures/file", "line 2 must have 0 <= start_day"));
    EXPECT_TRUE(says(with("node,start_day,end_day\n1,1e400,2\n"), "/run/failures/file", "no number"));
    EXPECT_TRUE(says(with("node,start_day,end_day\n"), "/run/failures/file", "no failure"));
    std::filesystem::remove_all(dir);
}

} // namespace
} // namespace orrery

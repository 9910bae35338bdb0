// A run that re-plans itself on fewer nodes: by a search that looks at little, repeats itself, and beats what is near at hand.
#include "sim/job/whole_run.hpp"
#include "sim/report/report.hpp"
#include "sim/search/replan.hpp"
#include "sim/sweep/sweep.hpp"

#include <gtest/gtest.h>

namespace orrery {
namespace {

constexpr const char* eight_nodes = R"({"name": "eight nodes", "model": "llama3-8b", "cluster": {"preset": "dgx-h100", "nodes": 8},
    "training": {"global_batch_size": 128, "micro_batch_size": 1, "sequence_length": 4096, "precision": "bf16"},
    "strategy": {"framework": "megatron", "tensor_parallel": 4, "sequence_parallel": true, "pipeline_parallel": 4, "zero_stage": 1},
    "run": {"days": 30, "seeds": 4, "elastic": "replan", "spares": {"nodes": 0}, "failures": {"per_node_day": 0.05}}})";

Scenario parsed(const std::string& json) {
    ParseResult r = parse_scenario(json);
    EXPECT_TRUE(r.scenario && r.problems.empty()) << to_text(r.problems);
    return std::move(*r.scenario);
}

TEST(Replan, FindsAFasterStrategyThanTheNearestLayout) {
    const Scenario s = parsed(eight_nodes);
    const Prediction p = predict(s);
    const Replan replan = replan_by_search(eight_nodes, {}, 2);
    const std::optional<Replanned> found = replan(s, 7);
    ASSERT_TRUE(found);
    EXPECT_LE(found->nodes, 7);
    EXPECT_GT(found->step_s, 0);
    EXPECT_LE(found->simulated, 24);
    EXPECT_GE(found->legal, found->simulated);
    MachineState lacks;
    lacks.replicas_lost = replicas_per_node(s);
    const Pace near = paces(s, p)(lacks), searched = paces(s, p, replan)(lacks);
    EXPECT_EQ(searched.share, 1) << "the batch is kept";
    EXPECT_LE(searched.step_s, near.step_s);
    EXPECT_DOUBLE_EQ(searched.step_s, std::min(near.step_s, found->step_s));
    EXPECT_LT(searched.step_s, near.step_s) << "of this job other degrees are faster on seven nodes";
}

TEST(Replan, IsTheSameWithAnyNumberOfThreads) {
    const Scenario s = parsed(eight_nodes);
    for (const int nodes : {7, 5, 1}) {
        const auto one = replan_by_search(eight_nodes, {}, 1)(s, nodes), three = replan_by_search(eight_nodes, {}, 3)(s, nodes);
        ASSERT_EQ(one.has_value(), three.has_value());
        if (!one) continue;
        EXPECT_EQ(one->step_s, three->step_s);
        EXPECT_EQ(one->strategy, three->strategy);
        EXPECT_EQ(one->simulated, three->simulated);
    }
}

// Fewer nodes are never faster, as far as both are proven.
TEST(Replan, TakesLongerOnFewerNodes) {
    const Scenario s = parsed(eight_nodes);
    const Replan replan = replan_by_search(eight_nodes, {}, 2);
    double before = 0;
    for (const int nodes : {8, 6, 4, 2}) {
        const auto found = replan(s, nodes);
        ASSERT_TRUE(found) << nodes;
        EXPECT_GE(found->step_s, before) << nodes;
        before = found->step_s;
    }
}

TEST(Replan, StandsInTheReportBesideTheOtherOptions) {
    const Scenario s = parsed(eight_nodes);
    const Prediction p = predict(s);
    const WholeRunReport r = whole_run(s, p, {2, replan_by_search(eight_nodes, {}, 2)});
    ASSERT_TRUE(r.replanned);
    const auto row = std::ranges::find(r.elastic, Elasticity::replan, &ElasticOption::kind);
    ASSERT_NE(row, r.elastic.end());
    EXPECT_LE(row->pace.step_s, r.replanned->step_s);
    const auto none = std::ranges::find(r.elastic, Elasticity::none, &ElasticOption::kind);
    EXPECT_GT(row->goodput, none->goodput) << "without spares, waiting for repairs loses more";
    const std::string text = to_text(r, s);
    EXPECT_NE(text.find("re-planned"), std::string::npos);
    EXPECT_NE(text.find("by search"), std::string::npos) << text;
}

// A sweep re-plans as the report does.
TEST(Replan, IsTheSameInASweep) {
    const Scenario s = parsed(eight_nodes);
    const SweepRow row = evaluate({"one", {}, eight_nodes, std::nullopt}, 0, "", nullptr,
                                  [](const std::string& json) { return replan_by_search(json, {}, 1); });
    ASSERT_EQ(row.status, PointStatus::fits) << row.reason;
    const WholeRunReport r = whole_run(s, predict(s), {2, replan_by_search(eight_nodes, {}, 2)});
    EXPECT_DOUBLE_EQ(row.run_goodput, r.goodput.p50);
}

} // namespace
} // namespace orrery

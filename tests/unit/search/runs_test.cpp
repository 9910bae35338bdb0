// Searches by figures of a whole run: the best of all points, by a bound that holds, or an answer that says that none does.
#include "sim/search/print.hpp"
#include "sim/search/search.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace orrery {
namespace {

std::string small_run(const char* run) {
    return std::string(R"({"model": {"name": "small", "layers": 4, "hidden_size": 1024, "attention_heads": 16, "kv_heads": 4,
    "vocab_size": 32000, "activation": "swiglu", "norm": "rmsnorm", "position": "rope", "bias": false, "tied_embeddings": false},
    "cluster": {"preset": "dgx-h100", "nodes": 2}, "training": {"global_batch_size": 32, "sequence_length": 2048, "precision": "bf16"},
    "strategy": {"framework": "megatron", "context_parallel": 1, "rank_order": "tp-cp-ep-dp-pp", "shard_group_size": 0})") +
           run + "}";
}

constexpr const char* run_of_tokens = R"(, "run": {"tokens": 2e11, "seeds": 5, "failures": {"per_node_day": 0.2}})";
constexpr const char* few_runs = R"({"/strategy/schedule": ["none", "1f1b"], "/strategy/recompute": ["none", "full"],
    "/training/micro_batch_size": [1, 2], "/strategy/tensor_parallel": [1, 2, 8], "/strategy/zero_stage": [1]})";

SearchResult search_by(const std::string& json, SearchBy by, bool exhaustive) {
    SearchOptions options;
    options.space.space = few_runs;
    options.by = by;
    options.ties = 0;
    options.refine = false;
    options.exhaustive = exhaustive;
    return search(json, options);
}

TEST(SearchOfRuns, FindsWhatExhaustiveSearchFinds) {
    for (const SearchBy by : {SearchBy::run_time, SearchBy::run_cost, SearchBy::goodput}) {
        const SearchResult found = search_by(small_run(run_of_tokens), by, false), all = search_by(small_run(run_of_tokens), by, true);
        ASSERT_FALSE(found.points.empty()) << to_text(found.problems);
        ASSERT_FALSE(all.points.empty());
        EXPECT_TRUE(found.proven) << unit(by);
        EXPECT_DOUBLE_EQ(found.points.front().score, all.points.front().score) << unit(by);
        EXPECT_EQ(all.counts.failed, 0);
        if (by != SearchBy::goodput) { EXPECT_LT(found.counts.simulated, all.counts.simulated) << unit(by); }
        for (const SearchPoint& p : found.points) {
            EXPECT_LE(p.bound, p.score * (1 + 1e-9)) << unit(by) << " of " << p.row.label;
            EXPECT_EQ(p.row.run_finished, 1);
        }
    }
}

// Goodputs are compared to a thousandth, and told as they are.
TEST(SearchOfRuns, TellGoodputsUnrounded) {
    SearchOptions options;
    options.space.space = few_runs;
    options.by = SearchBy::goodput;
    options.refine = false;
    const SearchResult r = search(small_run(run_of_tokens), options);
    ASSERT_FALSE(r.points.empty()) << to_text(r.problems);
    const auto best = nlohmann::json::parse(to_json(r, options))["best"];
    ASSERT_GT(best.size(), 1u);
    for (const auto& one : best) EXPECT_DOUBLE_EQ(one["score"].get<double>() * one["run"]["goodput"].get<double>(), 1);
    for (std::size_t i = 1; i < r.points.size(); ++i) {
        const SearchPoint &before = r.points[i - 1], &p = r.points[i];
        EXPECT_LE(1 / before.row.run_goodput, 1 / p.row.run_goodput + 0.001);
        EXPECT_TRUE(before.score < p.score || before.row.step_time_s <= p.row.step_time_s) << "the fastest of those as good leads";
    }
    EXPECT_NE(to_text(r, options, {}).find("Goodputs are compared"), std::string::npos) << to_text(r, options, {});
}

// A run whose re-planned steps may be faster than those it was planned with has no bound: the answer says so.
TEST(SearchOfRuns, SaysWhereNothingIsProven) {
    const std::string json =
        small_run(R"(, "run": {"tokens": 2e11, "seeds": 2, "elastic": "drop-replica", "failures": {"per_node_day": 0.2}})");
    SearchOptions options;
    options.space.space = few_runs;
    options.by = SearchBy::run_cost;
    options.ties = 0;
    const SearchResult r = search(json, options);
    ASSERT_FALSE(r.points.empty()) << to_text(r.problems);
    ASSERT_GT(r.counts.by_time_bound + r.counts.left, 0) << "else it is proven by having seen all";
    EXPECT_FALSE(r.proven);
    const std::string text = to_text(r, options, {});
    EXPECT_NE(text.find("Not proven"), std::string::npos) << text;
    EXPECT_NE(text.find("run.elastic"), std::string::npos) << text;
}

TEST(SearchOfRuns, AskForARun) {
    const SearchResult r = search_by(small_run(""), SearchBy::goodput, false);
    ASSERT_EQ(r.problems.size(), 1u);
    EXPECT_EQ(r.problems.front().where, "/run");
}

// The target of training.convergence decides between batches: a small one needs fewer samples, a large one fewer steps.
std::string aimed(const char* convergence = R"(, "convergence": {"min_samples": 1e6, "critical_batch_size": 60})") {
    std::string json = small_run("");
    const std::string precision = R"("precision": "bf16")";
    json.insert(json.find(precision) + precision.size(), convergence);
    return json;
}
constexpr const char* batches = R"({"/training/global_batch_size": [16, 64, 256], "/strategy/schedule": ["none", "1f1b"],
    "/strategy/recompute": ["none"], "/training/micro_batch_size": [1, 2], "/strategy/tensor_parallel": [1, 2, 8],
    "/strategy/zero_stage": [1]})";

SearchResult search_target(SearchBy by, bool exhaustive, double within_days = 0, const std::string& json = aimed()) {
    SearchOptions options;
    options.space.space = batches;
    options.by = by;
    options.ties = 0;
    options.refine = false;
    options.exhaustive = exhaustive;
    options.within_days = within_days;
    return search(json, options);
}

std::int64_t batch_of(const SearchPoint& p) { return nlohmann::json::parse(p.json)["training"]["global_batch_size"].get<std::int64_t>(); }

TEST(SearchOfTargets, FindsWhatExhaustiveSearchFinds) {
    for (const SearchBy by : {SearchBy::target_time, SearchBy::target_cost}) {
        const SearchResult found = search_target(by, false), all = search_target(by, true);
        ASSERT_FALSE(found.points.empty()) << to_text(found.problems);
        EXPECT_TRUE(found.proven) << unit(by);
        EXPECT_DOUBLE_EQ(found.points.front().score, all.points.front().score) << unit(by);
        EXPECT_LT(found.counts.simulated, all.counts.simulated) << unit(by);
        for (const SearchPoint& p : all.points) {
            EXPECT_LE(p.bound, p.score * (1 + 1e-9)) << unit(by) << " of " << p.row.label;
            const double samples = 1e6 * (1 + static_cast<double>(batch_of(p)) / 60);
            EXPECT_NEAR(p.row.time_to_target_s, samples / static_cast<double>(batch_of(p)) * p.row.step_time_s,
                        1e-9 * p.row.time_to_target_s);
        }
    }
}

// A deadline is the target's where the run has no length of its own.
TEST(SearchOfTargets, EndInTime) {
    const SearchResult cheapest = search_target(SearchBy::target_time, false);
    ASSERT_FALSE(cheapest.points.empty());
    const double days = cheapest.points.front().row.time_to_target_s / 86400;
    for (const SearchBy by : {SearchBy::target_cost, SearchBy::memory}) {
        const SearchResult in_time = search_target(by, false, 1.2 * days);
        ASSERT_FALSE(in_time.points.empty());
        for (const SearchPoint& p : in_time.points) EXPECT_LE(p.row.time_to_target_s, 1.2 * days * 86400);
        EXPECT_GT(in_time.counts.by_deadline + in_time.counts.too_late, 0);
    }
    const SearchResult never = search_target(SearchBy::target_cost, false, 0.5 * days);
    EXPECT_TRUE(never.points.empty());
    ASSERT_TRUE(never.nearest_late);
    EXPECT_DOUBLE_EQ(never.nearest_late->row.time_to_target_s, cheapest.points.front().row.time_to_target_s);
    EXPECT_NE(no_answer(never).find("reaches its target in time"), std::string::npos) << no_answer(never);
}

TEST(SearchOfTargets, AskForATarget) {
    const SearchResult r = search_target(SearchBy::target_cost, false, 0, small_run(""));
    ASSERT_EQ(r.problems.size(), 1u) << to_text(r.problems);
    EXPECT_EQ(r.problems.front().where, "/training/convergence");
}

// A search by step time tells what becomes of those that it names.
TEST(SearchOfRuns, NamedPointsHaveTheirRun) {
    const SearchResult r = search_by(small_run(run_of_tokens), SearchBy::time, false);
    ASSERT_FALSE(r.points.empty());
    EXPECT_EQ(r.points.front().row.run_finished, 1);
    EXPECT_GT(r.points.front().row.run_cost_usd, 0);
}

} // namespace
} // namespace orrery

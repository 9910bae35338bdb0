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
constexpr const char* few = R"({"/strategy/schedule": ["none", "1f1b"], "/strategy/recompute": ["none", "full"],
    "/training/micro_batch_size": [1, 2], "/strategy/tensor_parallel": [1, 2, 8], "/strategy/zero_stage": [1]})";

SearchResult search_by(const std::string& json, SearchBy by, bool exhaustive) {
    SearchOptions options;
    options.space.space = few;
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

// A run whose re-planned steps may be faster than those it was planned with has no bound: the answer says so.
TEST(SearchOfRuns, SaysWhereNothingIsProven) {
    const std::string json =
        small_run(R"(, "run": {"tokens": 2e11, "seeds": 2, "elastic": "drop-replica", "failures": {"per_node_day": 0.2}})");
    SearchOptions options;
    options.space.space = few;
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

// A search by step time tells what becomes of those that it names.
TEST(SearchOfRuns, NamedPointsHaveTheirRun) {
    const SearchResult r = search_by(small_run(run_of_tokens), SearchBy::time, false);
    ASSERT_FALSE(r.points.empty());
    EXPECT_EQ(r.points.front().row.run_finished, 1);
    EXPECT_GT(r.points.front().row.run_cost_usd, 0);
}

} // namespace
} // namespace orrery

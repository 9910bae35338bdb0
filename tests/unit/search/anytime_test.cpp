// A search may be stopped anywhere: what it has found is an answer, its counts add up, and what it says of the rest holds.
#include "tests/unit/search/jobs.hpp"

#include "sim/report/reuse.hpp"
#include "sim/search/search.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <atomic>
#include <filesystem>

namespace orrery {
namespace {

// More combinations of degrees than a small space has (lists.cpp), of few points each.
constexpr const char* large =
    R"({"model": {"name": "small-moe", "layers": 8, "hidden_size": 1024, "attention_heads": 16, "vocab_size": 32000,
    "activation": "swiglu", "norm": "rmsnorm", "position": "rope", "bias": false, "tied_embeddings": false,
    "moe": {"experts": 64, "top_k": 2, "expert_ffn_size": 512}}, "cluster": {"preset": "dgx-h100", "nodes": 8},
    "training": {"global_batch_size": 64, "sequence_length": 1024, "precision": "bf16"},
    "strategy": {"framework": "megatron", "sequence_parallel": true, "zero_stage": 1, "rank_order": "tp-cp-ep-dp-pp", "shard_group_size": 0,
    "recompute": "none", "overlap": {"grad_reduce": true, "param_gather": true, "tensor_parallel": true, "pipeline": true,
    "expert_parallel": false}}, "runtime": {"token_dispatcher": "alltoall"}})";
constexpr const char* few_points =
    R"({"/strategy/schedule": ["none", "1f1b"], "/strategy/virtual_pipeline": [1], "/training/micro_batch_size": [1]})";

SearchOptions plainly(const char* space) {
    SearchOptions options;
    options.space.space = space;
    options.refine = false;
    return options;
}

std::int64_t counted(const SearchCounts& c) {
    return c.simulated + c.by_memory_bound + c.by_memory + c.by_time_bound + c.by_deadline + c.too_late + c.failed + c.left;
}

TEST(AnytimeSearch, CountsAndBoundsHoldWhereverItIsStopped) {
    SearchOptions options = plainly(R"({"/strategy/schedule": ["none", "1f1b"], "/strategy/recompute": ["none", "full"],
        "/training/micro_batch_size": [1, 2]})");
    options.space.jobs = 1;
    const double best = search(dense, options).points.front().score;
    std::atomic<std::int64_t> asked = 0;
    std::int64_t most = 0;
    int stopped = 0;
    options.space.go_on = [&] { return ++asked < most; };
    for (bool proven = false; !proven && most < 10'000'000; most = most * 3 / 2 + 8) {
        asked = 0;
        const SearchResult r = search(dense, options);
        EXPECT_EQ(counted(r.counts), r.counts.legal) << most;
        proven = r.proven;
        stopped += !proven;
        if (r.points.empty()) continue;
        EXPECT_GE(r.points.front().score, best) << most;
        EXPECT_LE(r.points.front().score * (1 - r.gap()), best * (1 + 1e-9)) << most;
    }
    EXPECT_GT(stopped, 3);
}

// Stopped soon after the first point was simulated, which is while the space is listed.
TEST(AnytimeSearch, ALargeOneHasAnAnswerBeforeItIsListed) {
    SearchOptions options = plainly(few_points);
    options.space.jobs = 1;
    std::atomic<bool> simulated = false;
    std::atomic<int> asked = 0;
    options.elsewhere = [&](const std::vector<std::vector<std::string>>& groups) {
        std::vector<std::vector<SweepRow>> rows;
        ReadyPlans kept{1, false};
        for (const std::vector<std::string>& group : groups) {
            rows.emplace_back();
            for (const std::string& json : group) rows.back().push_back(evaluate_text(json, options, kept));
        }
        simulated = true;
        return rows;
    };
    options.space.go_on = [&] { return !simulated || ++asked < 100; };
    const SearchResult r = search(large, options);
    EXPECT_FALSE(r.whole);
    EXPECT_FALSE(r.proven);
    ASSERT_FALSE(r.points.empty()) << no_answer(r);
    EXPECT_EQ(counted(r.counts), r.counts.legal);
    EXPECT_GT(r.counts.left, 0);
    EXPECT_EQ(r.gap(), 1) << "nothing is known of the rest";
    const std::string text = one_line(r, options);
    EXPECT_NE(text.find("as far as they were listed"), std::string::npos) << text;
}

// Points that were simulated before the space was listed are counted once, and all parts of the space, and a search that goes on, come to
// the same best.
TEST(AnytimeSearch, ALargeOneIsProvenAsOthersAre) {
    const auto file = std::filesystem::temp_directory_path() / fmt::format("orrery-anytime-{}.sqlite", ::getpid());
    SearchOptions options = plainly(few_points);
    options.database = file.string();
    const SearchResult r = search(large, options);
    ASSERT_TRUE(r.proven) << no_answer(r);
    EXPECT_EQ(counted(r.counts), r.counts.legal);
    EXPECT_EQ(r.counts.left, 0);
    EXPECT_EQ(r.counts.reused, 0);
    for (std::size_t i = 1; i < r.points.size(); ++i) EXPECT_NE(r.points[i].json, r.points[i - 1].json) << "each once";
    const SearchResult again = search(large, options);
    EXPECT_EQ(to_csv(again, options), to_csv(r, options));
    EXPECT_EQ(again.counts.reused, r.counts.simulated + r.counts.by_memory + r.counts.failed) << "nothing is simulated again";
    options.database.clear();
    double best = r.points.front().score * 2;
    std::int64_t legal = 0;
    for (int part = 1; part <= 2; ++part) {
        options.shard = {part, 2};
        const SearchResult p = search(large, options);
        ASSERT_TRUE(p.proven);
        EXPECT_EQ(counted(p.counts), p.counts.legal);
        legal += p.counts.legal;
        best = std::min(best, p.points.front().score);
    }
    EXPECT_EQ(legal, r.counts.legal);
    EXPECT_DOUBLE_EQ(best, r.points.front().score);
    std::filesystem::remove(file);
}

// `simrun sbatch` asks what is legal, and nothing else.
TEST(AnytimeSearch, OneThatMayNotBeginListsItsSpace) {
    SearchOptions options = plainly(R"({"/training/micro_batch_size": [1]})");
    options.go_on = [] { return false; };
    const SearchResult r = search(dense, options);
    EXPECT_TRUE(r.whole);
    EXPECT_GT(r.counts.legal, 0);
    EXPECT_EQ(r.counts.left, r.counts.legal);
    EXPECT_EQ(r.counts.simulated + r.counts.by_memory, 0);
}

} // namespace
} // namespace orrery

// The best of a search is the best of all, on spaces small enough to simulate every point; and it does not depend on threads.
#include "tests/unit/search/jobs.hpp"

#include "sim/cost/own_constants.hpp"
#include "sim/search/branches.hpp"
#include "sim/search/choose.hpp"
#include "sim/search/hints.hpp"
#include "sim/search/print.hpp"
#include "sim/search/refine.hpp"
#include "sim/search/search.hpp"
#include "sim/sweep/merge.hpp"
#include "sim/sweep/store.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

namespace orrery {
namespace {

SearchOptions with_space(const char* space) {
    SearchOptions options;
    options.space.space = space;
    return options;
}

constexpr const char* few =
    R"({"/strategy/schedule": ["none", "1f1b", "interleaved-1f1b", "zb-h1"], "/strategy/recompute": ["none", "full"],
    "/training/micro_batch_size": [1, 2]})";

// --calibration counts in a search too.
TEST(Variations, CarryAUsersConstants) {
    ParseOptions options;
    options.constants = std::make_shared<OwnConstants>();
    const Variations all(R"({"model": "gpt2-124m", "cluster": {"preset": "dgx-a100-80gb"},
        "training": {"global_batch_size": 8, "micro_batch_size": 1, "sequence_length": 1024}, "strategy": {"framework": "ddp"}})",
                         options);
    EXPECT_TRUE(all.problems().empty());
    Variation one(all);
    const Scenario* s = one.with({});
    ASSERT_NE(s, nullptr);
    EXPECT_EQ(s->constants, options.constants);
}

// A variation has nothing of the one before: what a search says of a point does not depend on which thread came to it.
TEST(Variations, LeaveNothingBehind) {
    Variations all(R"({"model": "gpt2-124m", "cluster": {"preset": "dgx-a100-80gb"},
        "training": {"global_batch_size": 8, "micro_batch_size": 1, "sequence_length": 1024}, "strategy": {"framework": "megatron"}})",
                   {});
    const std::vector<std::pair<const char*, const char*>> settings{{"/strategy/rank_order", "\"tp-cp-ep-pp-dp\""},
                                                                    {"/strategy/pipeline_parallel", "2"},
                                                                    {"/strategy/layer_split", "[5, 7]"},
                                                                    {"/strategy/recompute", "\"full\""},
                                                                    {"/training/micro_batch_size", "2"}};
    std::vector<int> ids;
    for (const auto& [pointer, value] : settings) ids.push_back(all.add(pointer, value));
    Variation one(all);
    ASSERT_NE(one.with(ids), nullptr) << to_text(one.problems());
    Variation fresh(all);
    const Scenario *after = one.with({}), *first = fresh.with({});
    ASSERT_TRUE(after && first) << to_text(one.problems());
    EXPECT_EQ(after->strategy, first->strategy);
    EXPECT_EQ(after->training, first->training);
}

// Where defaults are not told, the same is resolved; fields inside of a value are forgotten with it.
TEST(Variations, ResolveTheSameWithoutToldDefaults) {
    Variations all(R"({"model": "gpt2-124m", "cluster": {"preset": "dgx-a100-80gb"},
        "training": {"global_batch_size": 8, "micro_batch_size": 1, "sequence_length": 1024}, "strategy": {"framework": "deepspeed"}})",
                   {});
    const std::vector<std::pair<const char*, const char*>> settings{{"/training/gradient_dtype", "\"fp32\""},
                                                                    {"/strategy/overlap", R"({"grad_reduce": true})"},
                                                                    {"/strategy/pipeline_parallel", "2"},
                                                                    {"/strategy/zero_stage", "1"}};
    std::vector<int> ids;
    for (const auto& [pointer, value] : settings) ids.push_back(all.add(pointer, value));
    Variation telling(all), silent(all, false);
    const std::vector<std::vector<int>> sets{ids, {}, {ids[1]}, {ids[2], ids[3]}, {ids[0]}, {ids[3]}};
    for (const std::vector<int>& some : sets) {
        const Scenario *told = telling.with(some), *untold = silent.with(some);
        ASSERT_TRUE(told && untold) << to_text(telling.problems()) << to_text(silent.problems());
        EXPECT_EQ(told->strategy, untold->strategy);
        EXPECT_EQ(told->training, untold->training);
        EXPECT_EQ(told->runtime, untold->runtime);
    }
}

TEST(Search, FindsWhatExhaustiveSearchFinds) {
    for (const SearchBy by : {SearchBy::time, SearchBy::memory}) {
        SearchOptions options = with_space(few);
        options.by = by;
        options.ties = 0;
        const SearchResult found = search(dense, options);
        options.exhaustive = true;
        const SearchResult all = search(dense, options);
        ASSERT_FALSE(found.points.empty());
        ASSERT_FALSE(all.points.empty());
        EXPECT_TRUE(found.proven);
        EXPECT_EQ(found.counts.legal, all.counts.legal);
        EXPECT_EQ(all.counts.simulated + all.counts.by_memory + all.counts.failed, all.counts.legal);
        EXPECT_EQ(all.counts.failed, 0);
        EXPECT_DOUBLE_EQ(found.points.front().score, all.points.front().score);
        EXPECT_LT(found.counts.simulated, all.counts.simulated);
        const SearchCounts& c = found.counts;
        EXPECT_EQ(c.simulated + c.by_memory_bound + c.by_memory + c.by_time_bound + c.failed, c.legal);
    }
}

// A stage may lie on faster nodes than the first: bounds are of the fastest kind of node.
TEST(Search, FindsWhatExhaustiveSearchFindsOnUnlikeNodes) {
    constexpr const char* stages = R"({"/strategy/pipeline_parallel": [2, 4], "/strategy/schedule": ["1f1b", "zb-h1"],
        "/strategy/recompute": ["none", "full"], "/training/micro_batch_size": [1, 2]})";
    for (const char* cluster : {R"("preset": "dgx-a100-80gb", "nodes": 2, "others": [{"nodes": 1, "device": "h100-sxm-80gb"}])",
                                R"("preset": "dgx-h100", "nodes": 2, "others": [{"nodes": 1, "device": "a100-sxm-80gb"}])"}) {
        const std::string job = std::regex_replace(std::string(dense), std::regex(R"("preset": "dgx-h100", "nodes": 1)"), cluster);
        ASSERT_NE(job, dense);
        SearchOptions options = with_space(stages);
        options.refine = false;
        options.ties = 0;
        const SearchResult found = search(job, options);
        options.exhaustive = true;
        const SearchResult all = search(job, options);
        ASSERT_TRUE(found.problems.empty()) << to_text(found.problems);
        ASSERT_FALSE(found.points.empty());
        EXPECT_TRUE(found.proven);
        EXPECT_DOUBLE_EQ(found.points.front().score, all.points.front().score);
        EXPECT_LT(found.counts.simulated, all.counts.simulated);
    }
}

// Where the fastest is tight, the one that leads is the one that would lead if all points were known.
TEST(Search, TheRoomierLeaderIsThatOfExhaustiveSearch) {
    int tight = 0, roomier = 0;
    const double most = static_cast<double>(search(dense, with_space(few)).points.front().row.peak_bytes) / (1 << 20);
    for (const double filled : {1.3, 1.15, 1.06, 1.02, 0.999, 0.98, 0.95, 0.92}) {
        const int mib = static_cast<int>(most / filled);
        const std::string job =
            std::regex_replace(std::string(dense), std::regex(R"("preset": "dgx-h100")"),
                               fmt::format(R"("preset": "dgx-h100", "device": {{"preset": "h100-sxm-80gb", "memory_mib": {}}})", mib));
        SearchOptions options = with_space(few);
        options.refine = false;
        const SearchResult found = search(job, options);
        options.exhaustive = true;
        const SearchResult all = search(job, options);
        ASSERT_EQ(found.points.empty(), all.points.empty()) << mib;
        if (found.points.empty() || fits_surely(found.points.front().row)) continue;
        ++tight;
        EXPECT_TRUE(found.proven && found.roomier_sought) << mib;
        const SearchPoint &lead = found.points[leader(found.points)], &of_all = all.points[leader(all.points)];
        EXPECT_DOUBLE_EQ(lead.score, of_all.score) << mib << ": " << lead.row.label << " or " << of_all.row.label;
        roomier += leader(found.points) != 0;
        const SearchCounts& c = found.counts;
        EXPECT_EQ(c.simulated + c.by_memory_bound + c.by_memory + c.by_time_bound + c.failed, c.legal) << mib;
    }
    EXPECT_GE(tight, 2);
    EXPECT_GE(roomier, 1);
}

TEST(Search, DoesNotDependOnThreads) {
    SearchOptions options = with_space(few);
    options.space.jobs = 1;
    const std::string one = to_json(search(dense, options), options);
    options.space.jobs = 3;
    EXPECT_EQ(one, to_json(search(dense, options), options));
}

TEST(Search, SaysWhyNothingIsLegal) {
    SearchOptions options = with_space(R"({"/strategy/tensor_parallel": [8], "/strategy/pipeline_parallel": [4]})");
    const SearchResult r = search(dense, options);
    EXPECT_EQ(r.counts.legal, 0);
    EXPECT_NE(no_answer(r).find("tensor_parallel"), std::string::npos) << no_answer(r);
}

// Of blocks that are joined (one microbatch's expert exchange under another's kernels) memory is bounded too, so that few plans are made
// only to find that they do not fit.
TEST(Search, BoundsTheMemoryOfJoinedBlocks) {
    const std::string json =
        R"({"model": {"name": "small-moe", "layers": 8, "hidden_size": 1024, "attention_heads": 16, "vocab_size": 32000,
        "moe": {"experts": 8, "top_k": 2, "expert_ffn_size": 2048}}, "cluster": {"preset": "dgx-h100", "nodes": 1,
        "device": {"preset": "h100-sxm-80gb", "memory_gb": 16}}, "training": {"global_batch_size": 256, "sequence_length": 4096},
        "strategy": {"framework": "megatron", "tensor_parallel": 1, "pipeline_parallel": 1, "context_parallel": 1, "expert_parallel": 8,
        "zero_stage": 1, "recompute": "none", "overlap": {"expert_parallel": true, "grad_reduce": true, "param_gather": true}},
        "runtime": {"token_dispatcher": "alltoall"}})";
    SearchOptions options;
    options.refine = false;
    const SearchResult r = search(json, options);
    ASSERT_FALSE(r.points.empty()) << no_answer(r);
    EXPECT_GT(r.counts.by_memory_bound, r.counts.by_memory) << "large microbatches";
}

TEST(Search, NamesTheNearestMiss) {
    nlohmann::json j = nlohmann::json::parse(dense);
    j["model"]["hidden_size"] = 16384;
    j["model"]["attention_heads"] = 128;
    j["model"]["layers"] = 64;
    j["strategy"]["pipeline_parallel"] = 1;
    SearchOptions options = with_space(R"({"/training/micro_batch_size": [1], "/strategy/recompute": ["full"]})");
    const SearchResult r = search(j.dump(), options);
    EXPECT_TRUE(r.points.empty());
    ASSERT_TRUE(r.nearest_miss.has_value());
    EXPECT_GT(r.nearest_miss->row.peak_bytes, r.nearest_miss->row.capacity_bytes);
    EXPECT_NE(no_answer(r).find("lacks"), std::string::npos);
}

// One device: 8 billion parameters, so 128 GB of states, several sub-groups of 1e9 parameters (fewer are on the host at a time).
std::string one_device(double device_gb, double host_gb, double nvme_gb) {
    nlohmann::json j = nlohmann::json::parse(dense);
    j["model"] = "llama3-8b";
    j["cluster"] = nlohmann::json::parse(R"({"device": {"preset": "rtx-4090"}, "nodes": 1, "devices_per_node": 1,
        "host": {"memory_gb_per_s": 80, "pcie_gb_per_s": 32, "nvme_read_gb_per_s": 7, "nvme_write_gb_per_s": 6}})");
    j["cluster"]["device"]["memory_gb"] = device_gb;
    j["cluster"]["host"]["memory_gb"] = host_gb;
    j["cluster"]["host"]["nvme_gb"] = nvme_gb;
    j["strategy"] = {{"framework", "deepspeed"}};
    return j.dump();
}

TEST(Search, LooksAsFarForHomesAsItMust) {
    SearchOptions options;
    const struct {
        double device_gb, host_gb;
        Reach reach;
        const char *says, *where;
    } cases[] = {{250, 64, Reach::devices, "Proven", "\"framework\""},
                 {24, 256, Reach::host, "so that some are on the host", "\"optimizer\":\"cpu\""},
                 {24, 64, Reach::disk, "so that some are on NVMe", "\"optimizer\":\"nvme\""}};
    double before = 0;
    for (const auto& c : cases) {
        const SearchResult r = search(one_device(c.device_gb, c.host_gb, 2000), options);
        ASSERT_FALSE(r.points.empty()) << no_answer(r);
        EXPECT_TRUE(r.proven);
        EXPECT_EQ(r.reach, c.reach);
        EXPECT_EQ(r.nearer_miss.has_value(), c.reach > Reach::devices);
        EXPECT_NE(r.points.front().json.find(c.where), std::string::npos) << r.points.front().json;
        const std::string text = one_line(r, options);
        EXPECT_NE(text.find(c.says), std::string::npos) << text;
        EXPECT_GT(r.points.front().score, before) << "farther is slower";
        before = r.points.front().score;
    }
    // As far as is asked for.
    options.reach = Reach::host;
    const SearchResult near = search(one_device(24, 64, 2000), options);
    EXPECT_TRUE(near.points.empty());
    EXPECT_NE(no_answer(near).find("on the host too"), std::string::npos) << no_answer(near);
    EXPECT_EQ(no_answer(near).find("NVMe too"), std::string::npos) << no_answer(near);
    // No room anywhere: what is nearest lacks it on the node.
    const SearchResult none = search(one_device(24, 64, 1), {});
    EXPECT_TRUE(none.points.empty());
    EXPECT_NE(no_answer(none).find("on NVMe too; the nearest found lacks"), std::string::npos) << no_answer(none);
}

TEST(Search, LeavesHomesAloneThatAreSaidOrThatTheFrameworkLacks) {
    const std::string job = one_device(24, 256, 2000);
    EXPECT_TRUE(search(job, with_space(R"({"/strategy/offload/optimizer": ["none"]})")).points.empty());
    nlohmann::json other = nlohmann::json::parse(job);
    other["strategy"]["framework"] = "ddp";
    const SearchResult r = search(other.dump(), {});
    EXPECT_TRUE(r.points.empty());
    EXPECT_EQ(r.reach, Reach::devices) << "it has no homes but the device";
    EXPECT_TRUE(r.nearest_miss.has_value());
}

// All homes at once: the same answer as exhaustive search, with fewer points simulated.
TEST(Search, FindsTheBestHomeAsExhaustiveSearchDoes) {
    SearchOptions options = with_space(R"({"/strategy/recompute": ["none", "full"]})");
    options.space.farthest = Reach::disk;
    options.ties = 0;
    options.refine = false;
    for (const double device_gb : {24.0, 250.0})
        for (const SearchBy by : {SearchBy::time, SearchBy::memory}) {
            options.by = by;
            options.exhaustive = false;
            const std::string job = one_device(device_gb, 140, 2000);
            const SearchResult found = search(job, options);
            options.exhaustive = true;
            const SearchResult all = search(job, options);
            ASSERT_FALSE(found.points.empty());
            ASSERT_FALSE(all.points.empty());
            EXPECT_TRUE(found.proven);
            EXPECT_GT(all.counts.legal, 100);
            EXPECT_EQ(all.counts.failed, 0);
            EXPECT_EQ(found.counts.legal, all.counts.legal);
            EXPECT_DOUBLE_EQ(found.points.front().score, all.points.front().score);
            EXPECT_LT(found.counts.simulated + found.counts.by_memory, all.counts.legal);
        }
}

TEST(Search, CompressesGradientsOnlyWhereThatIsAllowed) {
    nlohmann::json j = nlohmann::json::parse(dense);
    j["cluster"] = nlohmann::json::parse(R"({"preset": "dgx-h100", "nodes": 2, "inter_node": {"kind": "ethernet", "gbit_per_s": 10,
        "nics_per_node": 1}})");
    j["training"]["global_batch_size"] = 16;
    j["strategy"] = {{"framework", "ddp"}, {"recompute", "none"}};
    SearchOptions options;
    options.refine = false;
    const SearchResult plain = search(j.dump(), options);
    options.space.compression = true;
    const SearchResult allowed = search(j.dump(), options);
    ASSERT_FALSE(plain.points.empty());
    ASSERT_FALSE(allowed.points.empty());
    EXPECT_EQ(plain.points.front().json.find("gradient_compression"), std::string::npos);
    EXPECT_NE(allowed.points.front().json.find("gradient_compression"), std::string::npos);
    EXPECT_LT(allowed.points.front().score, plain.points.front().score);
    EXPECT_GT(allowed.counts.legal, plain.counts.legal);
}

TEST(Search, RefusesASpaceOfUnknownFields) {
    SearchOptions options = with_space(R"({"/strategy/tensor_paralel": [8], "/strategy/zero_stage": []})");
    EXPECT_EQ(search(dense, options).problems.size(), 2u);
}

SearchPoint point(double seconds, std::int64_t peak, const char* kind) {
    SearchPoint p;
    p.score = p.row.step_time_s = seconds;
    p.row.status = PointStatus::fits;
    p.row.peak_bytes = peak, p.row.capacity_bytes = 100;
    p.row.memory_error_bar = 0.1, p.row.step_time_error_bar = 0.05;
    p.kind = kind;
    return p;
}

TEST(Choosing, OneThatFitsSurelyLeadsWithinTheInterval) {
    EXPECT_EQ(leader({point(1, 95, "a"), point(1.04, 80, "b")}), 1u) << "the fastest may not fit";
    EXPECT_EQ(leader({point(1, 95, "a"), point(1.2, 80, "b")}), 0u) << "nothing within the interval fits surely";
    EXPECT_EQ(leader({point(1, 80, "a"), point(1.0005, 50, "b"), point(1.02, 20, "c")}), 1u) << "as good: most memory to spare";
    EXPECT_EQ(leader({point(1, 80, "a"), point(1.01, 50, "b")}), 0u) << "faster by more than a rounding";
    EXPECT_EQ(leader({point(1, 95, "a"), point(1.0005, 93, "b")}), 1u) << "neither fits surely";
    EXPECT_EQ(leader({point(1, 95, "a"), point(1.0005, 93, "b"), point(1.01, 89, "c")}), 2u) << "a tenth to spare is enough";
}

// The margin that fitting surely takes is the one that validated runs show: of those that did not fit, few were planned to leave more.
TEST(Choosing, TheMarginIsWhatValidatedRunsShow) {
    std::ifstream file(std::string(ORRERY_SOURCE_DIR) + "/VALIDATION.md");
    int ran_below = 0, failed_below = 0, ran_within = 0, failed_within = 0;
    for (std::string line; std::getline(file, line);) {
        int from = 0, to = 0, ran = 0, failed = 0;
        if (std::sscanf(line.c_str(), "| %d to %d %% | %d | %d |", &from, &to, &ran, &failed) != 4 || to > 100) continue;
        (to <= 90 ? ran_below : ran_within) += ran;
        (to <= 90 ? failed_below : failed_within) += failed;
    }
    ASSERT_GT(ran_below, 500) << "the table \"Does it fit?\" was not found";
    EXPECT_LT(failed_below, 0.005 * ran_below);
    EXPECT_GT(failed_within, 0.015 * ran_within);
}

TEST(Choosing, OthersDifferInKindAndTheFrontierIsNotBeaten) {
    const std::vector<SearchPoint> points{point(1, 80, "a"), point(1.1, 80, "a"), point(1.2, 60, "b")};
    EXPECT_EQ(different(points, 0, 5), (std::vector<std::size_t>{0, 2}));
    EXPECT_EQ(frontier(points), (std::vector<std::size_t>{0, 2}));
}

// A gap saves simulations, and no point that was left out is better by more than it says.
TEST(Search, EndsWithinAGap) {
    SearchOptions options = with_space(few);
    options.batch = 4; // a proof takes several
    options.refine = false;
    const SearchResult whole = search(dense, options);
    std::int64_t before = whole.counts.simulated;
    bool ended_early = false;
    for (const double gap : {0.03, 0.1, 0.3}) {
        options.gap = gap;
        const SearchResult near = search(dense, options);
        ASSERT_FALSE(near.points.empty());
        ASSERT_TRUE(near.proven || near.near_enough);
        EXPECT_LE(near.gap(), gap);
        EXPECT_GE(whole.points.front().score, near.points.front().score * (1 - near.gap()) * (1 - 1e-12));
        EXPECT_LE(near.counts.simulated, before);
        EXPECT_EQ(near.counts.left, 0);
        before = near.counts.simulated;
        ended_early = ended_early || near.near_enough;
        EXPECT_EQ(to_text(near, options, {}).find("Proven within") != std::string::npos, near.near_enough);
    }
    EXPECT_TRUE(ended_early);
    EXPECT_LT(before, whole.counts.simulated);
}

TEST(Search, AStoppedOneSaysHowFarOffItCanBe) {
    std::atomic<std::int64_t> looked_at = 0;
    SearchOptions options = with_space(few);
    options.batch = 4; // a proof takes several
    options.space.jobs = 1;
    options.refine = false;
    const SearchResult whole = search(dense, options);
    ASSERT_TRUE(whole.proven);
    EXPECT_EQ(whole.gap(), 0);
    double before = 1;
    bool stopped_early = false;
    for (const int batches : {1, 3, 6}) {
        looked_at = 0;
        options.progress = [&](const SearchProgress& p) { looked_at = p.simulated + p.too_big; };
        options.space.go_on = [&] { return looked_at < batches * static_cast<std::int64_t>(options.batch); };
        const SearchResult r = search(dense, options);
        ASSERT_FALSE(r.points.empty());
        if (r.proven) continue;
        stopped_early = true;
        EXPECT_GT(r.gap(), 0);
        EXPECT_LE(r.gap(), before) << "it shrinks";
        EXPECT_LE(r.points.front().score * (1 - r.gap()), whole.points.front().score * (1 + 1e-9)) << "the best is not better than that";
        before = r.gap();
    }
    EXPECT_TRUE(stopped_early);
}

// Steps of unlike batches are compared by the token: else the smallest would win. Answers say which batch is theirs.
TEST(Search, ComparesUnlikeBatchesByTheToken) {
    SearchOptions options = with_space(R"({"/training/global_batch_size": [8, 32], "/strategy/schedule": ["none", "1f1b"],
        "/strategy/recompute": ["none"], "/training/micro_batch_size": [1, 2]})");
    options.refine = false;
    for (const SearchBy by : {SearchBy::time, SearchBy::cost}) {
        options.by = by;
        options.exhaustive = false;
        const SearchResult found = search(dense, options);
        options.exhaustive = true;
        const SearchResult all = search(dense, options);
        ASSERT_FALSE(found.points.empty());
        EXPECT_DOUBLE_EQ(found.points.front().score, all.points.front().score);
        double fastest = 0;
        for (const SearchPoint& p : all.points) fastest = std::max(fastest, p.row.tokens_per_s);
        EXPECT_DOUBLE_EQ(found.points.front().row.tokens_per_s, fastest);
        EXPECT_NE(found.points.front().row.label.find("32 sequences of 2048 a step"), std::string::npos) << found.points.front().row.label;
    }
}

// The answer says what a trillion tokens and the whole run take, as the report of its scenario does.
TEST(Search, SaysWhatTheWholeJobTakes) {
    nlohmann::json j = nlohmann::json::parse(dense);
    j["run"] = {{"tokens", 3e11}};
    SearchOptions options = with_space(few);
    options.refine = false;
    const SearchResult r = search(j.dump(), options);
    ASSERT_FALSE(r.points.empty());
    const SearchPoint& first = r.points[leader(r.points)];
    const Report report = predict(parse_scenario(first.json).scenario.value()).report;
    const std::string text = to_text(r, options, {});
    EXPECT_NE(text.find("A trillion tokens by the first: " + to_text(at_this_pace(report, 1e12))), std::string::npos) << text;
    EXPECT_NE(text.find("the run, without losses: " + to_text(at_this_pace(report, 3e11))), std::string::npos) << text;
    const auto json = nlohmann::json::parse(to_json(r, options))["best"][0];
    EXPECT_NEAR(json["run_at_this_pace"]["days"].get<double>(), at_this_pace(report, 3e11).seconds / 86400, 1e-9);
    EXPECT_NEAR(json["per_trillion_tokens"]["cost_usd"].get<double>(), at_this_pace(report, 1e12).cost_usd, 1e-6);
    const auto edge = nlohmann::json::parse(to_json(r, options))["frontier"];
    ASSERT_GT(edge.size(), 1u);
    for (const auto& point : edge) EXPECT_TRUE(point.contains("run") && point.contains("limits")) << point.dump(1);
    options.by = SearchBy::memory;
    EXPECT_EQ(to_text(search(j.dump(), options), options, {}).find("of the simulated time"), std::string::npos)
        << "its bounds are of memory";
}

// A search that was stopped says of how many points it knows that they do not fit, not that none does.
TEST(Search, AStoppedOneDoesNotSpeakOfPointsItDidNotSee) {
    nlohmann::json j = nlohmann::json::parse(dense);
    j["model"]["hidden_size"] = 8192;
    j["model"]["layers"] = 64;
    SearchOptions options;
    options.batch = 1;
    std::atomic<std::int64_t> looked_at = 0;
    options.progress = [&](const SearchProgress& p) { looked_at = p.simulated + p.too_big; };
    options.space.go_on = [&] { return looked_at < 1; };
    const SearchResult r = search(j.dump(), options);
    ASSERT_TRUE(r.points.empty());
    ASSERT_GT(r.counts.left, 0);
    ASSERT_TRUE(r.nearest_miss);
    EXPECT_NE(no_answer(r).find("before it was stopped"), std::string::npos) << no_answer(r);
    EXPECT_EQ(no_answer(r).find("none of " + fmt::format("{}", r.counts.legal)), std::string::npos) << no_answer(r);
}

TEST(Search, RefinesTheLeaderByMovingLayersAndRecomputingFewer) {
    // The head of a large vocabulary takes as long as some layers: its stage wants fewer.
    const std::string json = R"({"model": {"name": "small", "layers": 16, "hidden_size": 4096, "attention_heads": 32, "vocab_size": 128000,
        "activation": "swiglu", "norm": "rmsnorm", "position": "rope", "bias": false, "tied_embeddings": false},
        "cluster": {"preset": "dgx-h100", "nodes": 1}, "training": {"global_batch_size": 32, "micro_batch_size": 1, "sequence_length": 4096,
        "precision": "bf16"}, "strategy": {"framework": "megatron", "tensor_parallel": 2, "pipeline_parallel": 4, "context_parallel": 1,
        "schedule": "1f1b", "virtual_pipeline": 1, "zero_stage": 1, "rank_order": "tp-cp-ep-dp-pp"}})";
    SearchOptions options;
    const SearchResult r = search(json, options);
    ASSERT_FALSE(r.points.empty());
    ASSERT_FALSE(r.refined.empty()) << "the last stage has the head";
    const SearchPoint& lead = r.points[leader(r.points)];
    double before = lead.score;
    for (auto p = r.refined.rbegin(); p != r.refined.rend(); ++p) { // best first
        EXPECT_LT(p->score, before);
        before = p->score;
    }
    EXPECT_LT(r.refined.front().score, 0.97 * lead.score);
    EXPECT_NE(r.refined.front().json.find("layer_split"), std::string::npos);
    EXPECT_NE(to_text(r, options, {}).find("Refined"), std::string::npos);
    options.refine = false;
    EXPECT_TRUE(search(json, options).refined.empty());
}

// 14 layers on pipelines of 3, 6 or 12: the usual splits put strategies in the wrong order, so that the best of each kind is refined. None
// of these kinds alone is answered with a better strategy than all of them together.
TEST(Search, MoreFreedomIsNotWorseWhereStagesDoNotDivideTheLayers) {
    const std::string json = R"({"model": {"name": "small", "layers": 14, "hidden_size": 4096, "attention_heads": 32, "kv_heads": 8,
        "vocab_size": 128000, "activation": "swiglu", "norm": "rmsnorm", "position": "rope", "bias": false, "tied_embeddings": false},
        "cluster": {"preset": "dgx-h100", "nodes": 3}, "training": {"global_batch_size": 17, "sequence_length": 4096, "precision": "bf16"},
        "strategy": {"framework": "megatron", "shard_group_size": 0, "rank_order": "tp-cp-ep-dp-pp", "sequence_parallel": false}})";
    const SearchOptions options = with_space(R"({"/strategy/schedule": ["none", "1f1b"], "/strategy/recompute": ["none"],
        "/training/micro_batch_size": [1], "/strategy/zero_stage": [1]})");
    const auto best = [](const SearchResult& r) { return r.refined.empty() ? r.points.front().score : r.refined.front().score; };
    const SearchResult all = search(json, options);
    ASSERT_FALSE(all.points.empty());
    ASSERT_GT(all.counts.refined, 1);
    const std::vector<std::size_t> kinds = different(all.points, leader(all.points), static_cast<std::size_t>(options.top));
    EXPECT_GE(kinds.size(), 3u);
    for (const std::size_t i : kinds) {
        nlohmann::json one = nlohmann::json::parse(json);
        const nlohmann::json found = nlohmann::json::parse(all.points[i].json)["strategy"];
        for (const char* degree : {"tensor_parallel", "pipeline_parallel", "context_parallel"})
            one["strategy"][degree] = found.value(degree, 1);
        EXPECT_LE(best(all), best(search(one.dump(), options)) * (1 + 1e-9)) << all.points[i].kind;
    }
    const std::string text = one_line(all, options);
    EXPECT_NE(text.find("no other strategy was tried with another split of its layers"), std::string::npos) << text;
}

// A refinement leaves no less of a step than the estimate says.
TEST(Refine, LeavesNoLessThanItsEstimate) {
    const std::string json = R"({"model": {"name": "small", "layers": 14, "hidden_size": 4096, "attention_heads": 32, "vocab_size": 128000,
        "tied_embeddings": false}, "cluster": {"preset": "dgx-h100", "nodes": 1}, "training": {"global_batch_size": 16,
        "micro_batch_size": 1, "sequence_length": 4096, "precision": "bf16"}, "strategy": {"framework": "megatron", "tensor_parallel": 2,
        "pipeline_parallel": 4, "schedule": "1f1b", "virtual_pipeline": 1, "zero_stage": 1}})";
    for (const char* recompute : {"none", "full"}) {
        nlohmann::json j = nlohmann::json::parse(json);
        j["strategy"]["recompute"] = recompute;
        SearchOptions options = with_space(R"({"/strategy/context_parallel": [1]})");
        const SearchResult r = search(j.dump(), options);
        ASSERT_FALSE(r.points.empty());
        ASSERT_FALSE(r.refined.empty());
        const SearchPoint& lead = r.points[leader(r.points)];
        const Scenario s = parse_scenario(lead.json).scenario.value();
        EXPECT_LT(least_share(s, lead.row, {true, true}) * lead.score, r.refined.front().score);
        EXPECT_EQ(least_share(s, lead.row, {false, false}), 1);
    }
    // By hand: of 8 microbatches on 4 stages a balanced pipeline is idle for 3 of 11 parts of its step, and no split makes it faster.
    Scenario s = parse_scenario(json).scenario.value();
    s.training.global_batch_size = 8;
    SweepRow row;
    row.bubble_fraction = 3.0 / 11;
    EXPECT_DOUBLE_EQ(least_share(s, row, {true, false}), 1);
    row.bubble_fraction = 0.5;
    EXPECT_DOUBLE_EQ(least_share(s, row, {true, false}), 0.5 * 11 / 8);
    s.perturb.push_back({Perturbation::Kind::slow_rank, 1.5, 0, {}});
    EXPECT_EQ(least_share(s, row, {true, false}), 0) << "waits for a slow rank are no bubble, and a split may spare them";
}

TEST(Search, RefinesNoFieldThatTheScenarioStates) {
    const std::string json = R"({"model": {"name": "small", "layers": 8, "hidden_size": 1024, "attention_heads": 16, "vocab_size": 128000,
        "tied_embeddings": false}, "cluster": {"preset": "dgx-h100", "nodes": 1}, "training": {"global_batch_size": 16, "micro_batch_size": 1,
        "sequence_length": 1024, "precision": "bf16"}, "strategy": {"framework": "megatron", "tensor_parallel": 2, "pipeline_parallel": 4,
        "context_parallel": 1, "schedule": "1f1b", "virtual_pipeline": 1, "zero_stage": 1, "rank_order": "tp-cp-ep-dp-pp",
        "layer_split": [2, 2, 2, 2], "recompute": "full"}})";
    EXPECT_TRUE(search(json, {}).refined.empty());
}

constexpr const char* all_overlaps = "overlaps (as the framework has them, or all)";

// A proof holds for the fields that were varied: the answer names them.
TEST(Search, SaysWhatWasVaried) {
    SearchOptions options = with_space(few);
    options.refine = false;
    const SearchResult r = search(dense, options);
    const std::string text = one_line(r, options);
    for (const char* field : {"tensor_parallel", "pipeline_parallel", "micro_batch_size", "schedule", all_overlaps}) {
        EXPECT_NE(text.find(field), std::string::npos) << field << " in " << text;
        EXPECT_NE(std::ranges::find(r.free, field), r.free.end()) << field;
    }
    EXPECT_NE(text.find("Varied: "), std::string::npos) << text;
    for (const char* field : {"expert_parallel", "token_dispatcher", "context_parallel", "rank_order"}) // no experts; stated
        EXPECT_EQ(std::ranges::find(r.free, field), r.free.end()) << field;
}

// Of overlaps two or three combinations are tried, not all of the switches.
TEST(Search, SaysHowOverlapsWereVaried) {
    const auto overlaps = [](const char* stated, const char* space) {
        nlohmann::json j = nlohmann::json::parse(dense);
        j["strategy"]["overlap"] = nlohmann::json::parse(stated);
        std::string found;
        for (const std::string& field : make_space(j.dump(), with_space(space).space).free)
            if (field.find("overlap") != std::string::npos) found += (found.empty() ? "" : "; ") + field;
        return found;
    };
    constexpr const char* one = R"({"/strategy/tensor_parallel": [8]})";
    EXPECT_EQ(overlaps("{}", one), all_overlaps);
    EXPECT_EQ(overlaps(R"({"grad_reduce": true})", one), "the other overlaps (as the framework has them, or all)");
    EXPECT_EQ(overlaps(R"({"grad_reduce": true, "param_gather": true, "tensor_parallel": true, "pipeline": true})", one), "");
    EXPECT_EQ(overlaps("{}", R"({"/strategy/tensor_parallel": [8], "/strategy/overlap/grad_reduce": [true, false]})"),
              "the other overlaps (as the framework has them, or all); overlap.grad_reduce");
}

// Points in a database were predicted with the constants of its search: a search with other constants does not use them.
TEST(Search, ADatabaseKnowsTheConstants) {
    const auto file = std::filesystem::temp_directory_path() / ("orrery-search-constants-" + std::to_string(::getpid()) + ".sqlite");
    SearchOptions options = with_space(few);
    options.refine = false;
    options.database = file.string();
    const SearchResult builtin = search(dense, options);
    ASSERT_FALSE(builtin.points.empty());
    EXPECT_GT(search(dense, options).counts.reused, 0);
    const auto constants = std::make_shared<OwnConstants>();
    constants->add(R"({"device": "h100-sxm-80gb", "memory": {"fused": 0.4, "kernel_us": 3}})");
    SearchOptions own = options;
    own.space.parsing.constants = constants;
    EXPECT_EQ(search(dense, own).counts.reused, 0);
    EXPECT_GT(search(dense, own).counts.reused, 0);
    std::filesystem::remove(file);
}

// Printed points have the same intervals whether every point has one or not; a database says which have none.
TEST(Search, LeavesOutIntervalsThatItDoesNotPrint) {
    const auto file = std::filesystem::temp_directory_path() / ("orrery-search-intervals-" + std::to_string(::getpid()) + ".sqlite");
    SearchOptions options = with_space(few);
    const SearchResult all = search(dense, options);
    options.intervals = false;
    options.database = file.string();
    const SearchResult printed = search(dense, options);
    EXPECT_EQ(to_json(printed, options), to_json(all, options));
    EXPECT_EQ(to_text(printed, options, {}), to_text(all, options, {}));
    const auto without = std::ranges::count_if(printed.points, [](const SearchPoint& p) { return !has_interval(p.row); });
    EXPECT_GT(without, 0);
    EXPECT_TRUE(std::ranges::all_of(all.points, [](const SearchPoint& p) { return has_interval(p.row); }));
    const std::map<std::string, SweepRow> stored = SweepStore(file.string()).rows();
    EXPECT_GE(std::ranges::count_if(stored, [](const auto& r) { return !complete(r.second, ""); }), without) << "a sweep adds them";
    EXPECT_GT(search(dense, options).counts.reused, 0);
    // All are used again where every point is to have one; a table leaves the columns of those empty that have none.
    options.intervals = true;
    options.refine = false;
    const SearchResult again = search(dense, options);
    EXPECT_EQ(again.counts.reused, again.counts.simulated + again.counts.by_memory + again.counts.failed);
    std::istringstream lines(to_csv(again, options));
    std::string line;
    std::getline(lines, line);
    ASSERT_TRUE(line.starts_with("strategy,score,")) << line;
    for (const SearchPoint& p : again.points) {
        ASSERT_TRUE(std::getline(lines, line));
        std::string figures = line.substr(line.rfind('"') + 1);                              // behind the strategy
        for (int column = 0; column < 11; ++column) figures.erase(0, figures.find(',') + 1); // to step_time_error_bar
        EXPECT_EQ(figures.starts_with(",,,"), !has_interval(p.row)) << line;
    }
    EXPECT_GT(std::ranges::count_if(again.points, [](const SearchPoint& p) { return !has_interval(p.row); }), 0);
    // The table has a column of waits for slower devices where a point that it shows has some.
    EXPECT_EQ(to_text(again, options, {}).find("stragglers"), std::string::npos);
    SearchResult late = again;
    for (SearchPoint& p : late.points) p.row.straggler_fraction = 0.123;
    EXPECT_NE(to_text(late, options, {}).find("stragglers"), std::string::npos);
    EXPECT_NE(to_text(late, options, {}).find("12.3 %"), std::string::npos);
    EXPECT_EQ(nlohmann::json::parse(to_json(late, options)).at("best").at(0).at("straggler_fraction"), 0.123);
    std::filesystem::remove(file);
}

// Parts of a space, each searched with a database of its own, and the merged file: the answer of one machine, with nothing simulated again.
TEST(Search, PartsMergedAnswerAsOneMachine) {
    SearchOptions options = with_space(few);
    options.refine = false;
    const SearchResult whole = search(dense, options);
    ASSERT_FALSE(whole.points.empty());
    const auto folder = std::filesystem::temp_directory_path() / ("orrery-search-parts-" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder);
    std::vector<std::string> files;
    std::int64_t legal = 0;
    for (int part = 1; part <= 3; ++part) {
        SearchOptions mine = options;
        mine.shard = {part, 3};
        mine.database = (folder / (std::to_string(part) + ".sqlite")).string();
        files.push_back(mine.database);
        const SearchResult r = search(dense, mine);
        EXPECT_LT(r.counts.legal, whole.counts.legal);
        EXPECT_TRUE(r.proven);
        legal += r.counts.legal;
    }
    EXPECT_EQ(legal, whole.counts.legal);
    SearchOptions merged = options;
    merged.ties = 0; // ties of the whole were none of the parts
    merged.database = (folder / "all.sqlite").string();
    merge_stores(files, merged.database);
    const SearchResult r = search(dense, merged);
    SearchOptions alone = options;
    alone.ties = 0;
    const SearchResult one = search(dense, alone);
    EXPECT_TRUE(r.proven);
    EXPECT_GE(r.counts.reused, one.counts.simulated) << "nothing is simulated again";
    EXPECT_EQ(to_csv(r, merged), to_csv(one, alone));
    std::filesystem::remove_all(folder);
}

constexpr const char* machines = R"({"/cluster/preset": ["dgx-h100", "dgx-a100-80gb"], "/cluster/nodes": [1, 2, 4],
    "/strategy/schedule": ["none", "1f1b"], "/strategy/recompute": ["none"], "/training/micro_batch_size": [1, 2],
    "/strategy/tensor_parallel": [1, 2, 8], "/strategy/zero_stage": [1]})";

// The cheapest machine that ends a run in time: as exhaustive search says, and dearer where there is less time.
TEST(Search, FindsTheCheapestMachineThatEndsInTime) {
    nlohmann::json j = nlohmann::json::parse(dense);
    j["run"] = {{"tokens", 1e12}};
    j["training"]["global_batch_size"] = 64;
    SearchOptions options = with_space(machines);
    options.by = SearchBy::cost;
    options.ties = 0;
    options.refine = false;
    options.top = 0;
    double cost = 0;
    bool dearer = false;
    for (const double days : {1000.0, 9.0, 6.0}) {
        options.within_days = days;
        options.exhaustive = false;
        const SearchResult found = search(j.dump(), options);
        options.exhaustive = true;
        const SearchResult all = search(j.dump(), options);
        ASSERT_FALSE(found.points.empty()) << days;
        ASSERT_FALSE(all.points.empty()) << days;
        EXPECT_DOUBLE_EQ(found.points.front().score, all.points.front().score) << days;
        EXPECT_LE(1e12 / found.points.front().row.tokens_per_s, days * 86400) << days;
        EXPECT_NE(found.points.front().row.label.find("100-sxm"), std::string::npos) << "the answer names the device";
        EXPECT_GE(found.points.front().score, cost) << "less time costs no less";
        dearer = dearer || (cost > 0 && found.points.front().score > cost);
        cost = found.points.front().score;
        const SearchCounts& c = found.counts;
        EXPECT_EQ(c.simulated + c.by_memory_bound + c.by_memory + c.by_time_bound + c.by_deadline + c.too_late + c.failed, c.legal);
    }
    EXPECT_TRUE(dearer);
    options.exhaustive = false;
    options.within_days = 0.01;
    const SearchResult none = search(j.dump(), options);
    EXPECT_TRUE(none.points.empty());
    EXPECT_NE(no_answer(none).find("in time"), std::string::npos) << no_answer(none);
    ASSERT_TRUE(none.nearest_late) << "though a bound cut all";
    options.by = SearchBy::time;
    options.within_days = 0;
    const double fastest = search(j.dump(), options).points.front().row.tokens_per_s;
    EXPECT_DOUBLE_EQ(none.nearest_late->row.tokens_per_s, fastest);
    const std::string days =
        fmt::format("takes {:.3g} days without failures, {:.3g} too many", 1e12 / fastest / 86400, 1e12 / fastest / 86400 - 0.01);
    EXPECT_NE(no_answer(none).find(days), std::string::npos) << no_answer(none);
    options.by = SearchBy::cost;
    options.within_days = 0.01;
    j.erase("run");
    EXPECT_NE(to_text(search(j.dump(), options).problems).find("how long the run is"), std::string::npos);
}

// Machines whose nodes' own power is not known would come first by energy for it: they are not ranked with others. What is assumed is said.
TEST(Search, RanksEnergiesThatCountTheSame) {
    nlohmann::json j = nlohmann::json::parse(dense);
    SearchOptions options = with_space(R"({"/cluster/preset": ["dgx-a100-80gb", "frontier"]})");
    options.by = SearchBy::energy;
    const SearchResult unlike = search(j.dump(), options);
    ASSERT_EQ(unlike.problems.size(), 1u);
    EXPECT_EQ(unlike.problems.front().where, "/cluster/power_w_per_node");
    options.space.space = R"({"/cluster/preset": ["dgx-a100-80gb", "azure-ndv4"], "/strategy/tensor_parallel": [1],
        "/strategy/pipeline_parallel": [1], "/strategy/context_parallel": [1], "/strategy/schedule": ["none"]})";
    const SearchResult alike = search(j.dump(), options);
    EXPECT_TRUE(alike.problems.empty()) << to_text(alike.problems);
    EXPECT_NE(alike.energy_basis.find("azure-ndv4 is assumed to draw 3300 W besides"), std::string::npos) << alike.energy_basis;
    EXPECT_EQ(alike.energy_basis.find("dgx-a100-80gb is assumed"), std::string::npos) << alike.energy_basis;
}

// A step's price leaves out what a run loses, and its spares: where another's run is cheaper, the answer says so.
TEST(Search, SaysWhoseRunIsCheaper) {
    SearchOptions options;
    options.by = SearchBy::cost;
    SearchResult r;
    r.points = {point(1, 80, "a"), point(1.02, 80, "b")};
    r.points[1].id.form = 1;
    r.points[0].row.label = "8 nodes", r.points[1].row.label = "32 nodes";
    for (SearchPoint& p : r.points) p.row.run_finished = 1, p.row.run_goodput = 0.99, p.row.run_tokens = 1e12, p.row.run_s = 1e6;
    r.points[0].row.run_cost_usd = 121e3, r.points[1].row.run_cost_usd = 110e3;
    const auto text = [&] { return one_line(r, options); };
    EXPECT_NE(text().find("costs 9.1 % less a token by 32 nodes: --by run_cost ranks by that"), std::string::npos) << text();
    r.points[1].row.run_cost_usd = 122e3;
    EXPECT_EQ(text().find("--by run_cost"), std::string::npos) << text();
    r.points[1].row.run_cost_usd = 110e3;
    options.by = SearchBy::run_cost;
    EXPECT_EQ(text().find("--by run_cost"), std::string::npos) << text();
}

TEST(Search, NamesPointsThatAreEqual) {
    SearchOptions options;
    SearchResult r;
    r.points = {point(1, 80, "a"), point(1.0004, 85, "b"), point(1.01, 50, "c")};
    r.proven = true;
    r.points[0].row.label = "tensor 8, 1f1b, ZeRO 1", r.points[1].row.label = "tensor 8, 1f1b, ZeRO 2", r.points[2].row.label = "tensor 4";
    r.points[1].id.form = 1, r.points[2].id.form = 2;
    const std::string text = to_text(r, options, {});
    EXPECT_NE(text.find("Equal within 0.1 %: ZeRO 2 (+0.04 %)."), std::string::npos) << text;
}

// A refinement that leads is named, printed and written as the first; what is proven is of the points before it.
TEST(Choosing, TheBestRefinementIsNamedFirst) {
    SearchResult r;
    r.points = {point(1, 80, "a"), point(1.1, 80, "a"), point(1.2, 60, "b")};
    r.proven = true;
    EXPECT_EQ(&named(r), &r.points[0]);
    EXPECT_EQ(rows_of(r, 5).size(), 2u);
    r.refined = {point(0.9, 80, "a"), point(0.95, 80, "a")};
    r.refined[0].refined = "layers 5 4x2 3", r.refined[1].refined = "layers 4x4";
    r.refined[0].row.label = "tensor 8", r.refined[0].json = R"({"name": "refined"})";
    EXPECT_EQ(&named(r), &r.refined[0]);
    const std::vector<const SearchPoint*> rows = rows_of(r, 5);
    ASSERT_EQ(rows.size(), 3u);
    EXPECT_TRUE(rows[0] == &r.refined[0] && rows[1] == &r.points[0] && rows[2] == &r.points[2]);
    EXPECT_EQ(rows_of(r, 1), std::vector<const SearchPoint*>{&r.refined[0]});
    for (std::vector<SearchPoint>* some : {&r.points, &r.refined})
        for (SearchPoint& p : *some)
            if (p.json.empty()) p.json = "{}";
    const SearchOptions options;
    const std::string text = one_line(r, options);
    EXPECT_NE(text.find("Best strategy: tensor 8, layers 5 4x2 3"), std::string::npos) << text;
    EXPECT_NE(text.find("10.0 % better, which is no part of a proof"), std::string::npos) << text;
    const auto best = nlohmann::json::parse(to_json(r, options))["best"];
    EXPECT_EQ(best[0]["scenario"]["name"], "refined");
    EXPECT_EQ(best[0]["refined"], "layers 5 4x2 3");
    EXPECT_FALSE(best[1].contains("refined"));
}

// Memory breaks a tie whether or not the points fit surely; only a point that fits surely is called roomier.
TEST(Choosing, OnlyAPlanThatFitsSurelyIsSaidToLeaveMore) {
    SearchOptions options;
    SearchResult r;
    r.proven = r.roomier_sought = true;
    const auto text = [&](double behind, std::int64_t peak) {
        r.points = {point(1, 97, "a"), point(1 + behind, peak, "b")};
        r.points[1].id.form = 1;
        return one_line(r, options);
    };
    const std::string tie = text(0.0005, 95), roomier = text(0.02, 75);
    EXPECT_EQ(tie.find("The plan that leads by the model leaves less"), std::string::npos) << tie;
    EXPECT_NE(tie.find("Others are as good; this one has most memory to spare. It leaves less than 10 %"), std::string::npos) << tie;
    EXPECT_NE(roomier.find("2.0 % behind it, within the interval, and leaves 25 %"), std::string::npos) << roomier;
}

// A search that was stopped still refines where that has time of its own.
TEST(Search, RefinesAfterItWasStopped) {
    const std::string json = R"({"model": {"name": "small", "layers": 16, "hidden_size": 4096, "attention_heads": 32, "vocab_size": 128000,
        "activation": "swiglu", "norm": "rmsnorm", "position": "rope", "bias": false, "tied_embeddings": false},
        "cluster": {"preset": "dgx-h100", "nodes": 1}, "training": {"global_batch_size": 32, "micro_batch_size": 1, "sequence_length": 4096,
        "precision": "bf16"}, "strategy": {"framework": "megatron", "tensor_parallel": 2, "pipeline_parallel": 4, "context_parallel": 1,
        "schedule": "1f1b", "virtual_pipeline": 1, "rank_order": "tp-cp-ep-dp-pp"}})";
    SearchOptions options;
    options.batch = 1;
    std::atomic<std::int64_t> simulated = 0;
    options.progress = [&](const SearchProgress& p) { simulated = p.simulated; };
    options.go_on = [&] { return simulated < 1; };
    EXPECT_TRUE(search(json, options).refined.empty());
    simulated = 0;
    options.refine_on = [] { return true; };
    const SearchResult r = search(json, options);
    EXPECT_FALSE(r.proven);
    ASSERT_FALSE(r.refined.empty());
    EXPECT_LT(named(r).score, r.points[leader(r.points)].score);
    EXPECT_FALSE(named(r).limits.empty());
}

// Sets put aside or taken out of turn are still counted and bounded.
TEST(Branches, LoseNothingThatIsPutAside) {
    const StrategySpace space = make_space(dense, with_space(few).space);
    std::vector<Problem> problems;
    const std::vector<Objective> objectives{Objective::of(SearchBy::time, 0, space.machines.front().variations.base(), problems)};
    Workers workers(space, 1);
    Branches branches(space, objectives, SearchBy::time, false, workers, [] { return true; });
    constexpr double all = std::numeric_limits<double>::infinity();
    while (branches.top().level != Branches::Level::ready) branches.split(all);
    const std::int64_t points = branches.points();
    const double lowest = branches.lowest();
    for (const double share : {0.999, 0.5, 0.0}) {
        branches.prefer(share);
        EXPECT_EQ(branches.puts_aside(), share == 0.999) << share << ": the model is small";
        EXPECT_EQ(branches.points(), points);
        EXPECT_EQ(branches.lowest(), lowest);
    }
    const std::vector<Branches::Set> taken = branches.best_points(4, all);
    ASSERT_FALSE(taken.empty());
    std::set<std::int32_t> forms;
    for (const Branches::Set& set : taken) {
        EXPECT_GE(set.level, Branches::Level::point);
        EXPECT_GT(set.filled, 0);
        forms.insert(set.id.form);
    }
    EXPECT_EQ(forms.size(), taken.size()) << "one of each form";
    EXPECT_EQ(branches.points(), points - static_cast<std::int64_t>(taken.size()));
    EXPECT_TRUE(branches.best_points(4, 0).empty()) << "none is below the limit";
}

Scenario resolved(const std::string& json, const std::string& change) {
    ParseOptions options;
    options.overrides = {change};
    const ParseResult r = parse_scenario(json, options);
    if (!r.scenario) throw std::runtime_error(to_text(r.problems));
    return *r.scenario;
}

// Hints name what was not tried where it may help, and are silent elsewhere.
TEST(Hints, NameWhatWasNotTried) {
    const Scenario s = resolved(dense, "training.micro_batch_size=1");
    SweepRow row = point(1, 50, "a").row;
    const Objective plain;
    const Unasked unasked{true, true, true};
    const auto text = [&](const Scenario& of, double wait) {
        std::string all;
        for (const std::string& hint : hints(of, row, wait, unasked, plain)) all += hint + "\n";
        return all;
    };
    EXPECT_EQ(text(s, 0.1), "");
    EXPECT_NE(text(s, 0.9).find("90 % of the step is what replicas exchange"), std::string::npos) << text(s, 0.9);
    EXPECT_EQ(text(s, 0.9).find("--allow compression"), std::string::npos) << "Megatron has none";
    EXPECT_NE(text(resolved(dense, "strategy.framework=ddp"), 0.9).find("--allow compression"), std::string::npos);
    EXPECT_NE(text(resolved(dense, "strategy.recompute=full"), 0).find("--allow offload"), std::string::npos);
    row.peak_bytes = 95;
    EXPECT_NE(text(s, 0).find("leaves little memory"), std::string::npos);
    EXPECT_TRUE(hints(s, row, 0.9, {}, plain).empty()) << "all of it was looked at or stated";
    row.peak_bytes = 50;
    // 72 devices and 128 sequences have 8 in common; with 64 devices a node nothing is left over. Of 80 sequences 9 and 5 are left over.
    Scenario rack = s;
    rack.cluster.nodes = 1, rack.cluster.devices_per_node = 72, rack.training.global_batch_size = 128;
    EXPECT_NE(text(rack, 0).find("72 devices have the factor 9, which 128 sequences have not"), std::string::npos) << text(rack, 0);
    EXPECT_NE(text(rack, 0).find("cluster.devices_per_node = 64"), std::string::npos) << text(rack, 0);
    rack.training.global_batch_size = 144;
    EXPECT_EQ(text(rack, 0), "");
    // 30 days, and 20 % more at the slow end.
    Objective in_time;
    in_time.within_s = 31 * 86400, in_time.run_steps = 30 * 86400;
    row.step_time_interval = {0.1, 0.2};
    const std::vector<std::string> late = hints(s, row, 0, {}, in_time);
    ASSERT_EQ(late.size(), 1u);
    EXPECT_NE(late.front().find("ends in 30 days, and at the slow end of its interval in 36, which is later than 31"), std::string::npos)
        << late.front();
    row.step_time_interval = {0.1, 0.02};
    EXPECT_TRUE(hints(s, row, 0, {}, in_time).empty());
}

} // namespace
} // namespace orrery

// Do the figures of a report follow from what was simulated, and is report.json the contract?
#include "sim/report/report.hpp"

#include "sim/plan/lower.hpp"
#include "sim/report/model_flops.hpp"
#include "sim/report/terminal.hpp"
#include "sim/scenario/parse.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <regex>

namespace orrery {
namespace {

Scenario parsed(const std::string& text) {
    const ParseResult r = parse_scenario(text);
    EXPECT_TRUE(r.problems.empty()) << to_text(r.problems);
    return r.scenario.value();
}

Scenario small(const std::string& strategy = R"({"tensor_parallel": 2, "pipeline_parallel": 2})") {
    return parsed(R"({"name": "small", "model": {"layers": 4, "hidden_size": 1024, "attention_heads": 16, "vocab_size": 32000},
        "cluster": {"preset": "dgx-a100-80gb"}, "training": {"global_batch_size": 32, "micro_batch_size": 1, "sequence_length": 1024, "precision": "bf16"},
        "strategy": )" +
                  strategy + "}");
}

Model gpt(int layers, std::int64_t h, std::int64_t vocabulary) {
    Model m;
    m.layers = layers;
    m.hidden_size = h;
    m.attention_heads = m.kv_heads = 16;
    m.head_dim = static_cast<int>(h / 16);
    m.ffn_size = 4 * h;
    m.vocab_size = vocabulary;
    return m;
}

TEST(TraceMemory, HighestSampleOfEachLaneIsItsStagesPeakAndTimesAscend) {
    for (const char* strategy :
         {R"({"tensor_parallel": 2, "pipeline_parallel": 2})", R"({"pipeline_parallel": 2, "schedule": "zb-h1", "zero_stage": 1})",
          R"({"framework": "fsdp2", "zero_stage": 3, "recompute": "full"})"}) {
        const Scenario scenario = small(strategy);
        PredictOptions options;
        options.simulate.trace = true;
        const Prediction p = predict(scenario, options);
        ASSERT_TRUE(p.simulation.trace);
        for (const Lane& lane : p.simulation.trace->lanes) {
            std::int64_t highest = 0;
            Time before = p.simulation.trace->begin;
            for (const MemorySample& s : lane.memory) {
                highest = std::max(highest, std::accumulate(s.bytes.begin(), s.bytes.end(), std::int64_t{0}));
                EXPECT_GE(s.at, before) << strategy;
                before = s.at;
            }
            EXPECT_EQ(highest, p.report.memory.stages[lane.stage].peak.count) << strategy;
            EXPECT_GT(lane.memory.size(), 10u);
        }
    }
}

TEST(ModelFlops, OfADenseGptAreMegatronsFormula) {
    const double l = 24, h = 2304, s = 2048, v = 51200;
    const double formula = 72 * s * l * h * h * (1 + s / (6 * h) + v / (12 * l * h));
    EXPECT_NEAR(model_flops_per_sequence(gpt(24, 2304, 51200), s), formula, formula * 1e-12);
}

// A sequence of four documents is four sequences; one that is a document is itself.
TEST(ModelFlops, PackedDocumentsCountTheirOwnSquares) {
    const Model m = gpt(24, 2304, 51200);
    const double whole = model_flops_per_sequence(m, 8192), four = 4 * model_flops_per_sequence(m, 2048);
    EXPECT_NEAR(model_flops_per_sequence(m, 8192, 2048), four, four * 1e-12);
    EXPECT_EQ(model_flops_per_sequence(m, 8192, 0), whole);
    EXPECT_EQ(model_flops_per_sequence(m, 8192, 8192), whole);
    EXPECT_EQ(model_flops_per_sequence(m, 8192, 1e6), whole);
}

// Tokens of a layer with a window meet the window alone: as many as those of sequences of its length.
TEST(ModelFlops, OfAWindowCountTheTokensInIt) {
    Model m = gpt(24, 2304, 51200);
    const double whole = model_flops_per_sequence(m, 8192), short_ones = 4 * model_flops_per_sequence(m, 2048);
    m.attention.sliding_window = 2048;
    EXPECT_NEAR(model_flops_per_sequence(m, 8192), short_ones, short_ones * 1e-12);
    EXPECT_NEAR(model_flops_per_sequence(m, 8192, 2048), short_ones, short_ones * 1e-12);
    m.attention.full_every = 2; // half of the layers meet all
    EXPECT_NEAR(model_flops_per_sequence(m, 8192), (whole + short_ones) / 2, whole * 1e-12);
    m.attention.full_every = 0;
    m.attention.sliding_window = 10000;
    EXPECT_EQ(model_flops_per_sequence(m, 8192), whole);
}

TEST(ModelFlops, CountGroupedHeadsAndGatesAsTheyAre) {
    // Llama 3 405B at 8,192 tokens: PaLM's 6 N + 12 L s h per token, N without the input embedding, norms aside.
    Model m = gpt(126, 16384, 128256);
    m.attention_heads = 128, m.kv_heads = 8, m.head_dim = 128, m.ffn_size = 53248;
    m.activation = ActivationKind::swiglu;
    const double n = 126.0 * (2 * 16384.0 * 16384 + 2 * 16384.0 * 1024 + 3 * 16384.0 * 53248) + 16384.0 * 128256;
    const double per_token = 6 * n + 12 * 126.0 * 8192 * 16384;
    EXPECT_NEAR(model_flops_per_sequence(m, 8192), per_token * 8192, per_token * 8192 * 1e-12);
}

TEST(ModelFlops, OfExpertsCountOnlyThoseATokenMeets) {
    Model dense = gpt(4, 1024, 32000), sparse = dense;
    sparse.moe.emplace();
    sparse.moe->experts = 8;
    sparse.moe->top_k = 1;
    sparse.moe->expert_ffn_size = dense.ffn_size;
    const double router = 6.0 * 1024 * 4 * 1024 * 8; // six a parameter and token: 4 layers, h x 8
    EXPECT_NEAR(model_flops_per_sequence(sparse, 1024) - model_flops_per_sequence(dense, 1024), router, router * 1e-9);
}

TEST(Report, FiguresAgreeWithEachOther) {
    const Report r = predict(small()).report;
    EXPECT_EQ(r.world_size, 8);
    EXPECT_EQ(r.data_parallel, 2);
    EXPECT_EQ(r.microbatches, 16);
    EXPECT_GT(r.step_time_s, 0);
    EXPECT_NEAR(r.tokens_per_s * r.step_time_s, 32 * 1024, 1e-6);
    EXPECT_NEAR(r.samples_per_s * r.step_time_s, 32, 1e-9);
    EXPECT_NEAR(r.tokens_per_s_per_gpu * 8, r.tokens_per_s, 1e-6);
    EXPECT_NEAR(r.mfu, r.flops_per_step / r.step_time_s / 8 / 312e12, 1e-12);
    EXPECT_GT(r.mfu, 0);
    EXPECT_LT(r.mfu, 1);
    EXPECT_NEAR(r.bubble_fraction, r.breakdown_s[Category::bubble] / r.step_time_s, 1e-12);
}

TEST(Report, BreakdownAddsUpToTheStep) {
    for (const char* strategy : {R"({})", R"({"tensor_parallel": 8})", R"({"pipeline_parallel": 4})",
                                 R"({"tensor_parallel": 2, "pipeline_parallel": 2, "zero_stage": 2})"}) {
        const Report r = predict(small(strategy)).report;
        EXPECT_NEAR(std::accumulate(r.breakdown_s.begin(), r.breakdown_s.end(), 0.0), r.step_time_s, 1e-9 * r.step_time_s + 1e-11)
            << strategy;
    }
}

TEST(Report, FullRecomputeRaisesHardwareFlopsButNotModelFlops) {
    const Report none = predict(small(R"({"recompute": "none"})")).report, full = predict(small(R"({"recompute": "full"})")).report;
    EXPECT_EQ(none.flops_per_step, full.flops_per_step);
    EXPECT_GT(full.hfu * full.step_time_s, 1.15 * none.hfu * none.step_time_s);
    EXPECT_LT(full.mfu, none.mfu);
}

TEST(Report, JsonHasTheContractsKeysInItsOrder) {
    const Report r = predict(small()).report;
    const auto j = nlohmann::ordered_json::parse(to_json(r));
    std::vector<std::string> keys;
    for (const auto& [key, value] : j.items()) keys.push_back(key);
    const std::vector<std::string> expected{
        "name",          "world_size",           "data_parallel", "step_time_s", "tokens_per_s",    "tokens_per_s_per_gpu",
        "samples_per_s", "model_tflops_per_gpu", "mfu",           "hfu",         "bubble_fraction", "breakdown_s",
        "memory",        "parameters",           "flops_per_step"};
    ASSERT_GE(keys.size(), expected.size());
    EXPECT_EQ(std::vector<std::string>(keys.begin(), keys.begin() + static_cast<std::ptrdiff_t>(expected.size())), expected);
    keys.clear();
    for (const auto& [key, value] : j.at("breakdown_s").items()) keys.push_back(key);
    EXPECT_EQ(keys, (std::vector<std::string>{"compute", "recompute", "exposed_tp", "exposed_cp", "exposed_ep", "exposed_pp", "exposed_dp",
                                              "optimizer", "offload", "bubble", "straggler_wait", "other"}));
    keys.clear();
    for (const auto& [key, value] : j.at("memory").items()) keys.push_back(key);
    EXPECT_EQ(keys, (std::vector<std::string>{"peak_bytes", "capacity_bytes", "fits", "by_kind_bytes", "per_stage"}));
    keys.clear();
    for (const auto& [key, value] : j.at("memory").at("by_kind_bytes").items()) keys.push_back(key);
    EXPECT_EQ(keys, (std::vector<std::string>{"parameters", "gradients", "optimizer_states", "activations", "communication", "workspace",
                                              "reserved"}));
    EXPECT_EQ(j.at("step_time_s").get<double>(), r.step_time_s) << "numbers are printed so that they read back exactly";
    EXPECT_EQ(j.at("memory").at("per_stage").size(), 2u);
}

TEST(Report, KindsOfMemoryAddUpToThePeak) {
    const auto j = nlohmann::json::parse(to_json(predict(small()).report));
    std::int64_t sum = 0;
    for (const auto& [kind, bytes] : j.at("memory").at("by_kind_bytes").items()) sum += bytes.get<std::int64_t>();
    EXPECT_EQ(sum, j.at("memory").at("peak_bytes").get<std::int64_t>());
}

TEST(Report, SameScenarioSameBytes) { EXPECT_EQ(to_json(predict(small()).report), to_json(predict(small()).report)); }

TEST(Report, SaysWhichStageDoesNotFitByHowMuchAndWhere) {
    MemoryReport m;
    m.capacity = Bytes::gigabytes(80);
    m.fits = false;
    m.stages.resize(2);
    m.stages[1].stage = 1;
    m.stages[1].peak = Bytes::gigabytes(92.5);
    m.stages[1].peak_op_name = "l3.fc1.fwd (microbatch 5)";
    const std::string why = why_not(m);
    EXPECT_NE(why.find("stage 1 needs 92.5 GB (86.1 GiB), 12.5 GB more than the device's 80.0 GB"), std::string::npos) << why;
    EXPECT_NE(why.find("at l3.fc1.fwd (microbatch 5)"), std::string::npos) << why;
    m.fits = true;
    EXPECT_EQ(why_not(m), "");
}

TEST(ReportText, IsPlainAsciiWhereNothingElseIsAskedFor) {
    const Scenario s = small();
    for (char c : to_text(predict(s).report, s)) ASSERT_TRUE(c == '\n' || (c >= ' ' && c <= '~')) << static_cast<int>(c);
}

TEST(ReportText, SaysTheMainFiguresWithTheirUnits) {
    const Scenario s = small();
    const std::string text = to_text(predict(s).report, s);
    for (const char* word : {"small: fits", "step time", "tokens/s", "MFU", "bubble", "compute", "stage 0", "stage 1", "GB", "GiB",
                             "tensor 2 x pipeline 2 x data 2"}) {
        EXPECT_NE(text.find(word), std::string::npos) << word << "\n" << text;
    }
}

// Nearer to the device's capacity than predictions of memory are to what is measured: said so, on either side.
TEST(ReportText, SaysWhereItIsANarrowThing) {
    const Scenario s = small();
    Report r = predict(s).report;
    r.error_bar.memory = 0.04;
    const auto with_capacity = [&](double share) {
        r.memory.capacity.count = static_cast<std::int64_t>(static_cast<double>(fullest(r.memory).peak.count) / share);
        r.memory.fits = share <= 1;
        return to_text(r, s).substr(0, 600);
    };
    EXPECT_EQ(with_capacity(0.95).find("narrowly"), std::string::npos);
    EXPECT_NE(with_capacity(0.97).find("fits, narrowly"), std::string::npos);
    EXPECT_NE(with_capacity(0.97).find("3.0 % headroom, less than 4 %: some such plans do not fit"), std::string::npos)
        << with_capacity(0.97);
    EXPECT_NE(with_capacity(1.03).find("3.0 % too large, less than 4 %: some such plans fit"), std::string::npos) << with_capacity(1.03);
    EXPECT_TRUE(r.narrow());
    EXPECT_EQ(with_capacity(1.05).find("narrowly"), std::string::npos);
    r.error_bar.memory = 0.3; // a wide interval: a tenth is enough
    EXPECT_EQ(with_capacity(0.89).find("narrowly"), std::string::npos);
    EXPECT_NE(with_capacity(0.91).find("fits, narrowly"), std::string::npos);
    r.error_bar.memory = 0; // no validated rows: nothing is said
    EXPECT_EQ(with_capacity(0.999).find("narrowly"), std::string::npos);
}

TEST(ReportText, LinesKeepToTheWidthInEveryStyle) {
    const Scenario s = small();
    const Report r = predict(s).report;
    for (int width : {80, 100, 120}) {
        for (const bool colour : {false, true}) {
            const std::string text = to_text(r, s, {colour, width, colour});
            for (std::size_t at = 0; at < text.size();) {
                const std::size_t end = text.find('\n', at);
                EXPECT_LE(columns(text.substr(at, end - at)), width) << text.substr(at, end - at);
                at = end + 1;
            }
        }
    }
}

// A job is its steps: days, cost and energy of so many tokens are those of a step times their number.
TEST(Report, SaysWhatATrillionTokensTakeAndTheWholeRun) {
    const std::string text = R"({"name": "small", "model": {"layers": 4, "hidden_size": 1024, "attention_heads": 16, "vocab_size": 32000},
        "cluster": {"preset": "dgx-a100-80gb", "price_usd_per_device_hour": 2},
        "training": {"global_batch_size": 32, "sequence_length": 1024}, "strategy": {"tensor_parallel": 2})";
    const Scenario s = parsed(text + R"(, "run": {"steps": 1000}})");
    const Report r = predict(s).report;
    EXPECT_DOUBLE_EQ(r.tokens_per_step, 32 * 1024);
    EXPECT_DOUBLE_EQ(r.run_tokens, 1000 * 32 * 1024);
    const AtThisPace run = at_this_pace(r, r.run_tokens), trillion = at_this_pace(r, 1e12);
    EXPECT_NEAR(run.seconds, 1000 * r.step_time_s, 1e-9 * run.seconds);
    EXPECT_NEAR(run.cost_usd, run.seconds / 3600 * 8 * 2, 1e-9 * run.cost_usd) << "eight devices at 2 USD an hour";
    EXPECT_NEAR(trillion.seconds, 1e12 / r.tokens_per_s, 1e-6 * trillion.seconds);
    const auto j = nlohmann::json::parse(to_json(r));
    EXPECT_NEAR(j.at("per_trillion_tokens").at("days").get<double>(), trillion.seconds / 86400, 1e-9 * trillion.seconds);
    EXPECT_NEAR(j.at("run_at_this_pace").at("cost_usd").get<double>(), run.cost_usd, 1e-9 * run.cost_usd);
    EXPECT_NE(to_text(r, s).find("a trillion tokens"), std::string::npos);
    const Report by_tokens = predict(parsed(text + R"(, "run": {"tokens": 2e12}})")).report;
    EXPECT_DOUBLE_EQ(by_tokens.run_tokens, 2e12);
    const auto without = nlohmann::json::parse(to_json(predict(parsed(text + "}")).report));
    EXPECT_FALSE(without.contains("run_at_this_pace"));
    EXPECT_TRUE(without.contains("per_trillion_tokens"));
}

// The same boards draw the same, whoever owns the node: what a cloud's draws besides is assumed, and the report says so, or that it is not
// known.
TEST(Report, EnergyOfANodeIsThatOfItsDgx) {
    const auto cluster = [](const std::string& text) {
        return parsed(R"({"model": "gpt2-124m", "cluster": )" + text +
                      R"(, "training": {"global_batch_size": 8, "sequence_length": 1024}, "strategy": {"framework": "ddp"}})")
            .cluster;
    };
    const auto preset = [&](const std::string& name) { return cluster(R"({"preset": ")" + name + R"("})"); };
    EXPECT_DOUBLE_EQ(watts_of(preset("dgx-h100"), 8), 10200) << "the system's datasheet";
    for (const char* as_h100 : {"aws-p5", "azure-ndv5", "gcp-a3", "h800-deepseek"}) {
        EXPECT_DOUBLE_EQ(watts_of(preset(as_h100), 8), watts_of(preset("dgx-h100"), 8)) << as_h100;
        EXPECT_NE(energy_basis(preset(as_h100)).find(std::string("a node of ") + as_h100 + " is assumed to draw 4600 W besides"),
                  std::string::npos)
            << energy_basis(preset(as_h100));
    }
    EXPECT_DOUBLE_EQ(watts_of(preset("azure-ndv4"), 8), watts_of(preset("dgx-a100-80gb"), 8));
    EXPECT_DOUBLE_EQ(watts_of(preset("aws-p4d"), 8), watts_of(preset("dgx-a100-40gb"), 8));
    EXPECT_EQ(energy_basis(preset("dgx-h100")).find("assumed"), std::string::npos);
    const Cluster own = cluster(R"({"preset": "aws-p5", "power_w_per_node": 3000})");
    EXPECT_DOUBLE_EQ(watts_of(own, 8), 8 * 700 + 3000);
    EXPECT_EQ(energy_basis(own).find("assumed"), std::string::npos);
    EXPECT_NE(energy_basis(preset("frontier")).find("is not known"), std::string::npos);
}

// Prices are list prices of a day: each says whose and when. Where none is known the report says so and has no cost.
TEST(Report, PricesHaveASourceAndADate) {
    int priced = 0;
    for (const auto& file : std::filesystem::directory_iterator(ORRERY_SOURCE_DIR "/scenarios/devices")) {
        std::ifstream in(file.path());
        const auto j = nlohmann::json::parse(in);
        if (!j.contains("price_usd_per_hour")) continue;
        ++priced;
        const std::string source = j.at("sources").value("price_usd_per_hour", "");
        EXPECT_TRUE(std::regex_search(source, std::regex("^(published|assumed): .*20[0-9][0-9]"))) << file.path() << ": " << source;
    }
    EXPECT_GE(priced, 19);
    const Scenario s = parsed(R"({"model": {"layers": 4, "hidden_size": 1024, "attention_heads": 16, "vocab_size": 32000},
        "cluster": {"preset": "dgx-a100-80gb", "device": "h20-sxm-96gb"}, "training": {"global_batch_size": 32, "sequence_length": 1024}, "strategy": {}})");
    const Report r = predict(s).report;
    EXPECT_EQ(r.cost_usd, 0);
    EXPECT_TRUE(
        std::ranges::any_of(r.notes, [](const std::string& n) { return n.find("price_usd_per_hour sets it") != std::string::npos; }));
    EXPECT_NE(to_text(r, s).find("cost not known"), std::string::npos);
}

} // namespace
} // namespace orrery

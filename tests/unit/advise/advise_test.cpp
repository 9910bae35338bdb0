// Is every figure of the advice that of a simulation, and does what it recommends do what it says?
#include "sim/advise/advise.hpp"

#include "sim/advise/changes.hpp"
#include "sim/advise/rules.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>
#include <set>

namespace orrery {
namespace {

std::string job(const std::string& strategy, const std::string& extra = "", int layers = 24) {
    return R"({"name": "j", "model": {"layers": )" + std::to_string(layers) +
           R"(, "hidden_size": 4096, "attention_heads": 32, "vocab_size": 50304)" + extra +
           R"(}, "cluster": {"preset": "dgx-a100-40gb", "nodes": 2},
        "training": {"global_batch_size": 64, "micro_batch_size": 1, "sequence_length": 2048, "precision": "bf16"}, "strategy": {"framework": "megatron", )" +
           strategy + "}}";
}

Advice advice_on(const std::string& json) {
    AdviceResult r = advise(json, {});
    EXPECT_TRUE(r.advice) << to_text(r.problems);
    return std::move(r.advice.value());
}

double step_of(const std::string& json) { return predict(parse_scenario(json).scenario.value()).report.step_time_s; }

TEST(StrategyChange, WritesWhatAPresetsNameStandsFor) {
    const std::string text = R"({"cluster": "dgx-h100", "strategy": {"tensor_parallel": 8, "layer_split": [1]}})";
    const auto j = nlohmann::json::parse(with(text, {"", {{"/cluster/nodes", "4"}, {"/strategy/layer_split", ""}, {"/run/steps", ""}}}));
    EXPECT_EQ(j, nlohmann::json::parse(R"({"cluster": {"preset": "dgx-h100", "nodes": 4}, "strategy": {"tensor_parallel": 8}})"));
}

// Updates of the step before, which the next step begins beside, are on the path once; NVMe is not called launches.
TEST(Advise, NamesWhatLimitsAJobWhoseStatesAreOnNvme) {
    const Advice a =
        advice_on(R"({"model": {"preset": "llama3-8b", "layers": 8}, "cluster": {"device": "rtx-4090", "nodes": 1, "devices_per_node": 1,
                    "host": {"memory_gb": 64, "memory_gb_per_s": 80, "pcie_gb_per_s": 32, "nvme_gb": 2000, "nvme_gb_per_s": 3}},
        "training": {"global_batch_size": 8, "micro_batch_size": 4, "sequence_length": 2048, "precision": "bf16"},
        "strategy": {"framework": "deepspeed", "zero_stage": 3, "fused": true, "recompute": "full",
                     "offload": {"optimizer": "nvme", "gradients": "cpu"}}})");
    ASSERT_FALSE(a.path.empty());
    EXPECT_EQ(a.path.front().resource, "NVMe");
    double all = 0;
    for (const OnPath& p : a.path) all += p.seconds;
    EXPECT_LT(all, 1.2 * a.report.step_time_s);
    EXPECT_NE(a.verdict.find("what limits it is NVMe"), std::string::npos) << a.verdict;
    const auto gain = [&](std::string_view part) {
        const auto it = std::ranges::find(a.faster, part, &FasterPart::part);
        return it == a.faster.end() ? -1 : it->gain;
    };
    EXPECT_GT(gain("NVMe of the hosts"), 0.02);
    EXPECT_LT(gain("hosts' launches"), 0.01);
}

// Samples that come too slowly limit a step whatever its devices do.
TEST(Advise, NamesStorageWhereStepsWaitForSamples) {
    const std::string text = R"({"model": {"layers": 4, "hidden_size": 1024, "attention_heads": 16, "vocab_size": 32000},
        "cluster": {"preset": "dgx-a100-80gb", "nodes": 1, "storage": {"read_gb_per_s": 10}},
        "training": {"global_batch_size": 64, "sequence_length": 1024)",
                      strategy = R"(}, "strategy": {"framework": "ddp"}})";
    const Advice a = advice_on(text + R"(, "data": {"bytes_per_sample": 1e9})" + strategy);
    const double alone = step_of(text + strategy), reading = 64 * 1e9 / 10e9;
    ASSERT_LT(alone, reading / 8);
    EXPECT_NEAR(a.report.step_time_s, reading, 1e-6);
    ASSERT_FALSE(a.path.empty());
    EXPECT_EQ(a.path.front().resource, "reading samples (storage)");
    EXPECT_NEAR(a.path.front().seconds, reading - alone, 1e-6);
    EXPECT_NE(a.verdict.find("what limits it is reading samples (storage)"), std::string::npos) << a.verdict;
    ASSERT_TRUE(a.next);
    EXPECT_EQ(a.next->first, "reading samples (storage)");
    EXPECT_NEAR(a.next->first_share, 1, 1e-9);
    EXPECT_NEAR(a.next->step_time_s, reading / a.next->times, 1e-6);
    for (const FasterPart& f : a.faster) EXPECT_NEAR(f.gain, f.part == "storage of the samples" ? 1 - 1 / 1.1 : 0, 1e-6) << f.part;
    EXPECT_EQ(a.faster.front().part, "storage of the samples");
    for (const double share : a.report.shares) EXPECT_EQ(share, 0);
}

TEST(Advise, NoFixIsSlowerThanTheGuidesStrategy) {
    for (const char* strategy : {"", R"(, "strategy": {"tensor_parallel": 8})"}) {
        const Advice a = advice_on(R"({"model": "llama3-70b", "cluster": {"preset": "dgx-h100", "nodes": 8},
            "training": {"global_batch_size": 128, "sequence_length": 8192, "precision": "bf16"})" +
                                   std::string(strategy) + "}");
        ASSERT_TRUE(a.fix && a.fix->change && a.guide.strategy && a.guide.strategy->fits()) << strategy;
        EXPECT_LE(a.fix->change->report->step_time_s, a.guide.strategy->report->step_time_s) << strategy;
    }
}

// Where another strategy is ahead of every single change, the first lines say so, and the guide's says by how much.
TEST(Advise, VerdictNamesAStrategyThatIsAheadOfAllSingleChanges) {
    const Advice a = advice_on(R"({"model": "gemma2-27b", "cluster": {"preset": "tpu-v5p-pod", "nodes": 16},
        "training": {"global_batch_size": 128, "micro_batch_size": 2, "sequence_length": 8192, "precision": "bf16"},
        "strategy": {"framework": "jax", "zero_stage": 3, "recompute": "full"}})");
    ASSERT_TRUE(a.guide.strategy && a.guide.strategy->fits());
    const Trial& guide = *a.guide.strategy;
    const double now = a.report.step_time_s, single = a.better.empty() ? now : a.better.front().report->step_time_s;
    ASSERT_LT(guide.report->step_time_s, 0.95 * single) << "the job is one whose strategy is worth a change of several things";
    EXPECT_NE(a.guide.answer.find(" % faster than this scenario"), std::string::npos) << a.guide.answer;
    const Trial* best = &guide;
    for (const WhyNot& w : a.why_not)
        if (w.trial.fits() && w.trial.report->step_time_s < best->report->step_time_s) best = &w.trial;
    EXPECT_NE(a.verdict.find("Another strategy does more: " + best->change.words), std::string::npos) << a.verdict;
}

TEST(Advise, FiguresAreThoseOfSimulations) {
    const std::string json = job(R"("tensor_parallel": 4, "sequence_parallel": true, "pipeline_parallel": 2, "recompute": "full")");
    const Advice a = advice_on(json);
    EXPECT_TRUE(a.report.memory.fits);
    EXPECT_NEAR(a.report.step_time_s, step_of(json), 1e-12);
    ASSERT_FALSE(a.better.empty()) << "without recompute it is faster and fits";
    for (const Trial& t : a.better) {
        EXPECT_TRUE(t.fits()) << t.change.words;
        EXPECT_NEAR(t.report->step_time_s, step_of(t.json), 1e-12) << t.change.words;
        EXPECT_LT(t.report->step_time_s, a.report.step_time_s) << t.change.words;
    }
    EXPECT_TRUE(std::ranges::is_sorted(a.better, {}, [](const Trial& t) { return t.report->step_time_s; }));
    EXPECT_EQ(a.why_not.size(), 3u);
    for (const WhyNot& w : a.why_not) {
        EXPECT_FALSE(w.answer.empty()) << w.trial.change.words;
        const auto same = [&](const Trial& t) {
            return w.trial.scenario && t.scenario && t.scenario->strategy == w.trial.scenario->strategy &&
                   t.scenario->training == w.trial.scenario->training;
        };
        EXPECT_TRUE(std::ranges::none_of(a.better, same)) << w.trial.change.words << " is named already";
        EXPECT_EQ(std::ranges::count_if(a.why_not, [&](const WhyNot& other) { return same(other.trial); }), w.trial.scenario ? 1 : 0);
    }
    for (const FasterPart& f : a.faster) EXPECT_GE(f.gain, -1e-9) << f.part << " better is never slower";
    EXPECT_GT(a.faster.front().gain, 0.01);
    double path = 0;
    for (const OnPath& p : a.path) path += p.seconds;
    EXPECT_GT(path, 0.9 * a.report.step_time_s) << "the critical path is as long as the step";
    ASSERT_TRUE(a.next);
    EXPECT_LT(a.next->step_time_s, a.report.step_time_s);
    ASSERT_TRUE(a.guide.strategy);
    EXPECT_NE(a.guide.answer.find(a.guide.confirmed ? "confirmed" : "refuted"), std::string::npos);
    EXPECT_FALSE(a.fix);
}

// A change that is said to make it fit fits, is the fastest of those tried, and costs what it is said to cost.
TEST(Advise, CheapestChangeMakesItFit) {
    const std::string json = job(R"("tensor_parallel": 2, "sequence_parallel": true, "pipeline_parallel": 1)", "", 56);
    const Advice a = advice_on(json);
    ASSERT_FALSE(a.report.memory.fits);
    ASSERT_TRUE(a.fix && a.fix->change) << (a.fix ? to_text(*a.fix) : "none");
    const Prediction changed = predict(parse_scenario(a.fix->change->json).scenario.value());
    EXPECT_TRUE(changed.report.memory.fits);
    EXPECT_NEAR(a.fix->costs, changed.report.step_time_s / step_of(json) - 1, 1e-9) << "against the step if it did fit";
    for (const StrategyChange& c : neighbours(a.scenario)) {
        const Trial t = try_one(json, c, {});
        if (!t.fits() || t.peak() < a.fix->change->peak()) continue;
        EXPECT_GE(t.report->step_time_s, a.fix->change->report->step_time_s * (1 - 1e-9)) << c.words;
    }
    EXPECT_NE(a.verdict.find(a.fix->change->change.words), std::string::npos) << a.verdict;
    EXPECT_LE(a.fix->looked_at, FixOptions{}.most);
}

// Whoever makes a change by hand sets what its words say: what follows from it is in brackets.
TEST(StrategyChange, SaysWhatElseItSets) {
    const auto scenario = [](const std::string& strategy) { return parse_scenario(job(strategy)).scenario.value(); };
    const Scenario virtual_stages = scenario(R"("pipeline_parallel": 4, "virtual_pipeline": 3, "schedule": "interleaved-1f1b")");
    EXPECT_EQ(set_degrees(virtual_stages, {0, 2}).words, "pipeline 2") << "12 chunks divide 24 layers";
    EXPECT_EQ(set_degrees(virtual_stages, {0, 16}).words, "pipeline 16 (1f1b without virtual stages)");
    EXPECT_EQ(set_degrees(virtual_stages, {2, 0}).words, "tensor 2 (sequence parallel)");
    EXPECT_EQ(set_degrees(scenario(R"("pipeline_parallel": 1)"), {0, 2}).words, "pipeline 2 (1f1b)");
    const Scenario split = scenario(R"("pipeline_parallel": 4, "layer_split": [7, 7, 7, 3])");
    EXPECT_EQ(set_degrees(split, {0, 2}).words, "pipeline 2 (layers evenly)");
    const Scenario ends = scenario(R"("pipeline_parallel": 4, "layer_split": [6, 6, 7, 5])");
    EXPECT_EQ(set_degrees(ends, {0, 2}).words, "pipeline 2 (layers evenly)") << "not the usual split, though nearly even";
    EXPECT_EQ(set_degrees(scenario(R"("pipeline_parallel": 4, "layer_split": [6, 6, 6, 6])"), {0, 2}).words, "pipeline 2");
    for (const ChangedField& f : set_degrees(split, {2, 4}).fields) EXPECT_NE(f.pointer, "/strategy/layer_split") << "as many stages";
    for (const StrategyChange& c : guide(scenario(R"("recompute": "full", "offload": {"optimizer": "cpu"})")))
        EXPECT_NE(
            c.words.find(c.words.find("on the host") < c.words.find("nothing") ? "optimizer states on the host" : "nothing on the host"),
            std::string::npos)
            << c.words;
    const StrategyChange a{"a", {}}, b{"b", {}};
    EXPECT_EQ(both(both(a, b), both(a, b)).words, "a, b, a and b");
}

TEST(StrategyChange, NeighboursSwitchOverlapsOnAndVaryVirtualStages) {
    const auto words = [](const std::string& strategy) {
        std::set<std::string> all;
        for (const StrategyChange& c : neighbours(parse_scenario(job(strategy)).scenario.value())) all.insert(c.words);
        return all;
    };
    const auto off = words(R"("tensor_parallel": 2, "zero_stage": 1, "overlap": {"grad_reduce": false, "param_gather": false,
        "tensor_parallel": true})");
    EXPECT_TRUE(off.contains("reductions of gradients overlapped") && off.contains("gathers of parameters overlapped"));
    EXPECT_TRUE(off.contains("all communication overlapped"));
    EXPECT_FALSE(off.contains("tensor-parallel communication overlapped")) << "it is on";
    EXPECT_FALSE(off.contains("transfers between stages overlapped")) << "there is one stage";
    const auto stages = words(R"("pipeline_parallel": 2, "virtual_pipeline": 3, "schedule": "interleaved-1f1b")");
    EXPECT_TRUE(stages.contains("interleaved-1f1b with 6 virtual stages") && stages.contains("1f1b without virtual stages"));
    EXPECT_TRUE(words(R"("pipeline_parallel": 4)").contains("interleaved-1f1b with 2 virtual stages"));
    EXPECT_TRUE(
        words(R"("pipeline_parallel": 4, "layer_split": [7, 7, 7, 3])").contains("interleaved-1f1b with 2 virtual stages (layers evenly)"));
    EXPECT_FALSE(words(R"("pipeline_parallel": 8)").contains("interleaved-1f1b with 2 virtual stages")) << "16 chunks of 24 layers";
}

// Fields of kinds: each other kind that the framework has, and none that it has not.
TEST(StrategyChange, TriesOtherKindsThatTheFrameworkHas) {
    const auto changes = [](const std::string& strategy, const std::string& extra = "") {
        std::map<std::string, std::string> all; // by pointer and value: the words
        for (const StrategyChange& c : other_kinds(parse_scenario(job(strategy, extra)).scenario.value()))
            all[c.fields.front().pointer + " " + c.fields.front().value] = c.words;
        return all;
    };
    const std::string moe = R"(, "moe": {"experts": 16, "top_k": 2, "expert_ffn_size": 1024})";
    const auto experts = changes(R"("expert_parallel": 8)", moe);
    const Scenario mixture = parse_scenario(job(R"("expert_parallel": 8)", moe)).scenario.value();
    for (const TokenDispatcher d : {TokenDispatcher::alltoall, TokenDispatcher::allgather, TokenDispatcher::deepep})
        EXPECT_EQ(experts.contains(std::string("/runtime/token_dispatcher \"") + name(d) + '"'), d != mixture.runtime.token_dispatcher)
            << name(d);
    EXPECT_TRUE(changes(R"("tensor_parallel": 8)").empty());
    const auto context = changes(R"("context_parallel": 4, "context_parallel_kind": "ring")");
    EXPECT_TRUE(context.contains("/strategy/context_parallel_kind \"ulysses\""));
    const auto stages = changes(R"("pipeline_parallel": 4)");
    EXPECT_TRUE(stages.contains("/strategy/rank_order \"tp-cp-ep-pp-dp\""));
    for (const auto& [what, words] : stages) EXPECT_EQ(what.find("zb"), std::string::npos) << "Megatron has no zero bubble: " << words;
    EXPECT_TRUE(changes(R"("pipeline_parallel": 4, "rank_order": "tp-cp-ep-pp-dp")").contains("/strategy/rank_order \"tp-cp-ep-dp-pp\""));
    nlohmann::json j = nlohmann::json::parse(job(R"("pipeline_parallel": 4)"));
    j["strategy"].erase("framework");
    const Scenario open = parse_scenario(j.dump()).scenario.value();
    const std::vector<StrategyChange> all = other_kinds(open);
    const auto zb = std::ranges::find(all, "the schedule zb-v", &StrategyChange::words);
    ASSERT_NE(zb, all.end()) << "no framework is named: what is known here";
    const Trial t = try_one(j.dump(), *zb, {});
    ASSERT_TRUE(t.scenario) << t.refused;
    EXPECT_EQ(t.scenario->strategy.schedule, "zb-v");
    EXPECT_EQ(t.scenario->strategy.virtual_pipeline, 2);
    EXPECT_TRUE(std::ranges::none_of(all, [](const StrategyChange& c) { return c.words.find("async") != std::string::npos; }));
}

// No other kind that was tried beats the change named first.
TEST(Advise, NoOtherKindIsFasterThanTheBestNamed) {
    const std::string json = job(R"("pipeline_parallel": 2, "tensor_parallel": 4, "rank_order": "tp-cp-ep-pp-dp", "zero_stage": 1)");
    const Advice a = advice_on(json);
    for (const StrategyChange& c : other_kinds(a.scenario)) {
        const Trial t = try_one(json, c, {});
        if (!t.fits() || t.report->step_time_s >= a.report.step_time_s * 0.999) continue;
        ASSERT_FALSE(a.better.empty()) << c.words;
        EXPECT_LE(a.better.front().report->step_time_s, t.report->step_time_s * (1 + 1e-9)) << c.words;
    }
}

// Two sites over a thin link: replicas that meet seldom are far faster, and stand apart from what leaves the numbers as they are.
TEST(Advise, NamesOtherTrainingsApart) {
    nlohmann::json j = nlohmann::json::parse(job(R"("tensor_parallel": 8)"));
    j["cluster"]["inter_node"] = {{"kind", "ethernet"}, {"nics_per_node", 1}, {"gbit_per_s", 1}, {"latency_us", 20000}};
    const Advice a = advice_on(j.dump());
    ASSERT_FALSE(a.otherwise.empty());
    EXPECT_NE(a.otherwise.front().change.words.find("DiLoCo"), std::string::npos);
    EXPECT_LT(a.otherwise.front().report->step_time_s, 0.5 * a.report.step_time_s);
    for (const Trial& t : a.better) EXPECT_EQ(t.scenario->strategy.synchronization, a.scenario.strategy.synchronization) << t.change.words;
    EXPECT_NE(to_text(a, TextStyle{}).find("Another training"), std::string::npos);
    EXPECT_TRUE(advice_on(job(R"("tensor_parallel": 8, "pipeline_parallel": 2)")).otherwise.empty()) << "one replica";
}

// Workers on a thin link: how often they meet, what they send and in how many parts are the levers of the job. None leaves its numbers.
TEST(Advise, NamesTheLeversOfWorkersThatMeetSeldom) {
    const auto with_kind = [](const std::string& kind) {
        nlohmann::json j = nlohmann::json::parse(job(R"("data_parallel": 16, "zero_stage": 0)", "", 2));
        j["cluster"]["inter_node"] = {{"kind", "ethernet"}, {"nics_per_node", 1}, {"gbit_per_s", 1}, {"latency_us", 20000}};
        j["strategy"]["synchronization"] = {{"kind", kind}, {"inner_steps", 20}};
        if (kind == "streaming_diloco") j["strategy"]["synchronization"]["fragments"] = 2;
        return j.dump();
    };
    const auto fields = [&](const std::string& kind) {
        std::set<std::string> all;
        for (const StrategyChange& c : other_trainings(parse_scenario(with_kind(kind)).scenario.value()))
            all.insert(c.fields.front().pointer + " " + c.fields.front().value);
        return all;
    };
    const std::string of = "/strategy/synchronization/";
    const std::set<std::string> local = fields("local_sgd"), diloco = fields("diloco"), streaming = fields("streaming_diloco");
    EXPECT_EQ(local, (std::set<std::string>{of + "inner_steps 80", of + "inner_steps 40", of + "inner_steps 10"}));
    for (const char* lever : {"inner_steps 40", "payload_dtype \"bf16\"", "payload_dtype \"int4\"", "kind \"streaming_diloco\""})
        EXPECT_TRUE(diloco.contains(of + lever)) << lever;
    for (const char* lever : {"inner_steps 40", "payload_dtype \"int8\"", "fragments 4", "fragments 1", "overlap_steps 1"})
        EXPECT_TRUE(streaming.contains(of + lever)) << lever;
    EXPECT_TRUE(fields("parameter_server").contains(of + "payload_dtype \"bf16\""));

    const Advice a = advice_on(with_kind("diloco"));
    ASSERT_FALSE(a.otherwise.empty());
    for (const Trial& t : a.otherwise) EXPECT_LT(t.report->step_time_s, a.report.step_time_s) << t.change.words;
    const auto faster = [&](const std::string& words) {
        return std::ranges::any_of(a.otherwise, [&](const Trial& t) { return t.change.words == words; });
    };
    EXPECT_TRUE(faster("meetings every 40 steps"));
    EXPECT_TRUE(faster("payloads in bf16"));
    EXPECT_FALSE(faster("meetings every 10 steps"));
    for (const Trial& t : a.better) EXPECT_EQ(t.scenario->strategy.synchronization, a.scenario.strategy.synchronization) << t.change.words;
    EXPECT_NE(to_text(a, TextStyle{}).find("none is free"), std::string::npos);
}

// Overlaps that are switched on are simulated, and are no slower.
TEST(Advise, TriesOverlapsThatAreOff) {
    const Advice a = advice_on(job(R"("zero_stage": 1, "overlap": {"grad_reduce": false, "param_gather": false})", "", 20));
    const auto found = std::ranges::find(a.better, "all communication overlapped", [](const Trial& t) { return t.change.words; });
    ASSERT_NE(found, a.better.end());
    EXPECT_LT(found->report->step_time_s, a.report.step_time_s);
}

// nanotron divides layers by their cost where nobody says otherwise: an even split that is stated is given up with its stages.
TEST(StrategyChange, SaysThatAnEvenSplitIsGivenUp) {
    const auto words = [](const std::string& split) {
        nlohmann::json j = nlohmann::json::parse(job(R"("pipeline_parallel": 4)" + split));
        j["strategy"]["framework"] = "nanotron";
        return set_degrees(parse_scenario(j.dump()).scenario.value(), {0, 2}).words;
    };
    EXPECT_EQ(words(R"(, "layer_split": [6, 6, 6, 6])"), "pipeline 2 (layers by their cost)");
    EXPECT_EQ(words(""), "pipeline 2");
}

// Rates of what the job leans on: the host's and NVMe's where something lives there, each as if the scenario said so.
TEST(Advise, RaisesRatesOfTheHostWhereItIsUsed) {
    const auto with_rate = [](double pcie) {
        return R"({"model": {"layers": 4, "hidden_size": 2048, "attention_heads": 16, "vocab_size": 32000}, "cluster": {"device": "rtx-4090",
            "nodes": 1, "devices_per_node": 1, "host": {"memory_gb": 64, "memory_gb_per_s": 80, "nvme_gb": 500, "nvme_gb_per_s": 5,
            "pcie_gb_per_s": )" +
               std::to_string(pcie) + R"(}}, "training": {"global_batch_size": 4, "sequence_length": 1024, "precision": "bf16"},
            "strategy": {"framework": "deepspeed", "zero_stage": 3, "offload": {"optimizer": "nvme", "parameters": "cpu"}}})";
    };
    const Advice a = advice_on(with_rate(20));
    std::map<std::string, double> seconds;
    for (const FasterPart& f : a.faster) seconds[f.part] = f.step_time_s;
    ASSERT_TRUE(seconds.contains("links to the hosts (PCIe)") && seconds.contains("hosts' memory and updates") &&
                seconds.contains("NVMe of the hosts"));
    EXPECT_NEAR(seconds["links to the hosts (PCIe)"], step_of(with_rate(22)), 1e-9);
    EXPECT_LT(seconds["NVMe of the hosts"], a.report.step_time_s);
    EXPECT_FALSE(std::ranges::any_of(advice_on(job(R"("tensor_parallel": 4)")).faster,
                                     [](const FasterPart& f) { return f.part.find("PCIe") != std::string::npos; }));
}

// Layers by stage, in words and in the plan: less memory on those stages, and a longer step.
TEST(StrategyChange, RecomputesLayersOfSomeStages) {
    const std::string json = job(R"("tensor_parallel": 4, "sequence_parallel": true, "pipeline_parallel": 2)");
    const StrategyChange some = recompute_of({8, 0});
    EXPECT_EQ(some.words, "full recompute of 8 layers on stage 0");
    const Trial none = try_one(json, {}, {}), with_some = try_one(json, some, {}), with_more = try_one(json, recompute_of({12, 0}), {});
    ASSERT_TRUE(none.fits() && with_some.fits() && with_more.fits()) << with_some.refused;
    const auto peak = [](const Trial& t, std::size_t stage) { return t.report->memory.stages[stage].peak; };
    EXPECT_LT(peak(with_some, 0), peak(none, 0));
    EXPECT_LT(peak(with_more, 0), peak(with_some, 0));
    EXPECT_EQ(peak(with_some, 1), peak(none, 1));
    EXPECT_GT(with_some.report->step_time_s, none.report->step_time_s);
}

TEST(Fix, NamesTheSmallestClusterWhereNoStrategyFits) {
    const std::string json = R"({"name": "big", "model": "llama3-405b", "cluster": {"preset": "dgx-a100-40gb", "nodes": 2},
        "training": {"global_batch_size": 64, "sequence_length": 8192}, "strategy": {"framework": "megatron", "tensor_parallel": 8, "pipeline_parallel": 2}})";
    FixOptions options;
    options.most = 200;
    const Fix fix = cheapest_fix(json, options);
    EXPECT_FALSE(fix.change);
    ASSERT_TRUE(fix.cluster) << to_text(fix);
    EXPECT_TRUE(predict(parse_scenario(fix.cluster->json).scenario.value()).report.memory.fits);
    EXPECT_NE(to_text(fix).find("nodes"), std::string::npos) << to_text(fix);
    const int nodes = fix.cluster->scenario->cluster.nodes;
    EXPECT_NE(nodes & (nodes - 1), 0) << "between two doublings: " << to_text(fix);
    const auto fits_on = [&](int n) { // any strategy that is looked at, on this many nodes
        return std::ranges::any_of(least_memory(*parse_scenario(json).scenario, n, false),
                                   [&](const StrategyChange& c) { return try_one(json, both(set_nodes(n), c), {}).fits(); });
    };
    EXPECT_FALSE(fits_on(nodes - 1)) << to_text(fix);
    ASSERT_TRUE(fix.with_hosts) << "states on hosts need fewer nodes: " << to_text(fix);
    EXPECT_LT(fix.with_hosts->scenario->cluster.nodes, nodes);
    EXPECT_TRUE(predict(parse_scenario(fix.with_hosts->json).scenario.value()).report.memory.fits);
    options.most = 10;
    options.most_for_clusters = 10;
    EXPECT_LE(cheapest_fix(json, options).looked_at, 40) << "bounded";
}

// The answer is about the job: where its strategy is left to a search, or stated and of no use, the same number of nodes comes out.
TEST(Fix, NamesTheSameClusterWhateverWasTriedBefore) {
    const std::string begin = R"({"name": "big", "model": "llama3-70b", "cluster": {"preset": "dgx-a100-40gb", "nodes": 1},
        "training": {"global_batch_size": 64, "sequence_length": 8192}, "strategy": {"framework": "megatron")";
    const std::string open = begin + "}}";
    std::pair<int, int> first;
    for (const char* stated :
         {"", R"(, "tensor_parallel": 8)", R"(, "tensor_parallel": 4, "pipeline_parallel": 2, "recompute": "selective")"}) {
        for (const std::string& of : {std::string(), open}) {
            FixOptions options;
            options.costs = false;
            options.most = stated[0] ? 60 : 12;
            options.cluster_of = of;
            const Fix fix = cheapest_fix(begin + stated + "}}", options);
            ASSERT_TRUE(fix.cluster && fix.with_hosts) << to_text(fix);
            const std::pair<int, int> nodes{fix.cluster->scenario->cluster.nodes, fix.with_hosts->scenario->cluster.nodes};
            if (first.first == 0) first = nodes;
            EXPECT_EQ(nodes, first) << stated << ": " << to_text(fix);
        }
    }
}

// Where the scenario says where states live, no cluster is named that has them elsewhere.
TEST(Fix, KeepsStatesWhereTheScenarioHasThem) {
    const std::string begin = R"({"name": "big", "model": "llama3-70b", "cluster": {"preset": "dgx-a100-40gb", "nodes": 1},
        "training": {"global_batch_size": 64, "sequence_length": 8192}, "strategy": {"framework": "megatron")";
    const std::string open = begin + "}}";
    FixOptions options;
    options.costs = false;
    options.most = 12;
    const auto on_hosts = [&](const std::string& json) {
        const Fix fix = cheapest_fix(json, options);
        EXPECT_TRUE(fix.cluster) << to_text(fix);
        return fix.with_hosts.has_value();
    };
    EXPECT_TRUE(on_hosts(open));
    EXPECT_FALSE(on_hosts(begin + R"(, "offload": {"optimizer": "none"}}})"));
    options.cluster_of = begin + R"(, "offload": {"optimizer": "none"}}})"; // of a search
    EXPECT_FALSE(on_hosts(open));
    options.cluster_of = open;
    EXPECT_TRUE(on_hosts(open));
    options.hosts = false; // the search's space says so
    EXPECT_FALSE(on_hosts(open));
}

// A step's memory does not grow with its microbatches: a job of very many is tried with fewer, and the answer holds for all of them.
TEST(Fix, OfVeryManyMicrobatchesIsThatOfFewer) {
    const auto fix_of = [](int batch) {
        nlohmann::json j = nlohmann::json::parse(R"({"model": "llama3-8b", "cluster": {"preset": "dgx-h100", "nodes": 1},
            "training": {"micro_batch_size": 8, "sequence_length": 8192},
            "strategy": {"framework": "megatron", "tensor_parallel": 4, "zero_stage": 1}})");
        j["training"]["global_batch_size"] = batch;
        return cheapest_fix(j.dump(), {});
    };
    const Fix few = fix_of(512), many = fix_of(64000);
    ASSERT_TRUE(few.change) << to_text(few);
    ASSERT_TRUE(many.change) << to_text(many);
    EXPECT_EQ(many.change->scenario->training.global_batch_size, 64000);
    EXPECT_TRUE(many.change->fits());
    EXPECT_EQ(many.change->peak(), try_one(many.change->json, {}, {}).peak());
}

TEST(Fix, StopsInTime) {
    const std::string json = R"({"name": "big", "model": "llama3-405b", "cluster": {"preset": "dgx-a100-40gb", "nodes": 2},
        "training": {"global_batch_size": 64, "sequence_length": 8192}, "strategy": {"framework": "megatron", "tensor_parallel": 8, "pipeline_parallel": 2}})";
    FixOptions options;
    options.seconds = 1e-9;
    const Fix fix = cheapest_fix(json, options);
    EXPECT_TRUE(fix.out_of_time);
    EXPECT_FALSE(fix.change || fix.cluster);
    EXPECT_NE(to_text(fix).find("simrun advise"), std::string::npos) << to_text(fix);
}

// 8 billion parameters on one card: their states go as far as they must, and only where the framework can put them.
TEST(Fix, PutsStatesWhereThereIsRoom) {
    const auto told = [](const char* framework, int host_gb, int nvme_gb) {
        nlohmann::json j = nlohmann::json::parse(R"({"model": "llama3-8b", "cluster": {"device": "rtx-4090", "nodes": 1,
            "devices_per_node": 1, "host": {"memory_gb_per_s": 80, "pcie_gb_per_s": 32, "nvme_read_gb_per_s": 7, "nvme_write_gb_per_s": 6}},
            "training": {"global_batch_size": 16, "micro_batch_size": 1, "sequence_length": 2048, "precision": "bf16"}})");
        j["cluster"]["host"]["memory_gb"] = host_gb;
        if (nvme_gb > 0) j["cluster"]["host"]["nvme_gb"] = nvme_gb;
        j["strategy"] = {{"framework", framework}};
        const Fix fix = cheapest_fix(j.dump(), {});
        if (!fix.change) return std::string();
        EXPECT_TRUE(predict(parse_scenario(fix.change->json).scenario.value()).report.memory.fits) << to_text(fix);
        return fix.change->change.words;
    };
    EXPECT_EQ(told("deepspeed", 192, 0), "parameters, gradients and optimizer states on the host");
    EXPECT_EQ(told("fsdp2", 192, 0), "parameters, gradients and optimizer states on the host");
    EXPECT_EQ(told("deepspeed", 64, 2000), "parameters and gradients on the host, optimizer states on NVMe");
    EXPECT_EQ(told("fsdp2", 64, 2000), "") << "its policy has no disk";
    EXPECT_EQ(told("ddp", 192, 2000), "");
}

TEST(Advise, SaysProblemsOfAScenario) {
    const AdviceResult r = advise(R"({"model": "no such model"})", {});
    EXPECT_FALSE(r.advice);
    EXPECT_FALSE(r.problems.empty());
    AdviseOptions overriding;
    overriding.parsing.overrides = {"strategy.tensor_parallel=8"};
    const AdviceResult eight = advise(job(R"("tensor_parallel": 4, "pipeline_parallel": 2)"), overriding);
    ASSERT_TRUE(eight.advice);
    EXPECT_EQ(eight.advice->scenario.strategy.tensor_parallel, 8);
}

TEST(Advise, PrintsTextAndJson) {
    const Advice a = advice_on(job(R"("tensor_parallel": 4, "sequence_parallel": true, "pipeline_parallel": 2)"));
    const std::string text = to_text(a, TextStyle{});
    for (const char* word : {"What limits it", "Next bottleneck", "A better machine", "Why not", "The field's guide"})
        EXPECT_NE(text.find(word), std::string::npos) << word;
    const auto j = nlohmann::json::parse(to_json(a));
    for (const char* key : {"verdict", "critical_path", "next_bottleneck", "ten_percent_faster", "better", "why_not", "guide"})
        EXPECT_TRUE(j.contains(key)) << key;
}

// The same jobs, whoever runs them; each claim is counted once a job at most.
TEST(Rules, DoNotDependOnThreads) {
    const auto one = check_rules(3, 7, 1), two = check_rules(3, 7, 2);
    ASSERT_EQ(one.size(), 14u);
    int applied = 0;
    for (std::size_t i = 0; i < one.size(); ++i) {
        EXPECT_EQ(one[i].effects, two[i].effects) << one[i].claim;
        EXPECT_LE(one[i].applies, 3);
        EXPECT_LE(one[i].holds + one[i].ties, one[i].applies);
        applied += one[i].applies;
    }
    EXPECT_GT(applied, 10);
}

} // namespace
} // namespace orrery

// Do laws come back from samples that follow them, and is what calibrate writes a cluster that simrun takes?
#include "exec/calibrate/calibrate.hpp"

#include "sim/cost/cost.hpp"
#include "sim/plan/lower.hpp"
#include "sim/scenario/parse.hpp"
#include "topology/fabric.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <fstream>
#include <unistd.h>

namespace orrery {
namespace {

TEST(FitLaws, FindTheLawTheSamplesFollow) {
    const KernelLaw linear{3, 80, 12}, norm{1.5, 0, 9};
    std::vector<KernelSample> samples;
    for (const double m : {16, 64, 256, 1024})
        for (const double k : {64, 256, 1024}) {
            const KernelSize size{2 * m * k * k, 4 * (2 * m * k + k * k)};
            samples.push_back({"linear fwd fp32", size, law_us(linear, size)});
            samples.push_back({"norm fwd fp32", {0, 8 * m * k}, law_us(norm, {0, 8 * m * k})});
        }
    samples[6].us *= 4; // something else ran
    const auto laws = fit_laws(samples);
    ASSERT_EQ(laws.size(), 2u);
    const FittedLaw &l = laws.at("linear fwd fp32"), &n = laws.at("norm fwd fp32");
    EXPECT_EQ(l.points, 12);
    for (const KernelSample& s : samples) {
        if (&s == &samples[6]) continue;
        EXPECT_NEAR(law_us(laws.at(s.key).law, s.size) / s.us, 1, 0.08) << s.key << " " << s.size.flops;
    }
    EXPECT_EQ(n.law.gflops_per_s, 0);
    EXPECT_LT(l.error, 0.03);
}

TEST(SampleKernels, MeetsEveryKindAStepHas) {
    const auto samples = sample_kernels({.steps = 1, .scale = 0.25});
    std::map<std::string, int> sizes;
    for (const KernelSample& s : samples) {
        ++sizes[s.key];
        EXPECT_GE(s.us, 0) << s.key;
        EXPECT_GT(s.size.bytes, 0) << s.key;
    }
    for (const char* key :
         {"linear fwd fp32", "linear dx fp32", "linear dw fp32", "attention fwd causal fp32", "attention bwd causal fp32", "norm fwd fp32",
          "norm bwd fp32", "gelu fwd fp32", "swiglu bwd fp32", "embedding fwd fp32", "cross-entropy sums fp32", "optimizer adam fp32",
          "all-gather fp32 of ranks", "reduce-scatter fp32 of ranks", "all-reduce fp32 of ranks", "transfer of ranks"})
        EXPECT_GE(sizes[key], 3) << key;
}

// Communication between ranks in one memory takes what was measured, of a size of its own or of its kind; a faster link no longer matters.
// Where ranks are on several nodes, it takes what the links allow.
TEST(MeasuredCommunication, IsPricedByItsLaw) {
    const auto cost = [](int nodes, auto&& ask) {
        ParseResult r = parse_scenario(R"({"name": "m", "model": {"layers": 2, "hidden_size": 64, "attention_heads": 4, "vocab_size": 256},
            "cluster": {"preset": "local-cpu", "devices_per_node": 4, "nodes": )" +
                                       std::to_string(nodes) + R"(}, "training": {"global_batch_size": 8, "sequence_length": 32,
            "precision": "fp32"}, "strategy": {}})");
        EXPECT_TRUE(r.scenario) << to_text(r.problems);
        std::map<std::string, KernelLaw>& laws = r.scenario->cluster.device.kernels;
        laws["all-gather fp32 of ranks"] = {2, 0, 10};
        laws[kernel_key("all-gather fp32 of ranks", {0, 4e4})] = {77, 0, 0};
        laws["transfer of ranks"] = {1, 0, 5};
        const Fabric fabric(r.scenario->cluster);
        return ask(CostModel(*r.scenario, fabric));
    };
    const std::vector<int> four{0, 1, 2, 3};
    Collective gather{CollectiveKind::all_gather, 0, Bytes{1'000'000}, DType::fp32};
    const auto gathered = [&](const CostModel& c) { return c.collective(gather, four); };
    EXPECT_NEAR(cost(1, gathered).latency.seconds() * 1e6, 2 + 4e6 / 1e4, 1e-6);
    EXPECT_EQ(cost(1, gathered).algorithm, "measured");
    EXPECT_NE(cost(2, gathered).algorithm, "measured");
    gather.bytes = Bytes{10'000};
    EXPECT_NEAR(cost(1, gathered).latency.seconds() * 1e6, 77, 1e-6);
    gather.dtype = DType::bf16; // no law
    EXPECT_NE(cost(1, gathered).algorithm, "measured");
    const CommCost sent = cost(1, [](const CostModel& c) { return c.transfer(Bytes{500'000}, 0, 3); });
    EXPECT_NEAR(sent.latency.seconds() * 1e6, 1 + 100, 1e-6);
    EXPECT_EQ(sent.payload, 0);
}

// At a scenario's own sizes: each op of every rank takes what was measured, not what the law of its kind says.
TEST(SampleKernels, OwnSizesOfAScenarioHaveLawsOfTheirOwn) {
    const ParseResult r =
        parse_scenario(R"({"name": "own", "model": {"layers": 2, "hidden_size": 64, "attention_heads": 4, "vocab_size": 256,
        "position": "rope", "activation": "swiglu"}, "cluster": {"preset": "local-cpu", "nodes": 1, "devices_per_node": 2},
        "training": {"global_batch_size": 4, "sequence_length": 32, "precision": "fp32", "optimizer": "adamw"},
        "strategy": {"framework": "megatron", "pipeline_parallel": 2, "schedule": "1f1b"}})");
    ASSERT_TRUE(r.scenario) << to_text(r.problems);
    const std::vector<KernelSample> own = sample_own({.steps = 1}, *r.scenario);
    std::map<std::string, FittedLaw> laws;
    add_own_laws(laws, own);
    Device device;
    for (const auto& [key, law] : laws) device.kernels[key] = law.law;
    const Plan plan = lower(*r.scenario);
    std::map<std::string, int> kinds;
    for (const Block& block : plan.blocks)
        for (const Op& op : block.ops) {
            if (op.queue != compute_queue || std::holds_alternative<Alloc>(op.work) || std::holds_alternative<Free>(op.work)) continue;
            const auto us = measured_us(device, plan, op);
            ASSERT_TRUE(us) << kernel_key(plan, op);
            EXPECT_GE(*us, 0);
            ++kinds[kernel_key(plan, op)];
        }
    for (const char* key : {"rope fwd fp32", "rope bwd fp32", "swiglu fwd fp32", "attention fwd causal fp32"})
        EXPECT_GT(kinds[key], 0) << key;
}

// Ops of one size and different parts were measured apart: caches hold what one reads, and not what another does.
TEST(MeasuredOps, GoByTheirPartBeforeTheirSize) {
    const ParseResult r =
        parse_scenario(R"({"name": "parts", "model": {"layers": 3, "hidden_size": 64, "attention_heads": 4, "vocab_size": 256},
        "cluster": {"preset": "local-cpu", "nodes": 1, "devices_per_node": 1},
        "training": {"global_batch_size": 1, "sequence_length": 32, "precision": "fp32"}, "strategy": {"framework": "ddp"}})");
    ASSERT_TRUE(r.scenario) << to_text(r.problems);
    const Plan plan = lower(*r.scenario);
    std::map<std::string, std::vector<const Op*>> parts; // of the norms forward, all of one size
    for (const Block& block : plan.blocks)
        for (const Op& op : block.ops)
            if (kernel_key(plan, op) == "norm fwd fp32") parts[part_of(op)].push_back(&op);
    ASSERT_EQ(parts.size(), 3u); // before attention, before the MLP, behind all layers
    EXPECT_EQ(parts.begin()->second.size(), 1u);
    EXPECT_EQ(parts.rbegin()->second.size(), 3u);
    const Op &before = *parts.rbegin()->second.front(), &last = *parts.rbegin()->second.back(), &behind = *parts.begin()->second.front();
    const std::string key = kernel_key(plan, before);
    const KernelSize size = kernel_size(plan, before);
    Device device;
    device.kernels[kernel_key(key, size)] = {40, 0, 0};
    device.kernels[kernel_key(key, size, part_of(before))] = {13, 0, 0};
    EXPECT_EQ(measured_us(device, plan, before), 13);
    EXPECT_EQ(measured_us(device, plan, last), 13); // of another layer
    EXPECT_EQ(measured_us(device, plan, behind), 40);
}

// The whole way: what was measured is written, read by a scenario, and times its ops.
TEST(ClusterFile, IsTakenByAScenarioAsItIs) {
    const std::vector<KernelSample> samples{
        {"linear fwd fp32", {2e6, 1e5}, 100}, {"linear fwd fp32", {8e6, 4e5}, 390}, {"linear fwd fp32", {2e7, 1e6}, 980}};
    const MachineFacts machine{"a \"processor\"", "a library", 4, 16000, 32, 9.5, 0.4};
    const auto laws = fit_laws(samples);
    const auto folder = std::filesystem::temp_directory_path() / ("orrery-calibrate-" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder);
    std::ofstream(folder / "local.json") << cluster_json(machine, laws, samples);
    ParseOptions options;
    options.base_dir = folder.string();
    const ParseResult r =
        parse_scenario(R"({"name": "t", "model": {"layers": 2, "hidden_size": 64, "attention_heads": 4, "vocab_size": 256},
        "cluster": "local.json", "training": {"global_batch_size": 4, "sequence_length": 32, "precision": "fp32"}, "strategy": {}})",
                       options);
    std::filesystem::remove_all(folder);
    ASSERT_TRUE(r.scenario) << to_text(r.problems);
    const Device& device = r.scenario->cluster.device;
    ASSERT_TRUE(device.kernels.contains("linear fwd fp32"));
    EXPECT_NEAR(law_us(device.kernels.at("linear fwd fp32"), samples[1].size), 390, 20);
    EXPECT_EQ(r.scenario->cluster.devices_per_node, 4);
    EXPECT_EQ(device.launch_us, 0);
    EXPECT_NEAR(device.scale_up.value, 9.5e9, 1e7);
}

TEST(Machine, HasAMemoryThatCopiesAndThreadsThatMeet) {
    const MachineFacts m = measure_machine();
    EXPECT_GE(m.cores, 1);
    EXPECT_GT(m.memory_mib, 100);
    EXPECT_GT(m.copy_gb_per_s, 0.1);
    EXPECT_GT(m.handover_us, 0);
    EXPECT_FALSE(m.processor.empty());
    EXPECT_FALSE(m.gemm.empty());
}

TEST(Calibrate, SavesAreMeasuredAndTheirFolderIsGone) {
    const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / ("orrery_saves_" + std::to_string(getpid()));
    const SaveFacts f = measure_saves(folder);
    EXPECT_GT(f.write_gb_per_s, 1e-3);
    EXPECT_GE(f.save_fixed_s, 0);
    EXPECT_FALSE(std::filesystem::exists(folder));
}

// What supervised runs took is what a run on that cluster takes.
TEST(ClusterFile, ItsRunIsTheDefaultOfRuns) {
    const std::vector<KernelSample> samples{{"linear fwd fp32", {2e6, 1e5}, 100}};
    const MachineFacts machine{"a processor", "a library", 4, 16000, 32, 9.5, 0.4};
    for (const bool waits : {false, true}) {
        RunFacts f;
        f.waits = waits;
        f.detect_s = 0.01, f.start_s = 0.25, f.block_s = 0.002, f.copy_gb_per_s = 4, f.read_gb_per_s = 2, f.write_gb_per_s = 0.5;
        const std::string cluster = cluster_json(machine, fit_laws(samples), samples, f);
        const ParseResult r = parse_scenario(
            R"({"model": {"layers": 2, "hidden_size": 64, "attention_heads": 4, "vocab_size": 256}, "cluster": )" + cluster +
            R"(, "training": {"global_batch_size": 4, "sequence_length": 32, "precision": "fp32"}, "strategy": {}, "run": {"steps": 9}})");
        ASSERT_TRUE(r.scenario) << to_text(r.problems);
        const WholeRun& run = *r.scenario->run;
        EXPECT_EQ(run.detect.crash, 0.01);
        EXPECT_EQ(run.restart.init_s, 0.25);
        EXPECT_EQ(run.restart.schedule_s + run.restart.compile_s + run.restart.init_s_per_1024_ranks, 0);
        EXPECT_EQ(run.failures.transient, 1);
        EXPECT_EQ(run.checkpoint.kind, waits ? CheckpointKind::sync : CheckpointKind::async);
        EXPECT_EQ(run.checkpoint.barrier_s, 0.002);
        EXPECT_NEAR(r.scenario->cluster.storage.write.value, 0.5e9, 1);
        EXPECT_NEAR(r.scenario->cluster.storage.read.value, 2e9, 1);
    }
}

} // namespace
} // namespace orrery

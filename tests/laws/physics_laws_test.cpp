// Does a faster machine ever make a step slower, does the host wait where its code does, does the same input give the same bytes, and do
// the wires carry what rings must?
#include "sim/report/report.hpp"
#include "tests/laws/mixture.hpp"
#include "tests/laws/scenarios.hpp"
#include "tests/laws/simulations.hpp"

#include <nlohmann/json.hpp>

namespace orrery::laws {
namespace {

Gpt mixed() {
    Gpt g;
    g.tp = 2;
    g.sp = true;
    g.pp = 2;
    g.dp = 4;
    g.zero = 1;
    g.flash = true;
    g.microbatches = 6;
    return g;
}

TEST(PhysicsLaws, MoreBandwidthOrRateIsNeverSlower) {
    Scenario base = mixed().make();
    base.runtime.year = 2022; // before the host's calls are known: with them a model this small waits for its host alone
    const double step = step_of(base);
    for (double factor : {1.1, 1.5, 2.0, 4.0}) {
        Scenario s = base;
        s.cluster.intra.bandwidth = s.cluster.intra.bandwidth * factor;
        EXPECT_LE(step_of(s), step * (1 + 1e-9)) << "scale-up links x " << factor;
        s = base;
        s.cluster.inter.nic_bandwidth = s.cluster.inter.nic_bandwidth * factor;
        EXPECT_LE(step_of(s), step * (1 + 1e-9)) << "NICs x " << factor;
        s = base;
        s.cluster.device.memory_bandwidth = s.cluster.device.memory_bandwidth * factor;
        EXPECT_LE(step_of(s), step * (1 + 1e-9)) << "memory x " << factor;
        s = base;
        for (auto& [precision, peak] : s.cluster.device.peak) peak = peak * factor;
        EXPECT_LT(step_of(s), step) << "FLOP/s x " << factor;
    }
}

// NICs of a single node lead to storage alone: slow ones change no step, and a note says so.
TEST(PhysicsLaws, SlowNicsOfASingleNodeHaveNoEffectAndAreNamed) {
    const auto report_of = [](int nodes, const std::string& more) {
        const ParseResult read = parse_scenario(
            R"({"model": "gpt2-124m", "training": {"global_batch_size": 32, "micro_batch_size": 1, "sequence_length": 1024},
                "cluster": {"preset": "dgx-a100-80gb", "nodes": )" +
            std::to_string(nodes) + "}" + more + "}");
        EXPECT_TRUE(read.scenario) << to_text(read.problems);
        return predict(read.scenario.value()).report;
    };
    const auto named = [](const Report& r) {
        return std::ranges::count(r.notes, std::string("perturb[0] has no effect: no traffic takes nic")) == 1;
    };
    const std::string slow = R"(, "perturb": [{"slow": 2, "link": "nic"}])";
    const Report one = report_of(1, slow), two = report_of(2, slow);
    EXPECT_TRUE(named(one));
    EXPECT_EQ(one.step_time_s, report_of(1, "").step_time_s);
    EXPECT_FALSE(named(two));
    EXPECT_GT(two.step_time_s, report_of(2, "").step_time_s);
}

TEST(PhysicsLaws, MoreDataParallelRanksNeverSlowTheSameGlobalBatch) {
    double before = 1e30;
    for (int dp : {1, 2, 4, 8}) {
        Gpt g = mixed();
        g.dp = dp;
        g.microbatches = 16 / dp;
        const double step = step_of(g.make());
        EXPECT_LT(step, before) << dp;
        before = step;
    }
}

TEST(PhysicsLaws, TheHostWaitsForLossesAndTheNormWhereTheirCodeReadsThem) {
    const auto waits = [](const char* framework, int year, bool graphs, const std::string& suffix) {
        Scenario s = mixed().make();
        s.strategy.framework = named<Framework>(framework).value();
        s.runtime.year = year;
        s.runtime.cuda_graphs = graphs;
        const Plan plan = lower(s);
        int n = 0;
        each_op(plan, static_cast<int>(plan.programs.size()) - 1, // the last stage, which has the losses
                [&](const Block&, const Op& op) { n += std::holds_alternative<HostSync>(op.work) && op.name.ends_with(suffix); });
        return n;
    };
    EXPECT_EQ(waits("megatron", 2025, false, ".read"), mixed().microbatches);
    EXPECT_EQ(waits("megatron", 2025, true, ".read"), 0);
    EXPECT_EQ(waits("megatron", 2022, false, ".read"), 0);
    for (const char* framework : {"megatron", "nemo", "deepspeed"}) EXPECT_EQ(waits(framework, 2022, false, "norm.wait"), 1) << framework;
    EXPECT_EQ(waits("fsdp", 2025, false, ".read") + waits("fsdp", 2025, false, "norm.wait"), 0);
}

// The first and the last stage load every microbatch, beside what they compute: where loading takes longer, it is the step.
TEST(PhysicsLaws, MicrobatchesAreLoadedOneByOneWhereTokensOrLabelsAreWanted) {
    Gpt deep = mixed();
    deep.pp = 4;
    Scenario s = deep.make();
    s.runtime.dataloader_us = 100;
    const Plan plan = lower(s);
    for (int stage = 0; stage < 4; ++stage) {
        int loads = 0;
        each_op(plan, stage, [&](const Block&, const Op& op) { loads += op.name == "load_data"; });
        EXPECT_EQ(loads, stage == 0 || stage == 3 ? deep.microbatches : 0) << stage;
    }
    Gpt one;
    one.microbatches = 8;
    s = one.make();
    const double alone = step_of(s), load = 10 * alone / 8;
    s.runtime.dataloader_us = load * 1e6;
    EXPECT_GE(step_of(s), 8 * load * (1 - 1e-9));
    EXPECT_LE(step_of(s), (8 * load + alone) * (1 + 1e-9));
    double before = 0;
    for (const double us : {0.0, 100.0, 1e4, load * 1e6}) { // a faster loader is never slower
        s.runtime.dataloader_us = us;
        EXPECT_GE(step_of(s), before * (1 - 1e-6)) << us;
        before = step_of(s);
    }
}

TEST(PhysicsLaws, SameInputSameBytes) {
    const Scenario s = mixed().make();
    EXPECT_EQ(to_json(predict(s).report), to_json(predict(s).report));
    EXPECT_EQ(to_text(lower(s)), to_text(lower(s)));
}

TEST(PhysicsLaws, BreakdownAddsUpToTheStep) {
    for (const char* schedule : {"none", "gpipe", "1f1b", "zb-h1"}) {
        Gpt g = mixed();
        g.schedule = schedule;
        const Report r = predict(g.make()).report;
        double sum = 0;
        for (double x : r.breakdown_s) sum += x;
        EXPECT_NEAR(sum, r.step_time_s, 1e-9 * r.step_time_s) << schedule;
    }
}

// A ring all-reduce of S bytes over n ranks puts 2 (n - 1) / n S on every member's link, in and out.
TEST(PhysicsLaws, RingVolume) {
    for (int n : {2, 4, 8}) {
        Gpt g;
        g.dp = n;
        g.tied = false;
        g.microbatches = 1;
        g.extra_strategy = R"(, "collective_algorithm": "ring")";
        const Scenario s = g.make();
        const Plan plan = lower(s);
        double gradients = 0;
        for (const Buffer& b : plan.buffers)
            if (b.kind == MemoryKind::gradients && b.storage < 0) gradients += static_cast<double>(b.bytes.count);
        const Fabric fabric(s.cluster);
        const Simulation run = simulate(plan, s, fabric, CostModel(s, fabric));
        double busiest = 0;
        for (const LinkUse& l : run.links)
            if (fabric.links()[l.link].kind == LinkKind::scale_up) busiest = std::max(busiest, l.bytes);
        EXPECT_NEAR(busiest, 2.0 * (n - 1) / n * gradients, 1e-3 * gradients) << n;
    }
}

// In a synchronous group one slow rank slows all.
TEST(PhysicsLaws, OneStragglerSlowsTheWholeGroup) {
    Gpt g = mixed();
    g.hidden = 4096; // computation is most of the step
    g.heads = 32;
    g.sequence = 1024;
    Scenario s = g.make();
    const double step = step_of(s);
    Perturbation slow;
    slow.kind = Perturbation::Kind::slow_rank;
    slow.index = 11; // on the last stage, which the head makes the slowest already
    slow.factor = 1.5;
    s.perturb.push_back(slow);
    const double slowed = step_of(s);
    EXPECT_GT(slowed, 1.2 * step);
    EXPECT_LT(slowed, 1.5 * step * 1.001);
}

// Parameters gathered unit by unit cut a pass into many actions: however many layers there are, the bubble of 1F1B is (p - 1) / (m + p - 1)
// and what gathers expose, not more the deeper the model.
TEST(PhysicsLaws, ShardedParametersDoNotMakeDeepPipelinesWait) {
    const auto bubble = [](int layers) {
        return predict(
                   scenario(fmt::format(
                       R"({{"model": {{"layers": {}, "hidden_size": 4096, "attention_heads": 32, "vocab_size": 32000}}, "cluster": {{"preset": "dgx-h100", "nodes": 1, "devices_per_node": 4}},
            "training": {{"global_batch_size": 64, "micro_batch_size": 2, "sequence_length": 4096}}, "strategy": {{"framework": "fsdp", "pipeline_parallel": 2, "recompute": "full"}}}})",
                       layers)))
            .report.bubble_fraction;
    };
    const double shallow = bubble(32);
    EXPECT_NEAR(shallow, 1.0 / 17, 0.02);
    EXPECT_LT(bubble(160), shallow + 0.005);
    EXPECT_LT(bubble(240), shallow + 0.005);
}

// 63 bits of picoseconds are 106 days: a longer step is refused, not wrapped round.
TEST(PhysicsLaws, AStepOfMonthsIsRefused) {
    const Scenario s = scenario(R"({"model": "llama2-7b", "cluster": {"device": "cpu", "nodes": 1, "devices_per_node": 1},
        "training": {"global_batch_size": 10000, "micro_batch_size": 1, "sequence_length": 4096, "precision": "fp32"}, "strategy": {"framework": "ddp"}})");
    EXPECT_THROW(predict(s), std::runtime_error);
}

// A launch time is the host's, wherever it is stated; what stands around launches stays.
TEST(Host, ALaunchTimeOfTheDeviceIsThatOfTheRuntime) {
    const auto step = [](const std::string& device, const std::string& runtime) {
        return predict(parse_scenario(
                           fmt::format(
                               R"({{"model": {{"preset": "qwen3-30b-a3b", "layers": 8}}, "cluster": {{"preset": "dgx-h100", "nodes": 1{}}},
            "training": {{"global_batch_size": 32, "micro_batch_size": 1, "sequence_length": 2048}},
            "strategy": {{"framework": "megatron", "expert_parallel": 8, "zero_stage": 1}}, "runtime": {{"year": 2025{}}}}})",
                               device, runtime))
                           .scenario.value())
            .report.step_time_s;
    };
    const double usual = step("", "");
    double before = 0;
    for (const int us : {3, 6, 12}) {
        const double of_device = step(fmt::format(R"(, "device": {{"preset": "h100-sxm-80gb", "launch_us": {}}})", us), "");
        EXPECT_EQ(of_device, step("", fmt::format(R"(, "launch_us": {})", us))) << us;
        EXPECT_TRUE(us != 6 || of_device == usual) << of_device << " " << usual;
        EXPECT_GT(of_device, before) << us;
        before = of_device;
    }
}

// A faster host is never slower, whatever software it runs; where steps wait for the host, it is faster, at most by its speed.
TEST(Host, AFasterHostIsNeverSlower) {
    struct Job {
        const char *model, *strategy, *runtime;
        bool waits;
    };
    const Job jobs[] = {
        {"qwen3-30b-a3b", R"({"framework": "megatron", "expert_parallel": 8, "zero_stage": 1})", R"({"year": 2025})", true},
        {"qwen3-30b-a3b", R"({"framework": "megatron", "expert_parallel": 8})", R"({"year": 2025, "cuda_graphs": true})", true},
        {"qwen3-30b-a3b", R"({"framework": "deepspeed", "zero_stage": 3})", R"({"year": 2024})", true},    // hooks, a loop over experts
        {"llama3-8b", R"({"framework": "megatron", "pipeline_parallel": 4})", R"({"year": 2023})", false}, // exchanges, get_batch
        {"llama3-8b", R"({"framework": "fsdp2", "zero_stage": 3})", R"({"year": 2025, "cuda_graphs": true})", false},
        {"llama3-8b", R"({"framework": "fsdp2", "zero_stage": 3})", R"({"year": 2025, "launch_blocking": true})", true},
    };
    for (const Job& job : jobs) {
        const auto step = [&](double speed) {
            return predict(
                       parse_scenario(
                           fmt::format(
                               R"({{"model": {{"preset": "{}", "layers": 8}}, "cluster": {{"preset": "dgx-h100", "nodes": 1, "host": {{"speed": {}}}}},
            "training": {{"global_batch_size": 32, "micro_batch_size": 1, "sequence_length": 2048}}, "strategy": {}, "runtime": {}}})",
                               job.model, speed, job.strategy, job.runtime))
                           .scenario.value())
                .report.step_time_s;
        };
        double before = step(0.25);
        const double slowest = before;
        for (const double speed : {0.5, 0.8, 1.0, 2.0, 8.0}) {
            const double now = step(speed);
            EXPECT_LE(now, before * 1.002) << job.strategy << " " << job.runtime << " " << speed;
            EXPECT_GE(now * speed, slowest * 0.25 * 0.998) << job.strategy << " " << job.runtime << " " << speed;
            before = now;
        }
        EXPECT_TRUE(!job.waits || slowest > 1.1 * step(1)) << job.strategy << " " << job.runtime;
    }
}

} // namespace
} // namespace orrery::laws

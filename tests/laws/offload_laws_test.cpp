// Offload: which bytes leave the device, where they are then, and what their way costs.
#include "tests/laws/scenarios.hpp"

#include "sim/memory/memory.hpp"
#include "sim/plan/verify.hpp"
#include "sim/report/report.hpp"
#include "tests/laws/simulations.hpp"

#include <algorithm>
#include <map>

namespace orrery::laws {
namespace {

Gpt offloading(const std::string& offload, const std::string& more = "") {
    Gpt g;
    g.dp = 4;
    g.zero = 2;
    g.framework = "deepspeed";
    g.flash = true;
    if (!offload.empty()) g.extra_strategy = R"(, "offload": {)" + offload + "}" + more;
    return g;
}

Prediction offloaded(const Gpt& g) { return predict(g.make()); }

std::int64_t kind_bytes(const Report& r, MemoryKind k) { return r.memory.stages[0].by_kind[k].count; }
std::int64_t node_bytes(const Report& r, MemoryKind k) { return r.memory.host.used.by_kind[k].count; }

TEST(OptimizerOffload, MovesExactlyTheStatesToTheNodesMemory) {
    const Report here = offloaded(offloading("")).report, away = offloaded(offloading(R"("optimizer": "cpu")")).report;
    const std::int64_t states = kind_bytes(here, MemoryKind::optimizer_states);
    EXPECT_GT(states, 0);
    EXPECT_EQ(kind_bytes(away, MemoryKind::optimizer_states), 0);
    EXPECT_EQ(node_bytes(away, MemoryKind::optimizer_states), 4 * states); // four ranks on the node
    EXPECT_EQ(here.memory.host.used.peak.count, 0);
    EXPECT_EQ(here.memory.stages[0].allocated_peak - away.memory.stages[0].allocated_peak, Bytes{states});
}

// A link to the host carries the bytes that are copied, whatever part of its rate its protocol leaves them.
TEST(OptimizerOffload, LinksToTheHostCarryWhatIsCopied) {
    const Scenario s = offloading(R"("optimizer": "cpu")").make();
    const Fabric fabric(s.cluster);
    const Prediction p = predict(s);
    double out = 0, in = 0;
    for (const LinkUse& l : p.simulation.links) {
        if (fabric.links()[l.link].kind != LinkKind::pcie) continue;
        (fabric.link_name(l.link).find("gpu") < fabric.link_name(l.link).find('>') ? out : in) += l.bytes * l.twins;
    }
    EXPECT_GT(out, 0);
    EXPECT_NEAR(out, p.report.traffic.to_host, 1e-6 * out);
    EXPECT_NEAR(in, p.report.traffic.from_host, 1e-6 * in);
}

// Elements that a rank of the first stage updates.
std::int64_t updated(const Plan& plan) {
    std::int64_t n = 0;
    for (const Block& b : plan.blocks)
        for (const Op& op : b.ops)
            if (const auto* step = std::get_if<OptimizerStep>(&op.work)) n += step->elements;
    return n;
}

std::int64_t on_host(const Plan& plan, MemoryKind kind) {
    std::int64_t bytes = 0;
    for (const Buffer& b : plan.buffers)
        if (b.space == Space::host && b.kind == kind && b.scope != Scope::action) bytes += b.bytes.count;
    return bytes;
}

// DeepSpeed casts fp16 to fp32 on the device and back in its ZeRO 1 and 2, and sends 16 bits both ways in ZeRO 3.
TEST(OptimizerOffload, SendsEachGradientAndEachParameterOnce) {
    for (const int zero : {1, 2, 3}) {
        Gpt g = offloading(R"("optimizer": "cpu")");
        g.zero = zero;
        const Plan plan = verified(g);
        const std::int64_t bytes = zero == 3 ? 2 : 4;
        EXPECT_EQ(copied(plan, CopyKind::device_to_host), bytes * updated(plan)) << zero;
        EXPECT_EQ(copied(plan, CopyKind::host_to_device), bytes * updated(plan)) << zero;
    }
}

// fp32 masters, moments and gradients: 16 bytes a parameter, and no 16-bit parameters.
TEST(OptimizerOffload, HasMastersAloneOnTheHostWhereTheyCross) {
    const Plan plan = verified(offloading(R"("optimizer": "cpu", "gradients": "cpu")", R"(, "overlap": {"offload": false})"));
    const std::int64_t n = updated(plan);
    EXPECT_EQ(on_host(plan, MemoryKind::optimizer_states), 12 * n);
    EXPECT_EQ(on_host(plan, MemoryKind::parameters), 0);
    EXPECT_EQ(on_host(plan, MemoryKind::gradients), (4 + 2) * n) << "sums of some microbatches wait in 16 bits";
    Gpt once = offloading(R"("optimizer": "cpu", "gradients": "cpu")");
    once.microbatches = 1;
    EXPECT_EQ(on_host(verified(once), MemoryKind::gradients), 4 * n);
}

// The first microbatch finds no sum on the host. The last leaves it in fp32, once it is whole.
TEST(OptimizerOffload, BringsSumsBackFromTheSecondMicrobatchOn) {
    for (const int devices : {1, 4})
        for (const int microbatches : {1, 2, 4}) {
            Gpt g = offloading(R"("optimizer": "cpu", "gradients": "cpu")");
            g.dp = devices, g.zero = devices > 1 ? 2 : 0;
            g.microbatches = microbatches;
            const Plan plan = verified(g);
            const std::int64_t n = updated(plan), runs = microbatches;
            EXPECT_EQ(copied(plan, CopyKind::host_to_device, MemoryKind::gradients), 2 * (runs - 1) * n) << devices << " " << runs;
            EXPECT_EQ(copied(plan, CopyKind::device_to_host) - 4 /* the norm */, (2 * (runs - 1) + 4) * n) << devices << " " << runs;
        }
}

// The last layer's output is read by the layers that predict further tokens too, and comes back first of all.
TEST(ActivationOffload, PlansWithFurtherTokensAreLegal) {
    for (const char* framework : {"megatron", "deepspeed", "ddp", "fsdp", "fsdp2", "torchtitan", "composer"})
        for (int further : {0, 1, 2})
            for (const char* home : {"cpu", "nvme"}) {
                ParseResult parsed = parse_scenario(
                    fmt::format(R"({{"model": {{"preset": "llama3-8b", "layers": 3, "mtp_layers": {}}}, "cluster": "dgx-h100",
                                    "training": {{"global_batch_size": 16, "sequence_length": 2048}},
                                    "strategy": {{"framework": "{}", "offload": {{"activations": "{}"}}}}}})",
                                further, framework, home),
                    {});
                if (!parsed.scenario) continue; // it has no such home
                const Plan plan = lower(*parsed.scenario);
                EXPECT_TRUE(verify(plan).empty()) << framework << " " << further << " " << home << to_text(verify(plan));
            }
}

// Computation waits for a reduction that nothing hides, whatever copies stand before it.
TEST(ActivationOffload, LeavesReductionsThatComputationWaitsFor) {
    const auto step = [](const char* reduces, bool away) {
        return predict(scenario(fmt::format(R"({{"model": {{"preset": "llama3-8b", "layers": 4}}, "cluster": "dgx-h100",
                                             "training": {{"global_batch_size": 16, "sequence_length": 8192}},
                                             "strategy": {{"framework": "fsdp", "recompute": "full", "overlap": {{"grad_reduce": {}}}{}}}}})",
                                            reduces, away ? R"(, "offload": {"activations": "cpu"})" : "")))
            .report.step_time_s;
    };
    const double waits = step("false", false) - step("true", false);
    EXPECT_GT(waits, 0);
    EXPECT_GE(step("false", true) - step("true", true), 0.9 * waits); // all copies are hidden here
}

TEST(ActivationOffload, RunsBesideComputationAndSaysSoWhereOverlapIsOff) {
    const auto told = [](const std::string& more) {
        Gpt g = offloading(R"("activations": "cpu")", more);
        return offloaded(g).report;
    };
    const Report on = told(""), off = told(R"(, "overlap": {"offload": false})");
    const auto named = [](const Report& r) {
        return std::any_of(r.notes.begin(), r.notes.end(),
                           [](const std::string& n) { return n.starts_with("strategy.overlap.offload has no effect on activations"); });
    };
    EXPECT_EQ(off.step_time_s, on.step_time_s);
    EXPECT_TRUE(named(off));
    EXPECT_FALSE(named(on));
}

TEST(OptimizerOffload, OfAFractionMovesItsShareAndIsNeverSlowerForLess) {
    const auto divided = [](const std::string& fraction) {
        Gpt g = offloading(fraction.empty() ? "" : R"("optimizer": "cpu", "optimizer_fraction": )" + fraction);
        g.vocab = 2048; // no bucket much larger than the others
        return offloaded(g).report;
    };
    const std::int64_t all = kind_bytes(divided(""), MemoryKind::optimizer_states);
    double before = 0;
    for (const char* fraction : {"0", "0.25", "0.5", "0.75", "1"}) {
        const Report r = divided(fraction);
        const std::int64_t here = kind_bytes(r, MemoryKind::optimizer_states), away = node_bytes(r, MemoryKind::optimizer_states) / 4;
        EXPECT_EQ(here + away, all) << fraction;
        EXPECT_NEAR(static_cast<double>(away), std::stod(fraction) * static_cast<double>(all), 0.15 * static_cast<double>(all)) << fraction;
        EXPECT_GE(r.step_time_s, before) << fraction;
        before = r.step_time_s;
    }
}

// (Facts of the machine: nobody is slower for a better one.)
TEST(OptimizerOffload, IsNeverSlowerOnABetterHost) {
    const auto time = [](const std::string& host) {
        Gpt g = offloading(R"("optimizer": "cpu")");
        g.cluster = R"({"preset": "dgx-a100-80gb", "nodes": 1, "devices_per_node": 4, "host": {)" + host + "}}";
        return offloaded(g).report.step_time_s;
    };
    EXPECT_GT(time(R"("memory_gb_per_s": 100)"), time(R"("memory_gb_per_s": 400)"));
    EXPECT_GT(time(R"("pcie_gb_per_s": 8)"), time(R"("pcie_gb_per_s": 32)"));
    EXPECT_GT(time(R"("adam_gparams_per_s": 1)"), time(R"("adam_gparams_per_s": 4)"));
}

TEST(OptimizerOffload, IsNeverSlowerWithItsCopiesBesideTheUpdate) {
    const auto time = [](const char* overlap) {
        return offloaded(offloading(R"("optimizer": "cpu")",
                                    std::string(R"(, "bucket_bytes": 4000000, "overlap": {"offload": )") + overlap + "}"))
            .report.step_time_s;
    };
    EXPECT_LT(time("true"), time("false"));
}

// The thread that launches kernels updates, too: where launches bind the step, it grows with every part that the host updates.
TEST(OptimizerOffload, HoldsUpTheThreadThatLaunches) {
    const auto step = [](double fraction) {
        Gpt g = offloading(fmt::format(R"("optimizer": "cpu", "optimizer_fraction": {})", fraction), R"(, "bucket_bytes": 4000000)");
        g.zero = 3;
        Scenario s = g.make();
        s.runtime.launch_us = 40;
        return predict(s).report;
    };
    const Report none = step(0), half = step(0.5), all = step(1);
    EXPECT_GT(none.host_wait_s, 0.5 * none.step_time_s) << "launches bind";
    const double to_half = half.step_time_s - none.step_time_s, to_all = all.step_time_s - none.step_time_s;
    EXPECT_GT(to_half, 0.35 * to_all);
    EXPECT_LT(to_half, 0.65 * to_all);
    EXPECT_GT(all.traffic.to_host, 1.8 * half.traffic.to_host);
    EXPECT_EQ(none.traffic.to_host, 0);
    EXPECT_EQ(all.traffic.to_host, all.traffic.from_host);
}

bool noted(const Report& r, const std::string& begin) {
    return std::any_of(r.notes.begin(), r.notes.end(), [&](const std::string& n) { return n.starts_with(begin); });
}

// One shard of all parameters goes or stays as a whole; nothing goes of a fraction of less than half of it.
TEST(OptimizerOffload, ReportsWhatReallyMoves) {
    const auto told = [](const std::string& offload) {
        Gpt g = offloading(offload);
        g.zero = 1, g.vocab = 2048;
        const Scenario s = g.make();
        const Report r = predict(s).report;
        const std::string text = to_text(r, s);
        EXPECT_EQ(text.find("on the host: optimizer") != std::string::npos, r.away.updated == 1) << text;
        EXPECT_EQ(text.find("on the host: activations") != std::string::npos, r.away.activations) << text;
        return r;
    };
    for (const char* fraction : {"0", "0.001", "0.49"}) {
        const Report r = told(std::string(R"("optimizer": "cpu", "optimizer_fraction": )") + fraction);
        EXPECT_EQ(r.away.updated, 0) << fraction;
        EXPECT_TRUE(noted(r, "strategy.offload.optimizer = cpu moves nothing")) << fraction;
    }
    const Report half = told(R"("optimizer": "cpu", "optimizer_fraction": 0.5)"), all = told(R"("optimizer": "cpu")");
    EXPECT_EQ(half.away.updated, 1);
    EXPECT_TRUE(noted(half, "strategy.offload.optimizer_fraction = 0.5 moves 100 %"));
    EXPECT_EQ(all.away.updated, 1);
    EXPECT_FALSE(noted(all, "strategy.offload.optimizer"));
    const Report none = told(R"("activations": "cpu", "activation_layers": 0)"), some = told(R"("activations": "cpu")");
    EXPECT_TRUE(noted(none, "strategy.offload.activations = cpu moves nothing"));
    EXPECT_EQ(none.traffic.to_host, 0);
    EXPECT_FALSE(noted(some, "strategy.offload.activations = cpu moves nothing"));
    EXPECT_GT(some.traffic.to_host, 0);
}

// An update that is undone and made again in a share of steps brings its parameters back once more in that share.
TEST(OptimizerOffload, CountsCopiesOfUndoneStepsInTheirShare) {
    const auto moved = [](const char* undone) {
        return predict(scenario(fmt::format(R"({{"model": {{"preset": "llama3-8b", "layers": 2}},
                   "cluster": {{"preset": "dgx-h100", "nodes": 1, "devices_per_node": 1}},
                   "training": {{"global_batch_size": 1, "micro_batch_size": 1, "sequence_length": 2048, "precision": "bf16", "optimizer": "adamw",
                                "gradient_clipping": 1, "optimizer_in_backward": true}},
                   "strategy": {{"framework": "deepspeed", "zero_stage": 3, "optimizer_sync": "post-validation",
                                "offload": {{"optimizer": "cpu", "undone_steps": {}}}}}}})",
                                            undone)))
            .report.traffic.from_host;
    };
    const double once = moved("0");
    EXPECT_GT(once, 0);
    for (const char* share : {"0.02", "0.5", "1"}) EXPECT_NEAR(moved(share), (1 + std::stod(share)) * once, 1e-9 * once) << share;
}

TEST(OptimizerOffload, TakesTheSameTimeFoldedAndUnfolded) {
    Gpt g = offloading(R"("optimizer": "cpu", "optimizer_fraction": 0.5)");
    g.pp = 2;
    g.zero = 1;
    PredictOptions whole;
    whole.simulate.fold = false;
    const double time = offloaded(g).report.step_time_s;
    EXPECT_NEAR(predict(g.make(), whole).report.step_time_s, time, 1e-9 * time);
}

TEST(OptimizerOffload, DoesNotFitWhereTheNodeHasTooLittleMemory) {
    Gpt g = offloading(R"("optimizer": "cpu")");
    g.cluster = R"({"preset": "dgx-a100-80gb", "nodes": 1, "devices_per_node": 4, "host": {"memory_gb": 0.5}})";
    const Report r = offloaded(g).report;
    EXPECT_FALSE(r.memory.fits);
    EXPECT_NE(why_not(r.memory).find("a node's ranks keep"), std::string::npos) << why_not(r.memory);
}

TEST(ShardOffload, OfGradientsAndParametersLeavesTheDeviceWhatItWorksOn) {
    const std::string all = R"("optimizer": "cpu", "gradients": "cpu", "parameters": "cpu")";
    Gpt g = offloading(all), keeps = offloading("");
    g.zero = keeps.zero = 3;
    g.layers = keeps.layers = 16;
    g.vocab = keeps.vocab = 2048;
    const Plan plan = lower(g.make());
    EXPECT_EQ(verify(plan).size(), 0u) << to_text(verify(plan));
    std::int64_t parameters = 0, gradients = 0;
    for (const Buffer& b : plan.buffers) {
        if (b.space != Space::host) continue;
        if (b.role == Role::parameter_shard) parameters += b.bytes.count;
        if (b.role == Role::gradient_shard) gradients += b.bytes.count;
    }
    // Each microbatch wants parameters in both passes, but for those of the output layer (here the embedding's too), which stay until the
    // backward pass; and, from the second on, adds its gradients to the sums so far.
    const Report here = offloaded(keeps).report, away = offloaded(g).report;
    EXPECT_EQ(copied(plan, CopyKind::device_to_host) - 4 /* the norm */, 4 * gradients);
    EXPECT_LE(copied(plan, CopyKind::host_to_device), 8 * parameters + 3 * gradients + 4);
    EXPECT_GE(copied(plan, CopyKind::host_to_device), 7 * parameters + 3 * gradients);
    EXPECT_EQ(node_bytes(away, MemoryKind::parameters), 4 * parameters);
    EXPECT_EQ(node_bytes(away, MemoryKind::gradients), 4 * gradients);
    EXPECT_LT(kind_bytes(away, MemoryKind::gradients), kind_bytes(here, MemoryKind::gradients));
    EXPECT_LT(kind_bytes(away, MemoryKind::parameters), kind_bytes(here, MemoryKind::parameters));
    EXPECT_GT(away.step_time_s, here.step_time_s);
}

Gpt fully_sharded(const char* framework, int devices, const std::string& more = "") {
    Gpt g = offloading(R"("optimizer": "cpu", "gradients": "cpu", "parameters": "cpu")", more);
    g.framework = framework;
    g.dp = devices, g.zero = devices > 1 ? 3 : 0;
    g.layers = 16, g.vocab = 2048;
    g.gradient_dtype = "fp32";
    return g;
}

// FSDP's sharded parameter is the fp32 one: it crosses as such and is cast on the device. The host has it, its gradient and two moments.
TEST(ShardOffload, OfFsdpHasFp32ParametersAtHome) {
    for (const char* framework : {"fsdp", "fsdp2", "torchtitan"})
        for (const int devices : {1, 4}) {
            const Plan plan = verified(fully_sharded(framework, devices));
            const std::int64_t n = updated(plan);
            EXPECT_EQ(on_host(plan, MemoryKind::parameters), 4 * n) << framework << devices;
            EXPECT_EQ(on_host(plan, MemoryKind::gradients), 4 * n) << framework << devices;
            EXPECT_EQ(on_host(plan, MemoryKind::optimizer_states), 8 * n) << framework << devices;
            const std::int64_t come = copied(plan, CopyKind::host_to_device, MemoryKind::parameters);
            EXPECT_LE(come, 8 * 4 * n) << framework << devices; // four microbatches, two passes
            EXPECT_GE(come, 7 * 4 * n) << framework << devices;
        }
}

// fully_shard adds on the host's processors: nothing comes back, and the thread that launches kernels waits for each sum.
TEST(ShardOffload, OfFullyShardAddsOnTheHost) {
    for (const int devices : {1, 4})
        for (const int microbatches : {1, 2, 4}) {
            Gpt g = fully_sharded("fsdp2", devices);
            g.microbatches = microbatches;
            const Plan plan = verified(g);
            std::int64_t added = 0, waits = 0;
            for (const Action& a : plan.programs[0].actions)
                for (std::int32_t i = a.first; i < a.last; ++i) {
                    const Op& op = plan.blocks[a.block].ops[i];
                    const auto* p = std::get_if<Pointwise>(&op.work);
                    if (p && p->kind == PointwiseKind::add && op.queue == host_queue) added += p->elements;
                    waits += op.name == "accumulate.wait";
                }
            EXPECT_EQ(added, (microbatches - 1) * updated(plan)) << devices << " " << microbatches;
            EXPECT_EQ(waits > 0, microbatches > 1);
            EXPECT_EQ(copied(plan, CopyKind::host_to_device, MemoryKind::gradients), 0);
            EXPECT_EQ(copied(plan, CopyKind::device_to_host) - 4 /* the norm */, microbatches * 4 * updated(plan));
        }
}

// With the first run's block in the place of a later one, which adds to a sum, what the run before has left is lost.
TEST(ShardOffload, TheFirstRunsBlockIsNoOthers) {
    for (const char* framework : {"deepspeed", "fsdp2"}) {
        Gpt g = fully_sharded(framework, 4);
        Plan plan = verified(g);
        std::map<std::string, std::int32_t> first;
        for (std::int32_t b = 0; b < plan.blocks.next_id(); ++b)
            if (const std::string& name = plan.blocks[b].name; name.starts_with("reduce_first:")) first[name.substr(name.find(':'))] = b;
        ASSERT_FALSE(first.empty());
        for (Action& a : plan.programs[0].actions) {
            const std::string& name = plan.blocks[a.block].name;
            if (!name.starts_with("reduce:")) continue;
            a.block = first.at(name.substr(name.find(':')));
            a.last = static_cast<std::int32_t>(plan.blocks[a.block].ops.size());
        }
        for (Action& a : plan.programs[0].actions) a.deps_begin = a.deps_end = 0; // they name ops of the blocks that were there
        const auto found = verify(plan);
        EXPECT_TRUE(std::any_of(found.begin(), found.end(), [](const Violation& v) { return v.rule == "gradient-lost"; }))
            << framework << to_text(found);
    }
}

// Experts that one rank has whole come and go whole, beside the shards of what all have: nothing of either stays on the device.
TEST(ShardOffload, OfExpertsMovesThoseOfTheRank) {
    for (const int expert_parallel : {1, 2, 4}) {
        const Plan plan = lower(scenario(fmt::format(
            R"({{"model": {{"layers": 2, "hidden_size": 512, "attention_heads": 8, "vocab_size": 1024, "moe": {{"experts": 4, "top_k": 2, "expert_ffn_size": 1024}}}},
                "cluster": {{"preset": "dgx-h100", "nodes": 1, "devices_per_node": 4}},
                "training": {{"global_batch_size": 4, "micro_batch_size": 1, "sequence_length": 512, "precision": "bf16", "gradient_clipping": 0}},
                "strategy": {{"framework": "deepspeed", "data_parallel": 4, "expert_parallel": {}, "zero_stage": 3,
                             "offload": {{"optimizer": "cpu", "gradients": "cpu", "parameters": "cpu"}}}}}})",
            expert_parallel)));
        EXPECT_EQ(verify(plan).size(), 0u) << to_text(verify(plan));
        EXPECT_EQ(resident(plan, 0).at(MemoryKind::parameters), static_cast<double>(on_host(plan, MemoryKind::parameters))) << "none here";
        for (const Buffer& b : plan.buffers)
            EXPECT_FALSE(b.space == Space::device && b.scope == Scope::run && b.kind == MemoryKind::parameters) << b.name;
        const std::int64_t n = updated(plan);
        EXPECT_EQ(copied(plan, CopyKind::device_to_host, MemoryKind::gradients), 2 * n) << expert_parallel;
        EXPECT_LE(copied(plan, CopyKind::host_to_device, MemoryKind::parameters), 2 * 2 * n) << "once for each pass";
        EXPECT_GT(copied(plan, CopyKind::host_to_device, MemoryKind::parameters), 3 * n) << expert_parallel;
    }
}

TEST(ShardOffload, LetsOneDeviceTrainWhatItCannotHold) {
    Gpt g;
    g.layers = 24, g.hidden = 4096, g.heads = 32, g.vocab = 32000, g.micro_batch = 1, g.microbatches = 1, g.flash = true;
    g.framework = "deepspeed", g.recompute = "full";
    g.cluster =
        R"({"device": "rtx-4090", "nodes": 1, "devices_per_node": 1, "host": {"memory_gb": 128, "memory_gb_per_s": 80, "pcie_gb_per_s": 32}})";
    EXPECT_FALSE(offloaded(g).report.memory.fits);
    g.extra_strategy = R"(, "offload": {"optimizer": "cpu", "gradients": "cpu", "parameters": "cpu"})";
    const Plan plan = lower(g.make());
    EXPECT_EQ(verify(plan).size(), 0u) << to_text(verify(plan));
    EXPECT_TRUE(offloaded(g).report.memory.fits);
}

TEST(ShardOffload, IsNeverSlowerOnAFasterLinkAndFolds) {
    for (int dp : {1, 4}) {
        double before = 1e9;
        for (const char* rate : {"2", "8", "32", "1000"}) {
            Gpt g = offloading(R"("optimizer": "cpu", "gradients": "cpu", "parameters": "cpu")");
            g.dp = dp, g.zero = 3;
            g.cluster = R"({"preset": "dgx-a100-80gb", "nodes": 1, "devices_per_node": )" + std::to_string(dp) +
                        R"(, "host": {"memory_gb_per_s": 100000, "pcie_gb_per_s": )" + rate + "}}";
            const double now = offloaded(g).report.step_time_s;
            EXPECT_LE(now, before) << rate;
            before = now;
            PredictOptions whole;
            whole.simulate.fold = false;
            EXPECT_NEAR(predict(g.make(), whole).report.step_time_s, now, 1e-9 * now);
        }
    }
}

Gpt on_disk(const std::string& more = "", const std::string& host = R"("nvme_gb_per_s": 5)") {
    Gpt g = offloading(R"("optimizer": "nvme")" + more);
    g.vocab = 2048;
    g.cluster = R"({"preset": "dgx-a100-80gb", "nodes": 1, "devices_per_node": 4, "host": {)" + host + "}}";
    return g;
}

TEST(DiskOffload, MovesExactlyTheStatesToTheDisk) {
    Gpt keeps = on_disk();
    keeps.extra_strategy = "";
    const Plan plan = lower(on_disk().make());
    EXPECT_EQ(verify(plan).size(), 0u) << to_text(verify(plan));
    const Report here = offloaded(keeps).report, away = offloaded(on_disk()).report;
    const std::int64_t states = kind_bytes(here, MemoryKind::optimizer_states);
    EXPECT_EQ(kind_bytes(away, MemoryKind::optimizer_states), 0);
    EXPECT_EQ(away.memory.disk.used.by_kind[MemoryKind::optimizer_states].count, 4 * states);
    EXPECT_EQ(copied(plan, CopyKind::nvme_to_host), states); // all of a rank's, once there and once back
    EXPECT_EQ(copied(plan, CopyKind::host_to_nvme), states);
}

// The host has room for a sub-group, and the disk's capacity has a verdict.
TEST(DiskOffload, NeedsRoomForASubGroupOnTheHost) {
    const auto states = [](const Report& r) { return node_bytes(r, MemoryKind::optimizer_states); };
    const Report whole = offloaded(on_disk()).report, groups = offloaded(on_disk(R"(, "sub_group_size": 1000000)")).report;
    EXPECT_EQ(states(whole), whole.memory.disk.used.peak.count);
    EXPECT_LT(states(groups), states(whole) / 4);
    EXPECT_GT(states(groups), 0);
    EXPECT_TRUE(groups.memory.disk.fits());
    const Report full = offloaded(on_disk("", R"("nvme_gb": 0.1)")).report;
    EXPECT_FALSE(full.memory.disk.fits());
    EXPECT_FALSE(full.memory.fits);
}

// Pipelined, the host has room for as many as it is told, and more of it never costs time.
TEST(DiskOffload, HasRoomOnTheHostForSomeSubGroups) {
    const auto with = [](int groups, const char* rate = "5") {
        return offloaded(on_disk(fmt::format(R"(, "sub_group_size": 1000000, "pipelined": true, "sub_groups": {})", groups),
                                 std::string(R"("nvme_gb_per_s": )") + rate))
            .report;
    };
    const std::int64_t two = node_bytes(with(2), MemoryKind::optimizer_states),
                       one = node_bytes(offloaded(on_disk(R"(, "sub_group_size": 1000000)")).report, MemoryKind::optimizer_states);
    EXPECT_GT(two, 3 * one / 2);
    EXPECT_LE(two, 2 * one);
    EXPECT_GT(node_bytes(with(4), MemoryKind::optimizer_states), 3 * two / 2);
    for (const char* rate : {"0.2", "2", "20"}) {
        double before = 1e9;
        for (int groups : {2, 3, 4, 8}) {
            const double now = with(groups, rate).step_time_s;
            EXPECT_LE(now, before * (1 + 1e-9)) << groups << " " << rate;
            before = now;
        }
    }
}

// On slow disks the step is what they read and write of the states; reads beside writes take the longer of the two.
TEST(DiskOffload, TakesTheDisksTimeAndPipelinedTheLongerWays) {
    const double states = static_cast<double>(kind_bytes(offloaded([] {
                                                             Gpt g = on_disk();
                                                             g.extra_strategy = "";
                                                             return g;
                                                         }())
                                                             .report,
                                                         MemoryKind::optimizer_states));
    const auto time = [](const std::string& more, const std::string& rates) {
        return offloaded(on_disk(R"(, "sub_group_size": 1000000)" + more, rates)).report.step_time_s;
    };
    const std::string slow = R"("nvme_read_gb_per_s": 0.4, "nvme_write_gb_per_s": 0.2)", fast = R"("nvme_gb_per_s": 100000)";
    const double read = states / 0.1e9, write = states / 0.05e9; // of four devices each has a quarter
    EXPECT_NEAR(time("", slow) - time("", fast), read + write, 0.05 * (read + write));
    const double pipelined = time(R"(, "pipelined": true)", slow) - time(R"(, "pipelined": true)", fast);
    EXPECT_GE(pipelined, 0.95 * write);
    EXPECT_LE(pipelined, 0.8 * (read + write));
    double before = 1e9;
    for (const char* rate : {"0.1", "1", "10", "100"}) {
        const double now = time("", std::string(R"("nvme_gb_per_s": )") + rate);
        EXPECT_LE(now, before) << rate;
        before = now;
    }
}

TEST(DiskOffload, FoldsUnderEveryKindOfSharding) {
    for (const int zero : {0, 1, 2, 3}) {
        Gpt g = on_disk(R"(, "pipelined": true, "sub_group_size": 1000000)");
        g.zero = zero;
        const Scenario s = g.make();
        EXPECT_EQ(verify(lower(s)).size(), 0u) << to_text(verify(lower(s)));
        PredictOptions whole;
        whole.simulate.fold = false;
        const double time = predict(s).report.step_time_s;
        EXPECT_NEAR(predict(s, whole).report.step_time_s, time, 1e-9 * time);
    }
}

// An unfused step on the device has room for temporaries, which one on the host needs none of.
TEST(OptimizerOffload, LowersForEveryFramework) {
    const std::pair<const char*, int> ways[] = {{"ddp", 0},      {"fsdp", 3},     {"fsdp2", 3},    {"torchtitan", 3},
                                                {"composer", 3}, {"megatron", 1}, {"deepspeed", 2}};
    for (const auto& [framework, zero] : ways)
        for (const char* where : {"cpu", "nvme"}) {
            Gpt g = offloading(std::string(R"("optimizer": ")") + where + "\"");
            g.framework = framework;
            g.zero = zero;
            const Plan plan = lower(g.make());
            EXPECT_EQ(verify(plan).size(), 0u) << framework << " " << where << to_text(verify(plan));
        }
}

// Layers whose inputs alone are kept, fp16.
Gpt checkpoints(const std::string& offload, const std::string& host = R"("pcie_gb_per_s": 1000, "memory_gb_per_s": 100000)") {
    Gpt g;
    g.layers = 12;
    g.vocab = 2048;
    g.flash = true;
    g.gradient_dtype = "fp32"; // of narrower ones the step would make others, more than these layers keep
    g.recompute = "full";
    if (!offload.empty()) g.extra_strategy = R"(, "offload": {"activations": "cpu")" + offload + "}";
    g.cluster = R"({"preset": "dgx-a100-80gb", "nodes": 1, "devices_per_node": 1, "host": {)" + host + "}}";
    return g;
}
constexpr std::int64_t layer_input = std::int64_t{2} * 512 * 1024 * 2; // b s h x 2 bytes
const std::string inputs = R"(, "activation_ops": ["layer_input"])";

TEST(ActivationOffload, MovesTheInputsOfLayers) {
    const Plan plan = lower(checkpoints(inputs).make());
    EXPECT_EQ(verify(plan).size(), 0u) << to_text(verify(plan));
    EXPECT_EQ(copied(plan, CopyKind::device_to_host), 4 * 12 * layer_input); // four microbatches
    EXPECT_EQ(copied(plan, CopyKind::host_to_device), 4 * 12 * layer_input);
    const Report here = offloaded(checkpoints("")).report, away = offloaded(checkpoints(inputs)).report;
    EXPECT_EQ(node_bytes(away, MemoryKind::activations), 12 * layer_input);
    const std::int64_t saved = (here.memory.stages[0].allocated_peak - away.memory.stages[0].allocated_peak).count;
    EXPECT_GE(saved, (12 - 4) * layer_input); // three are on their way or in use, and what the peak's layer has
    EXPECT_LE(saved, 12 * layer_input);
}

TEST(ActivationOffload, OfSomeLayersMovesTheFirstOfThem) {
    for (int layers : {0, 3, 12}) {
        const Plan plan = lower(checkpoints(inputs + fmt::format(R"(, "activation_layers": {})", layers)).make());
        EXPECT_EQ(copied(plan, CopyKind::device_to_host), 4 * layers * layer_input) << layers;
    }
}

// Korthikanti's checkpoints go to the host at no cost where a layer's forward pass takes longer than its input's way; else the link sets
// the pace.
TEST(ActivationOffload, CostsNothingWhereTheLinkKeepsUpAndItsBytesElse) {
    const double here = offloaded(checkpoints("")).report.step_time_s;
    EXPECT_NEAR(offloaded(checkpoints(inputs)).report.step_time_s, here, 0.02 * here);
    const double slow = offloaded(checkpoints(inputs, R"("pcie_gb_per_s": 1)")).report.step_time_s;
    const double way = 4 * 12 * static_cast<double>(layer_input) / 0.85e9; // one way; the two take turns in each microbatch
    EXPECT_GT(slow, 1.8 * way);
    EXPECT_LT(slow, 2 * way + here);
}

TEST(ActivationOffload, IsNeverSlowerOnAFasterLink) {
    double before = 1e9;
    for (const char* rate : {"0.5", "1", "4", "16", "64", "1000"}) {
        const double now =
            offloaded(checkpoints("", std::string(R"("pcie_gb_per_s": )") + rate)).report.step_time_s; // all is kept: nothing moves
        const double away =
            offloaded(checkpoints(inputs, std::string(R"("memory_gb_per_s": 100000, "pcie_gb_per_s": )") + rate)).report.step_time_s;
        EXPECT_LE(away, before) << rate;
        EXPECT_GE(away, now * 0.999) << rate;
        before = away;
    }
}

// DeepSpeed's checkpoints on the host come and go while computation waits, through memory that is not pinned, where a thread's own copies
// take turns with the link.
TEST(ActivationOffload, StopsComputationInDeepSpeed) {
    const auto step = [](const std::string& offload, const std::string& rate) {
        Gpt g = checkpoints(offload, R"("memory_gb_per_s": 100000, "pcie_gb_per_s": )" + rate);
        g.framework = "deepspeed";
        const Plan plan = lower(g.make());
        EXPECT_TRUE(verify(plan).empty()) << to_text(verify(plan));
        return offloaded(g).report.step_time_s;
    };
    double before = 1e9;
    for (const char* rate : {"1", "4", "16", "64", "1000"}) {
        const double moved = 2 * 4 * 12 * static_cast<double>(layer_input), longer = step(inputs, rate) - step("", rate);
        const double alone = moved * (1 / (0.85e9 * std::stod(rate)) + 1 / 17e9);
        EXPECT_NEAR(longer, alone, 0.1 * alone) << rate;
        EXPECT_LT(longer, before) << rate;
        before = longer;
    }
}

TEST(ActivationOffload, OfAllThatIsSavedLeavesTheDeviceWithoutIt) {
    Gpt g = checkpoints(", \"activation_layers\": -1");
    g.recompute = "none";
    Gpt keeps = checkpoints("");
    keeps.recompute = "none";
    const Report here = offloaded(keeps).report, away = offloaded(g).report;
    EXPECT_LT(kind_bytes(away, MemoryKind::activations), kind_bytes(here, MemoryKind::activations) / 3);
    EXPECT_GT(node_bytes(away, MemoryKind::activations), kind_bytes(here, MemoryKind::activations) / 2);
}

TEST(ActivationOffload, IsVerifiedAndFoldsUnderEveryKindOfParallelism) {
    std::vector<Gpt> all(5, checkpoints(inputs));
    all[0].tp = 2, all[0].sp = true, all[0].dp = 2, all[0].zero = 1;
    all[1].dp = 4, all[1].zero = 3, all[1].framework = "fsdp";
    all[2].pp = 2, all[2].schedule = "zb-h1", all[2].recompute = "none", all[2].extra_strategy = R"(, "offload": {"activations": "cpu"})";
    all[3].pp = 2, all[3].vp = 2, all[3].schedule = "interleaved-1f1b";
    // Attention in steps, some of whose results take the place of what they read.
    all[4].recompute = "none", all[4].flash = false, all[4].extra_strategy = R"(, "offload": {"activations": "cpu"})";
    for (Gpt& g : all) {
        g.cluster = "";
        const Scenario s = g.make();
        PredictOptions whole;
        whole.simulate.fold = false;
        const double time = predict(s).report.step_time_s;
        EXPECT_NEAR(predict(s, whole).report.step_time_s, time, 1e-9 * time);
        EXPECT_GT(copied(lower(s), CopyKind::device_to_host), 0);
    }
}

} // namespace
} // namespace orrery::laws

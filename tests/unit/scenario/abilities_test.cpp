#include "sim/scenario/abilities.hpp"

#include "sim/scenario/parse.hpp"
#include "sim/scenario/practice.hpp"
#include "sim/schedules/schedule.hpp"

#include <gtest/gtest.h>

#include <sstream>

namespace orrery {
namespace {

Scenario scenario(const std::string& strategy) {
    const ParseResult r = parse_scenario(
        R"({"model": "gpt-22b", "cluster": {"preset": "dgx-h100", "nodes": 1}, "training": {"global_batch_size": 8, "sequence_length": 1024}, "strategy": )" +
        strategy + "}");
    EXPECT_TRUE(r.scenario) << (r.problems.empty() ? "" : r.problems.front().what);
    return r.scenario.value_or(Scenario{});
}

TEST(Abilities, AScenarioThatNamesNoFrameworkMayHaveAll) {
    const Abilities can = abilities_of(scenario("{}"));
    for (const std::string& name : schedule_names()) EXPECT_TRUE(can.has_schedule(name)) << name;
    EXPECT_TRUE(can.has(TokenDispatcher::deepep) && can.has(ContextKind::ulysses) && can.has_context() && can.has_home("disk") &&
                can.has(GradientCompression::powersgd));
}

TEST(Abilities, EveryFrameworkHasARowOfKnownNames) {
    for (const char* framework : Spelling<Framework>::all) {
        const Scenario s = scenario(std::string(R"({"framework": ")") + framework + "\"}");
        const Abilities can = abilities_of(s);
        EXPECT_FALSE(can.all) << framework;
        EXPECT_TRUE(can.has_schedule("none") && can.has(TokenDispatcher::alltoall)) << framework;
        EXPECT_EQ(can.has_context(), can.has(ContextKind::ring) || can.has(ContextKind::allgather) || can.has(ContextKind::ulysses))
            << framework;
        EXPECT_TRUE(can.has_stage(0, false) && can.has_stage(0, true)) << framework << " can replicate";
        std::istringstream words{std::string(can.schedules)};
        for (std::string word; words >> word;) EXPECT_NE(find_schedule(word), nullptr) << framework << " " << word;
        std::istringstream compressions{std::string(can.compressions)};
        for (std::string word; compressions >> word;) EXPECT_TRUE(named<GradientCompression>(word)) << framework << " " << word;
    }
}

TEST(Abilities, MegatronHasNoZeroBubbleAndPlainReplicasHaveNoPipeline) {
    const Abilities megatron = abilities_of(scenario(R"({"framework": "megatron"})"));
    EXPECT_TRUE(megatron.has_schedule("interleaved-1f1b") && megatron.has_schedule("1f1b"));
    EXPECT_FALSE(megatron.has_schedule("zb-h1") || megatron.has_schedule("zb") || megatron.has_schedule("dualpipe") ||
                 megatron.has_schedule("gpipe"));
    EXPECT_FALSE(abilities_of(scenario(R"({"framework": "ddp"})")).has_schedule("1f1b"));
    EXPECT_FALSE(abilities_of(scenario(R"({"framework": "deepspeed"})")).has(ContextKind::ring));
}

// torch.compile's pass: what the checker refuses, no search proposes.
TEST(Abilities, AsynchronousTensorParallelismIsCompiledCodes) {
    EXPECT_TRUE(may_overlap_tensor_parallel(scenario(R"({"framework": "torchtitan"})")));
    EXPECT_FALSE(may_overlap_tensor_parallel(scenario(R"({"framework": "torchtitan", "fused": false})")));
    EXPECT_TRUE(may_overlap_tensor_parallel(scenario(R"({"framework": "megatron", "fused": false})")));
}

// FSDP shards optimizer states, gradients and parameters together, or none of them.
TEST(Abilities, FullyShardedFrameworksHaveNoStageOfOptimizerStatesAlone) {
    for (const char* framework : Spelling<Framework>::all) {
        const Scenario s = scenario(std::string(R"({"framework": ")") + framework + R"("})");
        if (practice_of(s).fully_sharded()) { EXPECT_FALSE(abilities_of(s).has_stage(1, false)) << framework; }
    }
    EXPECT_FALSE(abilities_of(scenario(R"({"framework": "nanotron"})")).has_stage(2, false));
}

// Megatron-FSDP shards gradients and parameters, and has no pipeline; InternEvo's weight parallelism has one.
TEST(Abilities, MegatronShardsGradientsOnlyWithoutAPipeline) {
    for (const char* framework : {"megatron", "nemo"}) {
        const Abilities can = abilities_of(scenario(std::string(R"({"framework": ")") + framework + R"("})"));
        for (const int stage : {0, 1, 2, 3}) {
            EXPECT_TRUE(can.has_stage(stage, false)) << framework << stage;
            EXPECT_EQ(can.has_stage(stage, true), stage < 2) << framework << stage;
        }
    }
    EXPECT_TRUE(abilities_of(scenario(R"({"framework": "internlm"})")).has_stage(3, true));
    Scenario before = scenario(R"({"framework": "megatron"})");
    before.runtime.year = 2024;
    EXPECT_TRUE(abilities_of(before).has_stage(3, false)) << "nobody stated the year";
    before.defaults.erase("/runtime/year");
    EXPECT_TRUE(abilities_of(before).has_stage(1, false));
    EXPECT_FALSE(abilities_of(before).has_stage(2, false) || abilities_of(before).has_stage(3, false));
}

// One of Megatron's two libraries for experts is tried on each machine, or both where they differ.
TEST(Abilities, ExpertsTravelByTheLibraryOfTheMachine) {
    const auto tried = [](const char* framework, const char* device, int domain_nodes) {
        Scenario s = scenario(std::string(R"({"framework": ")") + framework + R"("})");
        s.cluster.device.name = device;
        s.cluster.intra.domain_nodes = domain_nodes;
        return std::pair(may_dispatch(s, TokenDispatcher::deepep), may_dispatch(s, TokenDispatcher::hybridep));
    };
    EXPECT_EQ(tried("megatron", "h100-sxm-80gb", 1), std::pair(true, false));
    EXPECT_EQ(tried("megatron", "b200-192gb", 1), std::pair(true, false));
    EXPECT_EQ(tried("megatron", "gb200", 1), std::pair(false, true));
    EXPECT_EQ(tried("nemo", "gb300", 18), std::pair(false, true));
    EXPECT_EQ(tried("megatron", "h100-sxm-80gb", 4), std::pair(true, true));
    EXPECT_EQ(tried("deepspeed", "gb200", 18), std::pair(false, false));
    Scenario unnamed = scenario("{}");
    unnamed.cluster.intra.domain_nodes = 18;
    EXPECT_TRUE(may_dispatch(unnamed, TokenDispatcher::hybridep) && may_dispatch(unnamed, TokenDispatcher::deepep));
}

} // namespace
} // namespace orrery

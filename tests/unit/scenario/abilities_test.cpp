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

// FSDP shards optimizer states, gradients and parameters together, or none of them.
TEST(Abilities, FullyShardedFrameworksHaveNoStageOfOptimizerStatesAlone) {
    for (const char* framework : Spelling<Framework>::all) {
        const Scenario s = scenario(std::string(R"({"framework": ")") + framework + R"("})");
        if (practice_of(s).fully_sharded()) { EXPECT_FALSE(abilities_of(s).has_stage(1, false)) << framework; }
    }
    EXPECT_FALSE(abilities_of(scenario(R"({"framework": "nanotron"})")).has_stage(2, false));
}

} // namespace
} // namespace orrery

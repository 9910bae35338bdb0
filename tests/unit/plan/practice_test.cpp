// Does the same software get the same plan, whichever of its names a scenario gives?
#include "tests/unit/plan/plans.hpp"

#include "sim/scenario/practice.hpp"

namespace orrery::test {
namespace {

// All other choices are stated, so that only how units are sharded, gathered and reduced may differ.
std::string text_of(const char* framework, const std::vector<std::string>& more) {
    return to_text(plan_of(std::vector<std::string>{std::string("strategy.framework=") + framework, "strategy.fused=false",
                                                    "training.gradient_dtype=fp32", "runtime.fused_loss=false",
                                                    "runtime.recompute_early_stop=true", "training.global_batch_size=16"} +
                           more));
}

const std::vector<std::vector<std::string>> sharded{
    {"strategy.zero_stage=1"},
    {"strategy.zero_stage=2"},
    {"strategy.zero_stage=3"},
    {"strategy.zero_stage=3", "strategy.shard_group_size=4"},
    {"strategy.zero_stage=3", "strategy.recompute=full"},
    {"strategy.zero_stage=3", "strategy.recompute=selective"},
    {"strategy.zero_stage=3", "model.moe.experts=4", "model.moe.top_k=2", "strategy.expert_parallel=2", "model.bias=false"},
    {"strategy.zero_stage=3", "strategy.pipeline_parallel=2", "strategy.schedule=1f1b"},
};

TEST(Practice, TorchtitanShardsAsFullyShardDoes) {
    for (auto fields : sharded) {
        fields.insert(fields.begin(), "strategy.recompute=none"); // torchtitan's default is by op; a later field wins
        EXPECT_EQ(text_of("torchtitan", fields), text_of("fsdp2", fields)) << fields.back();
    }
}

TEST(Practice, ComposerShardsAsFullyShardedDataParallelDoes) {
    for (auto fields : sharded) {
        fields.push_back("runtime.loss_upcast=false"); // whose model hands its fp32 logits out is no matter of sharding
        EXPECT_EQ(text_of("composer", fields), text_of("fsdp", fields)) << fields.back();
    }
}

// The two are not one: a shard of each parameter is copied out of what was gathered, and under a pipeline a stage gathers once a step.
TEST(Practice, FlatUnitsAndShardsPerParameterDiffer) {
    for (const auto& fields : {sharded[2], sharded.back()}) EXPECT_NE(text_of("fsdp", fields), text_of("fsdp2", fields)) << fields.back();
}

TEST(Practice, OneAnswerToWhetherItIsFsdp) {
    const auto practice = [](Framework f, int zero) {
        Scenario s;
        s.strategy.framework = f;
        s.strategy.zero_stage = zero;
        return practice_of(s);
    };
    for (const std::string& word : words<Framework>()) {
        const Framework f = named<Framework>(word).value();
        const bool units = f == Framework::fsdp || f == Framework::composer, each = f == Framework::fsdp2 || f == Framework::torchtitan,
                   around = f == Framework::te; // a loop of one's own: replicas by DDP, shards by FSDP
        EXPECT_EQ(practice(f, 3).fully_sharded(), units || each || around) << word;
        EXPECT_EQ(practice(f, 0).fully_sharded(), units || each) << word;
        EXPECT_EQ(practice(f, 3).sharding == Sharding::flat_units, units || around) << word;
        EXPECT_EQ(practice(f, 3).torch_loss, units || each || f == Framework::ddp || f == Framework::horovod) << word;
    }
}

} // namespace
} // namespace orrery::test

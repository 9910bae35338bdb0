// Do scenarios that are said to have one plan have it, and is any field that changes a plan noticed?
#include "sim/plan/inputs.hpp"

#include "sim/plan/lower.hpp"
#include "sim/scenario/parse.hpp"

#include <gtest/gtest.h>

namespace orrery {
namespace {

Scenario scenario(const std::vector<std::string>& fields) {
    ParseOptions options;
    options.overrides = fields;
    const ParseResult parsed =
        parse_scenario(R"({"name": "job", "model": {"layers": 4, "hidden_size": 256, "attention_heads": 8, "vocab_size": 1024},
        "cluster": {"preset": "dgx-a100-80gb", "nodes": 2}, "training": {"global_batch_size": 64, "micro_batch_size": 1, "sequence_length": 128},
        "strategy": {"framework": "megatron", "tensor_parallel": 2, "pipeline_parallel": 2}})",
                       options);
    EXPECT_TRUE(parsed.scenario.has_value()) << to_text(parsed.problems);
    return *parsed.scenario;
}

TEST(LowersAlike, WhateverRunsThePlan) {
    const Scenario one = scenario({});
    const std::uint64_t plan = hash(lower(one));
    for (const char* field :
         {"cluster.inter_node.gbit_per_s=100", "cluster.intra_node.gb_per_s=100", "cluster.inter_node.oversubscription=2",
          "cluster.device=a100-sxm-40gb", "perturb=[{\"slow\": 2, \"rank\": 1}]"}) {
        const Scenario other = scenario({field});
        EXPECT_TRUE(lowers_alike(one, other)) << field;
        EXPECT_EQ(hash(lower(other)), plan) << field;
    }
}

TEST(LowersAlike, ButNotWhatItIsMadeFrom) {
    const Scenario one = scenario({});
    EXPECT_TRUE(lowers_alike(one, scenario({"name=other"})));
    for (const char* field :
         {"model.layers=6", "model.attention.sliding_window=16", "model.moe={\"experts\": 4, \"top_k\": 2}", "training.precision=fp32",
          "training.micro_batch_size=2", "training.optimizer=sgd", "training.moment_dtype=bf16", "training.master_remainders=true",
          "strategy.sequence_parallel=true", "strategy.schedule=gpipe", "strategy.overlap.pipeline=true", "strategy.bucket_bytes=1000000",
          "strategy.rank_order=tp-pp-cp-ep-dp", "strategy.zero_stage=2", "runtime.attention_kernel=unfused", "runtime.fused_norm=false",
          "runtime.loss_upcast=false", "cluster.nodes=4"})
        EXPECT_FALSE(lowers_alike(one, scenario({field}))) << field;
    const std::vector<std::string> experts{"model.moe={\"experts\": 4, \"top_k\": 2}"},
        uneven{"model.moe={\"experts\": 4, \"top_k\": 2, \"imbalance\": \"zipf:1\"}"};
    EXPECT_TRUE(lowers_alike(scenario(experts), scenario(experts)));
    EXPECT_FALSE(lowers_alike(scenario(experts), scenario(uneven)));
}

// Zero-bubble schedules plan with the times of devices and links.
TEST(LowersAlike, NotWhereASchedulePlansWithTimes) {
    const Scenario one = scenario({"strategy.schedule=zb-h1"});
    EXPECT_FALSE(lowers_alike(one, one));
}

} // namespace
} // namespace orrery

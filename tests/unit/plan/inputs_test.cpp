// Do scenarios that are said to have one plan have it, and is any field that changes a plan noticed?
#include "sim/plan/inputs.hpp"

#include "sim/plan/lower.hpp"
#include "sim/scenario/parse.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <random>

namespace orrery {
namespace {

std::optional<Scenario> accepted(const std::vector<std::string>& fields) {
    ParseOptions options;
    options.overrides = fields;
    const ParseResult parsed =
        parse_scenario(R"({"name": "job", "model": {"layers": 4, "hidden_size": 256, "attention_heads": 8, "vocab_size": 1024},
        "cluster": {"preset": "dgx-a100-80gb", "nodes": 2}, "training": {"global_batch_size": 64, "micro_batch_size": 1, "sequence_length": 128},
        "strategy": {"framework": "megatron", "tensor_parallel": 2, "pipeline_parallel": 2}})",
                       options);
    if (!parsed.problems.empty()) return {};
    return parsed.scenario;
}

Scenario scenario(const std::vector<std::string>& fields) {
    const std::optional<Scenario> s = accepted(fields);
    EXPECT_TRUE(s.has_value()) << ::testing::PrintToString(fields);
    return s.value();
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

// Zero-bubble schedules plan with the relative times of a step's parts, which the model gives: faster devices and links keep the order.
TEST(LowersAlike, WhereASchedulePlansWithTimes) {
    const Scenario one = scenario({"strategy.schedule=zb-h1"});
    for (const char* other : {"cluster.inter_node.oversubscription=2", "cluster.inter_node.gbit_per_s=100", "cluster.device.power_w=200"})
        EXPECT_TRUE(lowers_alike(one, scenario({"strategy.schedule=zb-h1", other}))) << other;
}

// The order of the ranks decides which rank stands where, and nothing else of a plan.
TEST(ReorderRanks, IsThePlanOfTheOtherOrder) {
    const std::vector<std::string> dense{"strategy.context_parallel=2", "cluster.nodes=4"};
    std::vector<std::string> experts = dense;
    experts.insert(experts.end(), {"model.moe={\"experts\": 4, \"top_k\": 2}", "strategy.expert_parallel=2"});
    for (const std::vector<std::string>& fields : {dense, experts})
        for (const char* order : {"tp-pp-cp-ep-dp", "tp-cp-ep-pp-dp", "pp-dp-tp-cp-ep"}) {
            std::vector<std::string> other = fields;
            other.push_back(std::string("strategy.rank_order=") + order);
            const Scenario s = scenario(other);
            Plan plan = lower(scenario(fields));
            EXPECT_NE(to_text(plan), to_text(lower(s))) << order;
            reorder_ranks(plan, s.strategy.rank_order);
            EXPECT_EQ(to_text(plan), to_text(lower(s))) << order;
        }
}

TEST(UnboundPlan, BecomesTheWholeOne) {
    const Scenario s = scenario({"strategy.overlap.pipeline=true", "strategy.zero_stage=2"});
    UnboundPlan unbound(s);
    const Plan before = unbound.plan();
    for (const Program& p : before.programs) EXPECT_TRUE(p.deps.empty());
    EXPECT_EQ(before.programs.size(), 2u);
    EXPECT_EQ(to_text(std::move(unbound).bound()), to_text(lower(s)));
}

// Gathers run in pieces where tensor-parallel ranks share a node.
TEST(LowersAlike, NotWhereTensorRanksLeaveTheNode) {
    const std::vector<std::string> node{"strategy.tensor_parallel=8", "strategy.sequence_parallel=true",
                                        "strategy.overlap.tensor_parallel=true", "runtime.year=2025",
                                        "runtime.tensor_parallel_buffers=true"};
    std::vector<std::string> nodes = node;
    nodes.insert(nodes.end(), {"cluster.devices_per_node=4", "cluster.nodes=4"});
    EXPECT_EQ(scenario(node).world_size(), scenario(nodes).world_size());
    EXPECT_NE(hash(lower(scenario(node))), hash(lower(scenario(nodes))));
    EXPECT_FALSE(lowers_alike(scenario(node), scenario(nodes)));
}

// Random pairs of scenarios, most of which differ in a field or two: where they are said to have one plan, they have it to the letter.
TEST(LowersAlike, OnlyWhatHasOnePlan) {
    const std::vector<std::string> fields{"cluster.inter_node.gbit_per_s=100",
                                          "cluster.intra_node.gb_per_s=100",
                                          "cluster.device=h100-sxm-80gb",
                                          "cluster.inter_node.oversubscription=2",
                                          "cluster.inter_node.latency_us=9",
                                          "cluster.devices_per_node=4",
                                          "cluster.devices_per_node=16",
                                          "cluster.host.speed=0.5",
                                          "perturb=[{\"slow\": 2, \"rank\": 1}]",
                                          "training.learning_rate=0.01",
                                          "training.warmup_steps=7",
                                          "training.seed=5",
                                          "training.gradient_clipping=0",
                                          "strategy.collective_algorithm=ring",
                                          "strategy.schedule=zb-h1",
                                          "strategy.overlap.tensor_parallel=true",
                                          "strategy.overlap.pipeline=true",
                                          "strategy.sequence_parallel=true",
                                          "strategy.zero_stage=1",
                                          "strategy.recompute=full",
                                          "strategy.framework=fsdp2",
                                          "strategy.framework=deepspeed",
                                          "runtime.launch_us=9",
                                          "runtime.launch_blocking=true",
                                          "runtime.allocator=plan",
                                          "runtime.reserved_gb=3",
                                          "runtime.cuda_graphs=true",
                                          "runtime.tensor_parallel_buffers=true",
                                          "runtime.fp8_parameters=true",
                                          "runtime.dataloader_us=40",
                                          "runtime.year=2025",
                                          "runtime.year=2022",
                                          "training.precision=fp16",
                                          "model.moe={\"experts\": 4, \"top_k\": 2}",
                                          "training.micro_batch_size=2"};
    std::mt19937 random(1);
    const auto some = [&](std::size_t most) {
        std::vector<std::string> picked;
        for (std::size_t n = random() % (most + 1); n > 0; --n) picked.push_back(fields[random() % fields.size()]);
        return picked;
    };
    int alike = 0, unlike = 0;
    for (int i = 0; i < 400; ++i) {
        const std::vector<std::string> common = some(3);
        std::vector<std::string> one = common, other = common;
        for (auto* list : {&one, &other})
            for (const std::string& f : some(2)) list->push_back(f);
        const std::optional<Scenario> a = accepted(one), b = accepted(other);
        if (!a || !b) continue;
        if (!lowers_alike(*a, *b)) {
            ++unlike;
            continue;
        }
        ++alike;
        EXPECT_EQ(to_text(lower(*a)), to_text(lower(*b))) << ::testing::PrintToString(one) << ::testing::PrintToString(other);
    }
    EXPECT_GT(alike, 60);
    EXPECT_GT(unlike, 60);
}

} // namespace
} // namespace orrery

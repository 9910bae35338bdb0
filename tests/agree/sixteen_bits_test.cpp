// A World whose storage is a GPU's: bf16 where the plan says so, two bytes an element. Does it begin as the one in fp32, rounded, do
// tensors come out of shards and go back, and do collectives and checkpoints keep them?
#include "agree.hpp"

#include "exec/local/agreement.hpp"
#include "exec/local/collectives.hpp"
#include "exec/runtime/resume.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

namespace orrery::agree {
namespace {

const std::vector<std::string> mixed = {"strategy.tensor_parallel=2", "strategy.data_parallel=2", "strategy.framework=megatron",
                                        "strategy.zero_stage=1", "training.precision=bf16"};

TEST(SixteenBits, BeginAsThirtyTwoRounded) {
    for (const auto& fields : {mixed, std::vector<std::string>{"strategy.data_parallel=4", "strategy.framework=fsdp",
                                                               "training.precision=bf16", "training.master_weights=false"}}) {
        const auto wide = make_world(tiny(fields), DType::fp32), narrow = make_world(tiny(fields), DType::bf16);
        initialise(*wide);
        initialise(*narrow);
        const Tensors a = gather(*wide, Quantity::parameters).tensors, b = gather(*narrow, Quantity::parameters).tensors;
        ASSERT_EQ(a.size(), b.size());
        std::size_t rounded = 0;
        for (const auto& [name, t] : a)
            for (std::size_t i = 0; i < t.values.size(); ++i) {
                const double x = t.values[i], y = b.at(name).values[i];
                EXPECT_LE(std::abs(x - y), std::abs(x) / 256) << name; // half of the last of eight bits
                rounded += x != y;
            }
        EXPECT_GT(rounded, 100u);
        EXPECT_EQ(gather(*narrow, Quantity::parameters).disagreement, 0);
    }
}

// One plan's masters are compared with the other's fp32 parameters, and a wrong value is found.
TEST(SixteenBits, MastersAreComparedWithParametersOfOnePlanThatHasNone) {
    for (const char* framework : {"torchtitan", "fsdp2"}) {
        const Scenario scenario =
            tiny({"model.layers=4", "training.precision=bf16", std::string("strategy.framework=") + framework,
                  "strategy.pipeline_parallel=2", "strategy.schedule=1f1b", "strategy.data_parallel=2", "strategy.offload.optimizer=cpu",
                  "strategy.offload.gradients=cpu", "strategy.offload.parameters=cpu"});
        Learning how;
        how.steps = 2;
        const Learned one = learn(on_one_rank(scenario), how);
        Learned many = learn(scenario, how);
        const auto masters = [](const Tensors& states) {
            return std::ranges::count_if(states, [](const auto& t) { return t.first.starts_with("master/"); });
        };
        EXPECT_NE(masters(one.states), masters(many.states)) << "or the test asks nothing";
        EXPECT_TRUE(agreement(one, many, limits_of(DType::fp64)).agrees()) << framework;
        Tensors& of = masters(many.states) > 0 ? many.states : many.parameters;
        of.at(masters(many.states) > 0 ? "master/final_norm.weight" : "final_norm.weight").values[3] += 1e-3;
        EXPECT_FALSE(agreement(one, many, limits_of(DType::fp64)).agrees()) << framework;
    }
}

// Through a checkpoint in a folder of this name.
void hand_over(const World& from, World& to, const std::string& where) {
    const std::string folder = testing::TempDir() + where;
    std::filesystem::remove_all(folder);
    CheckpointWriter writer(folder);
    writer.begin({3, 7, {}}, pieces_of(from));
    writer.finish();
    restore(to, CheckpointFiles(checkpoints_in(folder).at(0)));
}

TEST(SixteenBits, GoThroughACheckpoint) {
    const auto one = make_world(tiny(mixed), DType::bf16),
               other =
                   make_world(tiny({"strategy.data_parallel=2", "strategy.framework=megatron", "training.precision=bf16"}), DType::bf16);
    initialise(*one);
    hand_over(*one, *other, "sixteen_bits");
    for (Quantity q : {Quantity::parameters, Quantity::states}) EXPECT_EQ(gather(*one, q).tensors, gather(*other, q).tensors);
}

// FSDP's shards are the fp32 parameters, of which nobody has another copy: it goes on from masters, and masters from it, with all bits.
TEST(SixteenBits, ShardsOfFsdpAreTheMasters) {
    const std::vector<std::string> sharded{"strategy.data_parallel=4", "strategy.framework=fsdp", "training.precision=bf16"};
    const auto with_masters = make_world(tiny(mixed), DType::bf16), of_shards = make_world(tiny(sharded), DType::bf16);
    initialise(*with_masters);
    initialise(*of_shards);
    std::size_t finer = 0; // than bf16
    for (const auto& [name, t] : gather(*of_shards, Quantity::parameters).tensors)
        for (double v : t.values) finer += static_cast<double>(from_bf16(to_bf16(static_cast<float>(v)))) != v;
    EXPECT_GT(finer, 100u);
    for (const auto& [name, t] : gather(*of_shards, Quantity::states).tensors) EXPECT_FALSE(name.starts_with("master/")) << name;
    const Tensors fine = gather(*of_shards, Quantity::parameters).tensors;
    hand_over(*of_shards, *with_masters, "shards_to_masters");
    const Tensors states = gather(*with_masters, Quantity::states).tensors;
    for (const auto& [name, t] : fine) EXPECT_EQ(states.at("master/" + name), t) << name;
    const auto other = make_world(tiny(sharded), DType::bf16);
    hand_over(*with_masters, *other, "masters_to_shards");
    EXPECT_EQ(gather(*other, Quantity::parameters).tensors, fine);
}

TEST(SixteenBits, AreSummedAndGathered) {
    std::vector<std::uint16_t> a{to_bf16(1.5f), to_bf16(-2)}, b{to_bf16(0.25f), to_bf16(8)};
    const std::vector<Pieces> sides{{{reinterpret_cast<std::byte*>(a.data()), 2}}, {{reinterpret_cast<std::byte*>(b.data()), 2}}};
    all_reduce(sides, sides, Element::bf16, false);
    EXPECT_EQ(from_bf16(a[0]), 1.75f);
    EXPECT_EQ(from_bf16(b[1]), 6);
    EXPECT_EQ(a, b);
}

} // namespace
} // namespace orrery::agree

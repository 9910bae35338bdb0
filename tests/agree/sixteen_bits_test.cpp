// A World whose storage is a GPU's: bf16 where the plan says so, two bytes an element. Does it begin as the one in fp32, rounded, do
// tensors come out of shards and go back, and do collectives and checkpoints keep them?
#include "agree.hpp"

#include "exec/local/collectives.hpp"
#include "exec/runtime/resume.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

namespace orrery::agree {
namespace {

const std::vector<std::string> mixed = {"strategy.tensor_parallel=2", "strategy.data_parallel=2", "strategy.framework=megatron",
                                        "strategy.zero_stage=1", "training.precision=bf16"};

TEST(SixteenBits, BeginAsThirtyTwoRounded) {
    for (const auto& fields :
         {mixed, std::vector<std::string>{"strategy.data_parallel=4", "strategy.framework=fsdp", "training.precision=bf16"}}) {
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

TEST(SixteenBits, GoThroughACheckpoint) {
    const std::string folder = testing::TempDir() + "sixteen_bits";
    std::filesystem::remove_all(folder);
    const auto one = make_world(tiny(mixed), DType::bf16),
               other =
                   make_world(tiny({"strategy.data_parallel=2", "strategy.framework=megatron", "training.precision=bf16"}), DType::bf16);
    initialise(*one);
    CheckpointWriter writer(folder);
    writer.begin({3, 7, {}}, pieces_of(*one));
    writer.finish();
    restore(*other, CheckpointFiles(checkpoints_in(folder).at(0)));
    for (Quantity q : {Quantity::parameters, Quantity::states}) EXPECT_EQ(gather(*one, q).tensors, gather(*other, q).tensors);
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

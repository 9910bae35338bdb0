// Do the words of a closed set and its values stand for each other?
#include "sim/scenario/frameworks.hpp"
#include "sim/scenario/practice.hpp"

#include <gtest/gtest.h>

#include <set>

namespace orrery {
namespace {

template <class E> class WordsOf : public testing::Test {};
using Sets = testing::Types<ActivationKind, NormKind, PositionKind, AttentionSpec::Kind, Imbalance, RouterScoring, Optimizer, Framework,
                            RecomputeOp, ContextKind, Tier, GradientCompression, CollectiveAlgorithm, AttentionKernel, ScalingRecipe,
                            TokenDispatcher, Stack, KernelRelease>;
TYPED_TEST_SUITE(WordsOf, Sets);

TYPED_TEST(WordsOf, EachHasAValueOfItsOwn) {
    const std::vector<std::string> all = words<TypeParam>();
    ASSERT_GT(all.size(), 1u);
    EXPECT_EQ(std::set<std::string>(all.begin(), all.end()).size(), all.size());
    for (std::size_t i = 0; i < all.size(); ++i) {
        const auto value = named<TypeParam>(all[i]);
        ASSERT_TRUE(value) << all[i];
        EXPECT_EQ(static_cast<std::size_t>(*value), i) << all[i];
        EXPECT_EQ(name(*value), all[i]);
    }
    EXPECT_FALSE(named<TypeParam>("nothing of the kind"));
    EXPECT_FALSE(named<TypeParam>(""));
}

// In the order of the enum: one of the middle and the last of each that is long.
TEST(Words, StandInTheOrderOfTheirEnum) {
    EXPECT_STREQ(name(Framework::megatron), "megatron");
    EXPECT_STREQ(name(Framework::torchtitan), "torchtitan");
    EXPECT_STREQ(name(Optimizer::adamw), "adamw");
    EXPECT_STREQ(name(Optimizer::lars), "lars");
    EXPECT_STREQ(name(CollectiveAlgorithm::automatic), "auto");
    EXPECT_STREQ(name(CollectiveAlgorithm::sharp), "sharp");
    EXPECT_STREQ(name(GradientCompression::top_k), "top-k");
    EXPECT_STREQ(name(ScalingRecipe::blockwise), "blockwise");
    EXPECT_STREQ(name(ScalingRecipe::nvfp4), "nvfp4");
    EXPECT_STREQ(name(TokenDispatcher::deepep), "deepep");
    EXPECT_STREQ(name(RecomputeOp::linear), "linear");
    EXPECT_STREQ(name(RecomputeOp::moe), "moe");
    EXPECT_STREQ(name(RecomputeOp::shared_experts), "shared_experts");
    EXPECT_STREQ(name(AttentionKernel::cudnn), "cudnn");
    EXPECT_STREQ(name(AttentionKernel::flex), "flex");
    EXPECT_STREQ(name(KernelRelease::cudnn_9_19), "cudnn-9.19");
    EXPECT_STREQ(name(KernelRelease::aotriton_0_11), "aotriton-0.11");
    EXPECT_STREQ(name(Stack::other), "other");
    EXPECT_EQ(words<Framework>().size(), frameworks().size());
}

} // namespace
} // namespace orrery

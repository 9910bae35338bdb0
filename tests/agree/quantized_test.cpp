// Buckets that travel in 8 or 4 bits. With the rounding taken out they train like the same strategy without; with it they are off by no
// more than the blocks' scales allow, and learn as well.
#include "agree.hpp"

#include "exec/kernels/rounding.hpp"
#include "exec/kernels/shards.hpp"
#include "sim/plan/lower.hpp"
#include "sim/plan/verify.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

namespace orrery::agree {
namespace {

template <class T> class Blocks : public testing::Test {};
using Reals = testing::Types<float, double>;
TYPED_TEST_SUITE(Blocks, Reals);

// To nearest: half a scale, which is the largest magnitude of the block over 127 or 7.
TYPED_TEST(Blocks, MoveNothingByMoreThanHalfAScale) {
    std::mt19937_64 random(5);
    std::normal_distribution<double> normal;
    for (const auto& [low, levels] : {std::pair{DType::int8, 127.0}, {DType::int4, 7.0}}) {
        std::vector<TypeParam> x(3 * quantization_block + 17);
        for (std::size_t i = 0; i < x.size(); ++i)
            x[i] = static_cast<TypeParam>(normal(random) * std::pow(10.0, static_cast<double>(i / quantization_block)));
        std::vector<TypeParam> rounded = x;
        round_in_blocks(rounded.data(), static_cast<std::int64_t>(x.size()), low);
        bool moved = false;
        for (std::size_t begin = 0; begin < x.size(); begin += quantization_block) {
            const std::size_t end = std::min(x.size(), begin + quantization_block);
            double largest = 0;
            for (std::size_t i = begin; i < end; ++i) largest = std::max(largest, std::abs(static_cast<double>(x[i])));
            std::vector<double> values;
            for (std::size_t i = begin; i < end; ++i) {
                EXPECT_LE(std::abs(static_cast<double>(rounded[i]) - static_cast<double>(x[i])), largest / levels / 2 * (1 + 1e-5));
                moved = moved || rounded[i] != x[i];
                values.push_back(std::round(static_cast<double>(rounded[i]) / largest * levels));
            }
            std::sort(values.begin(), values.end());
            EXPECT_LE(std::unique(values.begin(), values.end()) - values.begin(), 2 * static_cast<int>(levels) + 1);
        }
        EXPECT_TRUE(moved);
        std::vector<TypeParam> again = rounded;
        round_in_blocks(again.data(), static_cast<std::int64_t>(again.size()), low);
        for (std::size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(again[i], rounded[i], 1e-5 * std::abs(rounded[i]));
    }
}

TYPED_TEST(Blocks, OfZerosAndOfWhatIsNoNumber) {
    std::vector<TypeParam> x(2 * quantization_block, 0);
    x[quantization_block] = std::numeric_limits<TypeParam>::infinity();
    round_in_blocks(x.data(), static_cast<std::int64_t>(x.size()), DType::int8);
    EXPECT_EQ(x[0], 0);
    EXPECT_TRUE(std::isnan(x[quantization_block]) && std::isnan(x.back())) << "an overflow is not hidden";
}

void widen(Plan& plan) {
    for (Buffer& b : plan.buffers)
        if (b.dtype == DType::int8 || b.dtype == DType::int4) b.dtype = DType::fp32;
}

class Quantized : public testing::TestWithParam<std::vector<std::string>> {};

const std::vector<std::string> zero3{"strategy.data_parallel=4", "strategy.zero_stage=3", "strategy.framework=deepspeed",
                                     "training.gradient_clipping=0.1"};
const std::vector<std::string> replicas{"strategy.data_parallel=4", "strategy.framework=ddp", "strategy.bucket_bytes=3000"};

// Two nodes of two: gradients are exchanged inside them first.
const std::string two_nodes = "cluster.nodes=2", of_two = "cluster.devices_per_node=2";

std::vector<std::string> joined(std::vector<std::string> a, const std::vector<std::string>& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
}

TEST_P(Quantized, WithoutRoundingTrainsLikeOneRank) {
    const Scenario scenario = tiny(GetParam());
    EXPECT_EQ(verify(lower(scenario)).size(), 0u) << to_text(verify(lower(scenario)));
    for (const char* executor : {"serial", "threads", "queues"}) {
        const Trained many = train(scenario, {.executor = executor, .change = widen}), one = train(on_one_rank(scenario));
        const Difference gradients = difference(one.first_gradients, many.first_gradients),
                         parameters = difference(one.parameters, many.parameters), states = difference(one.states, many.states);
        EXPECT_LE(gradients.relative, 1e-12) << executor << " " << gradients.worst;
        EXPECT_LE(parameters.relative, 1e-10) << executor << " " << parameters.worst;
        EXPECT_LE(states.relative, 1e-10) << executor << " " << states.worst;
        EXPECT_EQ(many.disagreement, 0);
    }
}

TEST_P(Quantized, RoundedItIsCloseAndLearnsAsWell) {
    const Scenario scenario = tiny(GetParam());
    const Trained rounded = train(scenario, {.steps = 60}), exact = train(scenario, {.steps = 60, .change = widen});
    EXPECT_GT(difference(exact.first_gradients, rounded.first_gradients).relative, 1e-4) << "nothing was rounded";
    EXPECT_EQ(rounded.disagreement, 0) << "all replicas have the same";
    // Four bits are 15 levels for all of a tiny layer; they still lead nearly as far.
    EXPECT_GT(rounded.losses.front() - rounded.losses.back(), 0.9 * (exact.losses.front() - exact.losses.back()));
}

INSTANTIATE_TEST_SUITE_P(Ways, Quantized,
                         testing::Values(joined(zero3, {"strategy.quantized_weights=int8"}),
                                         joined(zero3, {"strategy.quantized_weights=int8", "strategy.secondary_shard_size=2"}),
                                         joined(zero3, {"strategy.quantized_gradients=int4"}),
                                         joined(zero3, {"strategy.quantized_gradients=int4", "strategy.secondary_shard_size=2"}),
                                         joined(zero3, {"strategy.quantized_gradients=int4", two_nodes, of_two}),
                                         joined(zero3, {"strategy.quantized_gradients=int4", "strategy.secondary_shard_size=4", two_nodes,
                                                        of_two, "strategy.quantized_weights=int8"}),
                                         joined(zero3, {"strategy.quantized_gradients=int4", "strategy.secondary_shard_size=2", two_nodes,
                                                        of_two, "strategy.quantized_weights=int8", "strategy.recompute=full"}),
                                         joined(replicas, {"strategy.gradient_compression=int8"}),
                                         joined(replicas, {"strategy.gradient_compression=int4"})));

// Slices go to the owners of shards, and no sum goes back; between nodes alone where it is asked for.
const std::string int8 = "strategy.gradient_compression=int8",
                  by_nodes = R"(strategy.gradient_compression={"kind": "int8", "hierarchical": true})";

INSTANTIATE_TEST_SUITE_P(Shards, Quantized,
                         testing::Values(joined(replicas, {int8, "strategy.zero_stage=1", "training.gradient_clipping=0.1"}),
                                         joined(replicas, {"strategy.gradient_compression=int4", "strategy.zero_stage=1"}),
                                         joined(zero3, {int8}), joined(zero3, {int8, "strategy.zero_stage=2"}),
                                         joined(replicas, {int8, "strategy.framework=fsdp"}),
                                         joined(replicas, {int8, "strategy.framework=fsdp2", "strategy.zero_stage=2"}),
                                         joined(replicas, {int8, "strategy.zero_stage=1", "strategy.framework=megatron",
                                                           "strategy.pipeline_parallel=2", "strategy.schedule=1f1b"}),
                                         joined(replicas, {by_nodes, two_nodes, of_two}),
                                         joined(replicas, {by_nodes, two_nodes, of_two, "strategy.zero_stage=1"}),
                                         joined(zero3, {by_nodes, two_nodes, of_two, "strategy.zero_stage=2"})));

// Ranks that hold a bucket together hold each part of it once: all of them; those of a node, where the backward pass gathers from a copy.
TEST(OwnParts, AreCountedAmongThoseThatHoldTheBucketTogether) {
    const Plan plan = lower(tiny(joined(zero3, {"strategy.secondary_shard_size=2", two_nodes, of_two})));
    int parts = 0;
    for (const Buffer& b : plan.buffers) {
        const bool second = b.role == Role::secondary_shard;
        if (!second && b.role != Role::gradient_shard) continue;
        const CommId comm = second ? plan.buckets[b.bucket].gather_again : plan.buckets[b.bucket].reduce;
        ++parts;
        for (int rank = 0; rank < plan.mesh.ranks(); ++rank) {
            const std::vector<int> together = members(plan, comm, rank);
            EXPECT_EQ(together.size(), second ? 2U : 4U);
            std::vector<std::int64_t> held;
            for (int r : together) held.push_back(own_index(plan, b, plan.mesh.coordinates(r)));
            for (std::size_t i = 0; i < held.size(); ++i) EXPECT_EQ(held[i], static_cast<std::int64_t>(i)) << b.name;
        }
    }
    EXPECT_GT(parts, 0);
}

} // namespace
} // namespace orrery::agree

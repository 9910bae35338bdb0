// bf16 storage, fp32 arithmetic, fp32 master weights: do strategies still train like one rank, as far as bf16 can tell, and the executors
// like each other to the bit? Does it train as fp32 does?
#include "agree.hpp"

#include "exec/kernels/rounding.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace orrery::agree {
namespace {

Fields mixed_of(Fields more) {
    more.insert(more.begin(), {"training.precision=bf16", "training.master_weights=true", "training.gradient_dtype=fp32"});
    return more;
}

const TrainOptions rounding{.steps = 20, .real = DType::fp32, .rounds = true};

double largest(const Tensors& tensors, bool (*bad)(double)) {
    double found = 0;
    for (const auto& [name, t] : tensors)
        for (double v : t.values)
            if (bad(v)) found = std::max(found, std::abs(v));
    return found;
}

bool is_no_bf16(double v) {
    float x = static_cast<float>(v);
    round_to_bf16(&x, 1);
    return static_cast<double>(x) != v;
}

TEST(Rounding, IsToNearestEven) {
    const struct {
        float from, to;
    } cases[] = {{1.0f, 1.0f}, {1.00390625f, 1.0f}, {1.01171875f, 1.015625f}, {1.00390637f, 1.0078125f}, {-3.0e-39f, -3.0e-39f}};
    for (const auto& c : cases) {
        float x = c.from;
        round_to_bf16(&x, 1);
        EXPECT_LE(std::abs(x - c.to), std::abs(c.to) < 1e-30f ? 1e-40f : 0) << c.from;
    }
    float odd[] = {INFINITY, NAN, -INFINITY, 3.4e38f};
    round_to_bf16(odd, 4);
    EXPECT_TRUE(std::isinf(odd[0]) && std::isnan(odd[1]) && odd[2] < 0 && std::isinf(odd[3]));
}

TEST(Bf16, IsWhatBuffersHold) {
    const Trained t = train(tiny(mixed_of({"strategy.data_parallel=2", "strategy.zero_stage=1", "strategy.framework=megatron"})),
                            {.steps = 3, .real = DType::fp32, .rounds = true});
    EXPECT_EQ(largest(t.parameters, is_no_bf16), 0);
    EXPECT_GT(largest(t.states, is_no_bf16), 0); // masters and moments keep all bits
}

// Moments of 16 bits (Megatron-Core's precision-aware optimizer): they alone are rounded, sharded or not, and what is learnt hardly
// changes.
TEST(Bf16, HoldsMomentsWhereToldTo) {
    const Fields whole{"strategy.data_parallel=2", "strategy.framework=megatron", "training.moment_dtype=bf16",
                       "training.master_remainders=false"};
    Fields sharded = whole;
    sharded.push_back("strategy.zero_stage=1");
    const Trained rounded = train(tiny(mixed_of(whole)), rounding),
                  fp32 = train(tiny(mixed_of({"strategy.data_parallel=2", "strategy.framework=megatron"})), rounding);
    for (const auto& [name, state] : rounded.states)
        EXPECT_EQ(largest({{name, state}}, is_no_bf16) > 0, name.starts_with("master/")) << name;
    EXPECT_EQ(train(tiny(mixed_of(sharded)), rounding).parameters, rounded.parameters);
    EXPECT_NE(rounded.parameters, fp32.parameters);
    for (std::size_t i = 0; i < fp32.losses.size(); ++i) EXPECT_NEAR(rounded.losses[i], fp32.losses[i], 0.02) << "step " << i;
}

TEST(Bf16, LossesOfSixteenBitLogitsAreTheSameButForRounding) {
    const Fields copies{"strategy.data_parallel=2", "strategy.framework=fsdp2"};
    Fields none = copies;
    none.push_back("runtime.loss_upcast=false");
    const Trained wide = train(tiny(mixed_of(copies)), rounding), narrow = train(tiny(mixed_of(none)), rounding);
    EXPECT_NE(wide.parameters, narrow.parameters);
    for (std::size_t i = 0; i < wide.losses.size(); ++i) EXPECT_NEAR(narrow.losses[i], wide.losses[i], 0.02) << "step " << i;
}

TEST(Bf16, RemaindersOfMastersAreSimulatedOnly) {
    Scenario scenario = tiny(mixed_of({"strategy.framework=megatron"}));
    EXPECT_TRUE(not_executable(scenario).empty());
    scenario.training.master_remainders = true;
    ASSERT_EQ(not_executable(scenario).size(), 1u);
    EXPECT_EQ(not_executable(scenario)[0].where, "/training/master_remainders");
}

TEST(Bf16, MuonIsSimulatedOnly) {
    Scenario scenario = tiny(mixed_of({"strategy.framework=megatron"}));
    scenario.training.optimizer = Optimizer::muon;
    const std::vector<Problem> problems = not_executable(scenario);
    ASSERT_EQ(problems.size(), 1u);
    EXPECT_EQ(problems[0].where, "/training/optimizer");
}

// 2^-8 is a rounding; gradients are sums of some hundred rounded products, and are measured against their tensor's largest.
TEST(Bf16, StrategiesTrainLikeOneRank) {
    const Fields strategies[] = {
        {"strategy.tensor_parallel=2", "strategy.sequence_parallel=true", "strategy.data_parallel=2", "strategy.framework=megatron",
         "strategy.zero_stage=1"},
        {"strategy.data_parallel=4", "strategy.framework=fsdp"},
        {"strategy.pipeline_parallel=2", "strategy.schedule=zb-h1", "strategy.context_parallel=2"},
        {"strategy.data_parallel=2", "strategy.expert_parallel=2", "strategy.framework=megatron", "model.moe.experts=4",
         "model.moe.top_k=2", "model.moe.expert_ffn_size=16"},
    };
    for (const Fields& f : strategies) {
        const Scenario scenario = tiny(mixed_of(f));
        const Trained many = train(scenario, rounding), one = train(on_one_rank(scenario), rounding);
        const Difference d = difference(one.first_gradients, many.first_gradients, 1e-3);
        EXPECT_LE(d.relative, 0.05) << f[0] << " " << d.worst;
        for (std::size_t i = 0; i < one.losses.size(); ++i) EXPECT_NEAR(many.losses[i], one.losses[i], 0.02) << f[0] << " step " << i;
        EXPECT_EQ(many.disagreement, 0) << f[0];
    }
}

TEST(Bf16, ExecutorsAndShardsGiveTheSameBits) {
    // (Under torch's autocast parameters are fp32: here masters are apart.)
    const Fields plain{"strategy.data_parallel=4", "strategy.framework=megatron", "training.micro_batch_size=2"};
    Fields sharded = plain;
    sharded.push_back("strategy.zero_stage=1");
    const TrainOptions five{.steps = 5, .real = DType::fp32, .rounds = true};
    const Trained a = train(tiny(mixed_of(plain)), five), b = train(tiny(mixed_of(sharded)), five);
    EXPECT_EQ(a.parameters, b.parameters);
    const Fields both = mixed_of({"strategy.tensor_parallel=2", "strategy.pipeline_parallel=2", "strategy.schedule=1f1b",
                                  "strategy.data_parallel=2", "strategy.zero_stage=1"});
    const Fields experts = mixed_of({"strategy.tensor_parallel=2", "strategy.sequence_parallel=true", "strategy.data_parallel=2",
                                     "strategy.expert_parallel=2", "strategy.expert_tensor_parallel=2", "strategy.framework=megatron",
                                     "model.bias=false", "model.moe.experts=4", "model.moe.top_k=2", "model.moe.expert_ffn_size=16"});
    for (const Fields& fields : {both, experts})
        for (const std::string& executor : executor_names()) {
            TrainOptions other = five;
            other.executor = executor;
            EXPECT_EQ(train(tiny(fields), five).parameters, train(tiny(fields), other).parameters) << executor;
        }
}

TEST(Bf16, LearnsAsFp32Does) {
    const Scenario scenario = tiny(mixed_of({"strategy.data_parallel=2"}));
    const Trained rounded = train(scenario, rounding), exact = train(scenario, {.steps = 20, .real = DType::fp32});
    for (std::size_t i = 0; i < exact.losses.size(); ++i) EXPECT_NEAR(rounded.losses[i], exact.losses[i], 0.02) << "step " << i;
    EXPECT_NE(rounded.losses.back(), exact.losses.back());
    EXPECT_LT(rounded.losses.back(), rounded.losses.front() - 0.3);
}

} // namespace
} // namespace orrery::agree

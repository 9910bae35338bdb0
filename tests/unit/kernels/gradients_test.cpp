// Whole models on one rank: is every parameter's gradient the derivative of the loss? In fp64, by central differences.
#include "tests/unit/kernels/single_rank.hpp"

#include <cmath>

namespace orrery::test {
namespace {

struct Model {
    std::string name;
    std::vector<std::string> overrides;
    friend std::ostream& operator<<(std::ostream& out, const Model& m) { return out << m.name; }
};

using Overrides = std::vector<std::string>;

const Overrides llama{"model.tied_embeddings=false", "model.position=rope", "model.activation=swiglu", "model.norm=rmsnorm", "model.kv_heads=2", "model.bias=false"};
const Overrides unfused{"strategy.flash_attention=false", "runtime.attention_kernel=unfused"};
const Overrides eager{"strategy.framework=ddp", "strategy.fused=false", "runtime.fused_loss=false", "runtime.fused_weight_gradient_accumulation=false"};
const Overrides latent{"model.attention.kind=mla", "model.attention.q_lora_rank=12", "model.attention.kv_lora_rank=10", "model.attention.qk_nope_head_dim=4", "model.attention.qk_rope_head_dim=2", "model.attention.v_head_dim=6",
                       "model.position=rope", "model.norm=rmsnorm", "model.activation=swiglu", "model.bias=false"};

const Overrides mixture{"model.moe.experts=4", "model.moe.top_k=2", "model.moe.expert_ffn_size=12", "model.moe.auxiliary_loss=false"};

Overrides operator+(Overrides a, const Overrides& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
}

std::vector<Model> models() {
    return {
        {"gpt", {}},
        {"gpt_dropout", {"model.dropout=0.2"}},
        {"gpt_unfused", unfused},
        {"gpt_unfused_dropout", unfused + Overrides{"model.dropout=0.2"}},
        {"gpt_eager", eager},
        {"gpt_untied_relu", {"model.activation=relu", "model.tied_embeddings=false"}},
        {"not_causal", {"model.attention.causal=false"}},
        {"alibi", {"model.position=alibi", "model.embedding_norm=true", "model.attention_heads=4"}},
        {"alibi_unfused", unfused + Overrides{"model.position=alibi"}},
        {"window", {"model.attention.sliding_window=3"}},
        {"llama", llama},
        {"llama_unfused", llama + unfused},
        {"llama_head_norms", llama + Overrides{"model.attention.qk_norm=true"}},
        {"llama_one_key_head", llama + Overrides{"model.kv_heads=1", "model.activation=geglu"}},
        {"parallel_block", {"model.parallel_block=true"}},
        {"latent", latent},
        {"latent_unfused", latent + unfused},
        {"recompute_full", {"strategy.recompute=full", "model.dropout=0.2"}},
        {"recompute_selective", unfused + Overrides{"strategy.recompute=selective", "model.dropout=0.2"}},
        {"mixture", llama + mixture},
        {"mixture_sigmoid_groups", llama + mixture + Overrides{"model.moe.scoring=sigmoid", "model.moe.groups=2", "model.moe.group_limit=1", "model.moe.router_bias=true", "model.moe.auxiliary_loss=false", "model.moe.shared_experts=1"}},
        {"mixture_one_of_many", llama + mixture + Overrides{"model.moe.top_k=1"}},
        {"mixture_capacity", llama + mixture + Overrides{"model.moe.capacity_factor=1.0"}},
        {"mixture_gelu_biases", mixture},
        {"split_backward", {"strategy.schedule=zb-h1"}},
    };
}

class Gradients : public testing::TestWithParam<Model> {};

TEST_P(Gradients, AreTheDerivativesOfTheLoss) {
    SingleRank rank(tiny_scenario(GetParam().overrides));
    // Larger weights than a model starts with, biases and norms off their constants: every term of a gradient must show.
    for (BufferId w : rank.parameters())
        for (std::int64_t i = 0; i < elements(rank.plan().buffers[static_cast<std::size_t>(w)]); ++i)
            rank.set(w, i, rank.value(w, i) + 0.25 * normal(3, static_cast<std::uint64_t>(w), static_cast<std::uint64_t>(i)));
    const double loss = rank.run(true);
    ASSERT_TRUE(std::isfinite(loss));
    std::vector<std::vector<double>> gradients;
    for (BufferId w : rank.parameters()) gradients.push_back(rank.values(rank.gradient_of(w)));
    std::size_t index = 0;
    for (BufferId w : rank.parameters()) {
        const std::vector<double>& gradient = gradients[index++];
        if (rank.plan().buffers[static_cast<std::size_t>(w)].name.ends_with("router.bias")) continue;   // corrected by loads, not by a derivative
        double size = 1e-4;
        for (double g : gradient) size = std::max(size, std::abs(g));
        for (int sample = 0; sample < 6; ++sample) {
            const std::int64_t i = static_cast<std::int64_t>(uniform(5, static_cast<std::uint64_t>(w), static_cast<std::uint64_t>(sample)) * static_cast<double>(gradient.size()));
            constexpr double h = 1e-5;
            const double x = rank.value(w, i);
            rank.set(w, i, x + h);
            const double up = rank.run(false);
            rank.set(w, i, x - h);
            const double down = rank.run(false);
            rank.set(w, i, x);
            EXPECT_NEAR(gradient[static_cast<std::size_t>(i)], (up - down) / (2 * h), 1e-6 * size + 1e-9) << rank.plan().buffers[static_cast<std::size_t>(w)].name << "[" << i << "]";
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Models, Gradients, testing::ValuesIn(models()), [](const auto& instance) { return instance.param.name; });

TEST(Recomputation, ChangesNoBit) {
    SingleRank kept(tiny_scenario({"model.dropout=0.2"}), DType::fp32), again(tiny_scenario({"model.dropout=0.2", "strategy.recompute=full"}), DType::fp32);
    EXPECT_EQ(kept.run(true), again.run(true));
    for (BufferId w : kept.parameters()) {
        const std::string& name = kept.plan().buffers[static_cast<std::size_t>(w)].name;
        EXPECT_EQ(kept.values(kept.gradient_of(w)), again.values(again.gradient_of(again.find(name)))) << name;
    }
}

TEST(Precision, SingleAgreesWithDouble) {
    SingleRank single(tiny_scenario(llama), DType::fp32), twice(tiny_scenario(llama), DType::fp64);
    EXPECT_NEAR(single.run(true), twice.run(true), 1e-6);
    for (BufferId w : single.parameters()) {
        const auto a = single.values(single.gradient_of(w)), b = twice.values(twice.gradient_of(w));
        double difference = 0, size = 0;
        for (std::size_t i = 0; i < a.size(); ++i) difference += (a[i] - b[i]) * (a[i] - b[i]), size += b[i] * b[i];
        EXPECT_LT(std::sqrt(difference), 1e-5 * std::sqrt(size)) << single.plan().buffers[static_cast<std::size_t>(w)].name;
    }
}

TEST(Training, LowersTheLossWithEveryOptimizer) {
    for (const char* optimizer : {"sgd", "momentum", "adam", "adamw", "lamb", "lars"}) {
        SingleRank rank(tiny_scenario({std::string("training.optimizer=") + optimizer, "training.gradient_clipping=1.0"}), DType::fp32);
        if (optimizer == std::string("lars")) rank.facts().optimizer.trust = 0.1;
        const double before = rank.run(true, true);
        double after = before;
        for (rank.step = 1; rank.step < 40; ++rank.step) after = rank.run(true, true);
        EXPECT_LT(after, before - 0.02) << optimizer;
    }
}

} // namespace
} // namespace orrery::test

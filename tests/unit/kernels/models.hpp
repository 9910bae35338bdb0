// Small models that between them have every kernel: what is changed of tiny_scenario's GPT.
#pragma once

#include <ostream>
#include <string>
#include <vector>

namespace orrery::test {

struct Model {
    std::string name;
    std::vector<std::string> overrides;
    friend std::ostream& operator<<(std::ostream& out, const Model& m) { return out << m.name; }
};

using Overrides = std::vector<std::string>;

inline const Overrides llama{"model.tied_embeddings=false", "model.position=rope", "model.activation=swiglu",
                             "model.norm=rmsnorm",          "model.kv_heads=2",    "model.bias=false"};
// Sizes that kernels may take eight elements of at a time.
inline const Overrides wide{"model.hidden_size=64", "model.attention_heads=4", "model.vocab_size=96"};
inline const Overrides unfused{"strategy.flash_attention=false", "runtime.attention_kernel=unfused"};
inline const Overrides eager{"strategy.framework=ddp", "strategy.fused=false", "runtime.fused_loss=false",
                             "runtime.fused_weight_gradient_accumulation=false"};
inline const Overrides latent{"model.attention.kind=mla",
                              "model.attention.q_lora_rank=12",
                              "model.attention.kv_lora_rank=10",
                              "model.attention.qk_nope_head_dim=4",
                              "model.attention.qk_rope_head_dim=2",
                              "model.attention.v_head_dim=6",
                              "model.position=rope",
                              "model.norm=rmsnorm",
                              "model.activation=swiglu",
                              "model.bias=false"};

inline const Overrides mixture{"model.moe.experts=4", "model.moe.top_k=2", "model.moe.expert_ffn_size=12",
                               "model.moe.auxiliary_loss=false"};

inline Overrides operator+(Overrides a, const Overrides& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
}

inline std::vector<Model> models() {
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
        {"window_of_every_second_layer", {"model.attention.sliding_window=3", "model.attention.full_every=2"}},
        {"llama", llama},
        {"llama_unfused", llama + unfused},
        {"llama_head_norms", llama + Overrides{"model.attention.qk_norm=true"}},
        {"llama_norm_across_heads", llama + Overrides{"model.attention.qk_norm=true", "model.attention.qk_norm_across=true"}},
        {"norms_after", llama + Overrides{"model.norm_placement=after"}},
        {"norms_before_and_after", llama + Overrides{"model.norm_placement=both", "model.dropout=0.2"}},
        {"gemma", llama + Overrides{"model.norm_placement=both", "model.activation=geglu", "model.tied_embeddings=true",
                                    "model.embedding_scale=2.5", "model.logit_cap=2", "model.attention.score_cap=0.5",
                                    "model.attention.sliding_window=3", "model.attention.full_every=2"}},
        {"gemma_in_steps", unfused + eager +
                               Overrides{"model.embedding_scale=2.5", "model.logit_cap=2", "model.attention.score_cap=0.5",
                                         "model.position=rope", "model.kv_heads=2"}},
        {"rotated_in_part", llama + Overrides{"model.head_dim=8", "model.rope_fraction=0.5"}},
        {"squared_relu", {"model.activation=squared_relu"}},
        {"norms_without_biases", {"model.norm_bias=false"}},
        {"biases_of_norms_alone", {"model.bias=false", "model.norm_bias=true"}},
        {"squared_relu_experts", mixture + Overrides{"model.activation=squared_relu", "model.bias=false"}},
        {"odd_heads", {"model.head_dim=5"}},
        {"heads_of_another_size", llama + Overrides{"model.head_dim=6"}},
        {"llama_one_key_head", llama + Overrides{"model.kv_heads=1", "model.activation=geglu"}},
        {"parallel_block", {"model.parallel_block=true"}},
        {"parallel_block_of_two_norms", {"model.parallel_block=true", "model.parallel_norms=true"}},
        {"latent", latent},
        {"latent_unfused", latent + unfused},
        {"recompute_full", {"strategy.recompute=full", "model.dropout=0.2"}},
        {"recompute_selective", unfused + Overrides{"strategy.recompute=selective", "model.dropout=0.2"}},
        {"further_tokens", llama + Overrides{"model.mtp_layers=2"}},
        {"mixture", llama + mixture},
        {"mixture_sigmoid_groups",
         llama + mixture +
             Overrides{"model.moe.scoring=sigmoid", "model.moe.groups=2", "model.moe.group_limit=1", "model.moe.router_bias=true",
                       "model.moe.auxiliary_loss=false", "model.moe.shared_experts=1"}},
        {"mixture_one_of_many", llama + mixture + Overrides{"model.moe.top_k=1"}},
        {"mixture_capacity", llama + mixture + Overrides{"model.moe.capacity_factor=1.0"}},
        {"mixture_gelu_biases", mixture},
        {"split_backward", {"strategy.schedule=zb-h1"}},
        {"loss_over_logits", {"strategy.framework=megatron", "runtime.year=2025", "runtime.fused_loss=true"}},
        {"loss_compiled", {"strategy.framework=megatron", "runtime.year=2025", "runtime.fused_loss=true", "runtime.compiled_loss=true"}},
        {"activation_in_steps", llama + Overrides{"runtime.fused_activation=false"}},
        {"activation_in_steps_wide", wide + llama + Overrides{"runtime.fused_activation=false"}},
        {"mixture_in_steps", llama + mixture + Overrides{"runtime.fused_activation=false", "model.moe.shared_experts=1"}},
        {"gpt_wide", wide + Overrides{"model.dropout=0.2"}},
        {"gpt_eager_wide", wide + eager},
        {"llama_wide", wide + llama},
        {"mixture_wide", wide + llama + mixture + Overrides{"model.moe.expert_ffn_size=32"}},
    };
}

} // namespace orrery::test

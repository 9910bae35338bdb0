// The fields of "model". Defaults are the members' own in scenario.hpp, then resolve_model() in model_text.cpp.
#include "sim/scenario/fields.hpp"

#include <nlohmann/json.hpp>

namespace orrery {

const Fields& attention_fields() {
    static const Fields fields = {
        Field{"kind", ChoiceSlot{[](Scenario& s, int i) { s.model.attention.kind = static_cast<AttentionSpec::Kind>(i); }},
              "full: a query, key and value per head; mla: multi-head latent attention (DeepSeek)"}
            .one_of(words<AttentionSpec::Kind>()),
        Field{"causal", BoolSlot{[](Scenario& s) { return &s.model.attention.causal; }}, "a token sees only those before it"},
        Field{"sliding_window", IntSlot{[](Scenario& s) { return &s.model.attention.sliding_window; }}, "tokens each token sees; 0: all"}
            .least(0)
            .most(2e9)
            .in("tokens"),
        Field{"full_every", IntSlot{[](Scenario& s) { return &s.model.attention.full_every; }},
              "every n-th layer attends to all tokens in spite of the window (2: every second, as GPT-OSS); 0: none does"}
            .least(0)
            .most(1e6),
        Field{"q_lora_rank", IntSlot{[](Scenario& s) { return &s.model.attention.q_lora_rank; }},
              "mla: width of the compressed query; 0: not compressed"}
            .least(0)
            .most(100000),
        Field{"kv_lora_rank", IntSlot{[](Scenario& s) { return &s.model.attention.kv_lora_rank; }},
              "mla: width of the compressed key and value"}
            .least(0)
            .most(100000),
        Field{"qk_nope_head_dim", IntSlot{[](Scenario& s) { return &s.model.attention.qk_nope_head_dim; }},
              "mla: part of a head without position"}
            .least(0)
            .most(10000),
        Field{"qk_rope_head_dim", IntSlot{[](Scenario& s) { return &s.model.attention.qk_rope_head_dim; }},
              "mla: part of a head with rotary position"}
            .least(0)
            .most(10000),
        Field{"v_head_dim", IntSlot{[](Scenario& s) { return &s.model.attention.v_head_dim; }}, "mla: width of a value head"}.least(0).most(
            10000),
        Field{"qkv_bias", BoolSlot{[](Scenario& s) { return &s.model.attention.qkv_bias; }},
              "a bias on queries, keys and values alone (Qwen 2)"},
        Field{"qk_norm", BoolSlot{[](Scenario& s) { return &s.model.attention.qk_norm; }}, "a norm on each head's query and key (Qwen 3)"},
        Field{"qk_norm_across", BoolSlot{[](Scenario& s) { return &s.model.attention.qk_norm_across; }},
              "qk_norm goes over all queries of a token at once, and over all its keys (OLMo 2)"},
        Field{"score_cap", NumberSlot{[](Scenario& s) { return &s.model.attention.score_cap; }},
              "scores x become cap tanh(x / cap) ahead of the softmax (Gemma 2: 50, HF's attn_logit_softcapping), which cudnn and "
              "flash-1 cannot; 0: they stay as they are"}
            .least(0)
            .most(1e6),
    };
    return fields;
}

const Fields& moe_fields() {
    static const Fields fields = {
        Field{"experts", IntSlot{[](Scenario& s) { return &s.model.moe->experts; }}, "routed experts of a layer"}
            .least(1)
            .most(100000)
            .needed(),
        Field{"top_k", IntSlot{[](Scenario& s) { return &s.model.moe->top_k; }}, "experts a token is sent to"}
            .least(1)
            .most(100000)
            .needed(),
        Field{"expert_ffn_size", LongSlot{[](Scenario& s) { return &s.model.moe->expert_ffn_size; }},
              "width of an expert; default: ffn_size"}
            .least(1)
            .most(1e8),
        Field{"shared_experts", IntSlot{[](Scenario& s) { return &s.model.moe->shared_experts; }}, "experts every token meets"}
            .least(0)
            .most(1e6),
        Field{"shared_expert_ffn_size", LongSlot{[](Scenario& s) { return &s.model.moe->shared_expert_ffn_size; }},
              "width of a shared expert; 0: as expert_ffn_size"}
            .least(0)
            .most(1e8),
        Field{"first_dense_layers", IntSlot{[](Scenario& s) { return &s.model.moe->first_dense_layers; }},
              "layers at the start that keep a dense MLP"}
            .least(0)
            .most(1e6),
        Field{"layer_frequency", IntSlot{[](Scenario& s) { return &s.model.moe->layer_frequency; }}, "every n-th layer has experts"}
            .least(1)
            .most(1e6),
        Field{"capacity_factor", NumberSlot{[](Scenario& s) { return &s.model.moe->capacity_factor; }},
              "tokens an expert takes, as a multiple of the even share; 0: dropless"}
            .least(0)
            .most(10000),
        Field{"pad_to_capacity", BoolSlot{[](Scenario& s) { return &s.model.moe->pad_to_capacity; }},
              "with a capacity, every expert's rows are filled up to it, so that their numbers are known beforehand (Megatron's "
              "moe-pad-expert-input-to-capacity); false: what is over it is dropped, and the rest travels as it is"},
        Field{"imbalance", CustomSlot{read_imbalance},
              "load of the experts: none (even, an assumption), forced (even: benchmarks force it, as with Megatron's "
              "moe-router-force-load-balancing), untrained (of a router that has just been initialised and is not forced: derived, the "
              "spread grows with depth), zipf:<exponent> (the n-th most popular has n^-exponent of the first's rows; popular experts are "
              "spread over the ranks), a list of shares, one an expert in order, or {\"file\": path} of such lists, one a mixture layer"}
            .like(
                R"({"oneOf":[{"type":"string","pattern":"^(none|forced|untrained|zipf:[0-9.]+)$"},{"type":"array","items":{"type":"number","minimum":0}},{"type":"object","properties":{"file":{"type":"string"}},"required":["file"],"additionalProperties":false}]})"),
        Field{"scoring", ChoiceSlot{[](Scenario& s, int i) { s.model.moe->scoring = static_cast<RouterScoring>(i); }},
              "how the router turns logits to weights"}
            .one_of(words<RouterScoring>()),
        Field{"groups", IntSlot{[](Scenario& s) { return &s.model.moe->groups; }}, "groups of experts, for routing limited to some of them"}
            .least(1)
            .most(1e6),
        Field{"group_limit", IntSlot{[](Scenario& s) { return &s.model.moe->group_limit; }}, "groups a token may use"}.least(1).most(1e6),
        Field{"auxiliary_loss", BoolSlot{[](Scenario& s) { return &s.model.moe->auxiliary_loss; }}, "a load-balancing loss"},
        Field{"router_bias", BoolSlot{[](Scenario& s) { return &s.model.moe->router_bias; }}, "a correction bias per expert (DeepSeek-V3)"},
        Field{"stacked_weights", BoolSlot{[](Scenario& s) { return &s.model.moe->stacked_weights; }},
              "its module in PyTorch holds all experts' weights in one parameter, gate and up as one matrix (GPT-OSS): an expert's are "
              "picked out of it where a loop goes over the experts, and no software multiplies by gate and up apart; false: each expert "
              "has its own"},
    };
    return fields;
}

const Fields& lora_fields() {
    static const Fields fields = {
        Field{"rank", IntSlot{[](Scenario& s) { return &s.model.trainable.rank; }},
              "rows of A and columns of B in W x + alpha / rank B A x"}
            .least(1)
            .most(100000),
        Field{"alpha", NumberSlot{[](Scenario& s) { return &s.model.trainable.alpha; }}, "what B A x is multiplied by, over rank"}
            .over(0)
            .most(1e6),
        Field{"dropout", NumberSlot{[](Scenario& s) { return &s.model.trainable.dropout; }},
              "the probability that A sees a number of its rows as 0 (PEFT's lora_dropout); simulated only, and without tensor parallelism"}
            .least(0)
            .most(0.999),
        Field{"targets", CustomSlot{read_lora_targets},
              "the linears of layers that have adapters; default: all but those of experts. Queries, keys and values share one, and so do "
              "gate "
              "and up; of expert_fc1 and expert_fc2 every expert has its own"}
            .like(
                R"({"type":"array","minItems":1,"items":{"enum":["qkv","proj","fc1","fc2","q_down","q_up","kv_down","kv_up","shared_fc1",)"
                R"("shared_fc2","expert_fc1","expert_fc2"]}})"),
    };
    return fields;
}

const Fields& trainable_fields() {
    static const Fields fields = {
        Field{"lora", SectionSlot{lora_fields, [](Scenario& s) { s.model.trainable.lora = true; }},
              "adapters beside linears of the layers are trained, and nothing of the model itself (LoRA)"},
        Field{"frozen", CustomSlot{read_frozen},
              "parts of the model that stay as they are, without lora: they have no gradients and no optimizer states"}
            .like(R"({"type":"array","minItems":1,"items":{"enum":["embedding","norm","attention","mlp","router","experts","head"]}})"),
        Field{
            "frozen_layers", IntSlot{[](Scenario& s) { return &s.model.trainable.frozen_layers; }},
            "the first layers, with the embedding: nothing of them is trained, with lora they have no adapters, and no gradient goes back "
            "into them"}
            .least(0)
            .most(2000),
        Field{"base_dtype", ChoiceSlot{[](Scenario& s, int i) { s.model.trainable.base_dtype = static_cast<BaseDType>(i); }},
              "with lora, of the matrices of layers: nf4 keeps them in 4 bits, a scale for each 64, made 16 bits wide for each product "
              "(QLoRA); same: as the others"}
            .one_of(words<BaseDType>()),
    };
    return fields;
}

const Fields& model_fields() {
    static const Fields fields = {
        Field{"name", TextSlot{[](Scenario& s) { return &s.model.name; }}, "a name for reports"},
        Field{"layers", IntSlot{[](Scenario& s) { return &s.model.layers; }}, "transformer layers"}.least(1).most(2000).needed(),
        Field{"hidden_size", LongSlot{[](Scenario& s) { return &s.model.hidden_size; }}, "width of the residual stream"}
            .least(1)
            .most(1e7)
            .needed(),
        Field{"attention_heads", IntSlot{[](Scenario& s) { return &s.model.attention_heads; }}, "query heads"}
            .least(1)
            .most(100000)
            .needed(),
        Field{"kv_heads", IntSlot{[](Scenario& s) { return &s.model.kv_heads; }}, "key and value heads; default: attention_heads"}
            .least(1)
            .most(100000),
        Field{"head_dim", IntSlot{[](Scenario& s) { return &s.model.head_dim; }}, "width of a head; default: hidden_size / attention_heads"}
            .least(1)
            .most(10000),
        Field{"ffn_size", LongSlot{[](Scenario& s) { return &s.model.ffn_size; }}, "width of the MLP; default: 4 x hidden_size"}
            .least(1)
            .most(1e8),
        choice<&Scenario::model, &Model::activation>("activation",
                                                     "of the MLP; swiglu and geglu have a gate matrix; gelu and geglu are the "
                                                     "tanh form; squared_relu: relu(x)^2 (Nemotron-4)"),
        Field{"activation_clamp", NumberSlot{[](Scenario& s) { return &s.model.activation_clamp; }},
              "experts' swiglu or geglu cuts its gate off above this, and what it lets through beyond plus and minus this (HF's "
              "swiglu_limit); "
              "0: no clamp; default of experts with biases: 7, GPT-OSS's"}
            .least(0)
            .most(1e6),
        choice<&Scenario::model, &Model::norm>("norm", "kind of the norms"),
        choice<&Scenario::model, &Model::norm_placement>(
            "norm_placement",
            "where a layer's norms stand: before attention and MLP; after them, ahead of the residual add (OLMo 2); both, "
            "four a layer (Gemma 2 and 3)"),
        Field{"vocab_size", LongSlot{[](Scenario& s) { return &s.model.vocab_size; }}, "rows of the embedding, before padding"}
            .least(1)
            .most(1e9)
            .needed(),
        Field{"tied_embeddings", BoolSlot{[](Scenario& s) { return &s.model.tied_embeddings; }}, "the output layer is the embedding"},
        choice<&Scenario::model, &Model::position>("position", "how positions enter"),
        Field{"rope_scale", NumberSlot{[](Scenario& s) { return &s.model.rope_scale; }},
              "what cosines and sines of the rotations are multiplied by (YaRN: 0.1 ln(factor) + 1)"}
            .least(0.01)
            .most(100),
        Field{"rope_base", NumberSlot{[](Scenario& s) { return &s.model.rope_base; }},
              "the base of the rotations' frequencies (HF's rope_theta): Llama 2 10000, Llama 3 500000; training here uses it, times and "
              "memory do not depend on it"}
            .least(1)
            .most(1e12),
        Field{"rope_fraction", NumberSlot{[](Scenario& s) { return &s.model.rope_fraction; }},
              "the part of a head's columns, the first ones, that is rotated (HF's partial_rotary_factor, rotary_pct): GPT-NeoX 0.25, "
              "GLM-4.5 "
              "0.5; training here uses it, times and memory do not depend on it"}
            .over(0)
            .most(1),
        Field{
            "norm_epsilon", NumberSlot{[](Scenario& s) { return &s.model.norm_epsilon; }},
            "added to a norm's variance (HF's rms_norm_eps, layer_norm_epsilon); training here uses it, times and memory do not depend on "
            "it"}
            .least(0)
            .most(1),
        Field{"max_positions", LongSlot{[](Scenario& s) { return &s.model.max_positions; }},
              "rows of the learned position table; default: sequence_length"}
            .least(0)
            .most(1e10),
        Field{"bias", BoolSlot{[](Scenario& s) { return &s.model.bias; }},
              "biases on linear layers, and on layernorms where norm_bias says nothing else"},
        Field{"norm_bias", BoolSlot{[](Scenario& s) { return &s.model.norm_bias; }},
              "biases on layernorms (Falcon and Nemotron have them beside linear layers without); default: bias"},
        Field{"final_norm", BoolSlot{[](Scenario& s) { return &s.model.final_norm; }}, "a norm before the output layer"},
        Field{"embedding_norm", BoolSlot{[](Scenario& s) { return &s.model.embedding_norm; }}, "a norm after the embedding (BLOOM)"},
        Field{"embedding_scale", NumberSlot{[](Scenario& s) { return &s.model.embedding_scale; }},
              "what rows of the embedding are multiplied by where layers read them (Gemma: the root of hidden_size)"}
            .over(0)
            .most(1e6),
        Field{"logit_cap", NumberSlot{[](Scenario& s) { return &s.model.logit_cap; }},
              "logits x become cap tanh(x / cap) (Gemma 2: 30, HF's final_logit_softcapping); 0: they stay as they are"}
            .least(0)
            .most(1e6),
        Field{"parallel_block", BoolSlot{[](Scenario& s) { return &s.model.parallel_block; }},
              "attention and MLP stand beside each other and read one norm (PaLM)"},
        Field{"parallel_norms", BoolSlot{[](Scenario& s) { return &s.model.parallel_norms; }},
              "attention and MLP of a parallel block have a norm each (GPT-NeoX)"},
        Field{"dropout", NumberSlot{[](Scenario& s) { return &s.model.dropout; }}, "rate of dropout after attention, MLP and embedding"}
            .least(0)
            .most(0.999),
        Field{"attention", SectionSlot{attention_fields, [](Scenario&) {}}, "what the attention is"},
        Field{"moe",
              SectionSlot{moe_fields,
                          [](Scenario& s) {
                              if (!s.model.moe) s.model.moe.emplace();
                          }},
              "mixture of experts in place of the MLP"},
        Field{"mtp_layers", IntSlot{[](Scenario& s) { return &s.model.mtp_layers; }}, "multi-token-prediction layers after the last"}
            .least(0)
            .most(1000),
        Field{"trainable", SectionSlot{trainable_fields, [](Scenario&) {}},
              "what is trained, of a model that is tuned; default: all of it"},
    };
    return fields;
}

} // namespace orrery

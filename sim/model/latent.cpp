// Multi-head latent attention (DeepSeek-V2, arXiv:2405.04434, section 2.1) and multi-token prediction (DeepSeek-V3, arXiv:2412.19437,
// section 2.2). Queries, and keys and values, pass through narrow layers with a norm; a part of each key, the same for all heads,
// carries the position. Training unfolds the latents: attention meets ordinary heads, keys of nope + rope columns, values of v.
#include "sim/model/builder.hpp"

namespace orrery {

ValueId Builder::latent_attention_branch(ValueId n1) {
    const AttentionSpec& a = s.model.attention;
    const std::int64_t heads = s.model.attention_heads, qk = a.qk_nope_head_dim + a.qk_rope_head_dim;
    ValueId q = n1;
    std::int64_t q_width = h;
    if (a.q_lora_rank > 0) {
        q_width = a.q_lora_rank;
        q = norm("q_norm", whole_linear(LinearPart::q_down, n1, q_width, h, act), q_width);
    }
    const ValueId down = whole_linear(LinearPart::kv_down, n1, a.kv_lora_rank + a.qk_rope_head_dim, h, act);
    const ValueId rope_key = rows("rope_key", a.qk_rope_head_dim, DimKind::hidden, act);
    node(NodeKind::narrow, "rope_key", {down}, {rope_key});
    const ValueId latent = norm("kv_norm", down, a.kv_lora_rank);
    const ValueId up = linear(LinearPart::q_up, q, heads * qk, q_width, true, false);
    const ValueId kv = linear(LinearPart::kv_up, latent, heads * (a.qk_nope_head_dim + a.v_head_dim), a.kv_lora_rank, true, false);
    const ValueId qkv = rows("qkv", heads * (2 * qk + a.v_head_dim), DimKind::parallel, act);
    Node& join = node(NodeKind::latent_join, "rope", {up, kv, rope_key}, {qkv});
    join.attention = attention_shape();
    if (!practice.fused_latent_rope) join.fused = false;
    const ValueId o = s.runtime.attention_kernel == AttentionKernel::unfused ? unfused_attention(qkv) : fused_attention(qkv);
    return linear(LinearPart::proj, o, h, heads * a.v_head_dim, false, false);
}

// A further token: the hidden state joined with the embedding of the token before it, and one more layer. Its state behind the norm.
ValueId Builder::further_token(int ahead, ValueId x) {
    const std::int64_t vocab = padded_vocabulary(s);
    begin_unit(UnitKind::prediction, s.model.layers + ahead);
    const ValueId tokens_ahead = rows("mtp_embedding", h, DimKind::hidden, act);
    node(NodeKind::embedding, "mtp_embedding", {}, {tokens_ahead},
         {parameter("embedding.weight", {vocab, h}, {DimKind::parallel, DimKind::hidden}, Initial::normal, TensorUse::embedding)});
    const ValueId e = norm("mtp_embedding_norm", tokens_ahead), state = norm("mtp_hidden_norm", x);
    const ValueId both = rows("mtp_join", 2 * h, DimKind::hidden, act);
    node(NodeKind::concat, "mtp_join", {e, state}, {both});
    x = transformer_layer(whole_linear(LinearPart::mtp_proj, both, h, 2 * h, act));
    return s.model.final_norm ? norm("mtp_norm", x) : x;
}

// Beside the output layer: each further token meets the shared head when its state is there.
void Builder::predict_further_tokens(ValueId x) {
    for (int i = 0; i < s.model.mtp_layers; ++i) {
        x = further_token(i, x);
        loss("mtp_", x);
    }
}

// In a chunk before that of the output layer: the states of all further tokens go on with the last layer's, one after the other
// (MultiTokenPredictionBlock.forward of megatron/core/transformer/multi_token_prediction.py concatenates them; 2025). Where they lie in
// memory is another matter there, their bytes and copies are the same.
ValueId Builder::further_states(ValueId x) {
    std::vector<ValueId> states{x};
    for (int i = 0; i < s.model.mtp_layers; ++i) states.push_back(further_token(i, states.back()));
    layer = -1;
    const ValueId all = rows("mtp_states", static_cast<std::int64_t>(states.size()) * h, DimKind::hidden, stream);
    node(NodeKind::concat, "mtp_states", states, {all});
    return all;
}

// And where the output layer is (process_mtp_loss there, called by GPTModel._postprocess): the losses of further tokens come first. Returns
// the last layer's state.
ValueId Builder::further_losses(ValueId states) {
    std::vector<ValueId> apart;
    for (int i = 0; i <= s.model.mtp_layers; ++i)
        apart.push_back(rows(i == 0 ? std::string("state") : fmt::format("mtp_state.{}", i), h, DimKind::hidden, stream));
    node(NodeKind::apart, "mtp_states.apart", {states}, apart);
    for (int i = 0; i < s.model.mtp_layers; ++i) {
        layer = static_cast<std::int16_t>(s.model.layers + i);
        loss("mtp_", apart[static_cast<std::size_t>(i) + 1]);
    }
    layer = -1;
    return apart.front();
}

} // namespace orrery

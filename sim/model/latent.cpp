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

// Each further token: the hidden state joined with the embedding of the token before it, one more layer, and the shared head.
void Builder::predict_further_tokens(ValueId x) {
    const std::int64_t vocab = padded_vocabulary(s);
    for (int i = 0; i < s.model.mtp_layers; ++i) {
        begin_unit(UnitKind::prediction, s.model.layers + i);
        const ValueId tokens_ahead = rows("mtp_embedding", h, DimKind::hidden, act);
        node(NodeKind::embedding, "mtp_embedding", {}, {tokens_ahead},
             {parameter("embedding.weight", {vocab, h}, {DimKind::parallel, DimKind::hidden}, Initial::normal, TensorUse::embedding)});
        const ValueId e = norm("mtp_embedding_norm", tokens_ahead), state = norm("mtp_hidden_norm", x);
        const ValueId both = rows("mtp_join", 2 * h, DimKind::hidden, act);
        node(NodeKind::concat, "mtp_join", {e, state}, {both});
        x = transformer_layer(whole_linear(LinearPart::mtp_proj, both, h, 2 * h, act));
        x = s.model.final_norm ? norm("mtp_norm", x) : x;
        loss("mtp_", x);
    }
}

} // namespace orrery

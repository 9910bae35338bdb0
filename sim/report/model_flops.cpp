#include "sim/report/model_flops.hpp"

#include "sim/scenario/parameters.hpp"

namespace orrery {

namespace {

// Multiply-adds a token costs in the projections of one attention.
double attention_projections(const Model& m) {
    const double h = static_cast<double>(m.hidden_size), heads = m.attention_heads;
    const AttentionSpec& a = m.attention;
    if (a.kind == AttentionSpec::Kind::full) {
        const double d = m.head_dim;
        return h * heads * d * 2 + h * m.kv_heads * d * 2; // query and output, key and value
    }
    const double qk = a.qk_nope_head_dim + a.qk_rope_head_dim;
    const double query = a.q_lora_rank > 0 ? h * a.q_lora_rank + a.q_lora_rank * heads * qk : h * heads * qk;
    const double key_value = h * (a.kv_lora_rank + a.qk_rope_head_dim) + a.kv_lora_rank * heads * (a.qk_nope_head_dim + a.v_head_dim);
    return query + key_value + heads * a.v_head_dim * h;
}

// Multiply-adds a token costs against all tokens of its sequence: scores and their sum over values.
double attention_square(const Model& m, double s) {
    const double heads = m.attention_heads;
    if (m.attention.kind == AttentionSpec::Kind::full) return s * heads * m.head_dim * 2;
    return s * heads * (m.attention.qk_nope_head_dim + m.attention.qk_rope_head_dim + m.attention.v_head_dim);
}

double mlp(const Model& m, int layer) {
    const double h = static_cast<double>(m.hidden_size), matrices = m.gated() ? 3 : 2;
    if (!is_moe_layer(m, layer)) return matrices * h * static_cast<double>(m.ffn_size);
    const MoeSpec& e = *m.moe;
    const double expert = static_cast<double>(e.expert_ffn_size);
    const double shared = e.shared_expert_ffn_size > 0 ? static_cast<double>(e.shared_expert_ffn_size) : expert;
    return h * e.experts + matrices * h * (e.top_k * expert + e.shared_experts * shared);
}

} // namespace

double model_flops_per_sequence(const Model& m, double s) {
    const double h = static_cast<double>(m.hidden_size);
    const double attention = attention_projections(m) + attention_square(m, s), logits = h * static_cast<double>(m.vocab_size);
    double per_token = logits;
    for (int layer = 0; layer < m.layers; ++layer) per_token += attention + mlp(m, layer);
    // A multi-token-prediction layer: two hidden states joined by a projection, one layer, the logits again.
    if (m.mtp_layers > 0) per_token += m.mtp_layers * (2 * h * h + attention + mlp(m, m.layers - 1) + logits);
    return 3 * 2 * s * per_token;
}

} // namespace orrery

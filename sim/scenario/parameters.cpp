// h hidden, a heads, k key-value heads, d head width, f MLP width, V vocabulary. A linear layer of n inputs and m outputs has n m weights.
#include "sim/scenario/parameters.hpp"

namespace orrery {
namespace {

std::int64_t mlp(const Model& m, std::int64_t f, bool bias) {
    const std::int64_t matrices = m.gated() ? 3 : 2;
    return matrices * m.hidden_size * f + (bias ? (matrices - 1) * f + m.hidden_size : 0);
}

// Multi-head latent attention (DeepSeek-V2, section 2.1): queries and keys-values pass through a narrow layer with a norm.
std::int64_t latent_attention(const Model& m) {
    const AttentionSpec& a = m.attention;
    const std::int64_t h = m.hidden_size, heads = m.attention_heads, qk = a.qk_nope_head_dim + a.qk_rope_head_dim;
    const std::int64_t query = a.q_lora_rank > 0 ? h * a.q_lora_rank + a.q_lora_rank + a.q_lora_rank * heads * qk : h * heads * qk;
    const std::int64_t down = h * (a.kv_lora_rank + a.qk_rope_head_dim) + a.kv_lora_rank;
    const std::int64_t up = static_cast<std::int64_t>(a.kv_lora_rank) * heads * (a.qk_nope_head_dim + a.v_head_dim);
    return query + down + up + heads * a.v_head_dim * h;
}

std::int64_t one_layer(const Model& m, int layer, bool active) {
    return attention_parameters(m) + layer_norms(m) * norm_parameters(m, m.hidden_size) +
           (is_moe_layer(m, layer) ? moe_parameters(m, active) : dense_mlp_parameters(m));
}

std::int64_t count(const Model& m, bool active) {
    std::int64_t total = table_parameters(m);
    if (m.embedding_norm) total += norm_parameters(m, m.hidden_size);
    if (m.final_norm) total += norm_parameters(m, m.hidden_size);
    for (int layer = 0; layer < m.layers; ++layer) total += one_layer(m, layer, active);
    return total;
}

} // namespace

std::int64_t table_parameters(const Model& m) {
    const std::int64_t positions = m.position == PositionKind::learned ? m.max_positions : 0;
    return ((m.tied_embeddings ? 1 : 2) * m.vocab_size + positions) * m.hidden_size;
}

std::int64_t norm_parameters(const Model& m, std::int64_t width) {
    return m.norm == NormKind::layernorm && m.norm_bias ? 2 * width : width;
}

int layer_norms(const Model& m) {
    const int ahead = m.norm_placement == NormPlacement::after ? 0 : m.parallel_block && !m.parallel_norms ? 1 : 2;
    return ahead + (m.norm_placement == NormPlacement::before ? 0 : 2);
}

bool is_moe_layer(const Model& m, int layer) {
    return m.moe && layer >= m.moe->first_dense_layers && (layer + 1) % m.moe->layer_frequency == 0;
}

int mixture_layers(const Model& m, int before) {
    int n = 0;
    for (int layer = 0; layer < before; ++layer) n += is_moe_layer(m, layer);
    return n;
}

std::int64_t attention_parameters(const Model& m) {
    if (m.attention.kind == AttentionSpec::Kind::mla) return latent_attention(m);
    const std::int64_t h = m.hidden_size, d = m.head_dim, q = m.attention_heads * d, kv = m.kv_heads * d;
    std::int64_t total = h * (q + 2 * kv) + q * h;
    if (m.bias || m.attention.qkv_bias) total += q + 2 * kv;
    if (m.bias) total += h;
    if (m.attention.qk_norm) total += m.attention.qk_norm_across ? q + kv : 2 * d; // RMSNorms, whatever the others are
    return total;
}

std::int64_t dense_mlp_parameters(const Model& m) { return mlp(m, m.ffn_size, m.bias); }

std::int64_t moe_parameters(const Model& m, bool active) {
    const MoeSpec& e = *m.moe;
    const std::int64_t shared = e.shared_expert_ffn_size > 0 ? e.shared_expert_ffn_size : e.expert_ffn_size;
    return m.hidden_size * e.experts + (e.router_bias ? e.experts : 0) +
           (active ? e.top_k : e.experts) * mlp(m, e.expert_ffn_size, m.bias) + e.shared_experts * mlp(m, shared, m.bias);
}

std::int64_t layer_parameters(const Model& m, int layer) { return one_layer(m, layer, false); }
std::int64_t parameter_count(const Model& m) { return count(m, false); }
std::int64_t active_parameter_count(const Model& m) { return count(m, true); }

double optimizer_state_bytes(const Training& t) {
    const double master = t.master_weights && !is_wide(t.precision) ? (t.master_remainders ? 2 : 4) : 0;
    const bool one = t.optimizer == Optimizer::momentum || t.optimizer == Optimizer::lars || t.optimizer == Optimizer::muon;
    const int moments = t.optimizer == Optimizer::sgd ? 0 : one ? 1 : 2;
    return master + moments * bytes_per_element(t.moment_dtype);
}

} // namespace orrery

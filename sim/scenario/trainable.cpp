#include "sim/scenario/trainable.hpp"

#include "sim/scenario/parameters.hpp"

#include <algorithm>

namespace orrery {
namespace {

struct MatrixShape {
    std::int64_t n, k;
};

// The sizes of a target's matrix, y[n] = W[n, k] x[k].
MatrixShape shape_of(const Model& m, LoraTarget target) {
    const AttentionSpec& a = m.attention;
    const std::int64_t h = m.hidden_size, heads = m.attention_heads, d = m.head_dim, gates = m.gated() ? 2 : 1,
                       qk = a.qk_nope_head_dim + a.qk_rope_head_dim;
    const std::int64_t shared =
        m.moe ? m.moe->shared_experts * (m.moe->shared_expert_ffn_size > 0 ? m.moe->shared_expert_ffn_size : m.moe->expert_ffn_size) : 0;
    const bool latent = a.kind == AttentionSpec::Kind::mla;
    switch (target) {
    case LoraTarget::qkv:
        return {(heads + 2 * static_cast<std::int64_t>(m.kv_heads)) * d, h};
    case LoraTarget::proj:
        return {h, latent ? heads * a.v_head_dim : heads * d};
    case LoraTarget::fc1:
        return {gates * m.ffn_size, h};
    case LoraTarget::fc2:
        return {h, m.ffn_size};
    case LoraTarget::q_down:
        return {a.q_lora_rank, h};
    case LoraTarget::q_up:
        return {heads * qk, a.q_lora_rank > 0 ? a.q_lora_rank : h};
    case LoraTarget::kv_down:
        return {a.kv_lora_rank + a.qk_rope_head_dim, h};
    case LoraTarget::kv_up:
        return {heads * (a.qk_nope_head_dim + a.v_head_dim), a.kv_lora_rank};
    case LoraTarget::shared_fc1:
        return {gates * shared, h};
    case LoraTarget::shared_fc2:
        return {h, shared};
    case LoraTarget::expert_fc1: // of one
        return {gates * (m.moe ? m.moe->expert_ffn_size : 0), h};
    case LoraTarget::expert_fc2:
        return {h, m.moe ? m.moe->expert_ffn_size : 0};
    }
    return {0, 0};
}

bool layer_has(const Model& m, LoraTarget target, int layer) {
    const bool latent = m.attention.kind == AttentionSpec::Kind::mla, mixture = is_moe_layer(m, layer);
    switch (target) {
    case LoraTarget::qkv:
        return !latent;
    case LoraTarget::proj:
        return true;
    case LoraTarget::fc1:
    case LoraTarget::fc2:
        return !mixture;
    case LoraTarget::q_down:
        return latent && m.attention.q_lora_rank > 0;
    case LoraTarget::q_up:
    case LoraTarget::kv_down:
    case LoraTarget::kv_up:
        return latent;
    case LoraTarget::shared_fc1:
    case LoraTarget::shared_fc2:
        return mixture && m.moe->shared_experts > 0;
    case LoraTarget::expert_fc1:
    case LoraTarget::expert_fc2:
        return mixture;
    }
    return false;
}

bool among(const std::vector<ModelPart>& list, ModelPart part) { return std::find(list.begin(), list.end(), part) != list.end(); }

std::int64_t own_parameters(const Model& m) {
    const std::int64_t h = m.hidden_size, table = m.vocab_size * h, norm = norm_parameters(m, h);
    const auto of = [&](ModelPart part, int layer, std::int64_t n) { return trains(m, part, layer) ? n : 0; };
    std::int64_t sum = of(ModelPart::embedding, -1, table + (m.position == PositionKind::learned ? m.max_positions * h : 0));
    if (!m.tied_embeddings) sum += of(ModelPart::head, -1, table);
    if (m.embedding_norm) sum += of(ModelPart::norm, 0, norm);
    if (m.final_norm) sum += of(ModelPart::norm, -1, norm);
    for (int layer = 0; layer < m.layers; ++layer) {
        const std::int64_t norms = layer_norms(m) * norm;
        sum += of(ModelPart::norm, layer, norms) + of(ModelPart::attention, layer, attention_parameters(m));
        if (!is_moe_layer(m, layer)) {
            sum += of(ModelPart::mlp, layer, dense_mlp_parameters(m));
            continue;
        }
        const std::int64_t router = h * m.moe->experts + (m.moe->router_bias ? m.moe->experts : 0), all = moe_parameters(m, false);
        const std::int64_t one = m.moe->experts > m.moe->top_k ? (all - moe_parameters(m, true)) / (m.moe->experts - m.moe->top_k) : 0;
        const std::int64_t routed = one > 0 ? one * m.moe->experts : all - router; // where every expert is used: shared ones with them
        sum +=
            of(ModelPart::router, layer, router) + of(ModelPart::experts, layer, routed) + of(ModelPart::mlp, layer, all - router - routed);
    }
    return sum;
}

} // namespace

bool trains(const Model& m, ModelPart part, int layer) {
    const Trainable& t = m.trainable;
    if (t.lora) return false;
    // Layers that predict further tokens read the model's own table and head.
    const bool shared = part == ModelPart::embedding || part == ModelPart::head;
    if (layer >= 0 && layer < t.frozen_layers && !shared) return false;
    // Parameters before the layers go with the first; a table that the head reads too goes with both ends.
    if (part == ModelPart::embedding && t.frozen_layers > 0) return false;
    if (part == ModelPart::embedding && m.tied_embeddings && among(t.frozen, ModelPart::head)) return false;
    return !among(t.frozen, part);
}

bool of_experts(LoraTarget target) { return target == LoraTarget::expert_fc1 || target == LoraTarget::expert_fc2; }

bool has(const Model& m, LoraTarget target) {
    for (int layer = 0; layer < m.layers; ++layer)
        if (layer_has(m, target, layer)) return true;
    return false;
}

bool adapts(const Model& m, LoraTarget target, int layer) {
    const Trainable& t = m.trainable;
    if (!t.lora || layer < t.frozen_layers || !layer_has(m, target, layer)) return false;
    return (t.targets.empty() && !of_experts(target)) || std::find(t.targets.begin(), t.targets.end(), target) != t.targets.end();
}

AdapterSize adapter_size(const Model& m, LoraTarget target, int layer) {
    if (!adapts(m, target, layer)) return {};
    const MatrixShape s = shape_of(m, target);
    const std::int64_t pairs = of_experts(target) ? m.moe->experts : 1;
    return {pairs * m.trainable.rank * s.k, pairs * m.trainable.rank * s.n};
}

std::optional<std::int64_t> trained_parameters(const Model& m) {
    if (!m.trainable.partial()) return std::nullopt;
    if (!m.trainable.lora) return own_parameters(m);
    std::int64_t sum = 0;
    for (int layer = 0; layer < m.layers; ++layer)
        for (std::size_t i = 0; i < std::size(Spelling<LoraTarget>::all); ++i)
            sum += adapter_size(m, static_cast<LoraTarget>(i), layer).all();
    return sum;
}

} // namespace orrery

#include "sim/report/model_flops.hpp"

#include "sim/scenario/parameters.hpp"
#include "sim/scenario/trainable.hpp"

#include <algorithm>

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

// Multiply-adds a token costs against the tokens it meets: all of its sequence, or those of the layer's window: scores and their sum over
// values. A causal mask is not taken off, as is the custom; so it is of a window not taken off that a sequence's first tokens meet fewer.
double attention_square(const Model& m, int layer, double s) {
    const double heads = m.attention_heads, window = window_of(m.attention, layer), met = window > 0 ? std::min(window, s) : s;
    if (m.attention.kind == AttentionSpec::Kind::full) return met * heads * m.head_dim * 2;
    return met * heads * (m.attention.qk_nope_head_dim + m.attention.qk_rope_head_dim + m.attention.v_head_dim);
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

namespace {

// Matmuls of one token, in the order of the forward pass: what the forward pass multiplies, and what of it has input and weight gradients.
struct PassCount {
    double macs = 0;
    bool below = false; // something below is trained: gradients go on
    void product(double n, bool trained) {
        macs += n * (1 + (below ? 1 : 0) + (trained ? 1 : 0));
        below = below || trained;
    }
    void square(double n) { macs += n * (below ? 3 : 1); } // both operands have gradients
};

double mlp_part(const Model& m, int layer, bool first) {
    const double h = static_cast<double>(m.hidden_size);
    if (is_moe_layer(m, layer)) return 0;
    return h * static_cast<double>(m.ffn_size) * (first && m.gated() ? 2 : 1);
}

// One layer of a model that is tuned. The linears of latent attention count as one, and so do those of a mixture: trained if their part is.
void tuned_layer(const Model& m, int layer, double s, PassCount& p) {
    const auto own = [&](ModelPart part) { return trains(m, part, layer); };
    const auto adapter = [&](LoraTarget target) {
        const AdapterSize size = adapter_size(m, target, layer);
        if (size.all() == 0) return;
        const double used = of_experts(target) ? static_cast<double>(m.moe->top_k) / static_cast<double>(m.moe->experts) : 1; // by a token
        p.product(used * static_cast<double>(size.down), true);
        p.product(used * static_cast<double>(size.up), true);
    };
    const double projections = attention_projections(m),
                 out = static_cast<double>(m.hidden_size) * m.attention_heads *
                       (m.attention.kind == AttentionSpec::Kind::mla ? m.attention.v_head_dim : m.head_dim);
    p.below = p.below || own(ModelPart::norm);
    p.product(projections - out, own(ModelPart::attention));
    for (LoraTarget t : {LoraTarget::qkv, LoraTarget::q_down, LoraTarget::q_up, LoraTarget::kv_down, LoraTarget::kv_up}) adapter(t);
    p.square(attention_square(m, layer, s));
    p.product(out, own(ModelPart::attention));
    adapter(LoraTarget::proj);
    if (is_moe_layer(m, layer)) {
        p.product(mlp(m, layer), own(ModelPart::experts) || own(ModelPart::mlp));
        for (LoraTarget t : {LoraTarget::shared_fc1, LoraTarget::shared_fc2, LoraTarget::expert_fc1, LoraTarget::expert_fc2}) adapter(t);
        return;
    }
    p.product(mlp_part(m, layer, true), own(ModelPart::mlp));
    adapter(LoraTarget::fc1);
    p.product(mlp_part(m, layer, false), own(ModelPart::mlp));
    adapter(LoraTarget::fc2);
}

double tuned_macs(const Model& m, double met) {
    const double h = static_cast<double>(m.hidden_size), logits = h * static_cast<double>(m.vocab_size);
    const bool head = trains(m, m.tied_embeddings ? ModelPart::embedding : ModelPart::head, -1);
    PassCount p;
    p.below = trains(m, ModelPart::embedding, -1);
    for (int layer = 0; layer < m.layers; ++layer) tuned_layer(m, layer, met, p);
    for (int k = 0; k < m.mtp_layers; ++k) {
        p.product(2 * h * h, trains(m, ModelPart::mlp, m.layers + k));
        tuned_layer(m, m.layers + k, met, p);
        p.product(logits, head);
    }
    p.below = p.below || (m.final_norm && trains(m, ModelPart::norm, -1));
    p.product(logits, head);
    return p.macs;
}

} // namespace

double model_flops_per_sequence(const Model& m, double s, double document) {
    const double met = document > 0 ? std::min(document, s) : s;
    if (m.trainable.partial()) return 2 * s * tuned_macs(m, met);
    const double h = static_cast<double>(m.hidden_size);
    const double projections = attention_projections(m), logits = h * static_cast<double>(m.vocab_size);
    double per_token = logits;
    for (int layer = 0; layer < m.layers; ++layer) per_token += projections + attention_square(m, layer, met) + mlp(m, layer);
    // A multi-token-prediction layer: two hidden states joined by a projection, one layer, the logits again.
    for (int layer = m.layers; layer < m.layers + m.mtp_layers; ++layer)
        per_token += 2 * h * h + projections + attention_square(m, layer, met) + mlp(m, m.layers - 1) + logits;
    return 3 * 2 * s * per_token;
}

} // namespace orrery

#include "exec/weights/names.hpp"

#include <fmt/format.h>

#include <charconv>

namespace orrery {
namespace {

// {}: the layer; then the expert. Queries, keys and values are one matrix of the file where `query` is empty.
struct WeightNames {
    const char *embedding, *positions, *final_norm, *head, *norm1, *norm2, *qkv, *query, *key, *value, *query_norm, *key_norm, *proj, *gate,
        *up, *fc1, *down, *router, *expert_gate, *expert_up, *expert_down;
    const char *post_norm1 = "", *post_norm2 = ""; // of norms behind attention and MLP
};

constexpr WeightNames gpt2_names{"transformer.wte",
                                 "transformer.wpe",
                                 "transformer.ln_f",
                                 "lm_head",
                                 "transformer.h.{}.ln_1",
                                 "transformer.h.{}.ln_2",
                                 "transformer.h.{}.attn.c_attn",
                                 "",
                                 "",
                                 "",
                                 "",
                                 "",
                                 "transformer.h.{}.attn.c_proj",
                                 "",
                                 "",
                                 "transformer.h.{}.mlp.c_fc",
                                 "transformer.h.{}.mlp.c_proj",
                                 "",
                                 "",
                                 "",
                                 ""};
constexpr WeightNames llama_names{"model.embed_tokens",
                                  "",
                                  "model.norm",
                                  "lm_head",
                                  "model.layers.{}.input_layernorm",
                                  "model.layers.{}.post_attention_layernorm",
                                  "",
                                  "model.layers.{}.self_attn.q_proj",
                                  "model.layers.{}.self_attn.k_proj",
                                  "model.layers.{}.self_attn.v_proj",
                                  "model.layers.{}.self_attn.q_norm",
                                  "model.layers.{}.self_attn.k_norm",
                                  "model.layers.{}.self_attn.o_proj",
                                  "model.layers.{}.mlp.gate_proj",
                                  "model.layers.{}.mlp.up_proj",
                                  "",
                                  "model.layers.{}.mlp.down_proj",
                                  "model.layers.{}.mlp.gate",
                                  "model.layers.{}.mlp.experts.{}.gate_proj",
                                  "model.layers.{}.mlp.experts.{}.up_proj",
                                  "model.layers.{}.mlp.experts.{}.down_proj"};

constexpr WeightNames names_of(WeightFamily family) {
    WeightNames n = family == WeightFamily::gpt2 ? gpt2_names : llama_names;
    if (family == WeightFamily::mixtral) {
        n.router = "model.layers.{}.block_sparse_moe.gate";
        n.expert_gate = "model.layers.{}.block_sparse_moe.experts.{}.w1";
        n.expert_up = "model.layers.{}.block_sparse_moe.experts.{}.w3";
        n.expert_down = "model.layers.{}.block_sparse_moe.experts.{}.w2";
    }
    if (family == WeightFamily::olmo2) {
        n.post_norm1 = "model.layers.{}.post_attention_layernorm";
        n.post_norm2 = "model.layers.{}.post_feedforward_layernorm";
    }
    return n;
}

// "l3.qkv.weight": layer 3, part qkv, end ".weight". Of no layer: -1.
struct PlanName {
    int layer = -1;
    std::string part, end;
};

PlanName parse_name(const std::string& tensor) {
    PlanName n;
    std::string rest = tensor;
    if (rest.size() > 1 && rest[0] == 'l' && rest[1] >= '0' && rest[1] <= '9') {
        const auto [ptr, error] = std::from_chars(rest.data() + 1, rest.data() + rest.size(), n.layer);
        if (error != std::errc() || *ptr != '.') return {};
        rest = rest.substr(static_cast<std::size_t>(ptr - rest.data()) + 1);
    }
    const auto dot = rest.find('.');
    if (dot == std::string::npos) return {};
    n.part = rest.substr(0, dot);
    n.end = rest.substr(dot);
    return n;
}

struct NamedTensor {
    const Model& model;
    WeightNames names;
    PlanName at;
    bool flipped; // matrices of layers are stored by input, then output

    std::string name(const char* pattern, std::int64_t expert = 0) const {
        return fmt::format(fmt::runtime(pattern), at.layer, expert) + at.end;
    }
    bool vector() const { return at.end == ".bias"; }

    // One tensor of the file, as it is.
    Counterpart same(const char* pattern, std::int64_t rows, std::int64_t columns, bool matrix) const {
        const bool turned = flipped && matrix && !vector();
        Counterpart c;
        if (vector()) columns = 1;
        std::vector<std::int64_t> shape = !matrix || vector() ? std::vector{rows}
                                          : turned            ? std::vector{columns, rows}
                                                              : std::vector{rows, columns};
        c.sources = {{name(pattern), std::move(shape)}};
        c.rows = rows;
        c.columns = columns;
        c.transposed = turned;
        c.place = [](std::int64_t row) { return Counterpart::Row{0, row}; };
        return c;
    }

    // Rows by group of a key head: its queries, its key, its value. The file has all queries, all keys, all values, in one matrix or three.
    Counterpart attention() const {
        const std::int64_t d = model.head_dim, keys = model.kv_heads, queries = model.attention_heads, per = queries / keys;
        const std::int64_t h = model.hidden_size, rows = (queries + 2 * keys) * d;
        Counterpart c = same(names.qkv, rows, h, true);
        const bool apart = *names.qkv == 0;
        if (apart) {
            const auto shape = [&](std::int64_t n) { return vector() ? std::vector{n} : std::vector{n, h}; };
            c.sources = {{name(names.query), shape(queries * d)}, {name(names.key), shape(keys * d)}, {name(names.value), shape(keys * d)}};
        }
        c.place = [=](std::int64_t row) {
            const std::int64_t group = row / ((per + 2) * d), head = row / d % (per + 2), in = row % d;
            const std::size_t kind = head < per ? 0 : head == per ? 1 : 2;
            const std::int64_t there = (kind == 0 ? group * per + head : group) * d + in;
            if (apart) return Counterpart::Row{kind, there};
            return Counterpart::Row{0, there + (kind == 0 ? 0 : kind == 1 ? queries * d : (queries + keys) * d)};
        };
        return c;
    }

    // Rows 2i are of the gate, 2i + 1 of what it multiplies; of experts one behind the other.
    Counterpart gated(const char* gate, const char* up, std::int64_t width, std::int64_t experts) const {
        const std::int64_t h = model.hidden_size;
        Counterpart c;
        for (std::int64_t e = 0; e < experts; ++e)
            for (const char* pattern : {gate, up}) c.sources.push_back({name(pattern, e), {width, h}});
        c.rows = experts * 2 * width;
        c.columns = h;
        c.place = [width](std::int64_t row) {
            const std::int64_t expert = row / (2 * width), in = row % (2 * width);
            return Counterpart::Row{static_cast<std::size_t>(2 * expert + in % 2), in / 2};
        };
        return c;
    }

    Counterpart experts_down(std::int64_t width, std::int64_t experts) const {
        const std::int64_t h = model.hidden_size;
        Counterpart c;
        for (std::int64_t e = 0; e < experts; ++e) c.sources.push_back({name(names.expert_down, e), {h, width}});
        c.rows = experts * h;
        c.columns = width;
        c.place = [h](std::int64_t row) { return Counterpart::Row{static_cast<std::size_t>(row / h), row % h}; };
        return c;
    }
};

std::optional<Counterpart> of_layer(const NamedTensor& t) {
    const Model& m = t.model;
    const std::string& part = t.at.part;
    const std::int64_t h = m.hidden_size;
    if (part == "norm1") return t.same(t.names.norm1, h, 1, false);
    if (part == "norm2") return t.same(t.names.norm2, h, 1, false);
    if (part == "post_norm1") return t.same(t.names.post_norm1, h, 1, false);
    if (part == "post_norm2") return t.same(t.names.post_norm2, h, 1, false);
    const std::int64_t d = m.head_dim;
    const bool across = m.attention.qk_norm_across;
    if (part == "q_norm") return t.same(t.names.query_norm, across ? m.attention_heads * d : d, 1, false);
    if (part == "k_norm") return t.same(t.names.key_norm, across ? m.kv_heads * d : d, 1, false);
    if (part == "qkv") return t.attention();
    if (part == "proj") return t.same(t.names.proj, h, m.attention_heads * m.head_dim, true);
    if (part == "fc1") return m.gated() ? t.gated(t.names.gate, t.names.up, m.ffn_size, 1) : t.same(t.names.fc1, m.ffn_size, h, true);
    if (part == "fc2") return t.same(t.names.down, h, m.ffn_size, true);
    if (!m.moe) return std::nullopt;
    if (part == "router") return t.same(t.names.router, m.moe->experts, h, true);
    if (part == "expert_fc1") return t.gated(t.names.expert_gate, t.names.expert_up, m.moe->expert_ffn_size, m.moe->experts);
    if (part == "expert_fc2") return t.experts_down(m.moe->expert_ffn_size, m.moe->experts);
    return std::nullopt;
}

} // namespace

std::optional<WeightFamily> weight_family(const Model& m, std::vector<std::string>& why_not) {
    const auto unless = [&](bool fits, const char* why) {
        if (!fits) why_not.emplace_back(why);
    };
    const AttentionSpec& a = m.attention;
    unless(a.kind == AttentionSpec::Kind::full && a.causal, "attention is latent, or not causal");
    const bool olmo2 = m.norm_placement == NormPlacement::after && a.qk_norm && a.qk_norm_across && !m.moe;
    unless(m.final_norm && !m.embedding_norm && !m.parallel_block && (m.norm_placement == NormPlacement::before || olmo2),
           "norms stand elsewhere, or blocks are parallel");
    unless(!a.qk_norm || !a.qk_norm_across || olmo2, "norms of queries and keys go over all heads");
    unless(m.embedding_scale == 1 && m.logit_cap == 0 && a.score_cap == 0, "embeddings are scaled, or logits or scores capped");
    unless(m.rope_fraction == 1, "a part of each head is rotated");
    unless(m.mtp_layers == 0, "it predicts further tokens");
    unless(m.activation_clamp == 0 && m.rope_scale == 1, "activations are clamped, or rotations scaled");
    unless(a.full_every == 0, "some layers have a window");
    const bool gpt = m.norm == NormKind::layernorm;
    if (gpt) {
        unless(m.position == PositionKind::learned && m.activation == ActivationKind::gelu && m.bias && m.norm_bias && !m.moe &&
                   m.kv_heads == m.attention_heads && !a.qkv_bias && !a.qk_norm && a.sliding_window == 0 &&
                   m.head_dim * m.attention_heads == m.hidden_size,
               "with layernorm files have GPT-2: learned positions, gelu, biases, as many keys as queries, no experts");
        return why_not.empty() ? std::optional(WeightFamily::gpt2) : std::nullopt;
    }
    unless(m.position == PositionKind::rope && m.activation == ActivationKind::swiglu && !m.bias && m.dropout == 0,
           "with rmsnorm files have Llama and its like: rotary positions, swiglu, no biases, no dropout");
    unless(!(a.qkv_bias && a.qk_norm), "queries and keys have biases and norms");
    unless(a.sliding_window == 0 || !(a.qkv_bias || a.qk_norm), "attention has a window");
    if (m.moe) {
        const MoeSpec& e = *m.moe;
        unless(e.shared_experts == 0 && e.first_dense_layers == 0 && e.layer_frequency == 1,
               "some experts are shared, or some layers dense");
        unless(e.scoring == RouterScoring::softmax && !e.router_bias && e.group_limit >= e.groups && !a.qkv_bias,
               "experts are not chosen by a softmax alone");
        if (!why_not.empty()) return std::nullopt;
        return a.qk_norm ? WeightFamily::qwen3_moe : WeightFamily::mixtral;
    }
    if (!why_not.empty()) return std::nullopt;
    return olmo2                  ? WeightFamily::olmo2
           : a.qk_norm            ? WeightFamily::qwen3
           : a.qkv_bias           ? WeightFamily::qwen2
           : a.sliding_window > 0 ? WeightFamily::mistral
                                  : WeightFamily::llama;
}

std::optional<Counterpart> counterpart(const Model& model, WeightFamily family, const std::string& tensor) {
    const NamedTensor t{model, names_of(family), parse_name(tensor), family == WeightFamily::gpt2};
    if (t.at.end != ".weight" && t.at.end != ".bias") return std::nullopt;
    if (t.at.layer >= 0) return of_layer(t);
    const std::int64_t h = model.hidden_size;
    NamedTensor outside = t;
    outside.flipped = false;
    if (t.at.part == "embedding") return outside.same(t.names.embedding, model.vocab_size, h, true);
    if (t.at.part == "head") return outside.same(t.names.head, model.vocab_size, h, true);
    if (t.at.part == "positions") return outside.same(t.names.positions, model.max_positions, h, true);
    if (t.at.part == "final_norm") return outside.same(t.names.final_norm, h, 1, false);
    return std::nullopt;
}

bool is_idle(const Model& model, const std::string& name) {
    return name.ends_with(".rotary_emb.inv_freq") || name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias") ||
           (model.tied_embeddings && name == "lm_head.weight");
}

const char* prefix_of(WeightFamily family) { return family == WeightFamily::gpt2 ? "transformer." : "model."; }

} // namespace orrery

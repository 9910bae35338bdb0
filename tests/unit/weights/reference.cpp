#include "reference.hpp"

#include <algorithm>
#include <cmath>
#include <random>

namespace orrery::test {
namespace {

using Vector = std::vector<double>;

struct Reference {
    const Model& m;
    const std::string family;
    const HandMadeTensors& tensors;

    const Vector& at(const std::string& name) const { return tensors.at(name).values; }
    // nn.Linear: W [out, in]; GPT-2's Conv1D: W [in, out].
    Vector linear(const std::string& name, const Vector& x, bool conv = false) const {
        const HandMade& w = tensors.at(name + ".weight");
        const auto in = x.size(), out = static_cast<std::size_t>(w.shape[conv ? 1 : 0]);
        Vector y(out, 0);
        for (std::size_t o = 0; o < out; ++o)
            for (std::size_t i = 0; i < in; ++i) y[o] += x[i] * (conv ? w.values[i * out + o] : w.values[o * in + i]);
        if (const auto b = tensors.find(name + ".bias"); b != tensors.end())
            for (std::size_t o = 0; o < out; ++o) y[o] += b->second.values[o];
        return y;
    }
    Vector rms(const std::string& name, const Vector& x) const {
        double square = 0;
        for (const double v : x) square += v * v / static_cast<double>(x.size());
        Vector y = x;
        for (std::size_t i = 0; i < x.size(); ++i) y[i] *= at(name + ".weight")[i] / std::sqrt(square + m.norm_epsilon);
        return y;
    }
    Vector layer_norm(const std::string& name, const Vector& x) const {
        double mean = 0, variance = 0;
        for (const double v : x) mean += v / static_cast<double>(x.size());
        for (const double v : x) variance += (v - mean) * (v - mean) / static_cast<double>(x.size());
        Vector y = x;
        for (std::size_t i = 0; i < x.size(); ++i)
            y[i] = (x[i] - mean) / std::sqrt(variance + m.norm_epsilon) * at(name + ".weight")[i] + at(name + ".bias")[i];
        return y;
    }
    // x cos + rotate_half(x) sin, rotate_half(x) = (-x2, x1).
    void turn(double* head, std::size_t position) const {
        const auto d = static_cast<std::size_t>(m.head_dim);
        const Vector x(head, head + d);
        for (std::size_t i = 0; i < d; ++i) {
            const double angle =
                static_cast<double>(position) * std::pow(m.rope_base, -2 * static_cast<double>(i % (d / 2)) / static_cast<double>(d));
            head[i] = x[i] * std::cos(angle) + (i < d / 2 ? -x[i + d / 2] : x[i - d / 2]) * std::sin(angle);
        }
    }
    std::vector<Vector> attend(const std::vector<Vector>& q, const std::vector<Vector>& k, const std::vector<Vector>& v) const {
        const auto d = static_cast<std::size_t>(m.head_dim), per = static_cast<std::size_t>(m.attention_heads / m.kv_heads);
        std::vector<Vector> out(q.size(), Vector(q[0].size(), 0));
        for (std::size_t t = 0; t < q.size(); ++t)
            for (std::size_t h = 0; h < static_cast<std::size_t>(m.attention_heads); ++h) {
                Vector p(t + 1);
                double sum = 0;
                for (std::size_t s = 0; s <= t; ++s) {
                    double dot = 0;
                    for (std::size_t i = 0; i < d; ++i) dot += q[t][h * d + i] * k[s][h / per * d + i];
                    sum += p[s] = std::exp(dot / std::sqrt(static_cast<double>(d)));
                }
                for (std::size_t s = 0; s <= t; ++s)
                    for (std::size_t i = 0; i < d; ++i) out[t][h * d + i] += p[s] / sum * v[s][h / per * d + i];
            }
        return out;
    }
    Vector swiglu(const std::string& gate, const std::string& up, const std::string& down, const Vector& x) const {
        Vector g = linear(gate, x);
        const Vector u = linear(up, x);
        for (std::size_t i = 0; i < g.size(); ++i) g[i] = g[i] / (1 + std::exp(-g[i])) * u[i];
        return linear(down, g);
    }
    Vector experts(const std::string& layer, const Vector& x) const {
        const bool mixtral = family == "mixtral";
        const std::string block = layer + (mixtral ? ".block_sparse_moe" : ".mlp");
        Vector p = linear(block + ".gate", x);
        for (double& v : p) v = std::exp(v);
        std::vector<std::size_t> order(p.size());
        for (std::size_t e = 0; e < p.size(); ++e) order[e] = e;
        std::ranges::sort(order, [&](std::size_t a, std::size_t b) { return p[a] > p[b]; });
        double chosen = 0;
        for (int k = 0; k < m.moe->top_k; ++k) chosen += p[order[k]];
        Vector y(x.size(), 0);
        for (int k = 0; k < m.moe->top_k; ++k) {
            const std::size_t e = order[k];
            const std::string expert = block + ".experts." + std::to_string(e);
            const Vector z = mixtral ? swiglu(expert + ".w1", expert + ".w3", expert + ".w2", x)
                                     : swiglu(expert + ".gate_proj", expert + ".up_proj", expert + ".down_proj", x);
            for (std::size_t i = 0; i < y.size(); ++i) y[i] += p[e] / chosen * z[i];
        }
        return y;
    }
    void llama_layer(int l, std::vector<Vector>& x) const {
        const std::string layer = "model.layers." + std::to_string(l);
        const auto d = static_cast<std::size_t>(m.head_dim);
        const bool behind = family == "olmo2"; // its norms are of results, and of all queries or keys at once
        std::vector<Vector> q, k, v;
        for (std::size_t t = 0; t < x.size(); ++t) {
            const Vector n = behind ? x[t] : rms(layer + ".input_layernorm", x[t]);
            q.push_back(linear(layer + ".self_attn.q_proj", n));
            k.push_back(linear(layer + ".self_attn.k_proj", n));
            v.push_back(linear(layer + ".self_attn.v_proj", n));
            for (auto* const which : {&q.back(), &k.back()}) {
                const std::string norm = layer + (which == &q.back() ? ".self_attn.q_norm" : ".self_attn.k_norm");
                if (behind) *which = rms(norm, *which);
                for (std::size_t h = 0; h < which->size(); h += d) {
                    if (m.attention.qk_norm && !behind) {
                        const Vector normed = rms(norm, Vector(which->begin() + static_cast<std::ptrdiff_t>(h),
                                                               which->begin() + static_cast<std::ptrdiff_t>(h + d)));
                        std::ranges::copy(normed, which->begin() + static_cast<std::ptrdiff_t>(h));
                    }
                    turn(which->data() + h, t);
                }
            }
        }
        const std::vector<Vector> o = attend(q, k, v);
        for (std::size_t t = 0; t < x.size(); ++t) {
            const Vector attended = linear(layer + ".self_attn.o_proj", o[t]);
            add(x[t], behind ? rms(layer + ".post_attention_layernorm", attended) : attended);
            const Vector n = behind ? x[t] : rms(layer + ".post_attention_layernorm", x[t]);
            const Vector moved =
                m.moe ? experts(layer, n) : swiglu(layer + ".mlp.gate_proj", layer + ".mlp.up_proj", layer + ".mlp.down_proj", n);
            add(x[t], behind ? rms(layer + ".post_feedforward_layernorm", moved) : moved);
        }
    }
    void gpt2_layer(int l, std::vector<Vector>& x) const {
        const std::string layer = "transformer.h." + std::to_string(l);
        const auto h = static_cast<std::ptrdiff_t>(m.hidden_size);
        std::vector<Vector> q, k, v;
        for (const Vector& row : x) {
            const Vector all = linear(layer + ".attn.c_attn", layer_norm(layer + ".ln_1", row), true);
            q.emplace_back(all.begin(), all.begin() + h);
            k.emplace_back(all.begin() + h, all.begin() + 2 * h);
            v.emplace_back(all.begin() + 2 * h, all.end());
        }
        const std::vector<Vector> o = attend(q, k, v);
        for (std::size_t t = 0; t < x.size(); ++t) {
            add(x[t], linear(layer + ".attn.c_proj", o[t], true));
            Vector f = linear(layer + ".mlp.c_fc", layer_norm(layer + ".ln_2", x[t]), true);
            for (double& z : f) z = 0.5 * z * (1 + std::tanh(std::sqrt(2 / M_PI) * (z + 0.044715 * z * z * z)));
            add(x[t], linear(layer + ".mlp.c_proj", f, true));
        }
    }
    static void add(Vector& x, const Vector& y) {
        for (std::size_t i = 0; i < x.size(); ++i) x[i] += y[i];
    }
    double loss(const std::vector<std::int64_t>& sequence) const {
        const bool gpt2 = family == "gpt2";
        const auto h = static_cast<std::size_t>(m.hidden_size);
        const Vector& table = at(gpt2 ? "transformer.wte.weight" : "model.embed_tokens.weight");
        const Vector& head = m.tied_embeddings ? table : at("lm_head.weight");
        std::vector<Vector> x;
        for (std::size_t t = 0; t + 1 < sequence.size(); ++t) {
            const auto row = table.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(sequence[t]) * h);
            x.emplace_back(row, row + static_cast<std::ptrdiff_t>(h));
            if (gpt2)
                for (std::size_t i = 0; i < h; ++i) x[t][i] += at("transformer.wpe.weight")[t * h + i];
        }
        for (int l = 0; l < m.layers; ++l) gpt2 ? gpt2_layer(l, x) : llama_layer(l, x);
        double sum = 0;
        for (std::size_t t = 0; t < x.size(); ++t) {
            const Vector n = gpt2 ? layer_norm("transformer.ln_f", x[t]) : rms("model.norm", x[t]);
            Vector logits(head.size() / h, 0);
            double all = 0;
            for (std::size_t w = 0; w < logits.size(); ++w) {
                for (std::size_t i = 0; i < h; ++i) logits[w] += head[w * h + i] * n[i];
                all += std::exp(logits[w]);
            }
            sum += std::log(all) - logits[sequence[t + 1]];
        }
        return sum / static_cast<double>(x.size());
    }
};

} // namespace

HandMadeTensors random_model(const Model& m, const std::string& family) {
    HandMadeTensors all;
    std::mt19937_64 random(11);
    std::normal_distribution<double> normal(0, 0.3);
    const auto add = [&](const std::string& name, const std::vector<std::int64_t>& shape, double mean = 0) {
        std::int64_t n = 1;
        for (const std::int64_t d : shape) n *= d;
        HandMade t{shape, {}};
        for (std::int64_t i = 0; i < n; ++i) t.values.push_back(mean + normal(random));
        all[name] = t;
    };
    const std::int64_t h = m.hidden_size, q = m.attention_heads * m.head_dim, kv = m.kv_heads * m.head_dim;
    if (!m.tied_embeddings) add("lm_head.weight", {m.vocab_size, h});
    if (family == "gpt2") {
        add("transformer.wte.weight", {m.vocab_size, h});
        add("transformer.wpe.weight", {m.max_positions, h});
        const auto norm = [&](const std::string& name) { add(name + ".weight", {h}, 1), add(name + ".bias", {h}); };
        const auto conv = [&](const std::string& name, std::int64_t in, std::int64_t out) {
            add(name + ".weight", {in, out}), add(name + ".bias", {out});
        };
        for (int l = 0; l < m.layers; ++l) {
            const std::string layer = "transformer.h." + std::to_string(l);
            norm(layer + ".ln_1"), norm(layer + ".ln_2");
            conv(layer + ".attn.c_attn", h, 3 * h), conv(layer + ".attn.c_proj", h, h);
            conv(layer + ".mlp.c_fc", h, m.ffn_size), conv(layer + ".mlp.c_proj", m.ffn_size, h);
        }
        norm("transformer.ln_f");
        return all;
    }
    add("model.embed_tokens.weight", {m.vocab_size, h});
    add("model.norm.weight", {h}, 1);
    for (int l = 0; l < m.layers; ++l) {
        const std::string layer = "model.layers." + std::to_string(l), attention = layer + ".self_attn.";
        const bool behind = family == "olmo2";
        add(layer + ".post_attention_layernorm.weight", {h}, 1);
        add(layer + (behind ? ".post_feedforward_layernorm.weight" : ".input_layernorm.weight"), {h}, 1);
        const std::pair<const char*, std::int64_t> projections[] = {{"q_proj", q}, {"k_proj", kv}, {"v_proj", kv}};
        for (const auto& [name, rows] : projections) {
            add(attention + name + ".weight", {rows, h});
            if (m.attention.qkv_bias) add(attention + name + ".bias", {rows});
        }
        if (m.attention.qk_norm) {
            add(attention + "q_norm.weight", {behind ? q : m.head_dim}, 1);
            add(attention + "k_norm.weight", {behind ? kv : m.head_dim}, 1);
        }
        add(attention + "o_proj.weight", {h, q});
        const auto mlp = [&](const std::string& gate, const std::string& up, const std::string& down, std::int64_t width) {
            add(gate + ".weight", {width, h}), add(up + ".weight", {width, h}), add(down + ".weight", {h, width});
        };
        if (!m.moe) {
            mlp(layer + ".mlp.gate_proj", layer + ".mlp.up_proj", layer + ".mlp.down_proj", m.ffn_size);
            continue;
        }
        const std::string block = layer + (family == "mixtral" ? ".block_sparse_moe" : ".mlp");
        add(block + ".gate.weight", {m.moe->experts, h});
        for (int e = 0; e < m.moe->experts; ++e) {
            const std::string expert = block + ".experts." + std::to_string(e);
            if (family == "mixtral")
                mlp(expert + ".w1", expert + ".w3", expert + ".w2", m.moe->expert_ffn_size);
            else
                mlp(expert + ".gate_proj", expert + ".up_proj", expert + ".down_proj", m.moe->expert_ffn_size);
        }
    }
    return all;
}

double reference_loss(const Model& model, const std::string& family, const HandMadeTensors& tensors,
                      const std::vector<std::vector<std::int64_t>>& sequences) {
    double sum = 0;
    for (const auto& sequence : sequences) sum += Reference{model, family, tensors}.loss(sequence);
    return sum / static_cast<double>(sequences.size());
}

} // namespace orrery::test

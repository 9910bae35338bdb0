// Derived, not measured. The states of a sequence's tokens grow alike with depth: attention with fresh weights is nearly a mean, and means
// of means are what all tokens have in common. c, u: the common and the own variance of a component of the residual stream, rho = c / (c +
// u); all weights have standard deviation s = 0.02, those of output layers s / sqrt(2 layers), the embedding s (Megatron's init_method_std
// and scaled_init_method_normal), and all tokens of a sequence differ.
//
//   attention: A = (d s^2) (heads v s^2 / 2 layers)
//     c += A (rho + (1 - rho) 2 / T)                     a mean's share that is common to two tokens
//     u += A (1 - rho) (e^q (ln T + 0.58) - 2) / T       q: variance of the scores
//   MLP: M = E[act^2] (d s^2) (width s^2 / 2 layers)
//     c += M rho^2,  u += M (1 - rho^2)                  of k experts M / k, and of tokens with the same ones rho^3
//
// A router's logits of an expert are rho^1/2 a + (1 - rho)^1/2 b: a of the expert, b of the token as well, both normal. So the expert of
// the quantile a has Phi((rho^1/2 a - t) / (1 - rho)^1/2) of all tokens, with t such that k experts of each are chosen. Popularity has
// nothing to do with an expert's place: places are drawn.
//
// Worked example: 24 layers, d = 256, 4 heads of 64, 512 tokens, 8 of 128 experts, norms on heads: rho is 0.08 in the 8th layer and 0.75 in
// the last. A random network of this shape (numpy, one draw) has 0.19 and 0.78; the fullest of its experts has 8.9 x the mean in the mean
// of all layers, here 7.6 x, the fullest of 8 ranks 1.7 x, here 1.6 x; with d = 1024 and 12 layers (8 of 64 experts) 7.1 and 2.2 x,
// here 7.2 and 2.1 x.
#include "sim/scenario/router_at_start.hpp"

#include "sim/scenario/parameters.hpp"

#include <algorithm>
#include <cmath>
#include <random>

namespace orrery {
namespace {

constexpr double deviation = 0.02;

double phi(double x) { return std::erfc(-x / std::sqrt(2.0)) / 2; }

// The x with phi(x) = p.
double quantile(double p) {
    double low = -9, high = 9;
    for (int i = 0; i < 50; ++i) (phi((low + high) / 2) < p ? low : high) = (low + high) / 2;
    return (low + high) / 2;
}

// E[f(x)^2] of x / (1 + e^-x), x normal with this variance.
double activated(double variance) {
    double sum = 0, weight = 0;
    for (int i = -40; i <= 40; ++i) {
        const double z = i / 10.0, w = std::exp(-z * z / 2), x = z * std::sqrt(variance), f = x / (1 + std::exp(-x));
        sum += w * f * f, weight += w;
    }
    return sum / weight;
}

struct Stream {
    double common = 0, own = deviation * deviation;
    double alike() const { return common / (common + own); }
    void add(double variance, double shared) { common += variance * shared, own += variance * (1 - shared); }
};

void attend(Stream& x, const Model& m, double tokens) {
    const double s2 = deviation * deviation, rho = x.alike();
    const bool latent = m.attention.kind == AttentionSpec::Kind::mla;
    const double read = s2 * static_cast<double>(latent ? m.attention.kv_lora_rank : m.hidden_size),
                 width = static_cast<double>(m.attention_heads) * (latent ? m.attention.v_head_dim : m.head_dim),
                 scores = m.attention.qk_norm ? 1 : std::min(5.0, read * read);
    const double a = read * width * s2 / (2.0 * m.layers), common = std::min(1.0, 2 / tokens),
                 all = std::clamp(std::exp(scores) * (std::log(tokens) + 0.58) / tokens, common, 1.0);
    x.common += a * (rho + (1 - rho) * common);
    x.own += a * (1 - rho) * (all - common);
}

double read_by_mlp(const Model& m) { return deviation * deviation * static_cast<double>(m.hidden_size); }

// active: activated(read_by_mlp()), the same in all layers.
void transform(Stream& x, const Model& m, bool mixture, double active) {
    const double s2 = deviation * deviation, rho = x.alike(), read = read_by_mlp(m);
    const auto variance = [&](std::int64_t width) {
        return active * (m.gated() ? read : 1) * static_cast<double>(width) * s2 / (2.0 * m.layers);
    };
    if (!mixture) return x.add(variance(m.ffn_size), rho * rho);
    const MoeSpec& e = *m.moe;
    x.add(variance(e.expert_ffn_size) / e.top_k, rho * rho * rho);
    x.add(variance(e.shared_experts * (e.shared_expert_ffn_size > 0 ? e.shared_expert_ffn_size : e.expert_ffn_size)), rho * rho);
}

// How alike tokens are where the routers of the mixture layers read them.
std::vector<double> alike_at_routers(const Model& m, std::int64_t sequence) {
    const double tokens = static_cast<double>(std::max<std::int64_t>(2, sequence)), active = activated(read_by_mlp(m));
    std::vector<double> found;
    Stream x;
    for (int layer = 0; layer < m.layers + m.mtp_layers; ++layer) {
        attend(x, m, tokens);
        if (is_moe_layer(m, layer)) found.push_back(x.alike());
        transform(x, m, is_moe_layer(m, layer), active);
    }
    return found;
}

// Of each expert, before places are drawn.
std::vector<double> quantiles(const MoeSpec& moe) {
    std::vector<double> of(static_cast<std::size_t>(moe.experts));
    for (std::size_t i = 0; i < of.size(); ++i) of[i] = quantile((static_cast<double>(i) + 0.5) / static_cast<double>(of.size()));
    return of;
}

std::vector<double> load_of(const MoeSpec& moe, double rho, int mixture, std::vector<double> a) {
    const double own = std::sqrt(std::max(1e-6, 1 - rho));
    for (double& x : a) x = std::sqrt(rho) * x;
    double low = -9, high = 9; // the threshold
    for (int i = 0; i < 40; ++i) {
        const double t = (low + high) / 2;
        double chosen = 0;
        for (double x : a) chosen += phi((x - t) / own);
        (chosen > moe.top_k ? low : high) = t;
    }
    for (double& x : a) x = phi((x - low) / own) / moe.top_k;
    std::mt19937_64 random(static_cast<std::uint64_t>(mixture) + 1);
    for (std::size_t i = a.size(); i > 1; --i) std::swap(a[i - 1], a[static_cast<std::size_t>(random() % i)]);
    return a;
}

} // namespace

std::vector<double> load_at_start(const Model& m, std::int64_t sequence, int mixture) {
    return load_of(*m.moe, alike_at_routers(m, sequence).at(static_cast<std::size_t>(mixture)), mixture, quantiles(*m.moe));
}

std::vector<std::vector<double>> loads_at_start(const Model& m, std::int64_t sequence) {
    const std::vector<double> of_experts = quantiles(*m.moe);
    std::vector<std::vector<double>> all;
    for (const double rho : alike_at_routers(m, sequence)) all.push_back(load_of(*m.moe, rho, static_cast<int>(all.size()), of_experts));
    return all;
}

} // namespace orrery

// The router of a mixture: scores of all experts for each token, the chosen ones, and how many rows each expert gets.
//
// Scores are softmax(logits) or sigmoid(logits). The choice is by score plus the bias against unequal loads, ties to the lower index;
// where groups are limited, of the groups whose two best experts add up to most (DeepSeek-V3, arXiv:2412.19437, 2.1.2). What a row is
// weighted by is its score over the sum of the chosen ones' (permute.cpp), so that its adjoint here is that of the scores alone.
// The gradient of the bias is the load above the mean: it is no derivative, but lowers the bias of what is overloaded.
#include "exec/kernels/loss_scale.hpp"
#include "exec/kernels/rows.hpp"
#include "exec/kernels/tokens.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace orrery {
namespace {

template <class T> void score(const T* logits, T* s, std::int64_t experts, bool sigmoid) {
    if (sigmoid) {
        for (std::int64_t e = 0; e < experts; ++e) s[e] = 1 / (1 + std::exp(-logits[e]));
        return;
    }
    const T max = *std::max_element(logits, logits + experts);
    T sum = 0;
    for (std::int64_t e = 0; e < experts; ++e) sum += s[e] = std::exp(logits[e] - max);
    for (std::int64_t e = 0; e < experts; ++e) s[e] /= sum;
}

// The k best of `candidates`, the best first, ties to the lower index.
template <class T> void keep_best(const std::vector<T>& by, std::vector<std::int64_t>& candidates, std::int64_t k) {
    std::stable_sort(candidates.begin(), candidates.end(), [&](std::int64_t a, std::int64_t b) { return by[a] > by[b]; });
    candidates.resize(k);
}

template <class T>
std::vector<std::int64_t> choose(const std::vector<T>& by, std::int64_t top_k, std::int64_t groups, std::int64_t group_limit) {
    const std::int64_t experts = static_cast<std::int64_t>(by.size()), size = experts / groups;
    std::vector<std::int64_t> candidates(by.size());
    std::iota(candidates.begin(), candidates.end(), 0);
    if (groups > 1 && group_limit < groups) {
        std::vector<T> worth;
        for (std::int64_t g = 0; g < groups; ++g) {
            std::vector<T> of(by.begin() + g * size, by.begin() + (g + 1) * size);
            std::sort(of.begin(), of.end(), std::greater<T>());
            worth.push_back(size > 1 ? of[0] + of[1] : of[0]);
        }
        std::vector<std::int64_t> chosen(static_cast<std::size_t>(groups));
        std::iota(chosen.begin(), chosen.end(), 0);
        keep_best(worth, chosen, group_limit);
        std::erase_if(candidates, [&](std::int64_t e) { return std::find(chosen.begin(), chosen.end(), e / size) == chosen.end(); });
    }
    keep_best(by, candidates, top_k);
    return candidates;
}

// Counts leave out the rows that an unpadded capacity drops. They stay in the map: a row is weighted among all that its token chose.
void drop_from_counts(const MoeSpec& moe, std::int64_t tokens, std::int64_t* counts, std::int64_t experts) {
    if (!cuts(moe)) return;
    const std::int64_t most = expert_capacity(moe, tokens);
    for (std::int64_t e = 0; e < experts; ++e) counts[e] = std::min(counts[e], most);
}

template <class T> void forward(const Router& w, const Call& c) {
    const KernelFacts& f = c.context.facts;
    const T* bias = c.in.size() > 1 ? c.input<T>(1) : nullptr;
    unsigned char* map = c.output<unsigned char>(1);
    std::int64_t* counts = c.output<std::int64_t>(2);
    std::fill_n(map, w.tokens * w.experts, static_cast<unsigned char>(0));
    std::fill_n(counts, w.experts, std::int64_t{0});
    const std::vector<Token> tokens = f.forced_routing ? tokens_of(c.context, c.read(0), w.tokens) : std::vector<Token>{};
    std::vector<T> by(static_cast<std::size_t>(w.experts));
    for (std::int64_t t = 0; t < w.tokens; ++t) {
        T* s = c.output<T>(0) + t * w.experts;
        score(c.input<T>(0) + t * w.experts, s, w.experts, w.sigmoid);
        std::vector<std::int64_t> chosen;
        if (f.forced_routing) {
            for (std::int64_t k = 0; k < w.top_k; ++k) chosen.push_back((tokens[t].position * w.top_k + k) % w.experts);
        } else {
            for (std::int64_t e = 0; e < w.experts; ++e) by[e] = s[e] + (bias ? bias[e] : T(0));
            chosen = choose(by, w.top_k, w.groups, f.moe.group_limit);
        }
        for (std::int64_t e : chosen) {
            map[t * w.experts + e] = 1;
            ++counts[e];
        }
    }
    drop_from_counts(f.moe, w.tokens, counts, w.experts);
}

// dscores, scores, map[, g] -> dlogits[, g].
template <class T> void backward(const Router& w, const Call& c) {
    for (std::int64_t t = 0; t < w.tokens; ++t) {
        const T *ds = c.input<T>(0) + t * w.experts, *s = c.input<T>(1) + t * w.experts;
        T *dx = c.output<T>(0) + t * w.experts, dot = 0;
        for (std::int64_t e = 0; e < w.experts && !w.sigmoid; ++e) dot += ds[e] * s[e];
        for (std::int64_t e = 0; e < w.experts; ++e) dx[e] = w.sigmoid ? ds[e] * s[e] * (1 - s[e]) : s[e] * (ds[e] - dot);
    }
    if (c.out.size() < 2) return;
    const T scale = static_cast<T>(loss_factor(c.context)) / static_cast<T>(c.context.facts.loss_tokens),
            mean = static_cast<T>(w.tokens * w.top_k) / static_cast<T>(w.experts);
    for (std::int64_t e = 0; e < w.experts; ++e) {
        std::int64_t load = 0;
        for (std::int64_t t = 0; t < w.tokens; ++t) load += c.input<unsigned char>(2)[t * w.experts + e];
        c.output<T>(1)[e] += (static_cast<T>(load) - mean) * scale;
    }
}

} // namespace

template <class T> void run(const Router& w, const Call& c) { w.direction == Direction::forward ? forward<T>(w, c) : backward<T>(w, c); }

template void run<float>(const Router&, const Call&);
template void run<double>(const Router&, const Call&);

} // namespace orrery

#include "sim/model/expert_load.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace orrery {
namespace {

std::uint32_t bits_reversed(std::uint32_t n) {
    std::uint32_t reversed = 0;
    for (int bit = 0; bit < 32; ++bit) reversed = reversed << 1 | (n >> bit & 1);
    return reversed;
}

// The experts from the most popular to the least: the order of van der Corput's sequence, so that whatever number of ranks hold
// neighbouring experts, the popular ones are spread over them. Popularity and place have nothing to do with each other: where experts lie
// at random, the fullest rank of 8 to 64 has 4 to 10 % more rows than here (exponents 0.3 and 0.5); in order of popularity it would have
// twice as many.
std::vector<std::size_t> by_popularity(std::size_t experts) {
    std::vector<std::size_t> order(experts);
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::sort(order, {}, [](std::size_t e) { return bits_reversed(static_cast<std::uint32_t>(e)); });
    return order;
}

std::vector<double> wished(const MoeSpec& moe, int mixture) {
    std::vector<double> w(static_cast<std::size_t>(moe.experts), 1.0);
    // Layers beyond the last list (further tokens' layers) have the last one's.
    if (!moe.imbalance_loads.empty())
        w = moe.imbalance_loads[std::min(static_cast<std::size_t>(mixture), moe.imbalance_loads.size() - 1)];
    else if (moe.imbalance == Imbalance::zipf) {
        const std::vector<std::size_t> order = by_popularity(w.size());
        for (std::size_t i = 0; i < w.size(); ++i) w[order[i]] = std::pow(static_cast<double>(i + 1), -moe.imbalance_exponent);
    }
    return w;
}

} // namespace

std::vector<double> expert_shares(const MoeSpec& moe, int mixture) {
    std::vector<double> w = wished(moe, mixture);
    const double most = 1.0 / moe.top_k;
    std::vector<char> full(w.size(), 0);
    // Rows beyond a full expert go to the others in their proportions, until no expert overflows.
    for (bool again = true; again;) {
        again = false;
        double open = 0, left = 1;
        for (std::size_t i = 0; i < w.size(); ++i) (full[i] ? left : open) += full[i] ? -most : w[i];
        for (std::size_t i = 0; i < w.size(); ++i) {
            if (full[i] || open <= 0) continue;
            if (w[i] / open * left > most * (1 + 1e-12)) {
                full[i] = 1;
                again = true;
            }
        }
        if (again) continue;
        for (std::size_t i = 0; i < w.size(); ++i) w[i] = full[i] ? most : open > 0 ? w[i] / open * left : 0;
    }
    return w;
}

std::int64_t expert_capacity(const MoeSpec& moe, std::int64_t tokens) {
    return static_cast<std::int64_t>(std::ceil(static_cast<double>(tokens * moe.top_k) / moe.experts * moe.capacity_factor - 1e-9));
}

// (Each rank drops what exceeds the capacity among its own tokens; the ranks are taken to have about as many rows for an expert.)
std::int64_t rows_sent(const MoeSpec& moe, std::int64_t tokens, int mixture) {
    const std::int64_t chosen = tokens * moe.top_k;
    if (moe.pads()) return moe.experts * expert_capacity(moe, tokens);
    if (moe.capacity_factor <= 0) return chosen;
    return chosen - static_cast<std::int64_t>(dropped_share(moe, tokens, mixture) * static_cast<double>(chosen) + 1e-9);
}

std::int64_t most_rows_sent(const MoeSpec& moe, std::int64_t tokens, int ranks) {
    const std::int64_t local = moe.experts / ranks, full = local * expert_capacity(moe, tokens);
    if (moe.pads()) return full;
    const std::int64_t chosen = tokens * std::min<std::int64_t>(moe.top_k, local);
    return moe.capacity_factor > 0 ? std::min(chosen, full) : chosen;
}

namespace {

// Experts' shares after a capacity has cut them, and the first expert of the fullest of `ranks` ranks, each with neighbouring experts.
struct Fullest {
    std::vector<double> shares;
    std::size_t first = 0, each = 0;
    double most = 0, left = 1; // of all that are chosen: on that rank, and on all
};

Fullest fullest_of(const MoeSpec& moe, int ranks, int mixture) {
    Fullest f;
    f.shares = expert_shares(moe, mixture);
    if (moe.capacity_factor > 0) {
        for (double& share : f.shares) share = std::min(share, moe.capacity_factor / moe.experts);
        f.left = std::accumulate(f.shares.begin(), f.shares.end(), 0.0);
    }
    f.each = f.shares.size() / static_cast<std::size_t>(ranks);
    for (std::size_t r = 0; r < static_cast<std::size_t>(ranks); ++r) {
        const auto begin = f.shares.begin() + static_cast<std::ptrdiff_t>(r * f.each);
        const double sum = std::accumulate(begin, begin + static_cast<std::ptrdiff_t>(f.each), 0.0);
        if (sum > f.most) f.most = sum, f.first = r * f.each;
    }
    return f;
}

} // namespace

double fullest_share(const MoeSpec& moe, int ranks, int mixture) {
    if (moe.pads() || ranks <= 1) return 1;
    const Fullest f = fullest_of(moe, ranks, mixture);
    return std::max(1.0, f.most * ranks / f.left);
}

std::vector<double> shares_of_fullest(const MoeSpec& moe, int ranks, int mixture) {
    if (moe.pads() || moe.even()) return {};
    const Fullest f = fullest_of(moe, std::max(1, ranks), mixture);
    std::vector<double> own(f.shares.begin() + static_cast<std::ptrdiff_t>(f.first),
                            f.shares.begin() + static_cast<std::ptrdiff_t>(f.first + f.each));
    for (double& share : own) share /= f.most;
    return own;
}

double dropped_share(const MoeSpec& moe, std::int64_t tokens, int mixture) {
    if (moe.capacity_factor <= 0 || tokens <= 0) return 0;
    const double rows = static_cast<double>(tokens * moe.top_k), capacity = static_cast<double>(expert_capacity(moe, tokens));
    double dropped = 0;
    for (double share : expert_shares(moe, mixture)) dropped += std::max(0.0, share * rows - capacity);
    return dropped / rows;
}

} // namespace orrery

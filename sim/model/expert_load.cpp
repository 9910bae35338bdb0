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

double fullest_share(const MoeSpec& moe, int ranks, int mixture) {
    if (moe.capacity_factor > 0 || ranks <= 1) return 1;
    const std::vector<double> shares = expert_shares(moe, mixture);
    const std::size_t each = shares.size() / static_cast<std::size_t>(ranks);
    double most = 0;
    for (std::size_t r = 0; r < static_cast<std::size_t>(ranks); ++r)
        most = std::max(most, std::accumulate(shares.begin() + static_cast<std::ptrdiff_t>(r * each),
                                              shares.begin() + static_cast<std::ptrdiff_t>((r + 1) * each), 0.0));
    return std::max(1.0, most * ranks);
}

double dropped_share(const MoeSpec& moe, std::int64_t tokens, int mixture) {
    if (moe.capacity_factor <= 0 || tokens <= 0) return 0;
    const double rows = static_cast<double>(tokens * moe.top_k), capacity = static_cast<double>(expert_capacity(moe, tokens));
    double dropped = 0;
    for (double share : expert_shares(moe, mixture)) dropped += std::max(0.0, share * rows - capacity);
    return dropped / rows;
}

} // namespace orrery

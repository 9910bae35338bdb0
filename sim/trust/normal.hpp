// Linear algebra of a few normal beliefs: one linear observation at a time (Kalman 1960).
#pragma once

#include "sim/cost/learned.hpp"

#include <cmath>

namespace orrery::normal {

template <std::size_t N> double dot(const std::array<double, N>& a, const std::array<double, N>& b) {
    double sum = 0;
    for (std::size_t i = 0; i < N; ++i) sum += a[i] * b[i];
    return sum;
}

template <std::size_t N> std::array<double, N> times(const std::array<std::array<double, N>, N>& m, const std::array<double, N>& x) {
    std::array<double, N> y{};
    for (std::size_t i = 0; i < N; ++i) y[i] = dot(m[i], x);
    return y;
}

template <std::size_t N> Normal<N> independent(const std::array<double, N>& spreads) {
    Normal<N> b;
    for (std::size_t i = 0; i < N; ++i) b.covariance[i][i] = spreads[i] * spreads[i];
    return b;
}

// x'b was read as `off`, with this noise. Returns the logarithm of its likelihood, but for a constant.
template <std::size_t N> double observe(Normal<N>& b, const std::array<double, N>& x, double off, double noise) {
    const std::array<double, N> cx = times(b.covariance, x);
    const double variance = dot(x, cx) + noise * noise, surprise = off - dot(x, b.mean);
    if (variance <= 0) return 0;
    for (std::size_t i = 0; i < N; ++i) b.mean[i] += cx[i] / variance * surprise;
    for (std::size_t i = 0; i < N; ++i)
        for (std::size_t j = 0; j < N; ++j) b.covariance[i][j] -= cx[i] * cx[j] / variance;
    return -0.5 * (std::log(variance) + surprise * surprise / variance);
}

template <std::size_t N> double spread(const Normal<N>& b, const std::array<double, N>& x) {
    return std::sqrt(std::max(0.0, dot(x, times(b.covariance, x))));
}

} // namespace orrery::normal

#include "sim/validate/statistics.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>

namespace orrery {

double mean(std::span<const double> x) {
    double sum = 0;
    for (double v : x) sum += v;
    return x.empty() ? 0 : sum / static_cast<double>(x.size());
}

double median(std::vector<double> x) {
    if (x.empty()) return 0;
    std::sort(x.begin(), x.end());
    const std::size_t half = x.size() / 2;
    return x.size() % 2 == 1 ? x[half] : (x[half - 1] + x[half]) / 2;
}

double kendall_tau(std::span<const double> x, std::span<const double> y) {
    std::int64_t pairs = 0, agree = 0, ties_x = 0, ties_y = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
        for (std::size_t j = i + 1; j < x.size(); ++j) {
            const int a = (x[i] > x[j]) - (x[i] < x[j]), b = (y[i] > y[j]) - (y[i] < y[j]);
            ++pairs;
            agree += a * b;
            ties_x += a == 0;
            ties_y += b == 0;
        }
    }
    const double scale = std::sqrt(static_cast<double>(pairs - ties_x)) * std::sqrt(static_cast<double>(pairs - ties_y));
    return scale > 0 ? static_cast<double>(agree) / scale : 0;
}

double attainable_tau(std::span<const double> measured, std::span<const double> noise) {
    double sum = 0;
    std::int64_t pairs = 0;
    for (std::size_t i = 0; i < measured.size(); ++i) {
        for (std::size_t j = i + 1; j < measured.size(); ++j, ++pairs) {
            const double apart = std::abs(std::log(measured[i] / measured[j])), s = std::hypot(noise[i], noise[j]);
            sum += s > 0 ? std::erf(apart / (s * std::numbers::sqrt2)) : (apart > 0 ? 1.0 : 0.0);
        }
    }
    return pairs > 0 ? sum / static_cast<double>(pairs) : 0;
}

TauBeyondNoise tau_beyond_noise(std::span<const double> predicted, std::span<const double> measured, std::span<const double> noise) {
    TauBeyondNoise t;
    std::int64_t agree = 0;
    for (std::size_t i = 0; i < measured.size(); ++i) {
        for (std::size_t j = i + 1; j < measured.size(); ++j) {
            if (std::abs(std::log(measured[i] / measured[j])) <= 2 * std::hypot(noise[i], noise[j])) continue;
            const double order = (predicted[i] - predicted[j]) * (measured[i] - measured[j]);
            agree += (order > 0) - (order < 0);
            ++t.pairs;
        }
    }
    if (t.pairs > 0) t.tau = static_cast<double>(agree) / static_cast<double>(t.pairs);
    return t;
}

Scatter scatter_of_repeats(const std::vector<std::vector<double>>& runs) {
    Scatter s;
    double squares = 0;
    for (std::vector<double> readings : runs) {
        std::sort(readings.begin(), readings.end());
        readings.erase(std::unique(readings.begin(), readings.end()), readings.end());
        for (double& r : readings) r = std::log(r);
        const double middle = mean(readings);
        for (double r : readings) squares += (r - middle) * (r - middle);
        s.degrees += std::max(0, static_cast<int>(readings.size()) - 1);
    }
    if (s.degrees > 0) s.relative = std::sqrt(squares / s.degrees);
    return s;
}

} // namespace orrery

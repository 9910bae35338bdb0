#include "sim/validate/statistics.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>

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

} // namespace orrery

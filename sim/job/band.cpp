// Quantiles over the seeds, and how far off they may be by chance.
#include "sim/job/whole_run.hpp"

#include <algorithm>
#include <cmath>

namespace orrery {

SeedBand band(std::vector<double> values) {
    SeedBand out;
    if (values.empty()) return out;
    std::ranges::sort(values);
    const auto n = static_cast<double>(values.size());
    const auto at = [&](double q) {
        const double x = std::clamp(q * n - 0.5, 0.0, n - 1);
        const auto low = static_cast<std::size_t>(x);
        const std::size_t high = std::min(low + 1, values.size() - 1);
        return values[low] + (values[high] - values[low]) * (x - static_cast<double>(low));
    };
    const auto error = [&](double q) { // half of what lies between the ranks one binomial deviation apart
        const double deviation = std::sqrt(q * (1 - q) / n);
        return (at(std::min(1.0, q + deviation)) - at(std::max(0.0, q - deviation))) / 2;
    };
    return {at(0.1), at(0.5), at(0.9), error(0.1), error(0.5), error(0.9)};
}

} // namespace orrery

#include "gui/core/axis.hpp"

#include <algorithm>
#include <cmath>

namespace orrery {

double round_step(double least) {
    const double power = std::pow(10.0, std::floor(std::log10(least)));
    for (double m : {1.0, 2.0, 5.0})
        if (least <= m * power * (1 + 1e-12)) return m * power;
    return 10 * power;
}

std::int64_t round_step_ps(double least_ps) { return static_cast<std::int64_t>(std::llround(round_step(std::max(1.0, least_ps)))); }

std::int64_t first_mark(std::int64_t from, std::int64_t step) {
    const std::int64_t whole = from / step * step; // towards zero
    return whole < from ? whole + step : whole;
}

} // namespace orrery

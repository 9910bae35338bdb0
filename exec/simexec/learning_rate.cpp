#include "exec/simexec/learning_rate.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace orrery::simexec {

double RateSchedule::decayed(std::int64_t step) const {
    if (decay == RateDecay::none || step < warm_up) return rate;
    const std::int64_t first = std::max<std::int64_t>(0, warm_up - 1); // with the whole rate
    const double length = static_cast<double>(std::max<std::int64_t>(1, decay_steps - first));
    const double done = std::clamp(static_cast<double>(step - first) / length, 0.0, 1.0);
    const double left = decay == RateDecay::linear ? 1 - done : (1 + std::cos(std::numbers::pi * done)) / 2;
    return rate * (least + (1 - least) * left);
}

double RateSchedule::at(std::int64_t step, std::int64_t left_out) const {
    const auto updates = static_cast<double>(step - left_out + 1);
    return decayed(step) * (warm_up > 0 ? std::min(1.0, updates / static_cast<double>(warm_up)) : 1.0);
}

} // namespace orrery::simexec

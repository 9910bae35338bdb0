#include "exec/kernels/random.hpp"

#include <cmath>
#include <numbers>

namespace orrery {

double normal(std::uint64_t seed, std::uint64_t stream, std::uint64_t index) {
    const auto r = draw(seed, stream, index);
    const double u = 1 - fraction(r[0], r[1]), v = fraction(r[2], r[3]); // u in (0, 1]
    return std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * v);
}

} // namespace orrery

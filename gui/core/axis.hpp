// Marks of an axis: 1, 2 or 5 times a power of ten apart.
#pragma once

#include <cstdint>

namespace orrery {

// The smallest such step that is `least` or more; least > 0.
double round_step(double least);
// The step of times: at least a picosecond.
std::int64_t round_step_ps(double least_ps);
// The first multiple of `step` at or behind `from`.
std::int64_t first_mark(std::int64_t from, std::int64_t step);

} // namespace orrery

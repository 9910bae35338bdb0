// The simulator's clock: whole picoseconds in 63 bits, of which it uses fewer than half, so that an instant plus a duration never wraps
// round. A step that would pass the end is refused (endless.cpp).
#pragma once

#include "topology/units.hpp"

#include <cmath>

namespace orrery {

inline constexpr std::int64_t clock_end = 4'000'000'000'000'000'000; // ps: 46 days

// Picoseconds as a duration; too long a one, infinity and what is no number are clock_end.
inline std::int64_t whole_ps(double ps) { return ps < static_cast<double>(clock_end) ? std::llround(ps) : clock_end; }
inline std::int64_t at_most_clock(std::int64_t ps) { return ps < clock_end ? ps : clock_end; }

struct Machine;

// Throws InputError where the computation alone of a step is longer than the clock.
void check_computation(const Machine& machine);
// Throws InputError: a step is longer than the clock; and which op, launch or communication takes longest.
[[noreturn]] void refuse_endless(const Machine& machine);

} // namespace orrery

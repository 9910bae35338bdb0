// How much of a device's memory a plan must leave to fit surely, or lack not to fit surely.
#pragma once

#include <algorithm>

namespace orrery {

// As a share: the half width of the memory's interval, at most a tenth. 2 in 1,000 validated runs that were planned to leave a tenth or
// more did not fit, and 3 in 67 that were planned to leave less; 15 in 23 that were planned to be up to a tenth too large ran
// (VALIDATION.md, "Does it fit?"). Intervals of memory are wider, as they also count what sources count differently.
inline double memory_margin(double memory_interval) { return std::min(memory_interval, 0.1); }

} // namespace orrery

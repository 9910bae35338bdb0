// Which of the simulated points to name first, and which beside it.
#pragma once

#include "sim/search/search.hpp"

#include <cstddef>
#include <vector>

namespace orrery {

// Whether a row fits by more than predictions of memory are off.
bool fits_surely(const SweepRow& row);

// The place of the point that leads: the best, or, where it fits by less than the interval of memory, the best of those within its interval
// of time that fit surely (of these the one within `ties` of the first with most memory to spare). points: best score first, not empty.
std::size_t leader(const std::vector<SearchPoint>& points, double ties = 0.02);
// The leader and the best of each other kind (its degrees), best first: so many at most.
std::vector<std::size_t> different(const std::vector<SearchPoint>& points, std::size_t leader, std::size_t most);
// Points that no other beats in time, peak memory, devices and cost at once, fastest first.
std::vector<std::size_t> frontier(const std::vector<SearchPoint>& points);

} // namespace orrery

// Which part of a sweep or a search has a point (Shard::has).
#pragma once

#include "sim/scenario/sweep.hpp"

#include <string>

namespace orrery {

// A hash of the text alone, 16 hex digits: machines deal alike, whatever files and constants they have, and a new build goes on with its
// parts.
std::string deal_hash(const SweepPoint& point);

} // namespace orrery

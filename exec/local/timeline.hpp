// A measured step as a trace, in the simulator's form: keyed by the plan's ops.
#pragma once

#include "exec/local/executor.hpp"
#include "sim/trace/trace.hpp"

#include <span>
#include <string>

namespace orrery {

// As it ran. source: "measured: .."
Trace trace_of(const World& world, std::span<const OpTime> times, const std::string& source);

// Arranges the serial executor's times as if ranks ran in parallel: each rank on a processor of its own, every op as soon as its queue,
// what it waits for and its partners allow, as long as its thread worked on it. No two ranks disturb each other.
std::vector<OpTime> side_by_side(const World& world, std::span<const OpTime> serial);

} // namespace orrery

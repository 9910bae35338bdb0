// Memory over time: the levels of memory.hpp at the times a trace has.
#pragma once

#include "sim/memory/memory.hpp"
#include "sim/trace/trace.hpp"

namespace orrery {

// Puts samples into each lane of a simulated trace of `plan`, by kind and with the reserve: the level as each computation begins, the
// highest on the way to it where allocations and frees stand between two. The highest sample is the stage's peak.
void sample_memory(Trace& trace, const Plan& plan, const MemoryReport& memory);

} // namespace orrery

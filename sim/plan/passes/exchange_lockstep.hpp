// Blocking exchanges as Megatron's interleaved schedule groups them: a rank computes (in the steady phase a forward and a backward step,
// else one step), then sends and receives all there is, both directions at once. All ranks of the pipeline so go in one rhythm, and what
// the two steps of a pair take in proportion to each other does not matter.
#pragma once

#include "sim/plan/passes/exchange_order.hpp"

#include <optional>

namespace orrery {

// Nothing where the schedule does not run in that rhythm. Pairs are a forward step and the backward step after it, from a rank's first
// backward step on. O(steps).
std::optional<PipelineProgram> lockstep_exchanges(const Schedule& schedule, int (*stage_of)(int chunk, int stages), int stages, int chunks);

} // namespace orrery

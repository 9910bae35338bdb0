// Rounds of phases (Plan::repeat, Plan::further) as one list of actions: what interpreters run, and what verify looks at.
#pragma once

#include "sim/plan/plan.hpp"

#include <cstdint>
#include <limits>

namespace orrery {

// A round is more than one run of the plan's programs.
bool has_rounds(const Plan& plan);

// Runs of the plan's programs in a round, no phase counted more than `most` times.
std::int64_t runs_of_round(const Plan& plan, std::int64_t most = std::numeric_limits<std::int64_t>::max());

// The plan whose programs are a whole round, phase by phase; no phase is run more than `most` times. Microbatches are numbered through:
// those of the k-th training step from k times the step's on, and `microbatches` and `steps` are the round's. Where a phase begins, the
// first op of each queue waits for the last op of every other queue in the phase before; the first phase of a round waits for the last of
// the round before. A plan without rounds comes back as it is.
Plan unrolled(const Plan& plan, std::int64_t most = std::numeric_limits<std::int64_t>::max());

} // namespace orrery

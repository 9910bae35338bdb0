// Steady states of programs: runs of actions that repeat with further microbatches.
#pragma once

#include "sim/plan/hazards.hpp"

#include <cstdint>
#include <vector>

namespace orrery {

// Each action in [begin + period, end) is the one a period before, with all its microbatches further by the same number: the same ops, the
// same explicit waits, and a microbatch that is not met again behind it was not met again there either. period 0: nothing repeats.
struct RepeatedActions {
    std::int32_t begin = 0, end = 0, period = 0, microbatches = 0;
};

// The longest run found around the eighths of the program, of at least four periods. explicit_deps: in the order of the actions that wait.
RepeatedActions repeated_actions(const Program& program, const std::vector<ExplicitDep>& explicit_deps);

// By microbatch: the last action that works on it; -1: none does.
std::vector<std::int32_t> last_uses(const Program& program);

} // namespace orrery

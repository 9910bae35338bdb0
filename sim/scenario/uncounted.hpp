// Whether a scenario's software is one whose steps hold more than the kernels that are counted (Uncounted of sim/cost/own_constants.hpp,
// which adds the stacks and the number of devices).
#pragma once

#include "sim/scenario/scenario.hpp"

namespace orrery {

// Not simexec's own runtime, whose ops are the plan's and nothing else (XLA's allocator is a plan, too, but its steps are a compiler's);
// nor LLM Foundry's trainer: its runs are 159 of those that the sustained clocks are fitted to, so that the clocks hold what is not
// counted.
bool leaves_uncounted(const Scenario& scenario);

} // namespace orrery

// Which constants a predicted step rests on: its sensitivities.
//
// Slow all durations of one group of constants down by a small factor (1 + e), and the step grows by the factor (1 + share * e): a share is
// d ln(step) / d ln(durations of the group). All durations together scale the step, so that shares add up to 1 (Euler). The same
// machine is simulated again for each group, with its durations 5 % longer; nothing is lowered or compiled again. An op that hides behind a
// longer one has no share.
#pragma once

#include "sim/cost/cost.hpp"
#include "sim/engine/simulate.hpp"
#include "topology/indexed.hpp"

#include <array>

namespace orrery {

using CostShares = ByEnum<CostGroup, double, cost_group_count>; // by group; they add up to 1, or are all 0 where nothing was simulated

// The simulation must have its slower steps (SimulateOptions::slower_up_to); without them all shares are 0.
CostShares cost_shares(const Simulation& simulation);

} // namespace orrery

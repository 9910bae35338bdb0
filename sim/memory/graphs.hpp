// Memory that pools of captured graphs keep beside the plan's buffers.
#pragma once

#include "sim/plan/plan.hpp"
#include "sim/scenario/practice.hpp"

namespace orrery {

// Captured layers take their temporary memory from the graphs' pools, which nothing else can use: it adds to what eager ops need for a
// moment, where without graphs one memory serves both. 0 where nothing is captured (Practice::graph_pools).
Bytes graph_pools(const Plan& plan, const Practice& practice, const Program& program);

} // namespace orrery

// Which version of the weights each microbatch of a step uses, in plans whose steps flow into each other or whose update is delayed.
#pragma once

#include "sim/plan/staleness.hpp"

#include <cstdint>
#include <vector>

namespace orrery {

// Updates between the weights that a microbatch reads and those its gradient is added to: with weights of version n - age its gradient is
// added to version n. -1: the plan does not say (it has no forward pass of that microbatch there).
// By microbatch of the plan; empty where all weights are fresh.
std::vector<std::int64_t> weight_ages(const Plan& plan, const Program& program);

} // namespace orrery

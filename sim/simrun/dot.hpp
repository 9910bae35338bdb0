// A plan's blocks as Graphviz text: one cluster a block, ops as nodes, values and dependencies as edges.
#pragma once

#include "sim/plan/plan.hpp"

#include <string>

namespace orrery::simrun {

std::string to_dot(const Plan& plan);

} // namespace orrery::simrun

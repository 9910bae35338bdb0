// The inputs of a plan: all points of a sweep over links, devices or disturbances have the same plan.
#pragma once

#include "sim/scenario/scenario.hpp"

namespace orrery {

// Whether both are lowered to one plan, but for its name. Where it cannot say so cheaply it says no.
bool lowers_alike(const Scenario& a, const Scenario& b);

} // namespace orrery

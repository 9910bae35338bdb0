// What a plan is made from: a sweep over links, devices or disturbances has one plan for all of its points.
#pragma once

#include "sim/scenario/scenario.hpp"

namespace orrery {

// Whether both are lowered to one plan, but for its name. Where it cannot say so cheaply it says no.
bool lowers_alike(const Scenario& a, const Scenario& b);

} // namespace orrery

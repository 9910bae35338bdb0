// strategy.recompute = {"segments": "auto"}: which layers are made again, in how many segments. Every layer made again takes the time of
// its forward pass, whatever its segment: so as few as fit the device's memory, and of the ways to cut these that with the lowest peak.
#pragma once

#include "sim/scenario/scenario.hpp"

namespace orrery {

// Chooses recompute, recompute_layers and recompute_segments where they are open, with a note of what it chose; else changes nothing. Plans
// and their memory are worked out for each choice it looks at.
void settle(Scenario& scenario);

} // namespace orrery

// Sentences beside a first choice: what was not looked at and may be better, and what is not sure. Private to this room.
#pragma once

#include "sim/search/objective.hpp"

#include <string>
#include <vector>

namespace orrery {

struct Unasked { // what was left out, as neither the scenario nor the space says anything of it
    bool homes = false, synchronization = false, compression = false;
};

// A sentence each, of the point that is named first. replicas_wait: the share of its step that data parallelism's transfers take.
std::vector<std::string> hints(const Scenario& scenario, const SweepRow& row, double replicas_wait, const Unasked& unasked,
                               const Objective& objective);

} // namespace orrery

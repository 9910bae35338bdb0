// How old the weights are that gradients were made with, in plans whose steps flow into each other, or whose update is delayed.
#pragma once

#include "sim/plan/plan.hpp"

#include <cstdint>
#include <vector>

namespace orrery {

// For one stage: updates between the weights that a microbatch read and those its gradient was added to, and versions of the weights held.
struct StageStaleness {
    double mean = 0;
    std::int64_t worst = 0;
    int versions = 1;
};

struct Staleness {
    double mean = 0; // over stages that train anything, each with the same number of microbatches
    std::int64_t worst = 0;
    int versions = 1; // the most of a stage
    std::vector<StageStaleness> stages;
};

// Plans with one update a step: 0 everywhere and one version; 1 and two versions, one of them on the host, where it is delayed.
Staleness staleness(const Plan& plan);

} // namespace orrery

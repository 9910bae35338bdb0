// When each step of a schedule runs if ranks keep its order, start as early as they can, and links are never shared.
#pragma once

#include "sim/schedules/schedule.hpp"

#include <cstdint>
#include <vector>

namespace orrery {

struct StepLengths {
    std::int64_t forward = 1, backward = 2, input = 1, weight = 1, transfer = 0; // transfer: between chunks on different ranks
    std::int64_t of(StepKind kind) const;
};

// By rank and step, of `chunks` chunks in all. A rank that stands still for ever has fewer starts than steps. Linear in the steps.
// Joined steps take the time of both: the second "starts" where the first would end alone.
std::vector<std::vector<std::int64_t>> start_times(const Schedule& schedule, int (*stage_of)(int chunk, int stages), int chunks,
                                                   const StepLengths& lengths, int directions = 1);

std::int64_t microbatches_of(const Schedule& schedule);

} // namespace orrery

// Where ranks stand that cannot go on, in the simulator's words, whatever executor they are of.
#pragma once

#include "exec/runtime/world.hpp"
#include "sim/plan/deadlock.hpp"

#include <vector>

namespace orrery {

// By issue. arrived: a communication (or what is queued like one) that has come to the head of all its queues, what it waits for being
// done.
struct Stand {
    const Rank* rank = nullptr;
    std::vector<char> done, arrived;
};

// Reports which rank waits for which. stands: one entry for every rank of the world.
Deadlock blocked(const World& world, const std::vector<Stand>& stands);

} // namespace orrery

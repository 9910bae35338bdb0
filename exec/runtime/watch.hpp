// Numbers that are none: found where they first show, with a name.
#pragma once

#include "exec/runtime/world.hpp"

namespace orrery {

// Of an op about to run, and of what it has left: as the world watches.
void watch_before(const World& world, const Rank& rank, const Issue& issue, std::span<const Operand> in);
void watch_after(const World& world, const Rank& rank, const Issue& issue, std::span<const Operand> out);

} // namespace orrery

// Numbers that are none: found where they first show, with a name.
#pragma once

#include "exec/runtime/world.hpp"

namespace orrery {

// Checks of an op before it runs and of its results, as the world's settings ask. in: the op's inputs, which say how many rows experts got.
// Without them, results with spare room are not checked.
void watch_before(const World& world, const Rank& rank, const Issue& issue, std::span<const Operand> in);
void watch_after(const World& world, const Rank& rank, const Issue& issue, std::span<const Operand> out, std::span<const Operand> in = {});

} // namespace orrery

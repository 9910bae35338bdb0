// Checkpoints of a World: its parameters and optimizer states as pieces of logical tensors, and back into any World of the same model.
#pragma once

#include "exec/checkpoint/checkpoint.hpp"
#include "exec/runtime/tensors.hpp"

#include <vector>

namespace orrery {

// Each element once, by the first rank that holds it; the pieces name memory of the world.
std::vector<CheckpointPiece> pieces_of(const World& world);

// Throws std::runtime_error where a parameter or state is not in the checkpoint, or of another size.
void restore(World& world, const Checkpoint& checkpoint);

} // namespace orrery

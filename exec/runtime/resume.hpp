// Checkpoints of a World: its parameters and optimizer states as pieces of logical tensors, and back into any World of the same model.
#pragma once

#include "exec/checkpoint/checkpoint.hpp"
#include "exec/runtime/tensors.hpp"

#include <stdexcept>
#include <vector>

namespace orrery {

// Each element once, by one of the ranks that hold it, whether they are in this process or in others; the pieces name memory of the world.
// trained_alone: without parameters that nothing
// trains (what adapters stand beside); such a checkpoint's facts have `trained_alone`, and whoever goes on from it has the rest.
inline constexpr const char* trained_alone_fact = "trained_alone";
std::vector<CheckpointPiece> pieces_of(const World& world, bool trained_alone = false);

// The loss's factor of a training in fp16, as a checkpoint's facts have it under this name: the factor, good steps and steps left out.
inline constexpr const char* loss_scale_fact = "loss_scale";
std::string text_of(const LossScale& scale);

// A parameter or state is not in the checkpoint, or of another size.
struct WrongModel : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// Reads of the checkpoint what the ranks of this process hold, each part where it lies, without a copy of the whole. Throws WrongModel, or
// what CheckpointFiles throws where a piece is damaged. Where the loss is scaled its factor is the checkpoint's, or, after a training in
// another type, what it begins with. A checkpoint of adapters alone leaves all other tensors as they are.
void restore(World& world, const CheckpointFiles& files);

// The state that `to`, of the same model on the same ranks, goes on from: each rank's parameters and optimizer states, and the loss's scale
// with its counts. Whatever else it keeps begins anew.
void carry_over(const World& from, World& to);

} // namespace orrery

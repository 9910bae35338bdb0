// Turns a chunk's graph into blocks of ops: the forward block, and by one adjoint rule per node the backward block, whole or split
// into input and weight gradients, recomputation and communication included.
#pragma once

#include "sim/plan/lowering.hpp"

namespace orrery {

// Adds the blocks of `chunk` to the plan and its parameters to l.parameters. Chunks must come in model order, so that a chunk that
// follows on the same stage can take its input in place.
void emit_chunk(Lowering& l, int chunk);

// Marks where each unit's ops begin, in the block's own order.
void set_units(Block& b);

} // namespace orrery

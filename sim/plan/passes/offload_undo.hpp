// Updates on the host that did not wait for the gradient norm, checked. Internal to offload_optimizer.
#pragma once

#include "sim/plan/lowering.hpp"

namespace orrery {

// Behind the sum of the norm: each bucket's update is undone where the norm is too large, and done again with clipped gradients.
void undo_steps(Lowering& l, int stage);

} // namespace orrery

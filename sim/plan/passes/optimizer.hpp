// The ends of a step: the work before the first microbatch and after the last.
#pragma once

#include "sim/plan/lowering.hpp"

namespace orrery {

// Zeroes the gradients that live all step, lets those of the step before go that the backward pass makes anew, and loads data.
std::int32_t make_begin_block(Lowering& l, const DataParallel& dp, int stage);

// The remaining reductions (layernorm gradients under sequence parallelism, tied embeddings across stages), the gradient norm and
// clipping, and the optimizer on this rank's part. Adds the optimizer states' buffers.
std::int32_t make_optimizer_block(Lowering& l, const DataParallel& dp, int stage);

} // namespace orrery

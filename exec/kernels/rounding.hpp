// bf16 storage on a processor that has none: values are held in fp32, and rounded to bf16 whenever a buffer of that type is written.
// Arithmetic stays fp32, sums too, as tensor cores have it.
#pragma once

#include "exec/kernels/kernel.hpp"

namespace orrery {

void round_to_bf16(float* x, std::int64_t n); // to nearest, ties to even; what is no number stays so

// Rounds the results of an op as its buffers would store them, where the plan has them in bf16. Does nothing if `context` does not round.
void round_stored(std::span<const Operand> written, const KernelContext& context);

} // namespace orrery

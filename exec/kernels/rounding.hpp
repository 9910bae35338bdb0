// bf16 and fp16 storage on a processor that has none: values are held in fp32, and rounded whenever a buffer of such a type is written.
// Arithmetic stays fp32, sums too, as tensor cores have it.
#pragma once

#include "exec/kernels/kernel.hpp"

namespace orrery {

void round_to_bf16(float* x, std::int64_t n); // to nearest, ties to even; what is no number stays so
void round_to_fp16(float* x, std::int64_t n); // the same; from 65520 on infinity, below 2^-14 multiples of 2^-24

// Values as int8, int4 or fp4 in blocks would hold them: each block of quantization_block elements has the scale that takes its largest
// magnitude to 127 (7). Nothing is moved by more than half a scale. A block that holds what is no number is no number.
template <class T> void round_in_blocks(T* x, std::int64_t n, DType low);

// x as nf4 holds it in a block whose largest magnitude is `largest`: the nearest of 16 levels (Dettmers et al., arXiv:2305.14314, appendix
// E).
double round_to_nf4(double x, double largest);

// Rounds the results of an op as its buffers would store them: int8, int4 and fp4 in blocks always, bf16 and fp16 where `context` rounds.
void round_stored(std::span<const Operand> written, const KernelContext& context);

} // namespace orrery

// Time of fused (flash) attention: work at a rate that grows with the row length, over-paid by waves and by the longest block.
//
//   flops = 2 (qk + v) b h sq skv share  (backward: 2.5 times; dimensions as the kernel fills them up),   r = share skv, the mean keys of a
//   row t = start + penalty flops (1 + o/r) / rate(head_dim),   o = s0 (full), s0/2 (causal: diagonal waste and prologue per row; up to
//   twice that with a window, whose far edge wastes as much in every row past it)
//   penalty: T = b h ceil(sq/M) / S blocks per processor, waves = ((1-g) ceil(T) + g T) / T for T > 1, joined with the longest block
//   critical M (r + o) S / (b h sq (r + o)): as the fits' README shapes (16,384 tokens, 2048 wide) had it, so divided by theirs.
// Example: H100 flash-2, causal, head_dim 128, 8k: 351 / (1 + 402/8192) = 335 TFLOP/s.
#pragma once

#include "sim/cost/calibration.hpp"

namespace orrery {

// bandwidth: bytes/us; busy_clock: of kernels that reach half of their table's rate or more, whose matrix units meet the power limit
// (0: clock). Kernels far below it, of short rows and narrow windows, wait for other units and run at `clock`; between, in proportion
// (assumed).
struct AttentionDevice {
    double processors = 1, tflops_16 = 1, bandwidth = 1, clock = 1, busy_clock = 0;
};

double attention_us(const KernelTables& tables, const AttentionTable& table, const AttentionDevice& device, const Attention& op);

} // namespace orrery

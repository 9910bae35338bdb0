// Attention of an inference engine's prefill (TensorRT-LLM's op): causal attention with what stands before it in the same op, the split
// of queries, keys and values, their rotation and the writing of the cache. Tables of inference profilers hold these; training's kernels
// are timed by cost/attention.hpp, whose waves and longest block are those of this law.
//
//   el = 4 d / (e_d P16)                    d = (qk + v) / 2: time of a score element at this head dimension's efficiency
//   W  = b h s (s + s0)/2 el                T = b h ceil(s/M) / S blocks a processor; above 1: W *= ((1-g) ceil(T) + g T) / T
//   s0 = s0 (128/d)^fall: what a row of blocks costs beside its scores is less of a wide head's work
//   A  = N1.5(W, critical M (s + s0) el S)
//   t  = start + A (1 + throttle A/(A + 10 ms)) + 2 b s (pre (2 h qk + 2 h_kv (qk + v)) + latent) / B
// latent: what a token of latent attention takes whatever its heads, some four times the 576 elements kept of it.
// Example: H100, 8 x 2048 tokens, 32 heads of 128 with 8 of keys: 13 us of start, 0.96 ms of scores and 0.16 ms before them.
#pragma once

#include "sim/cost/calibration.hpp"
#include "sim/fit/table.hpp"

namespace orrery {

struct PrefillDevice {
    double processors = 1, peak_16 = 1, bandwidth = 1;
}; // flops/us, bytes/us
struct PrefillProblem {
    double batch = 1, seq = 1, heads = 1, kv_heads = 1, qk = 128, v = 128;
};

bool is_prefill(const MeasuredTable& table);
bool is_latent(const MeasuredTable& table); // of latent attention: key and value dimensions apart
PrefillDevice prefill_device(const Device& device);
PrefillProblem prefill_problem(const MeasuredTable& table, std::size_t row);
// The head dimension must be one of the table's.
double prefill_us(const PrefillTable& table, const PrefillDevice& device, const PrefillProblem& problem);

} // namespace orrery

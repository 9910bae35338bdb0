// Model FLOPs: what MFU counts. Three times the forward pass's matmuls (forward, input gradients, weight gradients), attention's
// score square in full though causal masks skip half of it, no recomputation (Narayanan et al., SC'21, Megatron's own
// counter). For a fine-tuned model: weight gradients of trained parameters alone, and input gradients down to the lowest of them.
#pragma once

#include "sim/scenario/scenario.hpp"

namespace orrery {

// FLOPs of one sequence of `sequence_length` tokens, forward and backward. For a dense GPT of L layers, width h and vocabulary V:
// 72 s L h^2 (1 + s / 6h + V / 12 L h). document: tokens of each packed document, whose square counts instead; 0: a sequence is one.
double model_flops_per_sequence(const Model& model, double sequence_length, double document = 0);

} // namespace orrery

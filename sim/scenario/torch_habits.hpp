// Habits of PyTorch's own stacks that the shapes and lives of a plan's buffers follow; like Practice, by a framework's name and a year.
#pragma once

#include "sim/scenario/scenario.hpp"

namespace orrery {

// Fused attention reads keys and values that were repeated for every head, and keeps them so (torchtitan's repeat_kv, until its pull
// request 2259 of January 2026). Not where layers are made again: then they live as long as the attention's adjoint runs.
bool repeats_heads_for_fused(const Scenario& scenario);

// The gradient of a loss over a divided vocabulary is made out of four copies of the logits in fp32: what autograd kept, zeros with the
// targets' entries, their sum with the exponentials, and its product with the loss's gradient (DTensor's loss_parallel,
// torch/distributed/tensor/parallel/loss.py; torchtitan's own since 2026 is alike).
bool wide_loss_gradient(const Scenario& scenario);

} // namespace orrery

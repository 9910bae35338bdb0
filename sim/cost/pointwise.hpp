// Memory-bound ops: the bytes a kernel moves over the share of HBM's peak that kernels of its kind reach, and a floor per kernel.
//   t = kernels kernel_us + traffic bytes / (phi scale B)
// bytes: all of the op's own buffers, read or written once. traffic: what the eager sequence of kernels (or a second pass) moves on top.
// Kernels over strided, broadcast or unlike operands take max(bytes / (phi scale B), visits of an element / rate) instead: a rotation over
// halves of 21.0 M elements on an H100 moves 20 B each, 157 us at 0.8 of 3.35 TB/s, but visits each 4.5 times at 277 a ns: 341 us.
#pragma once

#include "sim/cost/calibration.hpp"

namespace orrery {

// bytes/us; elements/us that all processors together visit in kernels of each class (0: bytes alone bind), and the processors.
// norm_rows: us of a processor for a row of PyTorch's norms, forward and of the input's gradient.
struct MemoryDevice {
    double bandwidth = 1, strided = 0, unlike = 0, narrowing = 0, processors = 0;
    std::array<double, 2> norm_rows{};
};
struct KernelTime {
    double us = 0;
    int kernels = 1;
};

// buffer_bytes: sum of the op's input and output buffers; 0: taken from the shape, for a 2-byte type.
KernelTime memory_time(const PointwiseTable& table, const KernelTables& kernels, MemoryDevice device, const Pointwise& op,
                       double buffer_bytes);
// Rotary positions over the halves of heads (Practice::rotates_halves).
KernelTime rotation_time(const PointwiseTable& table, const KernelTables& kernels, MemoryDevice device, const Pointwise& op,
                         double buffer_bytes);
KernelTime memory_time(const PointwiseTable& table, const KernelTables& kernels, MemoryDevice device, const Norm& op, double buffer_bytes);
// A norm in PyTorch's own kernels: one forward, whose rows take a least time each; backward one for the input's gradient and one for the
// weight's, of which a block goes through all rows. Never longer than spelt out.
KernelTime torch_norm_time(const PointwiseTable& table, const KernelTables& kernels, MemoryDevice device, const Norm& op,
                           double buffer_bytes);
// Additional time of Transformer Engine to sum the weight gradient of a norm over heads of `rows` rows: few blocks go through the
// partial sums of all the others, start_us + block_us min(rows / rows of a block, blocks_per_processor P).
double head_norm_us(const PointwiseTable& table, int processors, double rows);
KernelTime memory_time(const PointwiseTable& table, const KernelTables& kernels, MemoryDevice device, const Softmax& op,
                       double buffer_bytes);
KernelTime memory_time(const PointwiseTable& table, const KernelTables& kernels, MemoryDevice device, const Router& op,
                       double buffer_bytes);
KernelTime memory_time(const PointwiseTable& table, const KernelTables& kernels, MemoryDevice device, const Permute& op);
// whole: not split over ranks and left to PyTorch's own eager loss.
// Eager kernels of the loss: Megatron's over a divided vocabulary, PyTorch's over a whole one in fp32, under autocast, and (narrow) on
// 16-bit logits. In place of these two a fused loss is one kernel that takes the 16-bit logits as they are. over_logits: a fused loss whose
// gradient takes the logits' place in the forward pass (Transformer Engine's).
enum class LossKernels { divided, whole, autocast, narrow, over_logits };
// casts: PyTorch's own loss widens 16-bit logits (autocast: their log-softmax) and narrows their gradient. shifted: of fp32 logits that are
// copied without a sequence's last, whose gradient is copied into zeros (Practice::hands_logits_out).
struct LossSteps {
    LossKernels eager = LossKernels::divided;
    bool casts = false, shifted = false, compiled = false; // compiled: with the layers, autocast's and that on 16-bit logits
};
KernelTime memory_time(const PointwiseTable& table, const KernelTables& kernels, MemoryDevice device, const CrossEntropy& op,
                       LossSteps steps);
// element_bytes: of the activation; wide_gradient: the dense gradient is added into one of 4-byte elements.
KernelTime memory_time(const PointwiseTable& table, const KernelTables& kernels, MemoryDevice device, const Embedding& op,
                       double element_bytes, bool wide_gradient);
// Both: at most the buffers' bytes (fewer without master weights, with 16-bit gradients), at most the table's per parameter (where a
// buffer is bigger than the shard that is stepped).
KernelTime memory_time(const PointwiseTable& table, const KernelTables& kernels, MemoryDevice device, const GradientNorm& op,
                       double buffer_bytes);
KernelTime memory_time(const PointwiseTable& table, const KernelTables& kernels, MemoryDevice device, const OptimizerStep& op,
                       double buffer_bytes);
double optimizer_bytes(const PointwiseTable& table, const OptimizerStep& op, double buffer_bytes);

} // namespace orrery

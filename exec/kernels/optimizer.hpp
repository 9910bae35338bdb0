// The parts of an optimizer step, for every device: its constants at a step, and the elements of a gradient that a rank counts in the norm.
#pragma once

#include "exec/kernels/kernel.hpp"

#include <vector>

namespace orrery {

struct StepConstants {
    double lr, beta1, beta2, epsilon, decay, momentum, correction1, correction2;
    bool decoupled, first;
    double unscale; // by what gradients are multiplied when they are read: 1 over the loss's factor
};
StepConstants step_constants(const KernelContext& context);

// By what gradients are multiplied so that their norm, the root of `squares`, is at most `limit`, as torch's clip_grad_norm_ has it; 1
// where the norm is no number.
double clipping_factor(double squares, double limit);

// Ranges of `gradient`'s elements that this rank adds to `norm`, whose placement says over which axes summands are added: what several of
// those ranks hold counts on one.
struct Range {
    std::int64_t begin, end;
};
std::vector<Range> counted_ranges(const KernelContext& context, const Operand& gradient, const Buffer& norm);

// Runs of elements of one tensor in operands (weights, or their gradients), and the row of the table of norms that is the tensor's.
// counted: on this rank, of those that hold the same.
struct TensorSlice {
    std::size_t operand;
    std::int64_t begin, end, slot;
    bool counted;
};
std::vector<TensorSlice> tensor_slices(const KernelContext& context, std::span<const Operand> operands, const Buffer& norms);

// By what the learning rate of a tensor is multiplied. weights, other: sums of squares of its elements, and of its direction (LAMB) or its
// gradient (LARS).
double trust_ratio(const KernelContext& context, OptimizerKind kind, double weights, double other);

} // namespace orrery

// What an optimizer step is made of, for every device: its constants at a step, and which elements of a gradient a rank counts in the norm.
#pragma once

#include "exec/kernels/kernel.hpp"

#include <vector>

namespace orrery {

struct StepConstants {
    double lr, beta1, beta2, epsilon, decay, momentum, correction1, correction2;
    bool decoupled, first;
};
StepConstants step_constants(const KernelContext& context);

// Ranges of `gradient`'s elements that this rank adds to `norm`, whose placement says over which axes summands are added: what several of
// those ranks hold counts on one.
struct Range {
    std::int64_t begin, end;
};
std::vector<Range> counted_ranges(const KernelContext& context, const Operand& gradient, const Buffer& norm);

} // namespace orrery

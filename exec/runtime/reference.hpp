// The measure of every strategy: the same model and batch on one rank, and how far two sets of tensors are apart.
#pragma once

#include "exec/runtime/tensors.hpp"

#include <string>

namespace orrery {

// No parallelism, no recomputation, microbatches of the same size.
Scenario on_one_rank(Scenario scenario);

// The largest difference of an element, relative to its tensor's largest; a tensor that one side lacks, or of another shape, is infinitely
// far. Tensors that are zero but for rounding (gradients of key biases, which softmax cancels) are measured against `negligible`.
struct Difference {
    double relative = 0;
    std::string worst;
};
Difference difference(const Tensors& a, const Tensors& b, double negligible = 1e-9);

} // namespace orrery

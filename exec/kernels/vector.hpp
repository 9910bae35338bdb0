// Reductions of arrays that a compiler turns into vector instructions, of the machine it runs on (one clone for each level of x86-64,
// chosen when the program is loaded). Sums are in 16 interleaved parts: the bits are the same whichever clone runs.
#pragma once

#include "exec/kernels/exponential.hpp"

#include <cstdint>

namespace orrery {

float sum(const float* x, std::int64_t n);
double sum(const double* x, std::int64_t n);
float dot(const float* x, const float* y, std::int64_t n);
double dot(const double* x, const double* y, std::int64_t n);
double sum_of_squares(const float* x, std::int64_t n);
double sum_of_squares(const double* x, std::int64_t n);
float largest(const float* x, std::int64_t n); // -inf of none
double largest(const double* x, std::int64_t n);

// y = exp(x - shift); they may be the same.
template <class T> void exp_of(const T* x, T shift, T* y, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) y[i] = x[i] - shift;
    exponential(y, n);
}

} // namespace orrery

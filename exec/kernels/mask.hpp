// Which pairs of a query and a key attention computes, and what it adds to their product, by the tokens' places in the sequence.
#pragma once

#include "exec/kernels/kernel.hpp"

#include <cmath>

namespace orrery {

struct Mask {
    bool causal;
    int window;
    bool allows(std::int64_t query, std::int64_t key) const {
        return !(causal || window > 0) || (key <= query && (window <= 0 || query - key < window));
    }
};

// Slope of head h of H (ALiBi, Press et al., arXiv:2108.12409): 2^(-8 (h+1) / H), for other than powers of two as the paper's code
// interleaves.
inline double alibi_slope(std::int64_t head, std::int64_t heads) {
    std::int64_t power = 1;
    while (power * 2 <= heads) power *= 2;
    if (head < power) return std::exp2(-8.0 * static_cast<double>(head + 1) / static_cast<double>(power));
    return std::exp2(-8.0 * static_cast<double>(2 * (head - power) + 1) / static_cast<double>(2 * power));
}

} // namespace orrery

// Which pairs of a query and a key attention computes, and what it adds to their product, by the tokens' places in the sequence.
#pragma once

#include "exec/kernels/kernel.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace orrery {

struct Mask {
    bool causal;
    int window;
    std::int64_t document = 0; // tokens of each; 0: a sequence is one

    bool allows(std::int64_t query, std::int64_t key) const { return first(query) <= key && key < last(query); }
    // The keys that a query of a sequence sees are [first, last), as far as there are any.
    std::int64_t first(std::int64_t query) const {
        const std::int64_t begin = document > 0 ? query / document * document : 0;
        return window > 0 ? std::max(begin, query - window + 1) : begin;
    }
    std::int64_t last(std::int64_t query) const {
        if (causal || window > 0) return query + 1;
        return document > 0 ? (query / document + 1) * document : std::numeric_limits<std::int64_t>::max();
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

// The numbers of sharing.cpp: rates on a grid of doubles, sums of weight times rate as exact integers.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>

namespace orrery::sharing {

__extension__ using Wide = unsigned __int128;

inline constexpr double infinite = std::numeric_limits<double>::infinity();
inline constexpr int rate_bits = 74;            // the largest capacity is at most 2^74 grid units
inline constexpr int weight_bits = 50;          // binary digits of a weight after the point
inline constexpr double highest_rate = 0x1p103; // in grid units; what needs more is as good as unlimited
inline constexpr double split = 0x1p40;         // a rate is high * 2^40 + low, so that w * r needs two plain multiplications

// An integer, in grid units, that a double holds exactly; infinity marks a bundle that is free.
struct alignas(32) Rate {
    double value = 0;
    std::uint64_t high = 0, low = 0;

    static Rate of(double v) {
        if (v == infinite) return {infinite, 0, 0};
        const auto high = static_cast<std::uint64_t>(v * (1 / split));
        return {v, high, static_cast<std::uint64_t>(v - static_cast<double>(high) * split)};
    }
};

inline Wide product(std::uint64_t weight, const Rate& r) {
    return ((static_cast<Wide>(weight) * r.high) << 40) + static_cast<Wide>(weight) * r.low;
}

// The largest number of the grid that is not above numerator / denominator.
inline double floor_to_grid(Wide numerator, Wide denominator) {
    const Wide quotient = numerator / denominator;
    const auto high = static_cast<std::uint64_t>(quotient >> 64);
    const int bits = high ? 128 - std::countl_zero(high) : 64 - std::countl_zero(static_cast<std::uint64_t>(quotient));
    if (bits <= 53) return static_cast<double>(static_cast<std::uint64_t>(quotient));
    const double scale = std::bit_cast<double>(static_cast<std::uint64_t>(1023 + bits - 53) << 52);
    return std::min(static_cast<double>(static_cast<std::uint64_t>(quotient >> (bits - 53))) * scale, highest_rate);
}

inline double approximate(Wide v) {
    return static_cast<double>(static_cast<std::uint64_t>(v >> 64)) * 0x1p64 + static_cast<double>(static_cast<std::uint64_t>(v));
}

} // namespace orrery::sharing

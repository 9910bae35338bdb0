// Sizes of buffers as kernels hold them, and their elements one by one.
#include "exec/kernels/kernel.hpp"

#include <bit>
#include <cmath>
#include <cstring>

namespace orrery {

bool is_floating(DType t) { return t != DType::int64 && t != DType::int32 && t != DType::uint8 && t != DType::boolean; }

std::size_t stored_bytes(DType t, DType real) {
    if (is_floating(t) && real != DType::bf16) return real == DType::fp64 ? 8 : 4;
    return static_cast<std::size_t>(bytes_per_element(t));
}

DType stored_type(DType t, DType real) { return is_floating(t) && real != DType::bf16 ? real : t; }

std::uint16_t to_bf16(float x) {
    const auto bits = std::bit_cast<std::uint32_t>(x);
    return static_cast<std::uint16_t>(std::isfinite(x) ? (bits + 0x7fff + (bits >> 16 & 1)) >> 16
                                      : std::isnan(x)  ? bits >> 16 | 0x40
                                                       : bits >> 16);
}

float from_bf16(std::uint16_t x) { return std::bit_cast<float>(std::uint32_t{x} << 16); }

double read_element(const std::byte* data, std::int64_t i, DType stored) {
    if (stored == DType::fp64) {
        double x = 0;
        std::memcpy(&x, data + 8 * i, 8);
        return x;
    }
    if (stored == DType::bf16) {
        std::uint16_t x = 0;
        std::memcpy(&x, data + 2 * i, 2);
        return static_cast<double>(from_bf16(x));
    }
    float x = 0;
    std::memcpy(&x, data + 4 * i, 4);
    return static_cast<double>(x);
}

void write_element(std::byte* data, std::int64_t i, double value, DType stored) {
    const auto x = static_cast<float>(value);
    const std::uint16_t half = to_bf16(x);
    if (stored == DType::fp64)
        std::memcpy(data + 8 * i, &value, 8);
    else if (stored == DType::bf16)
        std::memcpy(data + 2 * i, &half, 2);
    else
        std::memcpy(data + 4 * i, &x, 4);
}

std::int64_t elements(const Buffer& b) {
    std::int64_t n = 1;
    for (std::int64_t d : b.shape) n *= d;
    return n;
}

} // namespace orrery

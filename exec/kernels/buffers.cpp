// Sizes of buffers as kernels hold them, and their elements one by one.
#include "exec/kernels/kernel.hpp"

#include <bit>
#include <cmath>
#include <cstring>

namespace orrery {

bool is_floating(DType t) { return t != DType::int64 && t != DType::int32 && t != DType::uint8 && t != DType::boolean; }

namespace {

bool as_planned(DType real) { return real == DType::bf16 || real == DType::fp16; }

} // namespace

std::size_t stored_bytes(DType t, DType real) {
    if (is_floating(t) && !as_planned(real)) return real == DType::fp64 ? 8 : 4;
    return static_cast<std::size_t>(bytes_per_element(t));
}

DType stored_type(DType t, DType real) { return is_floating(t) && !as_planned(real) ? real : t; }

std::uint16_t to_bf16(float x) {
    const auto bits = std::bit_cast<std::uint32_t>(x);
    return static_cast<std::uint16_t>(std::isfinite(x) ? (bits + 0x7fff + (bits >> 16 & 1)) >> 16
                                      : std::isnan(x)  ? bits >> 16 | 0x40
                                                       : bits >> 16);
}

float from_bf16(std::uint16_t x) { return std::bit_cast<float>(std::uint32_t{x} << 16); }

std::uint16_t to_fp16(float x) {
    const auto bits = std::bit_cast<std::uint32_t>(x);
    const auto sign = static_cast<std::uint16_t>(bits >> 16 & 0x8000);
    const std::uint32_t size = bits & 0x7fffffff;
    if (size > 0x7f800000) return sign | 0x7e00;  // no number
    if (size >= 0x477ff000) return sign | 0x7c00; // 65520 and more
    if (size < 0x38800000) {                      // below 2^-14: a multiple of 2^-24, which the last bits of 0.5 and more are
        const float shifted = std::bit_cast<float>(size) + 0.5f;
        return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3f000000));
    }
    return static_cast<std::uint16_t>(sign | (size - 0x38000000 + 0xfff + (size >> 13 & 1)) >> 13);
}

float from_fp16(std::uint16_t x) {
    const std::uint32_t sign = std::uint32_t{x} >> 15 << 31, exponent = x >> 10 & 31, mantissa = x & 0x3ff;
    if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000 | mantissa << 13);
    if (exponent > 0) return std::bit_cast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
    return (sign ? -1.0f : 1.0f) * static_cast<float>(mantissa) * 0x1p-24f;
}

double read_element(const std::byte* data, std::int64_t i, DType stored) {
    if (stored == DType::fp64) {
        double x = 0;
        std::memcpy(&x, data + 8 * i, 8);
        return x;
    }
    if (stored == DType::bf16 || stored == DType::fp16) {
        std::uint16_t x = 0;
        std::memcpy(&x, data + 2 * i, 2);
        return static_cast<double>(stored == DType::bf16 ? from_bf16(x) : from_fp16(x));
    }
    float x = 0;
    std::memcpy(&x, data + 4 * i, 4);
    return static_cast<double>(x);
}

void write_element(std::byte* data, std::int64_t i, double value, DType stored) {
    const auto x = static_cast<float>(value);
    if (stored == DType::fp64) {
        std::memcpy(data + 8 * i, &value, 8);
    } else if (stored == DType::bf16 || stored == DType::fp16) {
        const std::uint16_t half = stored == DType::bf16 ? to_bf16(x) : to_fp16(x);
        std::memcpy(data + 2 * i, &half, 2);
    } else {
        std::memcpy(data + 4 * i, &x, 4);
    }
}

std::int64_t elements(const Buffer& b) {
    std::int64_t n = 1;
    for (std::int64_t d : b.shape) n *= d;
    return n;
}

} // namespace orrery

#include "exec/kernels/rounding.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace orrery {

void round_to_bf16(float* x, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) {
        const std::uint32_t bits = std::bit_cast<std::uint32_t>(x[i]);
        const std::uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000u;
        const bool number = (bits & 0x7f800000u) != 0x7f800000u;
        x[i] = std::bit_cast<float>(number ? rounded : bits);
    }
}

void round_to_fp16(float* x, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) {
        const auto bits = std::bit_cast<std::uint32_t>(x[i]);
        const std::uint32_t sign = bits & 0x80000000u, size = bits & 0x7fffffffu;
        const std::uint32_t normal = (size + 0xfff + (size >> 13 & 1)) & ~0x1fffu;
        const float small = (std::bit_cast<float>(size) + 0.5f) - 0.5f; // a multiple of 0.5's last bit, 2^-24
        const std::uint32_t number = size < 0x38800000u ? std::bit_cast<std::uint32_t>(small) : normal;
        const std::uint32_t rounded = size > 0x7f800000u ? size : size >= 0x477ff000u ? 0x7f800000u : number;
        x[i] = std::bit_cast<float>(sign | rounded);
    }
}

namespace {

// The nearest of 0 and largest / 2^k, k < 7, by its sign: at most a third off where it is no less than the smallest of these.
template <class T> T round_to_e3m0(T x, T largest) {
    constexpr int exponents = 7;
    const T share = std::abs(x) / largest, smallest = std::ldexp(T(1), 1 - exponents);
    if (share < smallest / 2) return 0;
    if (share < smallest) return std::copysign(smallest * largest, x);
    const T below = std::ldexp(T(1), std::ilogb(share));
    return std::copysign((share < T(1.5) * below ? below : 2 * below) * largest, x);
}

} // namespace

template <class T> void round_in_blocks(T* x, std::int64_t n, DType low) {
    const T levels = low == DType::int8 ? T(127) : T(7);
    for (std::int64_t begin = 0; begin < n; begin += quantization_block) {
        const std::int64_t end = std::min<std::int64_t>(n, begin + quantization_block);
        T largest = 0;
        bool number = true;
        for (std::int64_t i = begin; i < end; ++i) {
            largest = std::max(largest, std::abs(x[i]));
            number = number && std::isfinite(x[i]);
        }
        if (!number) {
            std::fill(x + begin, x + end, std::numeric_limits<T>::quiet_NaN());
            continue;
        }
        if (low == DType::fp4) {
            for (std::int64_t i = begin; largest != 0 && i < end; ++i) x[i] = round_to_e3m0(x[i], largest);
            continue;
        }
        const T scale = largest / levels;
        if (scale == 0) std::fill(x + begin, x + end, T(0)); // zeros, or too small for a scale
        for (std::int64_t i = begin; scale != 0 && i < end; ++i) x[i] = std::nearbyint(x[i] / scale) * scale;
    }
}

template void round_in_blocks<float>(float*, std::int64_t, DType);
template void round_in_blocks<double>(double*, std::int64_t, DType);

double round_to_nf4(double x, double largest) {
    static constexpr double levels[] = {-1,
                                        -0.6961928009986877,
                                        -0.5250730514526367,
                                        -0.39491748809814453,
                                        -0.28444138169288635,
                                        -0.18477343022823334,
                                        -0.09105003625154495,
                                        0,
                                        0.07958029955625534,
                                        0.16093020141124725,
                                        0.24611230194568634,
                                        0.33791524171829224,
                                        0.44070982933044434,
                                        0.5626170039176941,
                                        0.7229568362236023,
                                        1};
    if (largest == 0) return 0;
    const auto* const nearest = std::min_element(std::begin(levels), std::end(levels),
                                                 [&](double a, double b) { return std::abs(a - x / largest) < std::abs(b - x / largest); });
    return *nearest * largest;
}

void round_stored(std::span<const Operand> written, const KernelContext& context) {
    for (const Operand& o : written) {
        const DType low = o.buffer->dtype;
        if (low != DType::int8 && low != DType::int4 && low != DType::fp4) continue;
        context.real == DType::fp64 ? round_in_blocks(reinterpret_cast<double*>(o.data), elements(*o.buffer), low)
                                    : round_in_blocks(reinterpret_cast<float*>(o.data), elements(*o.buffer), low);
    }
    if (!context.rounds) return;
    for (const Operand& o : written) {
        if (o.buffer->dtype == DType::bf16) round_to_bf16(reinterpret_cast<float*>(o.data), elements(*o.buffer));
        if (o.buffer->dtype == DType::fp16) round_to_fp16(reinterpret_cast<float*>(o.data), elements(*o.buffer));
    }
}

} // namespace orrery

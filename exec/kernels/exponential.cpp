// e^x = 2^n e^r, n the integer nearest to x / ln 2 and e^r a polynomial. Written so that the compiler makes vector code of it: no branch,
// no call, and compiled for several instruction sets, of which the processor's best is taken. Without fused multiply-adds all give the same
// bits.
#include "exec/kernels/exponential.hpp"

#include "exec/kernels/clones.hpp"

#include <bit>
#include <limits>
#include <type_traits>

namespace orrery {

namespace {

template <class T> struct Range;
template <> struct Range<float> {
    using Bits = std::int32_t;
    static constexpr int mantissa = 23, terms = 7;
    static constexpr float magic = 0x1.8p23f, least = -87.0f, most = 88.72f;   // magic + n has n in its lowest bits
    static constexpr float ln2_high = 0x1.62e4p-1f, ln2_low = 0x1.7f7d1cp-20f; // high times any n is exact
};
template <> struct Range<double> {
    using Bits = std::int64_t;
    static constexpr int mantissa = 52, terms = 13;
    static constexpr double magic = 0x1.8p52, least = -708.0, most = 709.78;
    static constexpr double ln2_high = 0x1.62e42fefa38p-1, ln2_low = 0x1.ef35793c7673p-45;
};

constexpr double factorial(int k) { return k < 2 ? 1 : k * factorial(k - 1); }

template <class T, int k> inline T horner(T r) {
    constexpr T coefficient = static_cast<T>(1 / factorial(k));
    if constexpr (k == Range<T>::terms)
        return coefficient;
    else
        return coefficient + r * horner<T, k + 1>(r);
}

template <class T> inline T one(T x) {
    using R = Range<T>;
    using Bits = typename R::Bits;
    const T inside = x < R::least ? R::least : x > R::most ? R::most : x;
    const T shifted = inside * static_cast<T>(1.4426950408889634074) + R::magic, n = shifted - R::magic;
    const T r = (inside - n * R::ln2_high) - n * R::ln2_low;
    const Bits power = static_cast<Bits>(static_cast<std::make_unsigned_t<Bits>>(std::bit_cast<Bits>(shifted)) << R::mantissa);
    const T y = std::bit_cast<T>(static_cast<Bits>(std::bit_cast<Bits>(horner<T, 0>(r)) + power));
    const T high = x > R::most ? std::numeric_limits<T>::infinity() : y, low = x < R::least ? T(0) : high;
    return x != x ? x : low; // NOLINT(misc-redundant-expression): NaN
}

ORRERY_CLONES void all(float* x, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) x[i] = one(x[i]);
}

ORRERY_CLONES void all(double* x, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) x[i] = one(x[i]);
}

} // namespace

template <class T> void exponential(T* x, std::int64_t n) { all(x, n); }

template void exponential<float>(float*, std::int64_t);
template void exponential<double>(double*, std::int64_t);

} // namespace orrery

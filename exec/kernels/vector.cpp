#include "exec/kernels/vector.hpp"

#include "exec/kernels/clones.hpp"

#include <limits>

namespace orrery {
namespace {

constexpr int parts = 16;

template <class T> [[gnu::always_inline]] inline T sum_parts(const T* x, const T* y, std::int64_t n) {
    T part[parts] = {};
    std::int64_t i = 0;
    for (; i + parts <= n; i += parts)
        for (int p = 0; p < parts; ++p) part[p] += y ? x[i + p] * y[i + p] : x[i + p];
    for (int p = 0; i < n; ++i, ++p) part[p] += y ? x[i] * y[i] : x[i];
    for (int width = parts / 2; width > 0; width /= 2)
        for (int p = 0; p < width; ++p) part[p] += part[p + width];
    return part[0];
}

template <class T> [[gnu::always_inline]] inline double squares_of(const T* x, std::int64_t n) {
    double part[parts] = {};
    std::int64_t i = 0;
    for (; i + parts <= n; i += parts)
        for (int p = 0; p < parts; ++p) part[p] += static_cast<double>(x[i + p]) * static_cast<double>(x[i + p]);
    for (int p = 0; i < n; ++i, ++p) part[p] += static_cast<double>(x[i]) * static_cast<double>(x[i]);
    return sum_parts<double>(part, nullptr, parts);
}

template <class T> [[gnu::always_inline]] inline T largest_of(const T* x, std::int64_t n) {
    T part[parts];
    for (T& p : part) p = -std::numeric_limits<T>::infinity();
    std::int64_t i = 0;
    for (; i + parts <= n; i += parts)
        for (int p = 0; p < parts; ++p) part[p] = x[i + p] > part[p] ? x[i + p] : part[p];
    for (; i < n; ++i) part[0] = x[i] > part[0] ? x[i] : part[0];
    T most = part[0];
    for (T p : part) most = p > most ? p : most;
    return most;
}

} // namespace

ORRERY_CLONES float sum(const float* x, std::int64_t n) { return sum_parts<float>(x, nullptr, n); }
ORRERY_CLONES double sum(const double* x, std::int64_t n) { return sum_parts<double>(x, nullptr, n); }
ORRERY_CLONES float dot(const float* x, const float* y, std::int64_t n) { return sum_parts(x, y, n); }
ORRERY_CLONES double dot(const double* x, const double* y, std::int64_t n) { return sum_parts(x, y, n); }
ORRERY_CLONES double sum_of_squares(const float* x, std::int64_t n) { return squares_of(x, n); }
ORRERY_CLONES double sum_of_squares(const double* x, std::int64_t n) { return squares_of(x, n); }
ORRERY_CLONES float largest(const float* x, std::int64_t n) { return largest_of(x, n); }
ORRERY_CLONES double largest(const double* x, std::int64_t n) { return largest_of(x, n); }

} // namespace orrery

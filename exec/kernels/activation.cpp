// Activations and their adjoints. gelu is the tanh form (GPT-2, Megatron). Gated ones read columns 2i (gate) and 2i+1.
#include "exec/kernels/pointwise.hpp"

#include <algorithm>
#include <cmath>

namespace orrery {
namespace {

constexpr double root = 0.7978845608028654, cubic = 0.044715;   // sqrt(2 / pi)

template <class T> struct Gelu {
    static T value(T x) { return T(0.5) * x * (1 + std::tanh(static_cast<T>(root) * (x + static_cast<T>(cubic) * x * x * x))); }
    static T slope(T x) {
        const T t = std::tanh(static_cast<T>(root) * (x + static_cast<T>(cubic) * x * x * x));
        return T(0.5) * (1 + t) + T(0.5) * x * (1 - t * t) * static_cast<T>(root) * (1 + 3 * static_cast<T>(cubic) * x * x);
    }
};

template <class T> struct Relu {
    static T value(T x) { return x > 0 ? x : T(0); }
    static T slope(T x) { return x > 0 ? T(1) : T(0); }
};

template <class T> struct Silu {
    static T value(T x) { return x / (1 + std::exp(-x)); }
    static T slope(T x) {
        const T s = 1 / (1 + std::exp(-x));
        return s * (1 + x * (1 - s));
    }
};

// Of experts, a row's result is times its probability p: da = p dy, and dp = dy f(x).
template <class T> struct Weights {
    const T* p = nullptr;
    T* dp = nullptr;
    std::int64_t cols = 1;
    T at(std::int64_t i) const { return p ? p[i / cols] : T(1); }
    void add(std::int64_t i, T x) const { if (dp) dp[i / cols] += x; }
};

template <class T> Weights<T> weights(const Call& c, bool forward) {
    const std::size_t at = forward ? 1 : 2;
    if (c.in.size() <= at) return {};
    Weights<T> w{c.input<T>(at), forward ? nullptr : c.output<T>(1), columns(forward ? c.written(0) : c.read(0))};
    if (w.dp) std::fill_n(w.dp, elements(c.written(1)), T(0));
    return w;
}

template <class T, class F> void plain(const Call& c, bool forward) {
    const std::int64_t n = elements(c.written(0));
    T* const out = c.output<T>(0);
    const T *const x = c.input<T>(forward ? 0 : 1), *const dy = c.input<T>(0);
    for (std::int64_t i = 0; i < n; ++i) out[i] = forward ? F::value(x[i]) : dy[i] * F::slope(x[i]);
}

template <class T, class F> void gated(const Call& c, bool forward) {
    const std::int64_t n = elements(forward ? c.written(0) : c.read(0));
    T* const out = c.output<T>(0);
    const T *const x = c.input<T>(forward ? 0 : 1), *const dy = c.input<T>(0);
    const Weights<T> weight = weights<T>(c, forward);
    for (std::int64_t i = 0; i < n; ++i) {
        const T gate = x[2 * i], up = x[2 * i + 1];
        if (forward) {
            out[i] = F::value(gate) * up * weight.at(i);
        } else {
            const T d = dy[i] * weight.at(i);
            weight.add(i, dy[i] * F::value(gate) * up);
            out[2 * i] = d * F::slope(gate) * up;
            out[2 * i + 1] = d * F::value(gate);
        }
    }
}

} // namespace

template <class T> void activation(const Pointwise& w, const Call& c) {
    const bool forward = w.direction == Direction::forward;
    switch (w.kind) {
    case PointwiseKind::gelu: plain<T, Gelu<T>>(c, forward); break;
    case PointwiseKind::relu: plain<T, Relu<T>>(c, forward); break;
    case PointwiseKind::swiglu: gated<T, Silu<T>>(c, forward); break;
    case PointwiseKind::geglu: gated<T, Gelu<T>>(c, forward); break;
    default: broken("not an activation");
    }
}

template void activation<float>(const Pointwise&, const Call&);
template void activation<double>(const Pointwise&, const Call&);

} // namespace orrery

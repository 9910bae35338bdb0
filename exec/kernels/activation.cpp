// Activations and their adjoints. gelu is the tanh form (GPT-2, Megatron). Gated ones read columns 2i (gate) and 2i+1.
#include "exec/kernels/clones.hpp"
#include "exec/kernels/exponential.hpp"
#include "exec/kernels/pointwise.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace orrery {
namespace {

constexpr double root = 0.7978845608028654, cubic = 0.044715; // sqrt(2 / pi)

constexpr std::int64_t block = 256; // values whose exponentials are taken together

// For each activation: t, the part that its value and its slope share, for a block of x.
template <class T> struct Gelu {
    // tanh u = 1 - 2 / (1 + e^2u); beyond 20 it is 1 in either type.
    static void prepare(const T* x, T* t, std::int64_t n) {
        for (std::int64_t i = 0; i < n; ++i)
            t[i] = 2 * std::clamp(static_cast<T>(root) * (x[i] + static_cast<T>(cubic) * x[i] * x[i] * x[i]), T(-20), T(20));
        exponential(t, n);
        for (std::int64_t i = 0; i < n; ++i) t[i] = 1 - 2 / (1 + t[i]);
    }
    static T value(T x, T t) { return T(0.5) * x * (1 + t); }
    static T slope(T x, T t) {
        return T(0.5) * (1 + t) + T(0.5) * x * (1 - t * t) * static_cast<T>(root) * (1 + 3 * static_cast<T>(cubic) * x * x);
    }
};

template <class T> struct Relu {
    static void prepare(const T*, T*, std::int64_t) {}
    static T value(T x, T) { return x > 0 ? x : T(0); }
    static T slope(T x, T) { return x > 0 ? T(1) : T(0); }
};

template <class T> struct SquaredRelu {
    static void prepare(const T*, T*, std::int64_t) {}
    static T value(T x, T) { return x > 0 ? x * x : T(0); }
    static T slope(T x, T) { return x > 0 ? 2 * x : T(0); }
};

template <class T> struct Silu {
    static void prepare(const T* x, T* t, std::int64_t n) {
        for (std::int64_t i = 0; i < n; ++i) t[i] = -x[i];
        exponential(t, n);
        for (std::int64_t i = 0; i < n; ++i) t[i] = 1 / (1 + t[i]);
    }
    static T value(T x, T t) { return x * t; }
    static T slope(T x, T t) { return t * (1 + x * (1 - t)); }
};

// For experts a row's result is multiplied by its probability p: da = p dy, and dp = dy f(x).
template <class T> struct Weights {
    const T* p = nullptr;
    T* dp = nullptr;
    std::int64_t cols = 1;
    T at(std::int64_t i) const { return p ? p[i / cols] : T(1); }
    void add(std::int64_t i, T x) const {
        if (dp) dp[i / cols] += x;
    }
};

template <class T> Weights<T> weights(const Call& c, bool forward) {
    const std::size_t at = forward ? 1 : 2;
    if (c.in.size() <= at || columns(c.read(at)) != 1) return {}; // wider: the activated gate that is kept
    Weights<T> w{c.input<T>(at), forward ? nullptr : c.output<T>(1), columns(forward ? c.written(0) : c.read(0))};
    if (w.dp) std::fill_n(w.dp, elements(c.written(1)), T(0));
    return w;
}

template <class T, class F>
ORRERY_CLONES void plain_part(const T* x, const T* dy, T* out, bool forward, std::int64_t from, std::int64_t to) {
    T t[block];
    for (std::int64_t first = from; first < to; first += block) {
        const std::int64_t here = std::min(block, to - first);
        F::prepare(x + first, t, here);
        if (forward)
            for (std::int64_t j = 0; j < here; ++j) out[first + j] = F::value(x[first + j], t[j]);
        else
            for (std::int64_t j = 0; j < here; ++j) out[first + j] = dy[first + j] * F::slope(x[first + j], t[j]);
    }
}

template <class T, class F> void plain(const Call& c, bool forward) {
    split(c.team(), elements(c.written(0)), split_grain / 4, [&](std::int64_t from, std::int64_t to) {
        plain_part<T, F>(c.input<T>(forward ? 0 : 1), c.input<T>(0), c.output<T>(0), forward, from, to);
    });
}

// Operands of a gated activation; null: the model has none.
template <class T> struct Gated {
    const T *x, *dy, *kept;
    T *out, *keep;
    Weights<T> weight;
    T limit; // of experts
};

// Neither weighted, clamped nor kept, which is most.
template <class T, class F> ORRERY_CLONES void gated_part(const Gated<T>& g, bool forward, std::int64_t from, std::int64_t to) {
    const T *const x = g.x, *const dy = g.dy;
    T* const out = g.out;
    T gates[block], t[block];
    for (std::int64_t first = from; first < to; first += block) {
        const std::int64_t here = std::min(block, to - first);
        for (std::int64_t j = 0; j < here; ++j) gates[j] = x[2 * (first + j)];
        F::prepare(gates, t, here);
        if (forward)
            for (std::int64_t j = 0, i = first; j < here; ++j, ++i) out[i] = F::value(gates[j], t[j]) * x[2 * i + 1];
        else
            for (std::int64_t j = 0, i = first; j < here; ++j, ++i) {
                const T d = dy[i], up = x[2 * i + 1];
                out[2 * i] = d * F::slope(gates[j], t[j]) * up;
                out[2 * i + 1] = d * F::value(gates[j], t[j]);
            }
    }
}

template <class T, class F> void weighted_part(const Gated<T>& g, bool forward, std::int64_t from, std::int64_t to) {
    T gates[block], t[block];
    for (std::int64_t first = from; first < to; first += block) {
        const std::int64_t here = std::min(block, to - first);
        for (std::int64_t j = 0; j < here; ++j) gates[j] = std::min(g.x[2 * (first + j)], g.limit);
        F::prepare(gates, t, here);
        for (std::int64_t j = 0, i = first; j < here; ++j, ++i) {
            const T up = std::clamp(g.x[2 * i + 1], -g.limit, g.limit), value = g.kept ? g.kept[i] : F::value(gates[j], t[j]);
            if (forward) {
                if (g.keep) g.keep[i] = value;
                g.out[i] = value * up * g.weight.at(i);
            } else {
                const T d = g.dy[i] * g.weight.at(i);
                g.weight.add(i, g.dy[i] * value * up);
                g.out[2 * i] = g.x[2 * i] > g.limit ? T(0) : d * F::slope(gates[j], t[j]) * up;
                g.out[2 * i + 1] = std::abs(g.x[2 * i + 1]) > g.limit ? T(0) : d * value;
            }
        }
    }
}

// x[, p] -> y[, f(gate)];  dy, x[, p][, f(gate)] -> dx[, dp]: what the gate became where it is kept.
template <class T, class F> void gated(const Call& c, bool forward) {
    const Buffer& narrow = forward ? c.written(0) : c.read(0);
    const Weights<T> weight = weights<T>(c, forward);
    const double clamp = c.context.facts.activation_clamp;
    const Gated<T> g{c.input<T>(forward ? 0 : 1),
                     c.input<T>(0),
                     !forward && c.in.size() > (weight.p ? 3u : 2u) ? c.input<T>(c.in.size() - 1) : nullptr,
                     c.output<T>(0),
                     forward && c.out.size() > 1 ? c.output<T>(1) : nullptr,
                     weight,
                     weight.p && clamp > 0 ? static_cast<T>(clamp) : std::numeric_limits<T>::infinity()};
    const bool plain = !weight.p && !g.keep && !g.kept;
    const std::int64_t cols = columns(narrow), rows = elements(narrow) / cols;
    split_rows(c.team(), rows, 4 * cols, [&](std::int64_t from, std::int64_t to) { // whole rows: a row's weight has one gradient
        plain ? gated_part<T, F>(g, forward, from * cols, to * cols) : weighted_part<T, F>(g, forward, from * cols, to * cols);
    });
}

// x -> y;  dy, x -> dx.
template <class T> void clamp(const Call& c, bool forward) {
    const std::int64_t n = elements(c.written(0));
    const T limit = static_cast<T>(c.context.facts.activation_clamp);
    const T *const x = c.input<T>(forward ? 0 : 1), *const dy = c.input<T>(0);
    T* const out = c.output<T>(0);
    for (std::int64_t i = 0; i < n; ++i) {
        const T low = i % 2 == 0 ? -std::numeric_limits<T>::infinity() : -limit, kept = std::clamp(x[i], low, limit);
        out[i] = forward ? kept : kept == x[i] ? dy[i] : T(0);
    }
}

} // namespace

template <class T> void activation(const Pointwise& w, const Call& c) {
    const bool forward = w.direction == Direction::forward;
    switch (w.kind) {
    case PointwiseKind::gelu:
        plain<T, Gelu<T>>(c, forward);
        break;
    case PointwiseKind::relu:
        plain<T, Relu<T>>(c, forward);
        break;
    case PointwiseKind::squared_relu:
        plain<T, SquaredRelu<T>>(c, forward);
        break;
    case PointwiseKind::swiglu:
        gated<T, Silu<T>>(c, forward);
        break;
    case PointwiseKind::geglu:
        gated<T, Gelu<T>>(c, forward);
        break;
    case PointwiseKind::clamp:
        clamp<T>(c, forward);
        break;
    default:
        broken("not an activation");
    }
}

template void activation<float>(const Pointwise&, const Call&);
template void activation<double>(const Pointwise&, const Call&);

} // namespace orrery

// Optimizer steps on whole tensors or flat shards, element by element as torch.optim has them, and the gradients' norm.
#include "exec/kernels/optimizer.hpp"

#include "exec/kernels/call.hpp"

#include <algorithm>
#include <cmath>

namespace orrery {
namespace {

using Constants = StepConstants;

template <class T> void adam(const Constants& k, T* w, const T* g, T* m, T* v, std::int64_t n) {
    const T b1 = static_cast<T>(k.beta1), b2 = static_cast<T>(k.beta2), size = static_cast<T>(k.lr / k.correction1),
            root = static_cast<T>(1 / std::sqrt(k.correction2)), eps = static_cast<T>(k.epsilon);
    const T keep = static_cast<T>(k.decoupled ? 1 - k.lr * k.decay : 1), decay = static_cast<T>(k.decoupled ? 0 : k.decay);
    for (std::int64_t i = 0; i < n; ++i) {
        const T d = g[i] + decay * w[i];
        m[i] = b1 * m[i] + (1 - b1) * d;
        v[i] = b2 * v[i] + (1 - b2) * d * d;
        w[i] = keep * w[i] - size * m[i] / (std::sqrt(v[i]) * root + eps);
    }
}

template <class T> void descend(const Constants& k, T* w, const T* g, T* momentum, std::int64_t n) {
    const T lr = static_cast<T>(k.lr), mu = static_cast<T>(k.momentum), decay = static_cast<T>(k.decay);
    for (std::int64_t i = 0; i < n; ++i) {
        T d = g[i] + decay * w[i];
        if (momentum) d = momentum[i] = k.first ? d : mu * momentum[i] + d;
        w[i] -= lr * d;
    }
}

template <class T> double norm(const T* x, std::int64_t n) {
    double sum = 0;
    for (std::int64_t i = 0; i < n; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
    return std::sqrt(sum);
}

// LAMB (arXiv:1904.00962): Adam's direction, scaled by |w| / |direction| of the tensor.
template <class T> void lamb(const Constants& k, T* w, const T* g, T* m, T* v, std::int64_t n) {
    const T b1 = static_cast<T>(k.beta1), b2 = static_cast<T>(k.beta2);
    std::vector<T> r(static_cast<std::size_t>(n));
    for (std::int64_t i = 0; i < n; ++i) {
        m[i] = b1 * m[i] + (1 - b1) * g[i];
        v[i] = b2 * v[i] + (1 - b2) * g[i] * g[i];
        r[static_cast<std::size_t>(i)] =
            m[i] / static_cast<T>(k.correction1) / (std::sqrt(v[i] / static_cast<T>(k.correction2)) + static_cast<T>(k.epsilon)) +
            static_cast<T>(k.decay) * w[i];
    }
    const double nw = norm(w, n), nr = norm(r.data(), n);
    const T size = static_cast<T>(k.lr * (nw > 0 && nr > 0 ? nw / nr : 1));
    for (std::int64_t i = 0; i < n; ++i) w[i] -= size * r[static_cast<std::size_t>(i)];
}

// LARS (arXiv:1708.03888): momentum with a rate scaled by trust |w| / (|g| + decay |w|) of the tensor.
template <class T> void lars(const Constants& k, double trust, T* w, const T* g, T* momentum, std::int64_t n) {
    const double nw = norm(w, n), ng = norm(g, n);
    const T rate = static_cast<T>(k.lr * (nw > 0 && ng > 0 ? trust * nw / (ng + k.decay * nw) : 1)), mu = static_cast<T>(k.momentum),
            decay = static_cast<T>(k.decay);
    for (std::int64_t i = 0; i < n; ++i) {
        momentum[i] = (k.first ? T(0) : mu * momentum[i]) + rate * (g[i] + decay * w[i]);
        w[i] -= momentum[i];
    }
}

// A tensor that is cut has its norm on several ranks.
bool whole(const Buffer& b) {
    return b.shape.size() > 0 &&
           std::none_of(b.placement.kind.begin(), b.placement.kind.end(), [](PlacementKind k) { return k == PlacementKind::sharded; });
}

} // namespace

template <class T> void run(const GradientNorm&, const Call& c) {
    double sum = 0;
    for (std::size_t i = 0; i < c.in.size(); ++i) {
        const T* g = c.input<T>(i);
        for (const Range& r : counted_ranges(c.context, c.in[i], c.written(0)))
            for (std::int64_t j = r.begin; j < r.end; ++j) sum += static_cast<double>(g[j]) * static_cast<double>(g[j]);
    }
    *c.output<T>(0) = static_cast<T>(sum);
}

// in: gradients, the clipping factor where there is one (already applied), states; out: weights, states.
template <class T> void run(const OptimizerStep& w, const Call& c) {
    const std::size_t parts = static_cast<std::size_t>(
        std::count_if(c.out.begin(), c.out.end(), [](const Operand& o) { return o.buffer->kind == MemoryKind::parameters; }));
    const std::size_t states = c.out.size() - parts, moments = w.kind == OptimizerKind::sgd                                         ? 0
                                                               : w.kind == OptimizerKind::momentum || w.kind == OptimizerKind::lars ? 1
                                                                                                                                    : 2;
    require(states == moments || states == moments + 1, "an optimizer step has other states than its kind");
    T* const master = states > moments ? c.output<T>(parts) : nullptr;
    T* const first = moments > 0 ? c.output<T>(c.out.size() - moments) : nullptr;
    T* const second = moments > 1 ? c.output<T>(c.out.size() - 1) : nullptr;
    const Constants k = step_constants(c.context);
    std::int64_t at = 0;
    for (std::size_t i = 0; i < parts; ++i) {
        const std::int64_t n = elements(c.written(i));
        const T* g = c.input<T>(i);
        T *const weights = c.output<T>(i), *const p = master ? master + at : weights;
        if (w.kind == OptimizerKind::lamb || w.kind == OptimizerKind::lars)
            require(whole(c.written(i)), "a layer-wise optimizer needs whole tensors");
        switch (w.kind) {
        case OptimizerKind::sgd:
            descend<T>(k, p, g, nullptr, n);
            break;
        case OptimizerKind::momentum:
            descend(k, p, g, first + at, n);
            break;
        case OptimizerKind::adam:
            adam(k, p, g, first + at, second + at, n);
            break;
        case OptimizerKind::lamb:
            lamb(k, p, g, first + at, second + at, n);
            break;
        case OptimizerKind::lars:
            lars(k, c.context.facts.optimizer.trust, p, g, first + at, n);
            break;
        }
        if (master) std::copy_n(p, n, weights);
        at += n;
    }
}

template void run<float>(const OptimizerStep&, const Call&);
template void run<double>(const OptimizerStep&, const Call&);
template void run<float>(const GradientNorm&, const Call&);
template void run<double>(const GradientNorm&, const Call&);

} // namespace orrery

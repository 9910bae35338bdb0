// Optimizer steps on whole tensors or flat shards, element by element as torch.optim has them, and the gradients' norm.
#include "exec/kernels/optimizer.hpp"

#include "exec/kernels/call.hpp"
#include "exec/kernels/clones.hpp"
#include "exec/kernels/loss_scale.hpp"
#include "exec/kernels/vector.hpp"

#include <algorithm>
#include <cmath>

namespace orrery {
namespace {

using Constants = StepConstants;

template <class T> ORRERY_CLONES void adam_part(const Constants& k, bool frozen, T* w, const T* g, T* m, T* v, std::int64_t n) {
    const T b1 = static_cast<T>(k.beta1), b2 = static_cast<T>(k.beta2), size = static_cast<T>(k.lr / k.correction1),
            root = static_cast<T>(1 / std::sqrt(k.correction2)), eps = static_cast<T>(k.epsilon);
    const T keep = static_cast<T>(k.decoupled ? 1 - k.lr * k.decay : 1), decay = static_cast<T>(k.decoupled ? 0 : k.decay),
            unscale = static_cast<T>(k.unscale);
    const T b2_now = frozen ? T(1) : b2, fresh = frozen ? T(0) : 1 - b2;
    for (std::int64_t i = 0; i < n; ++i) {
        const T d = unscale * g[i] + decay * w[i];
        m[i] = b1 * m[i] + (1 - b1) * d;
        v[i] = b2_now * v[i] + fresh * d * d;
        w[i] = keep * w[i] - size * m[i] / (std::sqrt(v[i]) * root + eps);
    }
}

template <class T> void adam(Team* team, const Constants& k, bool frozen, T* w, const T* g, T* m, T* v, std::int64_t n) {
    split(team, n, split_grain,
          [&](std::int64_t from, std::int64_t to) { adam_part(k, frozen, w + from, g + from, m + from, v + from, to - from); });
}

// A step on moments that are there already: 1-bit Adam's.
template <class T> void adam_apply(const Constants& k, T* w, const T* m, const T* v, std::int64_t n) {
    const T size = static_cast<T>(k.lr / k.correction1), root = static_cast<T>(1 / std::sqrt(k.correction2)),
            eps = static_cast<T>(k.epsilon), keep = static_cast<T>(1 - k.lr * k.decay);
    for (std::int64_t i = 0; i < n; ++i) w[i] = keep * w[i] - size * m[i] / (std::sqrt(v[i]) * root + eps);
}

template <class T> void descend(const Constants& k, T* w, const T* g, T* momentum, std::int64_t n) {
    const T lr = static_cast<T>(k.lr), mu = static_cast<T>(k.momentum), decay = static_cast<T>(k.decay),
            unscale = static_cast<T>(k.unscale);
    for (std::int64_t i = 0; i < n; ++i) {
        T d = unscale * g[i] + decay * w[i];
        if (momentum) d = momentum[i] = k.first ? d : mu * momentum[i] + d;
        w[i] -= lr * d;
    }
}

// Adam's step in reverse: what it made of w, m and v with these gradients becomes what they were, but for rounding.
template <class T> ORRERY_CLONES void adam_back_part(const Constants& k, T* w, const T* g, T* m, T* v, std::int64_t n) {
    const T b1 = static_cast<T>(k.beta1), b2 = static_cast<T>(k.beta2), size = static_cast<T>(k.lr / k.correction1),
            root = static_cast<T>(1 / std::sqrt(k.correction2)), eps = static_cast<T>(k.epsilon);
    const T keep = static_cast<T>(k.decoupled ? 1 - k.lr * k.decay : 1), decay = static_cast<T>(k.decoupled ? 0 : k.decay);
    // Moments that a step does not read were anything: 0, as before the first step.
    const T more1 = k.first || b1 == 0 ? T(0) : 1 / b1, more2 = k.first || b2 == 0 ? T(0) : 1 / b2;
    for (std::int64_t i = 0; i < n; ++i) {
        w[i] = (w[i] + size * m[i] / (std::sqrt(v[i]) * root + eps)) / keep;
        const T d = g[i] + decay * w[i];
        m[i] = more1 * (m[i] - (1 - b1) * d);
        v[i] = std::max(T(0), more2 * (v[i] - (1 - b2) * d * d));
    }
}

// descend() in reverse.
template <class T> void ascend(const Constants& k, T* w, const T* g, T* momentum, std::int64_t n) {
    const T lr = static_cast<T>(k.lr), mu = static_cast<T>(k.momentum), decay = static_cast<T>(k.decay);
    const T more = k.first || mu == 0 ? T(0) : 1 / mu;
    for (std::int64_t i = 0; i < n; ++i) {
        if (!momentum) {
            w[i] = (w[i] + lr * g[i]) / (1 - lr * decay);
            continue;
        }
        w[i] += lr * momentum[i];
        momentum[i] = more * (momentum[i] - (g[i] + decay * w[i]));
    }
}

struct Squares {
    double weights = 0, other = 0;
};

// LAMB (arXiv:1904.00962): Adam's direction, scaled by |w| / |direction| of the tensor.
template <class T> T lamb_direction(const Constants& k, T w, T m, T v) {
    return m / static_cast<T>(k.correction1) / (std::sqrt(v / static_cast<T>(k.correction2)) + static_cast<T>(k.epsilon)) +
           static_cast<T>(k.decay) * w;
}

template <class T> Squares lamb_moments(const Constants& k, const T* w, const T* g, T* m, T* v, std::int64_t n) {
    const T b1 = static_cast<T>(k.beta1), b2 = static_cast<T>(k.beta2), unscale = static_cast<T>(k.unscale);
    Squares s;
    for (std::int64_t i = 0; i < n; ++i) {
        const T d = unscale * g[i];
        m[i] = b1 * m[i] + (1 - b1) * d;
        v[i] = b2 * v[i] + (1 - b2) * d * d;
        const double r = static_cast<double>(lamb_direction(k, w[i], m[i], v[i])), x = static_cast<double>(w[i]);
        s.weights += x * x;
        s.other += r * r;
    }
    return s;
}

template <class T> void lamb(const Constants& k, double ratio, T* w, const T* m, const T* v, std::int64_t n) {
    const T size = static_cast<T>(k.lr * ratio);
    for (std::int64_t i = 0; i < n; ++i) w[i] -= size * lamb_direction(k, w[i], m[i], v[i]);
}

// Uses moments that are there already.
template <class T> Squares lamb_squares(const Constants& k, const T* w, const T* m, const T* v, std::int64_t n) {
    Squares s;
    for (std::int64_t i = 0; i < n; ++i) {
        const double r = static_cast<double>(lamb_direction(k, w[i], m[i], v[i])), x = static_cast<double>(w[i]);
        s.weights += x * x;
        s.other += r * r;
    }
    return s;
}

template <class T> Squares squares(const Constants& k, const T* w, const T* g, std::int64_t n) {
    const T unscale = static_cast<T>(k.unscale);
    Squares s;
    for (std::int64_t i = 0; i < n; ++i) {
        const double d = static_cast<double>(unscale * g[i]);
        s.weights += static_cast<double>(w[i]) * static_cast<double>(w[i]);
        s.other += d * d;
    }
    return s;
}

// LARS (arXiv:1708.03888): momentum with a rate scaled by trust |w| / (|g| + decay |w|) of the tensor.
template <class T> void lars(const Constants& k, double ratio, T* w, const T* g, T* momentum, std::int64_t n) {
    const T rate = static_cast<T>(k.lr * ratio), mu = static_cast<T>(k.momentum), decay = static_cast<T>(k.decay),
            unscale = static_cast<T>(k.unscale);
    for (std::int64_t i = 0; i < n; ++i) {
        momentum[i] = (k.first ? T(0) : mu * momentum[i]) + rate * (unscale * g[i] + decay * w[i]);
        w[i] -= momentum[i];
    }
}

// A tensor that is cut has its norm on several ranks.
bool whole(const Plan& plan, const Buffer& b) {
    const Mesh& mesh = b.expert ? plan.expert_mesh : plan.mesh;
    for (int a = 0; a < axis_count; ++a)
        if (b.placement.on(static_cast<Axis>(a)) == PlacementKind::sharded && mesh.extent(static_cast<Axis>(a)) > 1) return false;
    return !b.shape.empty();
}

std::int64_t count_kind(std::span<const Operand> list, MemoryKind kind) {
    return std::count_if(list.begin(), list.end(), [&](const Operand& o) { return o.buffer->kind == kind; });
}

// Where each operand's elements begin in the states, where tensors are concatenated.
std::vector<std::int64_t> offsets(std::span<const Operand> tensors) {
    std::vector<std::int64_t> at{0};
    for (const Operand& o : tensors) at.push_back(at.back() + elements(*o.buffer));
    return at;
}

// fp32 copies of parameters: one of all, or one for each of the slices that workers meet with, which are of whole parameters.
template <class T> struct Masters {
    std::span<const Operand> list;
    bool any() const { return !list.empty(); }
    T* at(std::int64_t element) const { // of all, side by side
        std::size_t i = 0;
        for (; i + 1 < list.size() && element >= elements(*list[i].buffer); ++i) element -= elements(*list[i].buffer);
        return reinterpret_cast<T*>(list[i].data) + element;
    }
};

// in: weights where there is no master, states; out: norms.
template <class T> void run_frozen_norms(const Call& c) {
    const std::size_t parts = static_cast<std::size_t>(count_kind(c.in, MemoryKind::parameters)), moments = c.in.size() - 2;
    std::vector<Operand> tensors(c.in.begin(), c.in.begin() + static_cast<std::ptrdiff_t>(parts));
    if (parts == 0) // the master alone, whose tensors are the stage's in order
        for (std::size_t b = 0; b < c.context.plan.buffers.size(); ++b) {
            const Buffer& x = c.context.plan.buffers[static_cast<BufferId>(b)];
            if (x.role == Role::parameter && x.stage == c.written(0).stage && x.space == Space::device)
                tensors.push_back({nullptr, &x, static_cast<BufferId>(b)});
        }
    const std::vector<std::int64_t> at = offsets(tensors);
    const Constants k = step_constants(c.context);
    T* const norms = c.output<T>(0);
    std::fill_n(norms, elements(c.written(0)), T(0));
    for (const TensorSlice& s : tensor_slices(c.context, tensors, c.written(0))) {
        const std::int64_t state = at[s.operand] + s.begin;
        const T* p = parts == 0 ? c.input<T>(0) + state : c.input<T>(s.operand) + s.begin;
        const Squares q = lamb_squares(k, p, c.input<T>(moments) + state, c.input<T>(moments + 1) + state, s.end - s.begin);
        norms[2 * s.slot] += static_cast<T>(q.weights);
        norms[2 * s.slot + 1] += static_cast<T>(q.other);
    }
}

// in: gradients, weights where there are no masters, states (LARS: the masters alone); out: norms, moments (LAMB).
template <class T> void run_norms(const OptimizerStep& w, const Call& c) {
    if (w.frozen) return run_frozen_norms<T>(c);
    const std::size_t parts = static_cast<std::size_t>(count_kind(c.in, MemoryKind::gradients));
    const bool is_lamb = w.kind == OptimizerKind::lamb, mastered = count_kind(c.in, MemoryKind::parameters) == 0;
    const std::span<const Operand> gradients = c.in.first(parts);
    const Masters<T> masters{mastered ? c.in.subspan(parts, c.in.size() - parts - (is_lamb ? 2 : 0)) : std::span<const Operand>{}};
    const std::vector<std::int64_t> at = offsets(gradients);
    const Constants k = step_constants(c.context);
    T* const norms = c.output<T>(0);
    std::fill_n(norms, elements(c.written(0)), T(0));
    for (const TensorSlice& s : tensor_slices(c.context, gradients, c.written(0))) {
        const std::int64_t state = at[s.operand] + s.begin, n = s.end - s.begin;
        const T* g = c.input<T>(s.operand) + s.begin;
        const T* p = mastered ? masters.at(state) : c.input<T>(parts + s.operand) + s.begin;
        const Squares q = is_lamb ? lamb_moments(k, p, g, c.output<T>(1) + state, c.output<T>(2) + state, n) : squares(k, p, g, n);
        if (!s.counted) continue;
        norms[2 * s.slot] += static_cast<T>(q.weights);
        norms[2 * s.slot + 1] += static_cast<T>(q.other);
    }
}

// in: states; out: weights, the master where there is one.
template <class T> void run_adam_apply(const Call& c) {
    const std::size_t parts = static_cast<std::size_t>(count_kind(c.out, MemoryKind::parameters));
    const bool mastered = c.out.size() > parts;
    const Constants k = step_constants(c.context);
    const T *const m = c.input<T>(c.in.size() - 2), *const v = c.input<T>(c.in.size() - 1);
    std::int64_t at = 0;
    for (std::size_t i = 0; i < parts; ++i) {
        const std::int64_t n = elements(c.written(i));
        T *const stored = c.output<T>(i), *const p = mastered ? c.output<T>(parts) + at : stored;
        adam_apply(k, p, m + at, v + at, n);
        if (mastered) std::copy_n(p, n, stored);
        at += n;
    }
}

// in: gradients (LARS), norms, states; out: weights, masters where there are some, the moment (LARS).
template <class T> void run_apply(const OptimizerStep& w, const Call& c) {
    if (w.kind == OptimizerKind::adam) return run_adam_apply<T>(c);
    const std::size_t parts = static_cast<std::size_t>(count_kind(c.out, MemoryKind::parameters));
    const bool is_lamb = w.kind == OptimizerKind::lamb;
    const std::size_t norms_at = is_lamb ? 0 : parts, states = norms_at + 1, moments = c.in.size() - (is_lamb ? 2 : 1);
    const Masters<T> masters{moments > states ? c.out.subspan(parts, moments - states) : std::span<const Operand>{}};
    const std::span<const Operand> weights = c.out.first(parts);
    const std::vector<std::int64_t> at = offsets(weights);
    const Constants k = step_constants(c.context);
    const T* const norms = c.input<T>(norms_at);
    for (const TensorSlice& s : tensor_slices(c.context, weights, c.read(norms_at))) {
        const std::int64_t state = at[s.operand] + s.begin, n = s.end - s.begin;
        T *const stored = c.output<T>(s.operand) + s.begin, *const p = masters.any() ? masters.at(state) : stored;
        const double ratio =
            trust_ratio(c.context, w.kind, static_cast<double>(norms[2 * s.slot]), static_cast<double>(norms[2 * s.slot + 1]));
        if (is_lamb)
            lamb(k, ratio, p, c.input<T>(moments) + state, c.input<T>(moments + 1) + state, n);
        else
            lars(k, ratio, p, c.input<T>(s.operand) + s.begin, c.output<T>(c.out.size() - 1) + state, n);
        if (masters.any()) std::copy_n(p, n, stored);
    }
}

// Nothing is learned: weights are their masters again, which they may have left to make room; norms are zero.
template <class T> void hold(const OptimizerStep& w, const Call& c) {
    if (w.part == OptimizerStep::Part::norms) std::fill_n(c.output<T>(0), elements(c.written(0)), T(0));
    const auto parts = static_cast<std::size_t>(count_kind(c.out, MemoryKind::parameters));
    const auto is_master = [](const Operand& o) { return o.buffer->role == Role::master; };
    const Masters<T> masters{c.out.subspan(parts, static_cast<std::size_t>(std::ranges::count_if(c.out, is_master)))};
    std::int64_t at = 0;
    for (std::size_t i = 0; i < parts && masters.any(); ++i) {
        const std::int64_t n = elements(c.written(i));
        std::copy_n(masters.at(at), n, c.output<T>(i));
        at += n;
    }
}

} // namespace

template <class T> void run(const GradientNorm&, const Call& c) {
    double all = 0;
    for (std::size_t i = 0; i < c.in.size(); ++i) {
        if (c.input<T>(i) == c.output<T>(0)) { // of others, so far
            all += static_cast<double>(*c.input<T>(i));
            continue;
        }
        for (const Range& r : counted_ranges(c.context, c.in[i], c.written(0))) {
            // A sum of each piece, then of these in their order, whoever makes them.
            const std::int64_t n = r.end - r.begin, piece = 4 * split_grain, pieces = (n + piece - 1) / piece;
            std::vector<double> sums(static_cast<std::size_t>(pieces));
            split(c.team(), pieces, 1, [&](std::int64_t from, std::int64_t to) {
                for (std::int64_t k = from; k < to; ++k)
                    sums[k] = sum_of_squares(c.input<T>(i) + r.begin + k * piece, std::min(piece, n - k * piece));
            });
            for (const double x : sums) all += x;
        }
    }
    *c.output<T>(0) = static_cast<T>(all);
}

// With the gradients of the step before, as that step would have done it; the first step of a run has none.
template <class T> void run_delayed(OptimizerStep w, const Call& c) {
    if (c.context.step <= c.context.facts.optimizer.begins) return hold<T>(w, c);
    w.delayed = false;
    KernelContext before = c.context;
    --before.step;
    run<T>(w, Call{c.op, c.in, c.out, before});
}

namespace {

// A step's operands: its gradients, a weight for each unless it writes masters alone, and the states side by side.
template <class T> struct Stepped {
    std::size_t parts;
    bool weights;
    Masters<T> masters;
    T *first, *second;
};

template <class T> Stepped<T> stepped(const OptimizerStep& w, const Call& c) {
    const auto weights = static_cast<std::size_t>(count_kind(c.out, MemoryKind::parameters)),
               parts = static_cast<std::size_t>(count_kind(c.in, MemoryKind::gradients));
    const std::size_t states = c.out.size() - weights, moments = w.kind == OptimizerKind::sgd                                         ? 0
                                                                 : w.kind == OptimizerKind::momentum || w.kind == OptimizerKind::lars ? 1
                                                                                                                                      : 2;
    require(states >= moments, "an optimizer step has fewer states than its kind");
    require(weights == parts || (weights == 0 && states > moments), "an optimizer step has neither its weights nor their masters");
    return {parts,
            weights > 0,
            {c.out.subspan(weights, states - moments)},
            moments > 0 ? c.output<T>(c.out.size() - moments) : nullptr,
            moments > 1 ? c.output<T>(c.out.size() - 1) : nullptr};
}

// The number that an update which is checked afterwards is told: the square of the norm, or the factor.
template <class T> T told(const Call& c) { return *c.input<T>(static_cast<std::size_t>(count_kind(c.in, MemoryKind::gradients))); }

template <class T> void run_undo(const OptimizerStep& w, const Call& c) {
    if (static_cast<T>(clipping_factor(static_cast<double>(told<T>(c)), c.context.facts.optimizer.clip)) == 1) return;
    require(w.kind != OptimizerKind::lamb && w.kind != OptimizerKind::lars, "a layer-wise step cannot be undone");
    const Stepped<T> s = stepped<T>(w, c);
    const Constants k = step_constants(c.context);
    std::int64_t at = 0;
    for (std::size_t i = 0; i < s.parts; ++i) {
        const std::int64_t n = elements(c.read(i));
        const T* g = c.input<T>(i);
        T* const p = s.masters.any() ? s.masters.at(at) : c.output<T>(i);
        split(c.team(), n, split_grain, [&](std::int64_t from, std::int64_t to) {
            if (s.second)
                adam_back_part(k, p + from, g + from, s.first + at + from, s.second + at + from, to - from);
            else
                ascend(k, p + from, g + from, s.first ? s.first + at + from : nullptr, to - from);
        });
        at += n;
    }
}

} // namespace

// in: gradients, the clipping factor where there is one (already applied), states; out: weights unless there are masters alone, states.
template <class T> void run(const OptimizerStep& w, const Call& c) {
    if (c.context.facts.optimizer.holds || leaves_out_update(c.context)) return hold<T>(w, c);
    if (w.delayed) return run_delayed<T>(w, c);
    if (w.part == OptimizerStep::Part::norms) return run_norms<T>(w, c);
    if (w.part == OptimizerStep::Part::apply) return run_apply<T>(w, c);
    if (w.part == OptimizerStep::Part::undo) return run_undo<T>(w, c);
    if (w.part == OptimizerStep::Part::again && told<T>(c) == 1) return;
    const auto [parts, has_weights, masters, first, second] = stepped<T>(w, c);
    const Constants k = step_constants(c.context);
    std::int64_t at = 0;
    for (std::size_t i = 0; i < parts; ++i) {
        const std::int64_t n = elements(c.read(i));
        const T* g = c.input<T>(i);
        T *const weights = has_weights ? c.output<T>(i) : nullptr, *const p = masters.any() ? masters.at(at) : weights;
        if (w.kind == OptimizerKind::lamb || w.kind == OptimizerKind::lars)
            require(whole(c.context.plan, c.written(i)), "a layer-wise optimizer needs whole tensors");
        switch (w.kind) {
        case OptimizerKind::sgd:
            descend<T>(k, p, g, nullptr, n);
            break;
        case OptimizerKind::momentum:
            descend(k, p, g, first + at, n);
            break;
        case OptimizerKind::adam:
            adam(c.team(), k, w.frozen, p, g, first + at, second + at, n);
            break;
        case OptimizerKind::lamb: {
            const Squares s = lamb_moments(k, p, g, first + at, second + at, n);
            lamb(k, trust_ratio(c.context, w.kind, s.weights, s.other), p, first + at, second + at, n);
            break;
        }
        case OptimizerKind::lars: {
            const Squares s = squares(k, p, g, n);
            lars(k, trust_ratio(c.context, w.kind, s.weights, s.other), p, g, first + at, n);
            break;
        }
        case OptimizerKind::muon:
            require(false, "Muon is simulated only");
            break;
        }
        if (masters.any() && weights) std::copy_n(p, n, weights);
        at += n;
    }
}

template void run<float>(const OptimizerStep&, const Call&);
template void run<double>(const OptimizerStep&, const Call&);
template void run<float>(const GradientNorm&, const Call&);
template void run<double>(const GradientNorm&, const Call&);

} // namespace orrery

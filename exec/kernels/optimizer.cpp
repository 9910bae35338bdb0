// Optimizer steps on whole tensors or flat shards, element by element as torch.optim has them, and the gradients' norm.
#include "exec/kernels/buckets.hpp"
#include "exec/kernels/call.hpp"

#include <algorithm>
#include <cmath>

namespace orrery {
namespace {

struct Constants { double lr, beta1, beta2, epsilon, decay, momentum, correction1, correction2; bool decoupled, first; };

Constants constants(const KernelContext& c) {
    const OptimizerFacts& o = c.facts.optimizer;
    const double t = static_cast<double>(c.step + 1);
    const double warm = o.warmup_steps > 0 ? std::min(1.0, t / static_cast<double>(o.warmup_steps)) : 1.0;
    return {o.learning_rate * warm, o.beta1, o.beta2, o.epsilon, o.weight_decay, o.momentum, 1 - std::pow(o.beta1, t), 1 - std::pow(o.beta2, t), o.decoupled, c.step == 0};
}

template <class T> void adam(const Constants& k, T* w, const T* g, T* m, T* v, std::int64_t n) {
    const T b1 = static_cast<T>(k.beta1), b2 = static_cast<T>(k.beta2), size = static_cast<T>(k.lr / k.correction1), root = static_cast<T>(1 / std::sqrt(k.correction2)), eps = static_cast<T>(k.epsilon);
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
        r[static_cast<std::size_t>(i)] = m[i] / static_cast<T>(k.correction1) / (std::sqrt(v[i] / static_cast<T>(k.correction2)) + static_cast<T>(k.epsilon)) + static_cast<T>(k.decay) * w[i];
    }
    const double nw = norm(w, n), nr = norm(r.data(), n);
    const T size = static_cast<T>(k.lr * (nw > 0 && nr > 0 ? nw / nr : 1));
    for (std::int64_t i = 0; i < n; ++i) w[i] -= size * r[static_cast<std::size_t>(i)];
}

// LARS (arXiv:1708.03888): momentum with a rate scaled by trust |w| / (|g| + decay |w|) of the tensor.
template <class T> void lars(const Constants& k, double trust, T* w, const T* g, T* momentum, std::int64_t n) {
    const double nw = norm(w, n), ng = norm(g, n);
    const T rate = static_cast<T>(k.lr * (nw > 0 && ng > 0 ? trust * nw / (ng + k.decay * nw) : 1)), mu = static_cast<T>(k.momentum), decay = static_cast<T>(k.decay);
    for (std::int64_t i = 0; i < n; ++i) {
        momentum[i] = (k.first ? T(0) : mu * momentum[i]) + rate * (g[i] + decay * w[i]);
        w[i] -= momentum[i];
    }
}

// A tensor that is cut has its norm on several ranks.
bool whole(const Buffer& b) {
    return b.shape.size() > 0 && std::none_of(b.placement.kind.begin(), b.placement.kind.end(), [](PlacementKind k) { return k == PlacementKind::sharded; });
}

// Whether this rank is the one that counts the tensor's elements, of those that hold the same and whose summands are added up.
bool counts(const Call& c, const Buffer& tensor, bool flat) {
    const KernelContext& k = c.context;
    for (Axis a : {Axis::tp, Axis::cp, Axis::ep, Axis::dp, Axis::dpr}) {
        const bool data = a == Axis::dp || a == Axis::cp;
        // An expert's replicas lie along the experts' axes; the sum is over all of a stage's ranks as soon as there are experts apart.
        const bool summed = c.written(0).placement.on(a) == PlacementKind::partial || (tensor.expert && c.written(0).placement.on(Axis::dp) == PlacementKind::partial);
        if (!summed || (flat && data) || tensor.placement.on(a) == PlacementKind::sharded) continue;
        if ((tensor.expert ? k.expert_at : k.at)[static_cast<std::size_t>(a)] != 0) return false;
    }
    if (tensor.placement.on(Axis::pp) != PlacementKind::partial) return true;
    // On several stages: the first of those that count it.
    const std::int16_t here = tensor.stage;
    for (const Block& block : k.plan.blocks) {
        if (block.kind != BlockKind::optimizer || block.stage >= here) continue;
        for (const Op& op : block.ops) {
            if (!std::holds_alternative<GradientNorm>(op.work)) continue;
            for (BufferId b : op.in) {
                if (k.plan.buffers[static_cast<std::size_t>(b)].name == tensor.name) return false;
                if (const BucketLayout* layout = k.buckets.find(b); layout && k.plan.directions == 1)
                    for (const BucketSegment& s : layout->segments)
                        if (k.plan.buffers[static_cast<std::size_t>(s.tensor)].name == tensor.name) return false;
            }
        }
    }
    return true;
}

} // namespace

template <class T> void run(const GradientNorm&, const Call& c) {
    double sum = 0;
    for (std::size_t i = 0; i < c.in.size(); ++i) {
        const T* g = c.input<T>(i);
        const auto part = [&](std::int64_t begin, std::int64_t end) { for (std::int64_t j = begin; j < end; ++j) sum += static_cast<double>(g[j]) * static_cast<double>(g[j]); };
        const BucketLayout* layout = c.context.buckets.find(c.in[i].id);
        if (!layout) {
            if (counts(c, c.read(i), false)) part(0, elements(c.read(i)));
            continue;
        }
        const std::vector<int> ranks = members(c.context.plan, layout->comm, c.context.plan.mesh.rank_of(c.context.at));
        const std::int64_t rank = std::find(ranks.begin(), ranks.end(), c.context.plan.mesh.rank_of(c.context.at)) - ranks.begin(), begin = rank * layout->shard, end = begin + layout->shard;
        for (const BucketSegment& s : layout->segments)
            if (std::max(s.begin, begin) < std::min(s.end, end) && counts(c, c.context.plan.buffers[static_cast<std::size_t>(s.tensor)], true)) part(std::max(s.begin, begin) - begin, std::min(s.end, end) - begin);
    }
    *c.output<T>(0) = static_cast<T>(sum);
}

// in: gradients, the clipping factor where there is one (already applied), states; out: weights, states.
template <class T> void run(const OptimizerStep& w, const Call& c) {
    const std::size_t parts = static_cast<std::size_t>(std::count_if(c.out.begin(), c.out.end(), [](const Operand& o) { return o.buffer->kind == MemoryKind::parameters; }));
    const std::size_t states = c.out.size() - parts, moments = w.kind == OptimizerKind::sgd ? 0 : w.kind == OptimizerKind::momentum || w.kind == OptimizerKind::lars ? 1 : 2;
    require(states == moments || states == moments + 1, "an optimizer step has other states than its kind");
    T* const master = states > moments ? c.output<T>(parts) : nullptr;
    T* const first = moments > 0 ? c.output<T>(c.out.size() - moments) : nullptr;
    T* const second = moments > 1 ? c.output<T>(c.out.size() - 1) : nullptr;
    const Constants k = constants(c.context);
    std::int64_t at = 0;
    for (std::size_t i = 0; i < parts; ++i) {
        const std::int64_t n = elements(c.written(i));
        const T* g = c.input<T>(i);
        T *const weights = c.output<T>(i), *const p = master ? master + at : weights;
        if (w.kind == OptimizerKind::lamb || w.kind == OptimizerKind::lars) require(whole(c.written(i)), "a layer-wise optimizer needs whole tensors");
        switch (w.kind) {
        case OptimizerKind::sgd: descend<T>(k, p, g, nullptr, n); break;
        case OptimizerKind::momentum: descend(k, p, g, first + at, n); break;
        case OptimizerKind::adam: adam(k, p, g, first + at, second + at, n); break;
        case OptimizerKind::lamb: lamb(k, p, g, first + at, second + at, n); break;
        case OptimizerKind::lars: lars(k, c.context.facts.optimizer.trust, p, g, first + at, n); break;
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

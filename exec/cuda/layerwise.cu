// LAMB (arXiv:1904.00962) and LARS (arXiv:1708.03888): steps whose length follows the norms of whole tensors; as
// exec/kernels/optimizer.cpp. On shards the norms are an op of their own (an all-reduce of the plan adds them up), and the step another.
// Sums of squares are made in fp64, in an order that does not depend on which block ends first.
#include "exec/cuda/device.cuh"
#include "exec/kernels/optimizer.hpp"

namespace orrery::cuda {
namespace {

constexpr std::int64_t lanes = 4096; // partial sums of one tensor

// A run of one tensor's elements: its gradient, weights (the master where there is one) and moments.
struct Run {
    View g, w, m, v;
    std::int64_t n, slot;
};

struct Constants {
    float beta1, beta2, epsilon, decay, correction1, correction2, momentum, lr, trust, unscale;
    bool first;
    const float* overflow; // the step is left out where it is not 0

    explicit Constants(const Launch& l) {
        const StepConstants k = step_constants(l.context);
        beta1 = static_cast<float>(k.beta1), beta2 = static_cast<float>(k.beta2), epsilon = static_cast<float>(k.epsilon);
        decay = static_cast<float>(k.decay), momentum = static_cast<float>(k.momentum), lr = static_cast<float>(k.lr);
        correction1 = static_cast<float>(k.correction1), correction2 = static_cast<float>(k.correction2);
        trust = static_cast<float>(l.context.facts.optimizer.trust), first = k.first;
        unscale = static_cast<float>(k.unscale), overflow = l.overflow();
    }
    __device__ bool left_out() const { return overflow && *overflow != 0; }
    __device__ float direction(float w, float m, float v) const { return m / correction1 / (sqrtf(v / correction2) + epsilon) + decay * w; }
    __device__ float ratio(bool lamb, float weights, float other) const { // as trust_ratio() of exec/kernels
        const float nw = sqrtf(weights), no = sqrtf(other);
        if (!(nw > 0 && no > 0)) return 1;
        return lamb ? nw / no : trust * nw / (no + decay * nw);
    }
};

// LAMB's moments; both: the sums of squares, added to the tensor's row of `norms` where this rank counts it.
void norms_of(const Launch& l, const Run& r, const View& norms, bool lamb, bool counted, double* sums) {
    const Constants k(l);
    each(l.stream(), lanes, [=] __device__(std::int64_t lane) {
        double weights = 0, other = 0;
        for (std::int64_t i = lane; i < r.n && !k.left_out(); i += lanes) {
            const float w = r.w.get(i);
            float d = r.g.get(i) * k.unscale;
            if (lamb) {
                const float m = k.beta1 * r.m.get(i) + (1 - k.beta1) * d, v = k.beta2 * r.v.get(i) + (1 - k.beta2) * d * d;
                r.m.put(i, m);
                r.v.put(i, v);
                d = k.direction(w, m, v);
            }
            weights += static_cast<double>(w) * static_cast<double>(w);
            other += static_cast<double>(d) * static_cast<double>(d);
        }
        sums[2 * lane] = weights;
        sums[2 * lane + 1] = other;
    });
    if (!counted) return;
    each(l.stream(), 2, [=] __device__(std::int64_t which) {
        double sum = 0;
        for (std::int64_t lane = 0; lane < lanes; ++lane) sum += sums[2 * lane + which];
        norms.put(2 * r.slot + which, norms.get(2 * r.slot + which) + static_cast<float>(sum));
    });
}

// stored: the weights themselves, where r.w is their master.
void apply(const Launch& l, const Run& r, const View& stored, const View& norms, bool lamb) {
    const Constants k(l);
    each(l.stream(), r.n, [=] __device__(std::int64_t i) {
        if (k.left_out()) return stored.put(i, r.w.get(i));
        const float ratio = k.ratio(lamb, norms.get(2 * r.slot), norms.get(2 * r.slot + 1)), w = r.w.get(i);
        float step = 0;
        if (lamb) {
            step = k.lr * ratio * k.direction(w, r.m.get(i), r.v.get(i));
        } else {
            step = (k.first ? 0 : k.momentum * r.m.get(i)) + k.lr * ratio * (r.g.get(i) * k.unscale + k.decay * w);
            r.m.put(i, step);
        }
        r.w.put(i, w - step);
        stored.put(i, w - step);
    });
}

std::size_t count_kind(std::span<const Operand> list, MemoryKind kind) {
    return static_cast<std::size_t>(std::count_if(list.begin(), list.end(), [&](const Operand& o) { return o.buffer->kind == kind; }));
}

// Where each operand's elements begin in the states, where tensors are concatenated.
std::vector<std::int64_t> offsets(std::span<const Operand> tensors) {
    std::vector<std::int64_t> begin{0};
    for (const Operand& o : tensors) begin.push_back(begin.back() + elements(*o.buffer));
    return begin;
}

void zero(const Launch& l, const View& norms) {
    each(l.stream(), norms.count, [=] __device__(std::int64_t i) { norms.put(i, 0); });
}

// in: gradients, weights where there is no master, states (LARS: the master alone); out: norms, moments (LAMB).
void run_norms(const Launch& l, bool lamb, double* sums) {
    const std::size_t parts = count_kind(l.in, MemoryKind::gradients);
    const bool mastered = count_kind(l.in, MemoryKind::parameters) == 0;
    const std::vector<std::int64_t> begin = offsets(l.in.first(parts));
    const View norms = l.output(0);
    zero(l, norms);
    for (const TensorSlice& s : tensor_slices(l.context, l.in.first(parts), l.written(0))) {
        const std::int64_t state = begin[s.operand] + s.begin;
        Run r{at(l.input(s.operand), s.begin),
              mastered ? at(l.input(parts), state) : at(l.input(parts + s.operand), s.begin),
              {},
              {},
              s.end - s.begin,
              s.slot};
        if (lamb) r.m = at(l.output(1), state), r.v = at(l.output(2), state);
        norms_of(l, r, norms, lamb, s.counted, sums);
    }
}

// in: gradients (LARS), norms, states; out: weights, the master where there is one, the moment (LARS).
void run_apply(const Launch& l, bool lamb) {
    const std::size_t parts = count_kind(l.out, MemoryKind::parameters), norms_at = lamb ? 0 : parts, states = norms_at + 1,
                      moments = l.in.size() - (lamb ? 2 : 1);
    const bool mastered = moments > states;
    const std::vector<std::int64_t> begin = offsets(l.out.first(parts));
    for (const TensorSlice& s : tensor_slices(l.context, l.out.first(parts), l.read(norms_at))) {
        const std::int64_t state = begin[s.operand] + s.begin;
        const View stored = at(l.output(s.operand), s.begin);
        Run r{{}, mastered ? at(l.output(parts), state) : stored, {}, {}, s.end - s.begin, s.slot};
        if (lamb)
            r.m = at(l.input(moments), state), r.v = at(l.input(moments + 1), state);
        else
            r.g = at(l.input(s.operand), s.begin), r.m = at(l.output(l.out.size() - 1), state);
        apply(l, r, stored, l.input(norms_at), lamb);
    }
}

// Whole tensors on this rank: both at once. in: gradients, .., states; out: weights, [master,] moments.
void run_whole(const Launch& l, bool lamb, double* sums) {
    const std::size_t parts = count_kind(l.out, MemoryKind::parameters), moments = lamb ? 2 : 1;
    const bool mastered = l.out.size() - parts > moments;
    const View norms{sums + 2 * lanes, Kind::fp32, static_cast<std::int64_t>(2 * parts), 1};
    zero(l, norms);
    std::int64_t begin = 0;
    for (std::size_t i = 0; i < parts; ++i) {
        const View stored = l.output(i);
        Run r{l.input(i),
              mastered ? at(l.output(parts), begin) : stored,
              at(l.output(l.out.size() - moments), begin),
              {},
              stored.count,
              static_cast<std::int64_t>(i)};
        if (lamb) r.v = at(l.output(l.out.size() - 1), begin);
        norms_of(l, r, norms, lamb, true, sums);
        apply(l, r, stored, norms, lamb);
        begin += stored.count;
    }
}

} // namespace

void layerwise(const OptimizerStep& w, const Launch& l) {
    const bool lamb = w.kind == OptimizerKind::lamb;
    double* const sums = static_cast<double*>(l.scratch(2 * lanes * sizeof(double) + 2 * l.out.size() * sizeof(float)));
    switch (w.part) {
    case OptimizerStep::Part::norms:
        return run_norms(l, lamb, sums);
    case OptimizerStep::Part::apply:
        return run_apply(l, lamb);
    case OptimizerStep::Part::whole:
        return run_whole(l, lamb, sums);
    case OptimizerStep::Part::undo:
    case OptimizerStep::Part::again:
    case OptimizerStep::Part::direction:
    case OptimizerStep::Part::orthogonal:
        return; // no plan of a layer-wise optimizer has them
    }
}

} // namespace orrery::cuda

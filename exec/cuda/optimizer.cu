// Optimizer steps and the gradients' norm; as exec/kernels/optimizer.cpp. Sums of squares are made in fp64.
#include "exec/cuda/device.cuh"
#include "exec/kernels/optimizer.hpp"

namespace orrery::cuda {

// Two passes, so that the sum does not depend on which block ends first.
void run(const GradientNorm&, const Launch& l) {
    constexpr std::int64_t parts = 1024;
    double* sums = static_cast<double*>(l.scratch(parts * sizeof(double)));
    check(cudaMemsetAsync(sums, 0, parts * sizeof(double), l.stream()), "norm");
    for (std::size_t i = 0; i < l.in.size(); ++i) {
        const View g = l.input(i);
        for (const Range& r : counted_ranges(l.context, l.in[i], l.written(0))) {
            const Range range = r;
            each(l.stream(), parts, [=] __device__(std::int64_t p) {
                double sum = 0;
                for (std::int64_t j = range.begin + p; j < range.end; j += parts)
                    sum += static_cast<double>(g.get(j)) * static_cast<double>(g.get(j));
                sums[p] += sum;
            });
        }
    }
    const View total = l.output(0);
    each(l.stream(), 1, [=] __device__(std::int64_t) {
        double sum = 0;
        for (std::int64_t p = 0; p < parts; ++p) sum += sums[p];
        total.put(0, static_cast<float>(sum));
    });
}

void run(const OptimizerStep& w, const Launch& l) {
    if (w.kind == OptimizerKind::lamb || w.kind == OptimizerKind::lars) return layerwise(w, l);
    const std::size_t parts = static_cast<std::size_t>(
        std::count_if(l.out.begin(), l.out.end(), [](const Operand& o) { return o.buffer->kind == MemoryKind::parameters; }));
    const std::size_t states = l.out.size() - parts, moments = w.kind == OptimizerKind::sgd ? 0 : w.kind == OptimizerKind::adam ? 2 : 1;
    const bool mastered = states > moments;
    const View master = mastered ? l.output(parts) : View{}, first = moments > 0 ? l.output(l.out.size() - moments) : View{},
               second = moments > 1 ? l.output(l.out.size() - 1) : View{};
    const StepConstants k = step_constants(l.context);
    const OptimizerKind kind = w.kind;
    std::int64_t offset = 0;
    for (std::size_t i = 0; i < parts; ++i) {
        const View g = l.input(i), weights = l.output(i), p = mastered ? at(master, offset) : weights;
        const View m = moments > 0 ? at(first, offset) : View{}, v = moments > 1 ? at(second, offset) : View{};
        each(l.stream(), weights.count, [=] __device__(std::int64_t j) {
            float x = p.get(j), d = g.get(j);
            if (kind == OptimizerKind::adam) {
                if (!k.decoupled) d += static_cast<float>(k.decay) * x;
                const float b1 = static_cast<float>(k.beta1), b2 = static_cast<float>(k.beta2), m1 = b1 * m.get(j) + (1 - b1) * d,
                            m2 = b2 * v.get(j) + (1 - b2) * d * d;
                m.put(j, m1);
                v.put(j, m2);
                x = static_cast<float>(k.decoupled ? 1 - k.lr * k.decay : 1) * x -
                    static_cast<float>(k.lr / k.correction1) * m1 /
                        (sqrtf(m2) * static_cast<float>(1 / sqrt(k.correction2)) + static_cast<float>(k.epsilon));
            } else {
                d += static_cast<float>(k.decay) * x;
                if (kind == OptimizerKind::momentum) {
                    d = k.first ? d : static_cast<float>(k.momentum) * m.get(j) + d;
                    m.put(j, d);
                }
                x -= static_cast<float>(k.lr) * d;
            }
            p.put(j, x);
            weights.put(j, x);
        });
        offset += weights.count;
    }
}

} // namespace orrery::cuda

// Optimizer steps and the gradients' norm; as exec/kernels/optimizer.cpp. Sums of squares are made in fp64.
#include "exec/cuda/pieces.cuh"
#include "exec/kernels/optimizer.hpp"

namespace orrery::cuda {

namespace {

// A chunk's sum of squares, in fp64.
__global__ void squares(const __grid_constant__ PieceList<1>::Batch batch, double* sums) {
    __shared__ double of_warp[8];
    double sum = 0;
    const auto add = [&](auto width, const PieceView<1>& v, std::int64_t i) {
        constexpr int N = decltype(width)::n;
        const Pack<N> g = v.part[0].load(width, i);
        for (int k = 0; k < N; ++k) sum += static_cast<double>(g.x[k]) * static_cast<double>(g.x[k]);
    };
    over_chunk<1>(batch, blockIdx.x, add);
    for (int lane = 16; lane > 0; lane >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, lane);
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x > 0) return;
    for (int w = 1; w < 8; ++w) sum += of_warp[w];
    sums[blockIdx.x] = sum;
}

__global__ void add_all(const double* sums, std::int64_t count, View total) { // by one block of 256
    __shared__ double of_thread[256];
    double sum = 0;
    for (std::int64_t i = threadIdx.x; i < count; i += 256) sum += sums[i];
    of_thread[threadIdx.x] = sum;
    for (int half = 128; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) of_thread[threadIdx.x] += of_thread[threadIdx.x + half];
    }
    if (threadIdx.x == 0) total.put(0, static_cast<float>(of_thread[0]));
}

} // namespace

// Two passes, so that the sum does not depend on which block ends first.
void run(const GradientNorm&, const Launch& l) {
    PieceList<1> list;
    for (std::size_t i = 0; i < l.in.size(); ++i) {
        for (const Range& r : counted_ranges(l.context, l.in[i], l.written(0))) {
            View part = at(l.input(i), r.begin);
            part.count = r.end - r.begin;
            list.add({part});
        }
    }
    double* sums = static_cast<double*>(l.scratch(static_cast<std::size_t>(list.chunks + 1) * sizeof(double)));
    std::int64_t done = 0;
    for (const auto& batch : list.batches) {
        const std::int32_t chunks = batch.end[batch.pieces - 1];
        squares<<<static_cast<unsigned>(chunks), 256, 0, l.stream()>>>(batch, sums + done);
        check(cudaGetLastError(), "launch");
        done += chunks;
    }
    add_all<<<1, 256, 0, l.stream()>>>(sums, done, l.output(0));
    check(cudaGetLastError(), "launch");
}

namespace {

// Nothing is learned: weights are their masters again; norms are zero.
void hold(const OptimizerStep& w, const Launch& l) {
    if (w.part == OptimizerStep::Part::norms) {
        const View norms = l.output(0); // fp32
        check(cudaMemsetAsync(norms.data, 0, static_cast<std::size_t>(norms.count) * sizeof(float), l.stream()), "clear");
    }
    const std::size_t parts = static_cast<std::size_t>(
        std::count_if(l.out.begin(), l.out.end(), [](const Operand& o) { return o.buffer->kind == MemoryKind::parameters; }));
    if (parts == l.out.size() || l.out[parts].buffer->role != Role::master) return;
    const View master = l.output(parts);
    std::int64_t offset = 0;
    PieceList<2> list;
    for (std::size_t i = 0; i < parts; ++i) {
        const View weights = l.output(i);
        list.add({weights, at(master, offset)});
        offset += weights.count;
    }
    each_piece(l.stream(), list, [=] __device__(auto width, const PieceView<2>& piece, std::int64_t i) {
        piece.part[0].store(width, i, piece.part[1].load(width, i));
    });
}

} // namespace

void run(const OptimizerStep& w, const Launch& l) {
    if (l.context.facts.optimizer.holds) return hold(w, l);
    if (w.kind == OptimizerKind::lamb || w.kind == OptimizerKind::lars) return layerwise(w, l);
    const auto count = [](std::span<const Operand> list, MemoryKind kind) {
        return static_cast<std::size_t>(std::count_if(list.begin(), list.end(), [&](const Operand& o) { return o.buffer->kind == kind; }));
    };
    const std::size_t parts = count(l.in, MemoryKind::gradients), written = count(l.out, MemoryKind::parameters); // none: the master alone
    const std::size_t states = l.out.size() - written, moments = w.kind == OptimizerKind::sgd ? 0 : w.kind == OptimizerKind::adam ? 2 : 1;
    const bool mastered = states > moments;
    const View master = mastered ? l.output(written) : View{}, first = moments > 0 ? l.output(l.out.size() - moments) : View{},
               second = moments > 1 ? l.output(l.out.size() - 1) : View{};
    const StepConstants k = step_constants(l.context);
    const OptimizerKind kind = w.kind;
    const float* const overflow = l.overflow();
    std::int64_t offset = 0;
    PieceList<5> list;
    for (std::size_t i = 0; i < parts; ++i) {
        const View g = l.input(i), none{nullptr, Kind::fp32, 0, 1};
        View of_master = mastered ? at(master, offset) : none;
        of_master.count = g.count;
        const View weights = written > 0 ? l.output(i) : of_master;
        list.add(
            {weights, g, mastered ? of_master : weights, moments > 0 ? at(first, offset) : none, moments > 1 ? at(second, offset) : none});
        offset += g.count;
    }
    each_piece(l.stream(), list, [=] __device__(auto width, const PieceView<5>& piece, std::int64_t i) {
        constexpr int N = decltype(width)::n;
        const View &weights = piece.part[0], &p = piece.part[2], &m = piece.part[3], &v = piece.part[4];
        Pack<N> x = p.load(width, i), d = piece.part[1].load(width, i), m1, m2;
        if (overflow && *overflow != 0) { // as hold()
            if (p.data != weights.data) weights.store(width, i, x);
            return;
        }
        if (m.data) m1 = m.load(width, i);
        if (v.data) m2 = v.load(width, i);
        for (int j = 0; j < N; ++j) {
            d.x[j] *= static_cast<float>(k.unscale);
            if (kind == OptimizerKind::adam) {
                if (!k.decoupled) d.x[j] += static_cast<float>(k.decay) * x.x[j];
                const float b1 = static_cast<float>(k.beta1), b2 = static_cast<float>(k.beta2);
                m1.x[j] = b1 * m1.x[j] + (1 - b1) * d.x[j];
                m2.x[j] = b2 * m2.x[j] + (1 - b2) * d.x[j] * d.x[j];
                x.x[j] = static_cast<float>(k.decoupled ? 1 - k.lr * k.decay : 1) * x.x[j] -
                         static_cast<float>(k.lr / k.correction1) * m1.x[j] /
                             (sqrtf(m2.x[j]) * static_cast<float>(1 / sqrt(k.correction2)) + static_cast<float>(k.epsilon));
            } else {
                d.x[j] += static_cast<float>(k.decay) * x.x[j];
                if (kind == OptimizerKind::momentum)
                    m1.x[j] = d.x[j] = k.first ? d.x[j] : static_cast<float>(k.momentum) * m1.x[j] + d.x[j];
                x.x[j] -= static_cast<float>(k.lr) * d.x[j];
            }
        }
        if (m.data) m.store(width, i, m1);
        if (v.data) v.store(width, i, m2);
        p.store(width, i, x);
        if (p.data != weights.data) weights.store(width, i, x);
    });
}

} // namespace orrery::cuda

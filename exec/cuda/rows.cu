// Work by rows: the embedding table, cross-entropy; as exec/kernels/embedding.cpp and cross_entropy.cpp.
#include "exec/cuda/device.cuh"
#include "exec/kernels/loss_scale.hpp"
#include "exec/kernels/shards.hpp"

namespace orrery::cuda {
void run(const Embedding& w, const Launch& l) {
    const bool forward = w.direction == Direction::forward;
    const Buffer& table = forward ? l.read(1) : l.written(0);
    const std::int64_t first = shard_view(l.context.plan, table, l.context.at, l.context.expert_at).offset[0], rows = table.shape[0],
                       cols = w.hidden;
    const View tokens = l.input(0), second = l.input(1), out = l.output(0);
    const float scale = static_cast<float>(l.context.facts.embedding_scale);
    if (forward) {
        each_pack(l.stream(), w.tokens * cols, packing(second, out), [=] __device__(auto width, std::int64_t i) {
            constexpr int N = decltype(width)::n;
            const std::int64_t row = tokens.integer(i / cols) - first;
            Pack<N> found{};
            if (row >= 0 && row < rows) found = second.load(width, row * cols + i % cols);
            for (int k = 0; k < N; ++k) found.x[k] *= scale;
            out.store(width, i, found);
        });
        return;
    }
    if (l.context.facts.deterministic) { // a column a thread, its tokens one after the other
        const std::int64_t count = w.tokens;
        each(l.stream(), cols, [=] __device__(std::int64_t c) {
            for (std::int64_t t = 0; t < count; ++t) {
                const std::int64_t row = tokens.integer(t) - first;
                if (row >= 0 && row < rows) out.put(row * cols + c, out.get(row * cols + c) + scale * second.get(t * cols + c));
            }
        });
        return;
    }
    each(l.stream(), w.tokens * cols, [=] __device__(std::int64_t i) {
        const std::int64_t row = tokens.integer(i / cols) - first;
        if (row >= 0 && row < rows) out.add(row * cols + i % cols, scale * second.get(i));
    });
}

namespace {

// Columns of these logits that are words of the vocabulary, and the first word that this rank has.
struct Words {
    std::int64_t first, used;
};
Words words_of(const Launch& l, const Buffer& logits) {
    const std::int64_t cols = logits.shape.back();
    const std::int64_t first = logits.placement.on(Axis::tp) == PlacementKind::sharded ? l.coordinate(Axis::tp) * cols : 0;
    return {first, std::clamp<std::int64_t>(l.context.facts.vocabulary - first, 0, cols)};
}

void maximum(const CrossEntropy& w, const Launch& l) {

    const View x = l.input(0), top = l.output(0);
    const std::int64_t used = words_of(l, l.read(0)).used;
    each_row_packed(l.stream(), w.tokens, packing(x), [=] __device__(auto width, std::int64_t r) {
        constexpr int N = decltype(width)::n;
        float m = -INFINITY;
        for (std::int64_t j = threadIdx.x * N; j < used; j += blockDim.x * N) {
            const Pack<N> v = x.load(width, r * x.cols + j);
            for (int k = 0; k < N; ++k)
                if (j + k < used) m = fmaxf(m, v.x[k]);
        }
        m = block_max(m);
        if (threadIdx.x == 0) top.put(r, m);
    });
}

void sums(const CrossEntropy& w, const Launch& l) {

    const View x = l.input(0), top = l.input(1), labels = l.input(2), e = l.output(0), pair = l.output(1);
    const std::int64_t first = w.first;
    const bool logs = l.out.size() > 2;
    const View log_softmax = logs ? l.output(2) : View{};
    const Words words = words_of(l, l.read(0));
    const std::int64_t used = words.used, offset = words.first;
    each_row_packed(l.stream(), w.tokens, logs ? packing(x, e, log_softmax) : packing(x, e), [=] __device__(auto width, std::int64_t r) {
        constexpr int N = decltype(width)::n;
        const float m = top.get(r);
        const std::int64_t label = labels.integer(first + r), target = label - offset;
        const float aim = threadIdx.x == 0 && label >= 0 && target >= 0 && target < used ? x.get(r * x.cols + target) - m : 0;
        __syncthreads(); // e may take x's place
        float sum = 0;
        for (std::int64_t j = threadIdx.x * N; j < x.cols; j += blockDim.x * N) {
            Pack<N> v = x.load(width, r * x.cols + j);
            for (int k = 0; k < N; ++k) {
                v.x[k] = j + k < used ? expf(v.x[k] - m) : 0;
                sum += v.x[k];
            }
            e.store(width, r * x.cols + j, v);
        }
        sum = block_sum(sum);
        const float log_sum = logs ? logf(sum) : 0;
        for (std::int64_t j = threadIdx.x * N; logs && j < x.cols; j += blockDim.x * N) {
            Pack<N> v = x.load(width, r * x.cols + j);
            for (int k = 0; k < N; ++k) v.x[k] = j + k < used ? v.x[k] - m - log_sum : 0;
            log_softmax.store(width, r * x.cols + j, v);
        }
        if (threadIdx.x > 0) return;
        pair.put(2 * r, sum);
        pair.put(2 * r + 1, aim);
    });
}

void loss(const CrossEntropy& w, const Launch& l) {

    const View pair = l.input(0), loss = l.output(0);
    const std::int64_t first = w.first;
    each(l.stream(), w.tokens, [=] __device__(std::int64_t r) { loss.put(first + r, logf(pair.get(2 * r)) - pair.get(2 * r + 1)); });
}

void gradient(const CrossEntropy& w, const Launch& l) {
    const KernelFacts& f = l.context.facts;

    const View e = l.input(0), pair = l.input(1), labels = l.input(2), dx = l.output(0);
    const bool twice = l.out.size() > 1, thrice = l.out.size() > 2;
    const View second = twice ? l.output(1) : View{}, third = thrice ? l.output(2) : View{};
    const Words words = words_of(l, l.written(0));
    const std::int64_t used = words.used, offset = words.first, first = w.first;
    const float weight =
        static_cast<float>(loss_factor(l.context) * (w.ahead > 1 ? f.mtp_weight / f.mtp_layers : 1.0) / static_cast<double>(f.loss_tokens));
    each_pack(l.stream(), e.count, twice ? packing(e, dx, second) : packing(e, dx), [=] __device__(auto width, std::int64_t i) {
        constexpr int N = decltype(width)::n;
        const std::int64_t r = i / e.cols, label = labels.integer(first + r), target = label - offset,
                           hit = target < used ? target - i % e.cols : -1;
        const float scale = label < 0 ? 0 : weight / pair.get(2 * r);
        Pack<N> g = e.load(width, i);
        for (int k = 0; k < N; ++k) g.x[k] = g.x[k] * scale - (k == hit && label >= 0 ? weight : 0);
        if (twice) second.store(width, i, g);
        if (thrice) third.store(width, i, g);
        dx.store(width, i, g);
    });
}

} // namespace

void run(const CrossEntropy& w, const Launch& l) {
    switch (w.part) {
    case CrossEntropy::Part::maximum:
        return maximum(w, l);
    case CrossEntropy::Part::sums:
        return sums(w, l);
    case CrossEntropy::Part::loss:
        return loss(w, l);
    case CrossEntropy::Part::gradient:
        return gradient(w, l);
    }
}

} // namespace orrery::cuda

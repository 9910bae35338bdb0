// Work by rows: norms, the embedding table, cross-entropy; as exec/kernels/norm.cpp, embedding.cpp and cross_entropy.cpp.
#include "exec/cuda/heads.cuh"
#include "exec/kernels/shards.hpp"

#include <cfloat>

namespace orrery::cuda {
namespace {

// One row of `n` columns from x to y, by a block.
__device__ void normalise(const View& x, std::int64_t from, const View& w, const View& b, bool biased, const View& y, std::int64_t to,
                          const View& statistics, std::int64_t at, std::int64_t n, bool layer, float epsilon) {
    float mean = 0, square = 0;
    if (layer) {
        for (std::int64_t i = threadIdx.x; i < n; i += blockDim.x) mean += x.get(from + i);
        mean = block_sum(mean) / static_cast<float>(n);
    }
    for (std::int64_t i = threadIdx.x; i < n; i += blockDim.x) {
        const float d = x.get(from + i) - mean;
        square += d * d;
    }
    const float r = rsqrtf(block_sum(square) / static_cast<float>(n) + epsilon);
    for (std::int64_t i = threadIdx.x; i < n; i += blockDim.x)
        y.put(to + i, w.get(i) * ((x.get(from + i) - mean) * r) + (biased ? b.get(i) : 0.0f));
    if (threadIdx.x > 0) return;
    if (layer) statistics.put(at, mean);
    statistics.put(at + (layer ? 1 : 0), r);
}

__device__ void adjoint(const View& dy, std::int64_t d, const View& x, std::int64_t from, float mean, float r, const View& w,
                        const View& dx, std::int64_t to, const View& gw, const View& gb, bool biased, std::int64_t n, bool layer) {
    float sum = 0, product = 0;
    for (std::int64_t i = threadIdx.x; i < n; i += blockDim.x) {
        const float xh = (x.get(from + i) - mean) * r, g = dy.get(d + i) * w.get(i);
        sum += g;
        product += g * xh;
        gw.add(i, dy.get(d + i) * xh);
        if (biased) gb.add(i, dy.get(d + i));
    }
    sum = layer ? block_sum(sum) : 0;
    product = block_sum(product);
    for (std::int64_t i = threadIdx.x; i < n; i += blockDim.x)
        dx.put(to + i, r * (dy.get(d + i) * w.get(i) - (sum + (x.get(from + i) - mean) * r * product) / static_cast<float>(n)));
}

// Every head's query and key; values pass by.
void head_norms(const Norm& w, const Launch& l, std::int64_t both) {
    const bool forward = w.direction == Direction::forward;
    HeadShape shape = heads_of_rank(l.context);
    const HeadsView a = heads_view(l, false, 0, 1, shape), x = forward ? a : heads_view(l, false, 1, 1, shape),
                    out = heads_view(l, true, 0, 1, shape);
    const View statistics = forward ? l.output(1) : l.input(2), wq = l.input(forward ? 1 : 3), wk = l.input(forward ? 2 : 4),
               gq = forward ? View{} : l.output(1), gk = forward ? View{} : l.output(2);
    const std::int64_t heads = shape.heads, n = w.cols, vd = shape.v_dim, groups = shape.kv_heads, rows = a.q.rows();
    const float epsilon = static_cast<float>(l.context.facts.norm_epsilon);
    each_row(l.stream(), rows * both, [=] __device__(std::int64_t i) {
        const std::int64_t row = i / both, h = i % both;
        const bool query = h < heads;
        const std::int64_t at = query ? a.q_at(row, h) : a.k_at(row, h - heads);
        if (forward)
            normalise(a.q, at, query ? wq : wk, View{}, false, out.q, at, statistics, i, n, false, epsilon);
        else
            adjoint(a.q, at, x.q, at, 0, statistics.get(i), query ? wq : wk, out.q, at, query ? gq : gk, View{}, false, n, false);
    });
    each(l.stream(), rows * groups * vd, [=] __device__(std::int64_t i) {
        const std::int64_t at = a.v_at(i / (groups * vd), i / vd % groups) + i % vd;
        out.v.put(at, a.v.get(at));
    });
}

} // namespace

void run(const Norm& w, const Launch& l) {
    const bool layer = w.kind == NormKind::layernorm, forward = w.direction == Direction::forward;
    const View first = l.input(0), out = l.output(0);
    if (w.rows != first.rows()) return head_norms(w, l, w.rows / first.rows());
    const std::int64_t n = w.cols, per_row = layer ? 2 : 1;
    const float epsilon = static_cast<float>(l.context.facts.norm_epsilon);
    if (forward) {
        const View weight = l.input(1), bias = layer ? l.input(2) : View{}, statistics = l.output(1);
        each_row(l.stream(), w.rows, [=] __device__(std::int64_t r) {
            normalise(first, r * first.cols, weight, bias, layer, out, r * out.cols, statistics, r * per_row, n, layer, epsilon);
        });
        return;
    }
    const View x = l.input(1), statistics = l.input(2), weight = l.input(3), gw = l.output(1), gb = layer ? l.output(2) : View{};
    each_row(l.stream(), w.rows, [=] __device__(std::int64_t r) {
        const float mean = layer ? statistics.get(r * 2) : 0, scale = statistics.get(r * per_row + (layer ? 1 : 0));
        adjoint(first, r * first.cols, x, r * x.cols, mean, scale, weight, out, r * out.cols, gw, gb, layer, n, layer);
    });
}

void run(const Embedding& w, const Launch& l) {
    const bool forward = w.direction == Direction::forward;
    const Buffer& table = forward ? l.read(1) : l.written(0);
    const std::int64_t first = shard_view(l.context.plan, table, l.context.at, l.context.expert_at).offset[0], rows = table.shape[0],
                       cols = w.hidden;
    const View tokens = l.input(0), second = l.input(1), out = l.output(0);
    each(l.stream(), w.tokens * cols, [=] __device__(std::int64_t i) {
        const std::int64_t row = tokens.integer(i / cols) - first;
        const bool here = row >= 0 && row < rows;
        if (forward)
            out.put(i, here ? second.get(row * cols + i % cols) : 0.0f);
        else if (here)
            out.add(row * cols + i % cols, second.get(i));
    });
}

void run(const CrossEntropy& w, const Launch& l) {
    const KernelFacts& f = l.context.facts;
    const auto used_of = [&](const Buffer& logits, std::int64_t& first) {
        const std::int64_t cols = logits.shape.back();
        first = logits.placement.on(Axis::tp) == PlacementKind::sharded ? l.coordinate(Axis::tp) * cols : 0;
        return std::clamp<std::int64_t>(f.vocabulary - first, 0, cols);
    };
    std::int64_t first = 0;
    switch (w.part) {
    case CrossEntropy::Part::maximum: {
        const View x = l.input(0), top = l.output(0);
        const std::int64_t used = used_of(l.read(0), first);
        each_row(l.stream(), w.tokens, [=] __device__(std::int64_t r) {
            float m = -INFINITY;
            for (std::int64_t j = threadIdx.x; j < used; j += blockDim.x) m = fmaxf(m, x.get(r * x.cols + j));
            m = block_max(m);
            if (threadIdx.x == 0) top.put(r, m);
        });
        return;
    }
    case CrossEntropy::Part::sums: {
        const View x = l.input(0), top = l.input(1), labels = l.input(2), e = l.output(0), pair = l.output(1);
        const bool logs = l.out.size() > 2;
        const View log_softmax = logs ? l.output(2) : View{};
        const std::int64_t used = used_of(l.read(0), first), offset = first;
        each_row(l.stream(), w.tokens, [=] __device__(std::int64_t r) {
            const float m = top.get(r);
            const std::int64_t label = labels.integer(r), target = label - offset;
            const float aim = threadIdx.x == 0 && label >= 0 && target >= 0 && target < used ? x.get(r * x.cols + target) - m : 0;
            __syncthreads();   // e may take x's place
            float sum = 0;
            for (std::int64_t j = threadIdx.x; j < x.cols; j += blockDim.x) {
                const float v = j < used ? expf(x.get(r * x.cols + j) - m) : 0;
                e.put(r * x.cols + j, v);
                sum += v;
            }
            sum = block_sum(sum);
            for (std::int64_t j = threadIdx.x; logs && j < x.cols; j += blockDim.x)
                log_softmax.put(r * x.cols + j, j < used ? x.get(r * x.cols + j) - m - logf(sum) : 0);
            if (threadIdx.x > 0) return;
            pair.put(2 * r, sum);
            pair.put(2 * r + 1, aim);
        });
        return;
    }
    case CrossEntropy::Part::loss: {
        const View pair = l.input(0), loss = l.output(0);
        each(l.stream(), w.tokens, [=] __device__(std::int64_t r) { loss.put(r, logf(pair.get(2 * r)) - pair.get(2 * r + 1)); });
        return;
    }
    case CrossEntropy::Part::gradient: {
        const View e = l.input(0), pair = l.input(1), labels = l.input(2), dx = l.output(0);
        const bool twice = l.out.size() > 1;
        const View second = twice ? l.output(1) : View{};
        const std::int64_t used = used_of(l.written(0), first), offset = first;
        const float weight =
            static_cast<float>((l.op.layer >= f.layers ? f.mtp_weight / f.mtp_layers : 1.0) / static_cast<double>(f.loss_tokens));
        each(l.stream(), e.count, [=] __device__(std::int64_t i) {
            const std::int64_t r = i / e.cols, label = labels.integer(r), target = label - offset;
            const bool hit = i % e.cols == target && target < used;
            const float g = label < 0 ? 0 : e.get(i) * weight / pair.get(2 * r) - (hit ? weight : 0);
            if (twice) second.put(i, g);
            dx.put(i, g);
        });
        return;
    }
    }
}

} // namespace orrery::cuda

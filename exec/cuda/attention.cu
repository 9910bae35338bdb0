// Attention without a fused kernel: heads collected into dense matrices in the order of their positions, products by cuBLASLt, a softmax
// kernel that scales, masks, biases and drops, forward and backward; as many (sequence, head) pairs at a time as scratch memory holds.
// Saved values and results are those of the CPU's kernel (exec/kernels/attention.cpp has the formulas).
#include "exec/cuda/heads.cuh"
#include "exec/kernels/dropout.hpp"
#include "exec/kernels/mask.hpp"

#include <cfloat>
#include <stdexcept>

namespace orrery::cuda {
namespace {

struct Masking {
    Mask mask;
    Dropout dropout;
    float scale, cap;
    bool alibi;
    std::int64_t heads, sequence, first_head, first_sequence;

    __device__ bool sees(std::int64_t q, std::int64_t k) const {
        return !(mask.causal || mask.window > 0) || (k <= q && (mask.window <= 0 || q - k < mask.window));
    }
    // A product of a query and a key as the softmax sees it, and the slope of that beside the scale.
    __device__ float score(float product) const {
        const float x = product * scale;
        return cap > 0 ? cap * tanhf(x / cap) : x;
    }
    __device__ float steepness(float product) const {
        if (cap <= 0) return 1;
        const float t = tanhf(product * scale / cap);
        return 1 - t * t;
    }
    __device__ float slope(std::int64_t head) const {
        std::int64_t power = 1;
        while (power * 2 <= heads) power *= 2;
        return head < power ? exp2f(-8.0f * static_cast<float>(head + 1) / static_cast<float>(power))
                            : exp2f(-8.0f * static_cast<float>(2 * (head - power) + 1) / static_cast<float>(2 * power));
    }
    __device__ float kept(std::int64_t seq, std::int64_t head, std::int64_t q, std::int64_t k) const {
        if (dropout.rate <= 0) return 1;
        const std::int64_t index = (((first_sequence + seq) * heads + first_head + head) * sequence + q) * sequence + k;
        return uniform(dropout.seed, dropout.stream, static_cast<std::uint64_t>(index)) >= dropout.rate
                   ? static_cast<float>(1 / (1 - dropout.rate))
                   : 0.0f;
    }
};

Masking masking(const Launch& l, std::int64_t heads) {
    const KernelFacts& f = l.context.facts;
    const std::int64_t of_rank = heads_of_rank(l.context).heads;
    std::int64_t first = l.coordinate(Axis::tp) * of_rank;
    if (heads < of_rank) first += l.coordinate(Axis::cp) * heads;
    if (f.document > 0) throw std::runtime_error("packed documents have no kernels on a GPU yet: use --device cpu");
    return {{f.causal, f.window_of(l.op.layer)},
            dropout_at(l.context, DropoutSite::attention, l.op.layer),
            static_cast<float>(f.attention_scale()),
            static_cast<float>(f.score_cap),
            f.alibi,
            f.heads,
            f.sequence,
            first,
            l.context.first_sequence};
}

// [sequence][i]: the row of the i-th position, and that position.
const TokenRow* sorted(const Launch& l, const Buffer& value, std::int64_t rows, int behind) {
    const std::string name = "sorted " + std::to_string(rows) + " " + std::to_string(l.coordinate(Axis::cp)) + " " + std::to_string(behind);
    return l.gpu.table<TokenRow>(name, [&] {
        std::vector<TokenRow> flat;
        for (const auto& list : rows_by_sequence(tokens_met(l.context, value, rows, behind), l.context.facts.micro_batch))
            flat.insert(flat.end(), list.begin(), list.end());
        return flat;
    });
}

// Dense matrices of a batch of (sequence, head) pairs, in scratch memory.
struct Dense {
    View q, k, v, s, o, dq, dk, dv, ds, dy;
};

struct Problem {
    const Attention& w;
    const Launch& l;
    HeadsView in;
    const TokenRow *queries, *keys;
    std::int64_t batch, m, n; // queries and keys of a sequence
    Masking masks;
    Kind kind;
    std::int64_t pairs = 1; // at a time

    Problem(const Attention& work, const Launch& launch, std::size_t first, std::size_t parts)
        : w(work), l(launch), in(heads_view(l, false, first, parts, {w.heads, w.kv_heads, w.qk_dim, w.v_dim})), masks(masking(l, w.heads)),
          kind(in.q.kind) {
        batch = l.context.facts.micro_batch;
        const Buffer &q = l.read(first), &kv = l.read(first + parts - 1);
        queries = sorted(l, q, in.q.rows(), 0);
        keys = sorted(l, kv, in.v.rows(), w.behind);
        m = in.q.rows() / batch;
        n = in.v.rows() / batch;
    }
    // Scratch for as many pairs as fit; every pair has heads of its own, groups of keys repeated.
    Dense dense(bool backward) {
        const std::int64_t size = size_of(kind), values = m * w.qk_dim + n * (w.qk_dim + w.v_dim) + m * w.v_dim + m * n;
        const std::int64_t of_pair = values * size * (backward ? 2 : 1) + m * n * 4 * (backward ? 2 : 1) + 4096;
        pairs = std::clamp<std::int64_t>(static_cast<std::int64_t>(attention_scratch) / of_pair, 1, batch * w.heads);
        std::byte* at = static_cast<std::byte*>(l.scratch(static_cast<std::size_t>(of_pair * pairs)));
        const auto matrix = [&](std::int64_t elements, Kind k) {
            const View v{at, k, elements * pairs, 1};
            at += (elements * pairs * size_of(k) + 255) / 256 * 256;
            return v;
        };
        Dense d;
        d.q = matrix(m * w.qk_dim, kind);
        d.k = matrix(n * w.qk_dim, kind);
        d.v = matrix(n * w.v_dim, kind);
        d.o = matrix(m * w.v_dim, kind);
        d.s = matrix(m * n, Kind::fp32);
        d.ds = matrix(m * n, kind); // forward: the probabilities in the products' type
        if (!backward) return d;
        d.dq = matrix(m * w.qk_dim, kind);
        d.dk = matrix(n * w.qk_dim, kind);
        d.dv = matrix(n * w.v_dim, kind);
        d.dy = d.o;
        d.o = matrix(m * n, Kind::fp32); // backward: dy v^T
        return d;
    }
    // Queries, keys and values of pairs [from, from + count).
    void collect(const Dense& d, std::int64_t from, std::int64_t count) const {
        const HeadsView h = in;
        const TokenRow *qs = queries, *ks = keys;
        const std::int64_t rows_q = m, rows_k = n, heads = w.heads, qk = w.qk_dim, vd = w.v_dim;
        each(l.stream(), count * m * qk, [=] __device__(std::int64_t i) {
            const std::int64_t pair = from + i / (rows_q * qk), row = qs[pair / heads * rows_q + i / qk % rows_q].row;
            d.q.put(i, h.q.get(h.q_at(row, pair % heads) + i % qk));
        });
        each(l.stream(), count * n * qk, [=] __device__(std::int64_t i) {
            const std::int64_t pair = from + i / (rows_k * qk), row = ks[pair / heads * rows_k + i / qk % rows_k].row;
            d.k.put(i, h.k.get(h.k_at(row, pair % heads / h.per_group()) + i % qk));
        });
        each(l.stream(), count * n * vd, [=] __device__(std::int64_t i) {
            const std::int64_t pair = from + i / (rows_k * vd), row = ks[pair / heads * rows_k + i / vd % rows_k].row;
            d.v.put(i, h.v.get(h.v_at(row, pair % heads / h.per_group()) + i % vd));
        });
    }
    void product(bool ta, bool tb, std::int64_t rows, std::int64_t cols, std::int64_t depth, const View& a, const View& b, const View& c,
                 std::int64_t count) const {
        gemm(l, {ta, tb, rows, cols, depth, a, ta ? rows : depth, b, tb ? depth : cols, c, cols, false, count, rows * depth, depth * cols,
                 rows * cols});
    }
};

void forward(const Attention& w, const Launch& l) {
    Problem p(w, l, 0, l.in.size());
    const Dense d = p.dense(false);
    const View o = l.output(0), lse = l.output(1);
    const std::int64_t m = p.m, n = p.n, heads = w.heads, vd = w.v_dim;
    const Masking masks = p.masks;
    const TokenRow *qs = p.queries, *ks = p.keys;
    for (std::int64_t from = 0; from < p.batch * heads; from += p.pairs) {
        const std::int64_t count = std::min(p.pairs, p.batch * heads - from);
        p.collect(d, from, count);
        p.product(false, true, m, n, w.qk_dim, d.q, d.k, d.s, count);
        each_row(l.stream(), count * m, [=] __device__(std::int64_t i) {
            const std::int64_t pair = from + i / m, seq = pair / heads, head = pair % heads;
            const TokenRow q = qs[seq * m + i % m];
            const float slope = masks.alibi ? masks.slope(masks.first_head + head) : 0;
            float top = -FLT_MAX, sum = 0;
            for (std::int64_t j = threadIdx.x; j < n; j += blockDim.x) {
                const std::int64_t k = ks[seq * n + j].position;
                const float x =
                    masks.sees(q.position, k) ? masks.score(d.s.get(i * n + j)) + slope * static_cast<float>(k - q.position) : -INFINITY;
                d.s.put(i * n + j, x);
                top = fmaxf(top, x);
            }
            top = block_max(top);
            for (std::int64_t j = threadIdx.x; j < n; j += blockDim.x) sum += expf(d.s.get(i * n + j) - top);
            sum = block_sum(sum);
            for (std::int64_t j = threadIdx.x; j < n; j += blockDim.x) {
                const float probability = sum > 0 ? expf(d.s.get(i * n + j) - top) / sum : 0;
                d.ds.put(i * n + j, probability * masks.kept(seq, head, q.position, ks[seq * n + j].position));
            }
            if (threadIdx.x == 0) lse.put(q.row * heads + head, sum > 0 ? top + logf(sum) : -INFINITY);
        });
        p.product(false, false, m, vd, n, d.ds, d.v, d.o, count);
        each(l.stream(), count * m * vd, [=] __device__(std::int64_t i) {
            const std::int64_t pair = from + i / (m * vd), row = qs[pair / heads * m + i / vd % m].row;
            o.put(row * heads * vd + pair % heads * vd + i % vd, d.o.get(i));
        });
    }
}

// Gradients of keys and values, summed over the heads of a group that share them, in order.
void put_shared(const Launch& l, const Problem& p, const Dense& d, const HeadsView& out, std::int64_t from, std::int64_t count,
                std::int64_t group) {
    const std::int64_t n = p.n, heads = p.w.heads, vd = p.w.v_dim, qk = p.w.qk_dim;
    const TokenRow* ks = p.keys;
    const auto summed = [=] __device__(const View& of, std::int64_t i, std::int64_t dim) { // over the heads of a group
        float sum = 0;
        const std::int64_t base = i / (n * dim) * group;
        for (std::int64_t h = 0; h < group; ++h) sum += of.get((base + h) * n * dim + i % (n * dim));
        return sum;
    };
    each(l.stream(), count / group * n * qk, [=] __device__(std::int64_t i) {
        const std::int64_t pair = from + i / (n * qk) * group, row = ks[pair / heads * n + i / qk % n].row;
        out.k.put(out.k_at(row, pair % heads / group) + i % qk, summed(d.dk, i, qk));
    });
    each(l.stream(), count / group * n * vd, [=] __device__(std::int64_t i) {
        const std::int64_t pair = from + i / (n * vd) * group, row = ks[pair / heads * n + i / vd % n].row;
        out.v.put(out.v_at(row, pair % heads / group) + i % vd, summed(d.dv, i, vd));
    });
}

// in: dy, queries, keys and values in one to three parts, o, log-sum-exp. Gradients of keys and values are summed over the heads that
// share them, in order, by the thread that writes them: pairs of a sequence must not be cut inside a group.
void backward(const Attention& w, const Launch& l) {
    const std::size_t parts = l.in.size() - 3;
    Problem p(w, l, 1, parts);
    const Dense d = p.dense(true);
    const HeadsView out = heads_view(l, true, 0, parts, {w.heads, w.kv_heads, w.qk_dim, w.v_dim});
    const View dy = l.input(0), o = l.input(1 + parts), lse = l.input(2 + parts);
    const std::int64_t m = p.m, n = p.n, heads = w.heads, vd = w.v_dim, qk = w.qk_dim, group = heads / w.kv_heads;
    const Masking masks = p.masks;
    const TokenRow *qs = p.queries, *ks = p.keys;
    const std::int64_t step = std::max(group, p.pairs / group * group);
    if (p.pairs < group) throw std::runtime_error("scores of one group of heads do not fit the scratch memory of unfused attention");
    for (std::int64_t from = 0; from < p.batch * heads; from += step) {
        const std::int64_t count = std::min(step, p.batch * heads - from);
        p.collect(d, from, count);
        each(l.stream(), count * m * vd, [=] __device__(std::int64_t i) {
            const std::int64_t pair = from + i / (m * vd), row = qs[pair / heads * m + i / vd % m].row;
            d.dy.put(i, dy.get(row * heads * vd + pair % heads * vd + i % vd));
        });
        p.product(false, true, m, n, qk, d.q, d.k, d.s, count);
        p.product(false, true, m, n, vd, d.dy, d.v, d.o, count);
        each_row(l.stream(), count * m, [=] __device__(std::int64_t i) { // scores become the dropped probabilities, dy v^T their gradient
            const std::int64_t pair = from + i / m, seq = pair / heads, head = pair % heads;
            const TokenRow q = qs[seq * m + i % m];
            const float slope = masks.alibi ? masks.slope(masks.first_head + head) : 0, sums = lse.get(q.row * heads + head);
            float delta = 0;
            for (std::int64_t j = threadIdx.x; j < vd; j += blockDim.x) {
                const std::int64_t at_o = q.row * heads * vd + head * vd + j;
                delta += dy.get(at_o) * o.get(at_o);
            }
            delta = block_sum(delta);
            for (std::int64_t j = threadIdx.x; j < n; j += blockDim.x) {
                const std::int64_t k = ks[seq * n + j].position;
                const float probability = masks.sees(q.position, k)
                                              ? expf(masks.score(d.s.get(i * n + j)) + slope * static_cast<float>(k - q.position) - sums)
                                              : 0;
                const float kept = masks.kept(seq, head, q.position, k), gradient = masks.scale * masks.steepness(d.s.get(i * n + j)) *
                                                                                    probability * (d.o.get(i * n + j) * kept - delta);
                d.ds.put(i * n + j, gradient);
                d.s.put(i * n + j, probability * kept);
            }
        });
        p.product(false, false, m, qk, n, d.ds, d.k, d.dq, count);
        p.product(true, false, n, qk, m, d.ds, d.q, d.dk, count);
        const View s = d.s, probabilities = d.ds; // in the products' type, where the gradient of the scores was
        each(l.stream(), count * m * n, [=] __device__(std::int64_t i) { probabilities.put(i, s.get(i)); });
        p.product(true, false, n, vd, m, d.ds, d.dy, d.dv, count);
        each(l.stream(), count * m * qk, [=] __device__(std::int64_t i) {
            const std::int64_t pair = from + i / (m * qk), row = qs[pair / heads * m + i / qk % m].row;
            out.q.put(out.q_at(row, pair % heads) + i % qk, d.dq.get(i));
        });
        put_shared(l, p, d, out, from, count, group);
    }
}

} // namespace

void run(const Attention& w, const Launch& l) {
    if (fused(w, l)) return;
    w.direction == Direction::forward ? forward(w, l) : backward(w, l);
}

void run(const Softmax& w, const Launch& l) {
    const KernelFacts& f = l.context.facts;
    const std::int64_t seq = w.cols, per_head = f.micro_batch * seq;
    const Masking masks = masking(l, heads_of_rank(l.context).heads);
    const View first = l.input(0), out = l.output(0);
    if (w.direction != Direction::forward) {
        const View p = l.input(1);
        each_row(l.stream(), w.rows, [=] __device__(std::int64_t row) {
            float dot = 0;
            for (std::int64_t k = threadIdx.x; k < seq; k += blockDim.x) dot += first.get(row * seq + k) * p.get(row * seq + k);
            dot = block_sum(dot);
            for (std::int64_t k = threadIdx.x; k < seq; k += blockDim.x)
                out.put(row * seq + k, masks.scale * p.get(row * seq + k) * (first.get(row * seq + k) - dot));
        });
        return;
    }
    each_row(l.stream(), w.rows, [=] __device__(std::int64_t row) {
        const std::int64_t q = row % seq;
        const float slope = masks.alibi ? masks.slope(masks.first_head + row / per_head) : 0;
        const auto score = [&](std::int64_t k) {
            return masks.sees(q, k) ? first.get(row * seq + k) * masks.scale + slope * static_cast<float>(k - q) : -INFINITY;
        };
        float top = -FLT_MAX, sum = 0;
        for (std::int64_t k = threadIdx.x; k < seq; k += blockDim.x) top = fmaxf(top, score(k));
        top = block_max(top);
        for (std::int64_t k = threadIdx.x; k < seq; k += blockDim.x) sum += expf(score(k) - top);
        sum = block_sum(sum);
        for (std::int64_t k = threadIdx.x; k < seq; k += blockDim.x) out.put(row * seq + k, expf(score(k) - top) / sum);
    });
}

} // namespace orrery::cuda

// Attention in separate steps: scores and context as batched GEMMs, and the softmax between them, which scales and masks.
// Scores are [heads][sequence of the microbatch][query][key]; every sequence is whole on its rank.
#include "exec/kernels/clones.hpp"
#include "exec/kernels/gemm.hpp"
#include "exec/kernels/heads.hpp"
#include "exec/kernels/mask.hpp"
#include "exec/kernels/vector.hpp"

#include <limits>

namespace orrery {
namespace {

// Operands of one GEMM of a head and a sequence.
template <class T> struct Square {
    T* s;                     // of scores
    T *q, *k, *v;             // first rows
    std::int64_t seq, stride; // tokens, from row to row of q, k and v
};

template <class T, class F>
void each(Team* team, const HeadShape& shape, const Operand& packed, T* scores, std::int64_t batch, std::int64_t seq, F&& f) {
    const Heads<T> h = heads_in<T>(std::span<const Operand>(&packed, 1), shape);
    const std::int64_t per_group = shape.heads / shape.kv_heads;
    split(team, batch * shape.kv_heads, 1, [&](std::int64_t from, std::int64_t to) { // heads of a group add to each other's gradients
        for (std::int64_t i = from * per_group; i < to * per_group; ++i) {
            const std::int64_t b = i / shape.heads, head = i % shape.heads, down = b * seq * h.q_stride;
            const std::size_t g = static_cast<std::size_t>(head / per_group);
            f(Square<T>{scores + (head * batch + b) * seq * seq, h.q[head] + down, h.k[g] + down, h.v[g] + down, seq, h.q_stride}, head, b);
        }
    });
}

template <class T> ORRERY_CLONES void score_gradients(const T* dp, const T* p, T scale, T product, T* ds, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) ds[i] = scale * p[i] * (dp[i] - product);
}

template <class T> ORRERY_CLONES void divide(T* x, T by, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) x[i] /= by;
}

} // namespace

template <class T> void run(const Matmul& w, const Call& c) {
    using Part = Matmul::Part;
    const HeadShape shape = heads_of_rank(c.context);
    const std::int64_t batch = c.context.facts.micro_batch, seq = c.context.facts.sequence, d = shape.qk_dim, dv = shape.v_dim,
                       out_stride = shape.heads * dv;
    require(c.context.facts.context_ranks == 1, "attention in separate steps wants whole sequences");
    const T one = 1, zero = 0;
    const std::int64_t per_group = shape.heads / shape.kv_heads;
    // Keys and values of a group are read by several heads: the first head writes their gradient, the others add.
    const auto beta = [&](std::int64_t head) { return head % per_group == 0 ? zero : one; };
    switch (w.part) {
    case Part::scores:
        each<T>(c.team(), shape, c.in[0], c.output<T>(0), batch, seq, [&](const Square<T>& x, std::int64_t, std::int64_t) {
            gemm(false, true, seq, seq, d, one, x.q, x.stride, x.k, x.stride, zero, x.s, seq);
        });
        break;
    case Part::context:
        each<T>(c.team(), shape, c.in[1], c.input<T>(0), batch, seq, [&](const Square<T>& x, std::int64_t h, std::int64_t b) {
            gemm(false, false, seq, dv, seq, one, x.s, seq, x.v, x.stride, zero, c.output<T>(0) + b * seq * out_stride + h * dv,
                 out_stride);
        });
        break;
    case Part::d_probabilities:
        each<T>(c.team(), shape, c.in[1], c.output<T>(0), batch, seq, [&](const Square<T>& x, std::int64_t h, std::int64_t b) {
            gemm(false, true, seq, seq, dv, one, c.input<T>(0) + b * seq * out_stride + h * dv, out_stride, x.v, x.stride, zero, x.s, seq);
        });
        break;
    case Part::d_values:
        each<T>(c.team(), shape, c.out[0], c.input<T>(0), batch, seq, [&](const Square<T>& x, std::int64_t h, std::int64_t b) {
            gemm(true, false, seq, dv, seq, one, x.s, seq, c.input<T>(1) + b * seq * out_stride + h * dv, out_stride, beta(h), x.v,
                 x.stride);
        });
        break;
    case Part::d_queries: {
        const Heads<T> in = heads_in<T>(c.in.subspan(1, 1), shape);
        each<T>(c.team(), shape, c.out[0], c.input<T>(0), batch, seq, [&](const Square<T>& x, std::int64_t h, std::int64_t b) {
            gemm(false, false, seq, d, seq, one, x.s, seq, in.k[h / per_group] + b * seq * x.stride, x.stride, zero, x.q, x.stride);
        });
        break;
    }
    case Part::d_keys: {
        const Heads<T> in = heads_in<T>(c.in.subspan(1, 1), shape);
        each<T>(c.team(), shape, c.out[0], c.input<T>(0), batch, seq, [&](const Square<T>& x, std::int64_t h, std::int64_t b) {
            gemm(true, false, seq, d, seq, one, x.s, seq, in.q[h] + b * seq * x.stride, x.stride, beta(h), x.k, x.stride);
        });
        break;
    }
    }
}

// forward: s -> p = softmax(scale s + bias of the place, masked).  backward: dp, p -> ds = scale p (dp - sum(dp p)).
template <class T> void run(const Softmax& w, const Call& c) {
    const KernelFacts& f = c.context.facts;
    const Mask mask{f.causal, f.window_of(c.op.layer), f.document};
    const T scale = static_cast<T>(f.attention_scale());
    const std::int64_t seq = w.cols, per_head = f.micro_batch * seq, first_head = c.coordinate(Axis::tp) * (w.rows / per_head);
    split_rows(c.team(), w.rows, seq, [&](std::int64_t from, std::int64_t to) {
        for (std::int64_t row = from; row < to; ++row) {
            if (w.direction != Direction::forward) {
                const T *dp = c.input<T>(0) + row * seq, *p = c.input<T>(1) + row * seq;
                score_gradients(dp, p, scale, dot(dp, p, seq), c.output<T>(0) + row * seq, seq);
                continue;
            }
            const std::int64_t query = row % seq;
            const T slope = f.alibi ? static_cast<T>(alibi_slope(first_head + row / per_head, f.heads)) : T(0);
            const T* s = c.input<T>(0) + row * seq;
            T* p = c.output<T>(0) + row * seq;
            for (std::int64_t k = 0; k < seq; ++k)
                p[k] = mask.allows(query, k) ? s[k] * scale + slope * static_cast<T>(k - query) : -std::numeric_limits<T>::infinity();
            exp_of(p, largest(p, seq), p, seq);
            divide(p, sum(p, seq), seq);
        }
    });
}

template void run<float>(const Matmul&, const Call&);
template void run<double>(const Matmul&, const Call&);
template void run<float>(const Softmax&, const Call&);
template void run<double>(const Softmax&, const Call&);

} // namespace orrery

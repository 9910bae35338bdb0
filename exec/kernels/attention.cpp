// Fused attention: blocks of queries against all the keys they may see, forward with log-sum-exp, backward from it.
//
// Keys are taken in the order of their positions whatever rank they came from, so that how the sequence is spread does not change the
// order of sums. In part of a ring a query may see no key: its result is 0, its log-sum-exp -inf, which the merge allows for.
//   S = scale q k^T (+ slope (key - query)),  P = exp(S - lse),  o = drop(P) v
//   dv = drop(P)^T dy,  dP = drop(dy v^T),  dS = P (dP - sum(dy o)),  dq = scale dS k,  dk = scale dS^T q
#include "exec/kernels/dropout.hpp"
#include "exec/kernels/gemm.hpp"
#include "exec/kernels/heads.hpp"
#include "exec/kernels/mask.hpp"
#include "exec/kernels/tokens.hpp"
#include "exec/kernels/vector.hpp"

#include <algorithm>
#include <limits>

namespace orrery {
namespace {

constexpr std::int64_t query_block = 64;

using Row = TokenRow;

template <class T> void collect(const T* from, std::int64_t stride, std::span<const Row> rows, std::int64_t dim, T* to) {
    for (std::size_t i = 0; i < rows.size(); ++i) std::copy_n(from + rows[i].row * stride, dim, to + static_cast<std::int64_t>(i) * dim);
}

template <class T> void spread(const T* from, std::span<const Row> rows, std::int64_t dim, T* to, std::int64_t stride) {
    for (std::size_t i = 0; i < rows.size(); ++i) std::copy_n(from + static_cast<std::int64_t>(i) * dim, dim, to + rows[i].row * stride);
}

// Operands of one call. Heads are this rank's; head `h` is `first_head + h` of the model.
template <class T> struct Problem {
    const Attention& w;
    const KernelContext& c;
    Mask mask;
    Dropout dropout;
    Heads<T> in;
    std::vector<std::vector<Row>> queries, keys; // by sequence
    std::int64_t first_head;

    Problem(const Attention& work, const Call& call, std::span<const Operand> parts)
        : w(work), c(call.context), mask{c.facts.causal, c.facts.window_of(call.op.layer)},
          dropout(dropout_at(c, DropoutSite::attention, call.op.layer)), in(heads_in<T>(parts, {w.heads, w.kv_heads, w.qk_dim, w.v_dim})) {
        queries = rows_by_sequence(tokens_of(c, *parts.front().buffer, in.rows), c.facts.micro_batch);
        keys = rows_by_sequence(tokens_met(c, *parts.back().buffer, in.kv_rows, w.behind), c.facts.micro_batch);
        const std::int64_t of_rank = heads_of_rank(c).heads;
        first_head = c.at[static_cast<std::size_t>(Axis::tp)] * of_rank;
        if (w.heads < of_rank) first_head += c.at[static_cast<std::size_t>(Axis::cp)] * w.heads; // heads for tokens
    }

    // Keys [first, last) are all that any of these queries sees.
    std::pair<std::int64_t, std::int64_t> seen(std::span<const Row> block, std::span<const Row> all) const {
        if (!mask.causal && mask.window <= 0) return {0, static_cast<std::int64_t>(all.size())};
        const auto before = [](const Row& r, std::int64_t position) { return r.position < position; };
        const auto last = std::lower_bound(all.begin(), all.end(), block.back().position + 1, before);
        const auto first =
            mask.window > 0 ? std::lower_bound(all.begin(), last, block.front().position - mask.window + 1, before) : all.begin();
        return {first - all.begin(), last - all.begin()};
    }

    // Products of a block of queries and keys become what the softmax sees; -inf where a pair is masked.
    void prepare(T* s, std::span<const Row> block, std::span<const Row> against, std::int64_t head) const {
        const T scale = static_cast<T>(c.facts.attention_scale()), none = -std::numeric_limits<T>::infinity();
        const T slope = c.facts.alibi ? static_cast<T>(alibi_slope(first_head + head, c.facts.heads)) : T(0);
        for (const Row& q : block) {
            const auto [first, last] = seen({&q, 1}, against);
            const std::int64_t n = static_cast<std::int64_t>(against.size());
            std::fill(s, s + first, none);
            for (std::int64_t j = first; j < last; ++j) s[j] *= scale;
            for (std::int64_t j = first; j < last && slope != 0; ++j)
                s[j] += slope * static_cast<T>(against[static_cast<std::size_t>(j)].position - q.position);
            std::fill(s + last, s + n, none);
            s += n;
        }
    }

    T kept(std::int64_t sequence, std::int64_t head, std::int64_t query, std::int64_t key) const {
        return dropout.keeps(pair_index(c.facts, c.first_sequence + sequence, first_head + head, query, key))
                   ? static_cast<T>(dropout.scale())
                   : T(0);
    }
};

// Rows of scores become probabilities; returns each one's log-sum-exp.
template <class T> void softmax_rows(T* s, std::int64_t rows, std::int64_t cols, T* lse) {
    const T none = -std::numeric_limits<T>::infinity();
    for (std::int64_t i = 0; i < rows; ++i, s += cols) {
        const T max = largest(s, cols);
        if (max == none) {
            std::fill(s, s + cols, T(0));
            lse[i] = none;
            continue;
        }
        exp_of(s, max, s, cols);
        const T total = sum(s, cols), inverse = 1 / total;
        for (std::int64_t j = 0; j < cols; ++j) s[j] *= inverse;
        lse[i] = max + std::log(total);
    }
}

template <class T> void forward(const Attention& w, const Call& call) {
    const Problem<T> p(w, call, call.in);
    T *const o = call.output<T>(0), *const lse = call.output<T>(1);
    const std::int64_t per_group = w.heads / w.kv_heads, o_stride = w.heads * w.v_dim;
    std::vector<T> q(static_cast<std::size_t>(query_block * w.qk_dim)), out(static_cast<std::size_t>(query_block * w.v_dim)), k, v, s,
        sums(query_block);
    for (std::size_t sequence = 0; sequence < p.queries.size(); ++sequence) {
        const auto &queries = p.queries[sequence], &keys = p.keys[sequence];
        const std::int64_t count = static_cast<std::int64_t>(keys.size());
        k.resize(static_cast<std::size_t>(count * w.qk_dim));
        v.resize(static_cast<std::size_t>(count * w.v_dim));
        s.resize(static_cast<std::size_t>(query_block * count));
        for (std::int64_t head = 0; head < w.heads; ++head) {
            const std::size_t g = static_cast<std::size_t>(head / per_group), h = static_cast<std::size_t>(head);
            if (head % per_group == 0) {
                collect<T>(p.in.k[g], p.in.k_stride, keys, w.qk_dim, k.data());
                collect<T>(p.in.v[g], p.in.v_stride, keys, w.v_dim, v.data());
            }
            for (std::size_t begin = 0; begin < queries.size(); begin += query_block) {
                const std::span<const Row> block(queries.data() + begin, std::min<std::size_t>(query_block, queries.size() - begin));
                const std::int64_t m = static_cast<std::int64_t>(block.size());
                const auto [first, last] = p.seen(block, keys);
                const std::int64_t n = last - first;
                const std::span<const Row> against(keys.data() + first, static_cast<std::size_t>(n));
                collect<T>(p.in.q[h], p.in.q_stride, block, w.qk_dim, q.data());
                if (n > 0)
                    gemm(false, true, m, n, w.qk_dim, T(1), q.data(), w.qk_dim, k.data() + first * w.qk_dim, w.qk_dim, T(0), s.data(), n);
                p.prepare(s.data(), block, against, head);
                softmax_rows(s.data(), m, n, sums.data());
                if (p.dropout.on())
                    for (std::int64_t i = 0; i < m; ++i)
                        for (std::int64_t j = 0; j < n; ++j)
                            s[static_cast<std::size_t>(i * n + j)] *=
                                p.kept(static_cast<std::int64_t>(sequence), head, block[static_cast<std::size_t>(i)].position,
                                       against[static_cast<std::size_t>(j)].position);
                if (n > 0)
                    gemm(false, false, m, w.v_dim, n, T(1), s.data(), n, v.data() + first * w.v_dim, w.v_dim, T(0), out.data(), w.v_dim);
                else
                    std::fill(out.begin(), out.end(), T(0));
                spread<T>(out.data(), block, w.v_dim, o + head * w.v_dim, o_stride);
                for (std::int64_t i = 0; i < m; ++i)
                    lse[block[static_cast<std::size_t>(i)].row * w.heads + head] = sums[static_cast<std::size_t>(i)];
            }
        }
    }
}

// One block of queries of the backward pass: adds to the gradients of the keys and values it saw, and gives that of its queries.
template <class T> struct BackwardBlock {
    const Problem<T>& p;
    std::int64_t sequence, head;
    std::span<const Row> block, against;
    const T *q, *k, *v, *dy, *o; // dense: of the block, of the keys seen
    const T* lse;                // of the block
    T *dq, *dk, *dv;
    std::vector<T>&s, &ds;

    void run() {
        const Attention& w = p.w;
        const std::int64_t m = static_cast<std::int64_t>(block.size()), n = static_cast<std::int64_t>(against.size());
        s.resize(static_cast<std::size_t>(m * n));
        ds.resize(static_cast<std::size_t>(m * n));
        gemm(false, true, m, n, w.qk_dim, T(1), q, w.qk_dim, k, w.qk_dim, T(0), s.data(), n);
        gemm(false, true, m, n, w.v_dim, T(1), dy, w.v_dim, v, w.v_dim, T(0), ds.data(), n);
        p.prepare(s.data(), block, against, head);
        const T scale = static_cast<T>(p.c.facts.attention_scale());
        for (std::int64_t i = 0; i < m; ++i) {
            const T delta = dot(dy + i * w.v_dim, o + i * w.v_dim, w.v_dim);
            T *const pi = s.data() + i * n, *const di = ds.data() + i * n;
            if (lse[i] == -std::numeric_limits<T>::infinity())
                std::fill(pi, pi + n, T(0));
            else
                exp_of(pi, lse[i], pi, n);
            if (!p.dropout.on()) {
                for (std::int64_t j = 0; j < n; ++j) di[j] = scale * pi[j] * (di[j] - delta);
                continue;
            }
            for (std::int64_t j = 0; j < n; ++j) {
                const T keep =
                    p.kept(sequence, head, block[static_cast<std::size_t>(i)].position, against[static_cast<std::size_t>(j)].position);
                di[j] = scale * pi[j] * (di[j] * keep - delta);
                pi[j] *= keep;
            }
        }
        gemm(true, false, n, w.v_dim, m, T(1), s.data(), n, dy, w.v_dim, T(1), dv, w.v_dim);
        gemm(false, false, m, w.qk_dim, n, T(1), ds.data(), n, k, w.qk_dim, T(0), dq, w.qk_dim);
        gemm(true, false, n, w.qk_dim, m, T(1), ds.data(), n, q, w.qk_dim, T(1), dk, w.qk_dim);
    }
};

// in: dy, queries, keys and values in one to three parts, o, log-sum-exp.
template <class T> void backward(const Attention& w, const Call& call) {
    const std::size_t parts = call.in.size() - 3;
    const Problem<T> p(w, call, call.in.subspan(1, parts));
    const Heads<T> out = heads_in<T>(call.out.first(parts), {w.heads, w.kv_heads, w.qk_dim, w.v_dim});
    const T *const dy = call.input<T>(0), *const o = call.input<T>(1 + parts), *const lse = call.input<T>(2 + parts);
    const std::int64_t per_group = w.heads / w.kv_heads, o_stride = w.heads * w.v_dim;
    std::vector<T> q(static_cast<std::size_t>(query_block * w.qk_dim)), dq(q), dyb(static_cast<std::size_t>(query_block * w.v_dim)),
        ob(dyb), sums(query_block), k, v, dk, dv, s, ds;
    for (std::size_t sequence = 0; sequence < p.queries.size(); ++sequence) {
        const auto &queries = p.queries[sequence], &keys = p.keys[sequence];
        const std::size_t count = keys.size();
        k.resize(count * static_cast<std::size_t>(w.qk_dim));
        v.resize(count * static_cast<std::size_t>(w.v_dim));
        for (std::int64_t head = 0; head < w.heads; ++head) {
            const std::size_t g = static_cast<std::size_t>(head / per_group), h = static_cast<std::size_t>(head);
            if (head % per_group == 0) {
                collect<T>(p.in.k[g], p.in.k_stride, keys, w.qk_dim, k.data());
                collect<T>(p.in.v[g], p.in.v_stride, keys, w.v_dim, v.data());
                dk.assign(k.size(), T(0));
                dv.assign(v.size(), T(0));
            }
            for (std::size_t begin = 0; begin < queries.size(); begin += query_block) {
                const std::span<const Row> block(queries.data() + begin, std::min<std::size_t>(query_block, queries.size() - begin));
                const auto [first, last] = p.seen(block, keys);
                collect<T>(p.in.q[h], p.in.q_stride, block, w.qk_dim, q.data());
                collect<T>(dy + head * w.v_dim, o_stride, block, w.v_dim, dyb.data());
                collect<T>(o + head * w.v_dim, o_stride, block, w.v_dim, ob.data());
                for (std::size_t i = 0; i < block.size(); ++i) sums[i] = lse[block[i].row * w.heads + head];
                std::fill(dq.begin(), dq.end(), T(0));
                if (last > first)
                    BackwardBlock<T>{p,
                                     static_cast<std::int64_t>(sequence),
                                     head,
                                     block,
                                     std::span<const Row>(keys.data() + first, static_cast<std::size_t>(last - first)),
                                     q.data(),
                                     k.data() + first * w.qk_dim,
                                     v.data() + first * w.v_dim,
                                     dyb.data(),
                                     ob.data(),
                                     sums.data(),
                                     dq.data(),
                                     dk.data() + first * w.qk_dim,
                                     dv.data() + first * w.v_dim,
                                     s,
                                     ds}
                        .run();
                spread<T>(dq.data(), block, w.qk_dim, out.q[h], out.q_stride);
            }
            if (head % per_group != per_group - 1) continue;
            spread<T>(dk.data(), keys, w.qk_dim, out.k[g], out.k_stride);
            spread<T>(dv.data(), keys, w.v_dim, out.v[g], out.v_stride);
        }
    }
}

} // namespace

template <class T> void run(const Attention& w, const Call& c) { w.direction == Direction::forward ? forward<T>(w, c) : backward<T>(w, c); }

template void run<float>(const Attention&, const Call&);
template void run<double>(const Attention&, const Call&);

} // namespace orrery

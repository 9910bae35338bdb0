// Fused attention: blocks of queries against all the keys they may see, forward with log-sum-exp, backward from it.
//
// Keys are taken in the order of their positions whatever rank they came from, so that how the sequence is spread does not change the
// order of sums. In part of a ring a query may see no key: its result is 0, its log-sum-exp -inf, which the merge allows for.
//   S = scale q k^T (capped: c tanh(S / c); + slope (key - query)),  P = exp(S - lse),  o = drop(P) v
//   dv = drop(P)^T dy,  dP = drop(dy v^T),  dS = P (dP - sum(dy o)) (1 - (S / c)^2 where capped),  dq = scale dS k,  dk = scale dS^T q
#include "exec/kernels/clones.hpp"
#include "exec/kernels/dropout.hpp"
#include "exec/kernels/gemm.hpp"
#include "exec/kernels/heads.hpp"
#include "exec/kernels/mask.hpp"
#include "exec/kernels/tokens.hpp"
#include "exec/kernels/vector.hpp"

#include <algorithm>
#include <cmath>
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

template <class T> ORRERY_CLONES void multiply(T* x, T factor, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) x[i] *= factor;
}

// The gradient of a row of scores from that of its probabilities.
template <class T> ORRERY_CLONES void score_gradients(T* d, const T* p, T scale, T delta, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) d[i] = scale * p[i] * (d[i] - delta);
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
        : w(work), c(call.context), mask{c.facts.causal, c.facts.window_of(call.op.layer), c.facts.document},
          dropout(dropout_at(c, DropoutSite::attention, call.op.layer)), in(heads_in<T>(parts, {w.heads, w.kv_heads, w.qk_dim, w.v_dim})) {
        queries = rows_by_sequence(tokens_of(c, *parts.front().buffer, in.rows), c.facts.micro_batch);
        const bool packed = parts.size() == 1 && w.behind == 0; // rows of queries and keys are the same
        keys = packed ? queries : rows_by_sequence(tokens_met(c, *parts.back().buffer, in.kv_rows, w.behind), c.facts.micro_batch);
        const std::int64_t of_rank = heads_of_rank(c).heads;
        first_head = c.at[Axis::tp] * of_rank;
        if (w.heads < of_rank) first_head += c.at[Axis::cp] * w.heads; // heads for tokens
    }

    // Keys [first, last) are all that any of these queries sees.
    std::pair<std::int64_t, std::int64_t> seen(std::span<const Row> block, std::span<const Row> all) const {
        const auto before = [](const Row& r, std::int64_t position) { return r.position < position; };
        const auto last = std::lower_bound(all.begin(), all.end(), mask.last(block.back().position), before);
        const auto first = std::lower_bound(all.begin(), last, mask.first(block.front().position), before);
        return {first - all.begin(), last - all.begin()};
    }

    // Products of a block of queries and keys become what the softmax sees; -inf where a pair is masked.
    void prepare(T* s, std::span<const Row> block, std::span<const Row> against, std::int64_t head) const {
        const T scale = static_cast<T>(c.facts.attention_scale()), none = -std::numeric_limits<T>::infinity();
        const T cap = static_cast<T>(c.facts.score_cap);
        const T slope = c.facts.alibi ? static_cast<T>(alibi_slope(first_head + head, c.facts.heads)) : T(0);
        for (const Row& q : block) {
            const auto [first, last] = seen({&q, 1}, against);
            const std::int64_t n = static_cast<std::int64_t>(against.size());
            std::fill(s, s + first, none);
            multiply(s + first, scale, last - first);
            for (std::int64_t j = first; j < last && cap > 0; ++j) s[j] = cap * std::tanh(s[j] / cap);
            for (std::int64_t j = first; j < last && slope != 0; ++j) s[j] += slope * static_cast<T>(against[j].position - q.position);
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
        const T total = sum(s, cols);
        multiply(s, 1 / total, cols);
        lse[i] = max + std::log(total);
    }
}

// Blocks that a thread copies and computes for itself. It keeps them from call to call: the allocator would give them back to the system
// after each, which then makes every page anew, and stops the other threads to take it away.
template <class T> struct Blocks {
    std::vector<T> q, k, v, s, sums, o, dq, dk, dv, dy, ds, slopes;

    static Blocks& of_thread(const Attention& w) {
        static thread_local Blocks blocks;
        for (std::vector<T>* x : {&blocks.q, &blocks.dq}) x->resize(static_cast<std::size_t>(query_block * w.qk_dim));
        for (std::vector<T>* x : {&blocks.o, &blocks.dy}) x->resize(static_cast<std::size_t>(query_block * w.v_dim));
        blocks.sums.resize(query_block);
        return blocks;
    }
};

// One sequence and one key head with its queries: what a thread does at a time.
template <class T> struct Forward {
    const Problem<T>& p;
    T *o, *lse;
    Blocks<T>& own;

    Forward(const Problem<T>& problem, const Call& call)
        : p(problem), o(call.output<T>(0)), lse(call.output<T>(1)), own(Blocks<T>::of_thread(p.w)) {}

    void run(std::size_t sequence, std::int64_t group) {
        const Attention& w = p.w;
        const auto &queries = p.queries[sequence], &keys = p.keys[sequence];
        const std::size_t count = keys.size(), g = static_cast<std::size_t>(group);
        const std::int64_t per_group = w.heads / w.kv_heads;
        own.k.resize(count * static_cast<std::size_t>(w.qk_dim));
        own.v.resize(count * static_cast<std::size_t>(w.v_dim));
        own.s.resize(query_block * count);
        collect<T>(p.in.k[g], p.in.k_stride, keys, w.qk_dim, own.k.data());
        collect<T>(p.in.v[g], p.in.v_stride, keys, w.v_dim, own.v.data());
        for (std::int64_t head = group * per_group; head < (group + 1) * per_group; ++head)
            for (std::size_t begin = 0; begin < queries.size(); begin += query_block)
                run_block(sequence, head,
                          std::span<const Row>(queries.data() + begin, std::min<std::size_t>(query_block, queries.size() - begin)));
    }

    void run_block(std::size_t sequence, std::int64_t head, std::span<const Row> block) {
        const Attention& w = p.w;
        const auto& keys = p.keys[sequence];
        const std::int64_t m = static_cast<std::int64_t>(block.size());
        const auto [first, last] = p.seen(block, keys);
        const std::int64_t n = last - first;
        const std::span<const Row> against(keys.data() + first, static_cast<std::size_t>(n));
        collect<T>(p.in.q[head], p.in.q_stride, block, w.qk_dim, own.q.data());
        if (n > 0)
            gemm(false, true, m, n, w.qk_dim, T(1), own.q.data(), w.qk_dim, own.k.data() + first * w.qk_dim, w.qk_dim, T(0), own.s.data(),
                 n);
        p.prepare(own.s.data(), block, against, head);
        softmax_rows(own.s.data(), m, n, own.sums.data());
        if (p.dropout.on())
            for (std::int64_t i = 0; i < m; ++i)
                for (std::int64_t j = 0; j < n; ++j)
                    own.s[i * n + j] *= p.kept(static_cast<std::int64_t>(sequence), head, block[i].position, against[j].position);
        if (n > 0)
            gemm(false, false, m, w.v_dim, n, T(1), own.s.data(), n, own.v.data() + first * w.v_dim, w.v_dim, T(0), own.o.data(), w.v_dim);
        else
            std::fill(own.o.begin(), own.o.end(), T(0));
        spread<T>(own.o.data(), block, w.v_dim, o + head * w.v_dim, w.heads * w.v_dim);
        for (std::int64_t i = 0; i < m; ++i) lse[block[i].row * w.heads + head] = own.sums[i];
    }
};

// Calls make().run(sequence, group) for all, by the threads of the team.
template <class F> void each_group(const Call& call, std::size_t sequences, std::int64_t groups, F&& make) {
    split(call.team(), static_cast<std::int64_t>(sequences) * groups, 1, [&](std::int64_t from, std::int64_t to) {
        auto work = make();
        for (std::int64_t i = from; i < to; ++i) work.run(static_cast<std::size_t>(i / groups), i % groups);
    });
}

template <class T> void forward(const Attention& w, const Call& call) {
    const Problem<T> p(w, call, call.in);
    each_group(call, p.queries.size(), w.kv_heads, [&] { return Forward<T>(p, call); });
}

// One block of queries of the backward pass: adds to the gradients of the keys and values it saw, and gives that of its queries.
template <class T> struct BackwardBlock {
    const Problem<T>& p;
    std::int64_t sequence, head;
    std::span<const Row> block, against;
    const T *q, *k, *v, *dy, *o; // dense: of the block, of the keys seen
    const T* lse;                // of the block
    T *dq, *dk, *dv;
    T *s, *ds;
    std::vector<T>& slopes; // of the cap, where there is one

    // (No model has capped scores and biases by distance: what is capped is what the softmax sees.)
    void find_slopes() {
        const T cap = static_cast<T>(p.c.facts.score_cap);
        slopes.clear();
        for (std::size_t i = 0; cap > 0 && i < block.size() * against.size(); ++i)
            slopes.push_back(std::isinf(s[i]) ? T(0) : 1 - (s[i] / cap) * (s[i] / cap));
    }

    void run() {
        const Attention& w = p.w;
        const std::int64_t m = static_cast<std::int64_t>(block.size()), n = static_cast<std::int64_t>(against.size());
        gemm(false, true, m, n, w.qk_dim, T(1), q, w.qk_dim, k, w.qk_dim, T(0), s, n);
        gemm(false, true, m, n, w.v_dim, T(1), dy, w.v_dim, v, w.v_dim, T(0), ds, n);
        p.prepare(s, block, against, head);
        find_slopes();
        const T scale = static_cast<T>(p.c.facts.attention_scale());
        for (std::int64_t i = 0; i < m; ++i) {
            const T delta = dot(dy + i * w.v_dim, o + i * w.v_dim, w.v_dim);
            T *const pi = s + i * n, *const di = ds + i * n;
            if (lse[i] == -std::numeric_limits<T>::infinity())
                std::fill(pi, pi + n, T(0));
            else
                exp_of(pi, lse[i], pi, n);
            if (!p.dropout.on()) {
                score_gradients(di, pi, scale, delta, n);
                continue;
            }
            for (std::int64_t j = 0; j < n; ++j) {
                const T keep = p.kept(sequence, head, block[i].position, against[j].position);
                di[j] = scale * pi[j] * (di[j] * keep - delta);
                pi[j] *= keep;
            }
        }
        for (std::size_t i = 0; i < slopes.size(); ++i) ds[i] *= slopes[i];
        gemm(true, false, n, w.v_dim, m, T(1), s, n, dy, w.v_dim, T(1), dv, w.v_dim);
        gemm(false, false, m, w.qk_dim, n, T(1), ds, n, k, w.qk_dim, T(0), dq, w.qk_dim);
        gemm(true, false, n, w.qk_dim, m, T(1), ds, n, q, w.qk_dim, T(1), dk, w.qk_dim);
    }
};

// The same of one sequence and key head. in: dy, queries, keys and values in one to three parts, o, log-sum-exp.
template <class T> struct Backward {
    const Problem<T>& p;
    const Heads<T>& to;
    const T *dy, *o, *lse;
    Blocks<T>& own;

    Backward(const Problem<T>& problem, const Heads<T>& gradients, const Call& call, std::size_t parts)
        : p(problem), to(gradients), dy(call.input<T>(0)), o(call.input<T>(1 + parts)), lse(call.input<T>(2 + parts)),
          own(Blocks<T>::of_thread(p.w)) {}

    void run(std::size_t sequence, std::int64_t group) {
        const Attention& w = p.w;
        const auto &queries = p.queries[sequence], &keys = p.keys[sequence];
        const std::size_t count = keys.size(), g = static_cast<std::size_t>(group);
        const std::int64_t per_group = w.heads / w.kv_heads;
        own.k.resize(count * static_cast<std::size_t>(w.qk_dim));
        own.v.resize(count * static_cast<std::size_t>(w.v_dim));
        collect<T>(p.in.k[g], p.in.k_stride, keys, w.qk_dim, own.k.data());
        collect<T>(p.in.v[g], p.in.v_stride, keys, w.v_dim, own.v.data());
        own.s.resize(query_block * count);
        own.ds.resize(query_block * count);
        own.dk.assign(own.k.size(), T(0));
        own.dv.assign(own.v.size(), T(0));
        for (std::int64_t head = group * per_group; head < (group + 1) * per_group; ++head)
            for (std::size_t begin = 0; begin < queries.size(); begin += query_block)
                run_block(sequence, head,
                          std::span<const Row>(queries.data() + begin, std::min<std::size_t>(query_block, queries.size() - begin)));
        spread<T>(own.dk.data(), keys, w.qk_dim, to.k[g], to.k_stride);
        spread<T>(own.dv.data(), keys, w.v_dim, to.v[g], to.v_stride);
    }

    void run_block(std::size_t sequence, std::int64_t head, std::span<const Row> block) {
        const Attention& w = p.w;
        const auto& keys = p.keys[sequence];
        const std::size_t h = static_cast<std::size_t>(head);
        const std::int64_t o_stride = w.heads * w.v_dim;
        const auto [first, last] = p.seen(block, keys);
        const std::span<const Row> against(keys.data() + first, static_cast<std::size_t>(last - first));
        collect<T>(p.in.q[h], p.in.q_stride, block, w.qk_dim, own.q.data());
        collect<T>(dy + head * w.v_dim, o_stride, block, w.v_dim, own.dy.data());
        collect<T>(o + head * w.v_dim, o_stride, block, w.v_dim, own.o.data());
        for (std::size_t i = 0; i < block.size(); ++i) own.sums[i] = lse[block[i].row * w.heads + head];
        std::fill(own.dq.begin(), own.dq.end(), T(0));
        if (last > first)
            BackwardBlock<T>{p,
                             static_cast<std::int64_t>(sequence),
                             head,
                             block,
                             against,
                             own.q.data(),
                             own.k.data() + first * w.qk_dim,
                             own.v.data() + first * w.v_dim,
                             own.dy.data(),
                             own.o.data(),
                             own.sums.data(),
                             own.dq.data(),
                             own.dk.data() + first * w.qk_dim,
                             own.dv.data() + first * w.v_dim,
                             own.s.data(),
                             own.ds.data(),
                             own.slopes}
                .run();
        spread<T>(own.dq.data(), block, w.qk_dim, to.q[h], to.q_stride);
    }
};

template <class T> void backward(const Attention& w, const Call& call) {
    const std::size_t parts = call.in.size() - 3;
    const Problem<T> p(w, call, call.in.subspan(1, parts));
    const Heads<T> to = heads_in<T>(call.out.first(parts), {w.heads, w.kv_heads, w.qk_dim, w.v_dim});
    each_group(call, p.queries.size(), w.kv_heads, [&] { return Backward<T>(p, to, call, parts); });
}

} // namespace

template <class T> void run(const Attention& w, const Call& c) { w.direction == Direction::forward ? forward<T>(w, c) : backward<T>(w, c); }

template void run<float>(const Attention&, const Call&);
template void run<double>(const Attention&, const Call&);

} // namespace orrery

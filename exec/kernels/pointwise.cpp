#include "exec/kernels/pointwise.hpp"

#include "exec/kernels/clones.hpp"
#include "exec/kernels/dropout.hpp"
#include "exec/kernels/loss_scale.hpp"
#include "exec/kernels/optimizer.hpp"
#include "exec/kernels/rows.hpp"
#include "exec/kernels/shards.hpp"
#include "exec/kernels/tokens.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace orrery {
namespace {

// y = scale keep(x); the mask is kept. The mask of attention's probabilities is by pair, that of rows by token and column.
template <class T> void drop(const Pointwise& w, const Call& c, const T* x, T* y, unsigned char* mask) {
    const KernelFacts& f = c.context.facts;
    const Buffer& value = c.written(0);
    const std::int64_t n = elements(value), pairs = f.micro_batch * f.sequence * f.sequence;
    const T scale = static_cast<T>(1 / (1 - f.dropout));
    const Dropout dropout = dropout_at(c.context, w.site, c.op.layer);
    const auto put = [&](std::int64_t i, std::int64_t index) {
        mask[i] = dropout.keeps(index) ? 1 : 0;
        y[i] = mask[i] ? x[i] * scale : T(0);
    };
    if (w.site == DropoutSite::attention) {
        const std::int64_t first_head = c.coordinate(Axis::tp) * (n / pairs);
        for (std::int64_t i = 0; i < n; ++i) {
            const std::int64_t key = i % f.sequence, query = i / f.sequence % f.sequence,
                               sequence = i / (f.sequence * f.sequence) % f.micro_batch;
            put(i, pair_index(f, c.context.first_sequence + sequence, first_head + i / pairs, query, key));
        }
        return;
    }
    const std::int64_t cols = columns(value);
    const std::vector<Token> tokens = tokens_of(c.context, value, n / cols);
    for (std::int64_t i = 0; i < n; ++i) {
        const Token& t = tokens[i / cols];
        put(i, ((c.context.first_sequence + t.sequence) * f.sequence + t.position) * cols + i % cols);
    }
}

// y = x + a (+ b).
template <class T> ORRERY_CLONES void add_row(const T* x, const T* a, T* y, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) y[i] = x[i] + a[i];
}
template <class T> ORRERY_CLONES void add_row(const T* x, const T* a, const T* b, T* y, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) y[i] = x[i] + (a[i] + b[i]);
}
template <class T> ORRERY_CLONES void add_scaled_row(const T* x, const T* a, T scale, T* y, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) y[i] = x[i] + scale * a[i];
}
template <class T> ORRERY_CLONES void scale_row(const T* x, T scale, T* y, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) y[i] = x[i] * scale;
}

template <class T> void drop_gradient(const Call& c) {
    const T scale = static_cast<T>(1 / (1 - c.context.facts.dropout));
    const T* dy = c.input<T>(0);
    const unsigned char* mask = c.input<unsigned char>(1);
    const std::int64_t n = elements(c.written(0));
    T* const dx = c.output<T>(0);
    for (std::int64_t i = 0; i < n; ++i) dx[i] = mask[i] ? dy[i] * scale : T(0);
}

// branch, x[, bias] -> y[, mask]: y = x + drop(branch + bias).
template <class T> void bias_dropout_add(const Pointwise& w, const Call& c) {
    if (w.direction != Direction::forward) return drop_gradient<T>(c);
    const std::int64_t n = elements(c.written(0)), cols = columns(c.written(0));
    const T *branch = c.input<T>(0), *x = c.input<T>(1), *bias = c.in.size() > 2 ? c.input<T>(2) : nullptr;
    T* const y = c.output<T>(0);
    std::vector<T> dropped;
    if (c.out.size() > 1) {
        dropped.assign(branch, branch + n);
        if (bias)
            for (std::int64_t i = 0; i < n; ++i) dropped[i] += bias[i % cols];
        drop(w, c, dropped.data(), dropped.data(), c.output<unsigned char>(1));
        for (std::int64_t i = 0; i < n; ++i) y[i] = x[i] + dropped[i];
        return;
    }
    split_rows(c.team(), n / cols, cols, [&](std::int64_t from, std::int64_t to) {
        for (std::int64_t r = from * cols; r < to * cols; r += cols)
            bias ? add_row(x + r, branch + r, bias, y + r, cols) : add_row(x + r, branch + r, y + r, cols);
    });
}

// Rows of the position table for the tokens of each row.
template <class T, class F> void each_position(const Call& c, const Buffer& rows_of, std::int64_t cols, F&& f) {
    const std::vector<Token> tokens = tokens_of(c.context, rows_of, elements(rows_of) / cols);
    for (std::size_t r = 0; r < tokens.size(); ++r) f(static_cast<std::int64_t>(r) * cols, tokens[r].position * cols);
}

// dscores, scores, counts -> dscores: plus the gradient of the load-balancing loss (Switch, arXiv:2101.03961, 2.2), alpha E sum f_e P_e
// with f_e the share of the rows and P_e the mean score of expert e among the tokens of this microbatch, which `sequence_parts` ranks hold.
template <class T> void balance(const Call& c) {
    const KernelFacts& f = c.context.facts;
    const std::int64_t experts = columns(c.read(0)), tokens = elements(c.read(0)) / experts;
    const std::int64_t* counts = c.input<std::int64_t>(2);
    const double rows = static_cast<double>(tokens * f.sequence_parts * f.moe.top_k),
                 scale = loss_factor(c.context) * f.auxiliary_weight * static_cast<double>(experts) / static_cast<double>(f.loss_tokens);
    for (std::int64_t i = 0; i < tokens * experts; ++i)
        c.output<T>(0)[i] = c.input<T>(0)[i] + static_cast<T>(scale * static_cast<double>(counts[i % experts]) / rows);
}

template <class T> void add(const Call& c) {
    const T *a = c.input<T>(0), *b = c.input<T>(1);
    T* const y = c.output<T>(0);
    split(c.team(), elements(c.written(0)), split_grain,
          [&](std::int64_t from, std::int64_t to) { add_row(a + from, b + from, y + from, to - from); });
}

// y, b -> y + s b;  dy -> s dy.
template <class T> void add_scaled(const Pointwise& w, const Call& c) {
    const T scale = static_cast<T>(c.context.facts.adapter_scale);
    const bool forward = w.direction == Direction::forward;
    const T *a = c.input<T>(0), *b = forward ? c.input<T>(1) : a;
    T* const y = c.output<T>(0);
    split(c.team(), elements(c.written(0)), split_grain, [&](std::int64_t from, std::int64_t to) {
        forward ? add_scaled_row(a + from, b + from, scale, y + from, to - from) : scale_row(a + from, scale, y + from, to - from);
    });
}

// x, table -> x + table[position];  dy, g -> g[position] += dy.
template <class T> void positions(const Pointwise& w, const Call& c) {
    const bool forward = w.direction == Direction::forward;
    const std::int64_t cols = columns(c.read(1));
    const T *x = c.input<T>(0), *table = c.input<T>(1);
    T* const out = c.output<T>(0);
    each_position<T>(c, c.read(0), cols, [&](std::int64_t row, std::int64_t position) {
        forward ? add_row(x + row, table + position, out + row, cols) : add_row(out + position, x + row, out + position, cols);
    });
}

// dy, g[, counts] -> g: sums of columns, of experts' rows expert by expert.
template <class T> void bias_gradient(const Call& c) {
    const std::int64_t cols = columns(c.read(0));
    const T* dy = c.input<T>(0);
    T* const g = c.output<T>(0);
    if (c.written(0).expert) {
        const RowGroups groups = row_groups(c, elements(c.read(0)) / cols, c.written(0).shape[0]);
        for (std::size_t e = 0; e < groups.begin.size(); ++e)
            for (std::int64_t r = groups.begin[e]; r < groups.begin[e] + groups.count[e]; ++r)
                for (std::int64_t j = 0; j < cols; ++j) g[static_cast<std::int64_t>(e) * cols + j] += dy[r * cols + j];
        return;
    }
    const std::int64_t rows = elements(c.read(0)) / cols;
    split(c.team(), cols, std::max<std::int64_t>(64, split_grain / rows), [&](std::int64_t from, std::int64_t to) {
        for (std::int64_t r = 0; r < rows; ++r) add_row(g + from, dy + r * cols + from, g + from, to - from);
    });
}

// Rows of experts times their probabilities: x, p -> y; dy, x, p -> dx, dp.
template <class T> void weigh(const Pointwise& w, const Call& c) {
    const std::int64_t cols = columns(c.written(0)), rows = elements(c.written(0)) / cols;
    const bool forward = w.direction == Direction::forward;
    const T *x = c.input<T>(forward ? 0 : 1), *p = c.input<T>(forward ? 1 : 2), *dy = c.input<T>(0);
    for (std::int64_t r = 0; r < rows; ++r) {
        T dot = 0;
        for (std::int64_t i = r * cols; i < (r + 1) * cols; ++i) {
            dot += dy[i] * x[i];
            c.output<T>(0)[i] = (forward ? x[i] : dy[i]) * p[r];
        }
        if (!forward) c.output<T>(1)[r] = dot;
    }
}

// A bias added to weighted rows: x, p, b -> x + p b[e];  dy, b -> dp;  dy, p, g -> g += sum of p dy.
template <class T> void weighted_bias(const Pointwise& w, const Call& c) {
    const std::int64_t cols = columns(c.read(0)), rows = elements(c.read(0)) / cols;
    const std::size_t table = w.direction == Direction::backward ? 1 : 2;
    const RowGroups groups = row_groups(c, rows, c.read(table).shape[0]);
    for (std::size_t e = 0; e < groups.begin.size(); ++e)
        for (std::int64_t r = groups.begin[e]; r < groups.begin[e] + groups.count[e]; ++r) {
            const T *x = c.input<T>(0) + r * cols, *b = c.input<T>(table) + static_cast<std::int64_t>(e) * cols;
            if (w.direction == Direction::backward) {
                T dot = 0;
                for (std::int64_t j = 0; j < cols; ++j) dot += x[j] * b[j];
                c.output<T>(0)[r] = dot;
                continue;
            }
            const T p = c.input<T>(1)[r];
            T* const out =
                w.direction == Direction::forward ? c.output<T>(0) + r * cols : c.output<T>(0) + static_cast<std::int64_t>(e) * cols;
            for (std::int64_t j = 0; j < cols; ++j) out[j] = w.direction == Direction::forward ? x[j] + p * b[j] : out[j] + p * x[j];
        }
}

// norm^2, g.. -> factor, g..: gradients scaled so that their norm is at most what the scenario allows (as torch's clip_grad_norm_). Of a
// scaled loss they stay scaled; a factor of 0 says that they have overflowed.
template <class T> void clip(const Call& c) {
    const double squares = static_cast<double>(*c.input<T>(0)), by = loss_factor(c.context);
    const bool overflowed = c.context.scaling && !std::isfinite(squares);
    if (c.context.scaling) c.context.scaling->checked = true, c.context.scaling->overflowed = overflowed;
    const T factor = overflowed ? T(0) : static_cast<T>(clipping_factor(squares / (by * by), c.context.facts.optimizer.clip));
    *c.output<T>(0) = factor;
    for (std::size_t i = 1; i < c.out.size(); ++i) {
        const std::int64_t n = elements(c.written(i));
        const T* const g = c.input<T>(i);
        T* const out = c.output<T>(i);
        split(c.team(), n, split_grain, [&](std::int64_t from, std::int64_t to) { scale_row(g + from, factor, out + from, to - from); });
    }
}

// Elements of a list of buffers into those of another, one after the other; what is left over (padding) is 0.
template <class T> void copy(const Call& c) {
    std::size_t from = 0;
    std::int64_t at = 0;
    for (std::size_t to = 0; to < c.out.size(); ++to) {
        const std::int64_t n = elements(c.written(to));
        std::int64_t done = 0;
        while (done < n && from < c.in.size()) {
            const std::int64_t count = std::min(n - done, elements(c.read(from)) - at);
            const T* const source = c.input<T>(from) + at;
            T* const target = c.output<T>(to) + done;
            split(c.team(), count, split_grain, [&](std::int64_t b, std::int64_t e) { std::copy(source + b, source + e, target + b); });
            done += count;
            at += count;
            if (at == elements(c.read(from))) {
                ++from;
                at = 0;
            }
        }
        std::fill_n(c.output<T>(to) + done, n - done, T(0));
    }
}

// Slices of a bucket node by node, [nodes][ranks][slice], as [ranks][nodes][slice]; what its tensors do not fill is 0.
template <class T> void by_owner(const Call& c) {
    const std::vector<std::int64_t>& shape = c.written(0).shape;
    const std::int64_t ranks = shape[0], nodes = shape[1], slice = shape[2];
    T* const out = c.output<T>(0);
    std::fill_n(out, ranks * nodes * slice, T(0));
    std::int64_t at = 0; // in the bucket
    for (std::size_t k = 0; k < c.in.size(); ++k)
        for (std::int64_t i = 0, n = elements(c.read(k)); i < n;) {
            const std::int64_t owner = at / slice, within = at % slice, run = std::min(slice - within, n - i);
            std::copy_n(c.input<T>(k) + i, run, out + ((owner % ranks) * nodes + owner / ranks) * slice + within);
            i += run;
            at += run;
        }
}

template <class T> void sum_parts(const Call& c) {
    const std::int64_t n = elements(c.written(0)), parts = elements(c.read(0)) / n;
    const T* const in = c.input<T>(0);
    for (std::int64_t i = 0; i < n; ++i) {
        T sum = in[i];
        for (std::int64_t p = 1; p < parts; ++p) sum += in[p * n + i];
        c.output<T>(0)[i] = sum;
    }
}

// This rank's part of what the operands hold side by side; behind their end 0. It may be in place.
template <class T> void own_part(const Call& c) {
    const std::int64_t n = elements(c.written(0)), begin = own_index(c.context.plan, c.written(0), c.context.at) * n;
    std::int64_t at = 0;
    for (std::size_t k = 0; k < c.in.size(); ++k) {
        const std::int64_t from = std::max(at, begin), to = std::min(at + elements(c.read(k)), begin + n);
        if (from < to) std::copy_n(c.input<T>(k) + (from - at), to - from, c.output<T>(0) + (from - begin));
        at += elements(c.read(k));
    }
    for (std::int64_t i = std::max<std::int64_t>(0, at - begin); i < n; ++i) c.output<T>(0)[i] = T(0);
}

// A worker's numbers, times its share of all samples.
template <class T> void own_share(const Call& c) {
    const Plan& plan = c.context.plan;
    const auto worker = static_cast<std::size_t>(c.coordinate(Axis::dpw));
    require(worker < plan.shares.size(), "a worker has no share");
    const T share = static_cast<T>(plan.shares[worker]);
    for (std::size_t k = 0; k < c.out.size(); ++k)
        for (std::int64_t i = 0, n = elements(c.written(k)); i < n; ++i) c.output<T>(k)[i] = share * c.input<T>(k)[i];
}

// The distance a worker moved from the common start: the start less its parameters, which lie side by side.
template <class T> void difference(const Call& c) {
    std::int64_t at = 0;
    for (std::size_t k = 1; k < c.in.size(); ++k)
        for (std::int64_t i = 0, n = elements(c.read(k)); i < n; ++i, ++at) c.output<T>(0)[at] = c.input<T>(0)[at] - c.input<T>(k)[i];
}

// SGD with Nesterov's momentum where it has one, as torch.optim.SGD has it: m = mu m + g; x -= lr (g + mu m). Parameters start from x.
template <class T> void outer_step(const Call& c) {
    const T rate = static_cast<T>(c.context.facts.outer_learning_rate), mu = static_cast<T>(c.context.facts.outer_momentum);
    const bool momentum = c.in.size() > 2;
    const std::int64_t n = elements(c.read(1));
    T* const x = c.input<T>(1);
    for (std::int64_t i = 0; i < n; ++i) {
        T g = c.input<T>(0)[i];
        if (momentum) {
            T& m = c.input<T>(2)[i];
            m = mu * m + g;
            g += mu * m;
        }
        x[i] -= rate * g;
    }
    std::int64_t at = 0;
    for (std::size_t k = 0; k < c.out.size() && at < n; ++k) {
        const T share = c.written(k).role == Role::outer_parameters ? T(1) : static_cast<T>(c.context.facts.mixing);
        T* const own = c.output<T>(k);
        for (std::int64_t i = 0; i < elements(c.written(k)); ++i, ++at) own[i] = share == T(1) ? x[at] : own[i] + share * (x[at] - own[i]);
    }
}

// x -> cap tanh(x / cap);  dy, x -> dy (1 - tanh(x / cap)^2).
template <class T> void softcap(const Pointwise& w, const Call& c) {
    const bool forward = w.direction == Direction::forward;
    const T cap = static_cast<T>(w.cap);
    const T *const x = c.input<T>(forward ? 0 : 1), *const dy = c.input<T>(0);
    T* const out = c.output<T>(0);
    split(c.team(), elements(c.written(0)), split_grain / 4, [&](std::int64_t from, std::int64_t to) {
        for (std::int64_t i = from; i < to; ++i) {
            const T t = std::tanh(x[i] / cap);
            out[i] = forward ? cap * t : dy[i] * (1 - t * t);
        }
    });
}

// Two partial results of attention into one: o = sum of o_i exp(lse_i - lse), lse = log(sum of exp(lse_i)).
template <class T> void merge(const Call& c) {
    const std::int64_t heads = columns(c.read(1)), dim = columns(c.read(0)) / heads, n = elements(c.read(1));
    const T none = -std::numeric_limits<T>::infinity();
    for (std::int64_t i = 0; i < n; ++i) {
        const T a = c.input<T>(1)[i], b = c.input<T>(3)[i], max = std::max(a, b);
        const T lse = max == none ? none : max + std::log(std::exp(a - max) + std::exp(b - max));
        const T wa = a == none ? T(0) : std::exp(a - lse), wb = b == none ? T(0) : std::exp(b - lse);
        const T *x = c.input<T>(0) + i * dim, *y = c.input<T>(2) + i * dim;
        T* const o = c.output<T>(0) + i * dim;
        for (std::int64_t d = 0; d < dim; ++d) o[d] = x[d] * wa + y[d] * wb;
        c.output<T>(1)[i] = lse;
    }
}

} // namespace

template <class T> void run(const Pointwise& w, const Call& c) {
    switch (w.kind) {
    case PointwiseKind::gelu:
    case PointwiseKind::relu:
    case PointwiseKind::squared_relu:
    case PointwiseKind::swiglu:
    case PointwiseKind::geglu:
    case PointwiseKind::clamp:
        return activation<T>(w, c);
    case PointwiseKind::softcap:
        return softcap<T>(w, c);
    case PointwiseKind::bias:
        return bias_gradient<T>(c);
    case PointwiseKind::weighted_bias:
        return weighted_bias<T>(w, c);
    case PointwiseKind::positions:
        return positions<T>(w, c);
    case PointwiseKind::dropout:
        return w.direction == Direction::forward ? drop(w, c, c.input<T>(0), c.output<T>(0), c.output<unsigned char>(1))
                                                 : drop_gradient<T>(c);
    case PointwiseKind::add:
        return add<T>(c);
    case PointwiseKind::add_scaled:
        return add_scaled<T>(w, c);
    case PointwiseKind::balance:
        return balance<T>(c);
    case PointwiseKind::bias_dropout_add:
        return bias_dropout_add<T>(w, c);
    case PointwiseKind::rope:
    case PointwiseKind::latent_rope:
        return rope<T>(w, c);
    case PointwiseKind::weigh:
        return weigh<T>(w, c);
    case PointwiseKind::clip:
        return clip<T>(c);
    case PointwiseKind::cast:
    case PointwiseKind::copy:
    case PointwiseKind::index:    // of every place in order
    case PointwiseKind::pad_rows: // rows of experts need no padding here
    case PointwiseKind::score_rows:
        return copy<T>(c);
    case PointwiseKind::one_hot: // rows are moved by their map
        return;
    case PointwiseKind::zero:
        for (std::size_t i = 0; i < c.out.size(); ++i)
            split(c.team(), elements(c.written(i)), split_grain,
                  [&](std::int64_t from, std::int64_t to) { std::fill(c.output<T>(i) + from, c.output<T>(i) + to, T(0)); });
        return;
    case PointwiseKind::average:
        for (std::size_t i = 0; i < c.out.size(); ++i)
            for (std::int64_t k = 0, n = elements(c.written(i)); k < n; ++k)
                c.output<T>(i)[k] = c.input<T>(i)[k] / static_cast<T>(c.context.facts.workers);
        return;
    case PointwiseKind::own_share:
        return own_share<T>(c);
    case PointwiseKind::swap:
        for (std::size_t i = 0; i + 1 < c.out.size(); i += 2)
            std::swap_ranges(c.output<T>(i), c.output<T>(i) + elements(c.written(i)), c.output<T>(i + 1));
        return;
    case PointwiseKind::by_owner:
        return by_owner<T>(c);
    case PointwiseKind::sum_parts:
        return sum_parts<T>(c);
    case PointwiseKind::own_part:
        return own_part<T>(c);
    case PointwiseKind::difference:
        return difference<T>(c);
    case PointwiseKind::outer_step:
        return outer_step<T>(c);
    case PointwiseKind::merge:
        return merge<T>(c);
    case PointwiseKind::split:
        return split<T>(w, c);
    case PointwiseKind::narrow:
        return narrow<T>(w, c, false);
    case PointwiseKind::cast_columns:
        return narrow<T>(w, c, true);
    case PointwiseKind::concat:
        return concat<T>(w, c);
    case PointwiseKind::pack:
        return pack<T>(c);
    case PointwiseKind::join_columns:
        return join_columns<T>(w, c);
    case PointwiseKind::unpack:
    case PointwiseKind::sum_copies:
        return unpack<T>(c);
    }
}

template void run<float>(const Pointwise&, const Call&);
template void run<double>(const Pointwise&, const Call&);

} // namespace orrery

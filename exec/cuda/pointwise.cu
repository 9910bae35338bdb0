// Pointwise work; operands and meaning as the CPU's kernels have them (exec/kernels/kernel.hpp, pointwise.cpp, activation.cpp).
#include "exec/cuda/columns.cuh"
#include "exec/cuda/pieces.cuh"
#include "exec/kernels/dropout.hpp"
#include "exec/kernels/loss_scale.hpp"
#include "exec/kernels/shards.hpp"

#include <stdexcept>

namespace orrery::cuda {
namespace {

// Accurate to fp32 except for the last bits, with a third of the library's instructions, so that these kernels are limited by memory only.
__device__ float sigmoid(float x) { return __fdividef(1.0f, 1 + __expf(-x)); }
__device__ float tangent(float x) { return 1 - __fdividef(2.0f, 1 + __expf(2 * x)); }

__device__ float gelu(float x) { return 0.5f * x * (1 + tangent(0.7978845608f * (x + 0.044715f * x * x * x))); }
__device__ float gelu_slope(float x) {
    const float t = tangent(0.7978845608f * (x + 0.044715f * x * x * x));
    return 0.5f * (1 + t) + 0.5f * x * (1 - t * t) * 0.7978845608f * (1 + 3 * 0.044715f * x * x);
}
__device__ float activated(PointwiseKind k, float x) {
    if (k == PointwiseKind::relu) return fmaxf(x, 0.0f);
    if (k == PointwiseKind::squared_relu) return fmaxf(x, 0.0f) * fmaxf(x, 0.0f);
    return k == PointwiseKind::swiglu ? x * sigmoid(x) : gelu(x);
}
__device__ float slope(PointwiseKind k, float x) {
    if (k == PointwiseKind::relu) return x > 0 ? 1.0f : 0.0f;
    if (k == PointwiseKind::squared_relu) return 2 * fmaxf(x, 0.0f);
    if (k != PointwiseKind::swiglu) return gelu_slope(x);
    const float s = sigmoid(x);
    return s * (1 + x * (1 - s));
}

// f -> a[, gate];  dy, f[, gate] -> df. Gated ones read columns 2i and 2i + 1; what the gate became is written where it is kept (the
// backward pass makes it again: that costs nothing beside the memory).
template <bool gated> void plain_activation(PointwiseKind kind, bool forward, const Launch& l) {
    const View dy = l.input(0), x = l.input(forward ? 0 : 1), out = l.output(0);
    const bool keeps = forward && l.out.size() > 1;
    const View keep = l.output(keeps ? 1 : 0);
    each_pack(l.stream(), forward ? out.count : dy.count, packing(dy, x, out, keep), [=] __device__(auto width, std::int64_t i) {
        constexpr int N = decltype(width)::n, parts = gated ? 2 : 1;
        float in[parts * N]; // gates and what they let through in turn
        for (int h = 0; h < parts; ++h) {
            const Pack<N> p = x.load(width, parts * i + h * N);
            for (int k = 0; k < N; ++k) in[h * N + k] = p.x[k];
        }
        Pack<N> d, g;
        if (!forward) d = dy.load(width, i);
        for (int k = 0; k < N; ++k) {
            const float gate = in[parts * k], up = gated ? in[parts * k + parts - 1] : 1.0f;
            if (forward) {
                g.x[k] = activated(kind, gate);
                d.x[k] = g.x[k] * up;
                continue;
            }
            in[parts * k] = d.x[k] * slope(kind, gate) * up;
            if (gated) in[parts * k + parts - 1] = d.x[k] * activated(kind, gate);
        }
        if (keeps) keep.store(width, i, g);
        if (forward) return out.store(width, i, d);
        for (int h = 0; h < parts; ++h) {
            for (int k = 0; k < N; ++k) d.x[k] = in[h * N + k];
            out.store(width, parts * i + h * N, d);
        }
    });
}

// f[, p] -> a[, gate];  dy, f[, p][, gate] -> df[, dp]: rows weighted by p.
void activation(const Pointwise& w, const Launch& l) {
    const bool forward = w.direction == Direction::forward, gated = w.kind == PointwiseKind::swiglu || w.kind == PointwiseKind::geglu;
    const std::size_t at_p = forward ? 1 : 2;
    if (l.in.size() <= at_p || l.read(at_p).shape.back() != 1)
        return gated ? plain_activation<true>(w.kind, forward, l) : plain_activation<false>(w.kind, forward, l);
    const View dy = l.input(0), x = l.input(forward ? 0 : 1), out = l.output(0), p = l.input(at_p), dp = forward ? View{} : l.output(1);
    const bool keeps = forward && l.out.size() > 1;
    const View keep = l.output(keeps ? 1 : 0);
    const PointwiseKind kind = w.kind;
    const float clamp = static_cast<float>(l.context.facts.activation_clamp), limit = gated && clamp > 0 ? clamp : HUGE_VALF;
    const std::int64_t cols = forward ? out.cols : dy.cols, rows = (forward ? out.count : dy.count) / cols;
    each_row(l.stream(), rows, [=] __device__(std::int64_t row) {
        const float weight = p.get(row);
        float sum = 0;
        for (std::int64_t i = row * cols + threadIdx.x; i < (row + 1) * cols; i += blockDim.x) {
            const float x0 = x.get(gated ? 2 * i : i), x1 = gated ? x.get(2 * i + 1) : 1.0f;
            const float gate = fminf(x0, limit), up = fmaxf(-limit, fminf(x1, limit));
            if (forward) {
                const float opened = activated(kind, gate);
                if (keeps) keep.put(i, opened);
                out.put(i, opened * up * weight);
                continue;
            }
            const float d = dy.get(i) * weight;
            sum += dy.get(i) * activated(kind, gate) * up;
            out.put(gated ? 2 * i : i, x0 > limit ? 0.0f : d * slope(kind, gate) * up);
            if (gated) out.put(2 * i + 1, fabsf(x1) > limit ? 0.0f : d * activated(kind, gate));
        }
        if (forward) return;
        sum = block_sum(sum);
        if (threadIdx.x == 0) dp.put(row, sum);
    });
}

// f -> f;  dy, f -> df: columns 2i to at most the limit, the others to within plus and minus it.
void clamp(bool forward, const Launch& l) {
    const View dy = l.input(0), x = l.input(forward ? 0 : 1), out = l.output(0);
    const float limit = static_cast<float>(l.context.facts.activation_clamp);
    each(l.stream(), out.count, [=] __device__(std::int64_t i) {
        const float was = x.get(i), high = fminf(was, limit), kept = i % 2 == 0 ? high : fmaxf(-limit, high);
        out.put(i, forward ? kept : kept == was ? dy.get(i) : 0.0f);
    });
}

// x -> cap tanh(x / cap);  dy, x -> dy (1 - tanh(x / cap)^2).
void softcap(const Pointwise& w, const Launch& l) {
    const bool forward = w.direction == Direction::forward;
    const View dy = l.input(0), x = l.input(forward ? 0 : 1), out = l.output(0);
    const float cap = static_cast<float>(w.cap);
    each(l.stream(), out.count, [=] __device__(std::int64_t i) {
        const float t = tanhf(x.get(i) / cap);
        out.put(i, forward ? cap * t : dy.get(i) * (1 - t * t));
    });
}

struct Drops {
    Dropout dropout;
    const Token* tokens;
    std::int64_t cols, sequence, first, heads, first_head, batch, pairs;
    float scale;
    // Where element i stands in the whole tensor; its neighbours in the row follow it.
    __device__ std::int64_t index(std::int64_t i) const {
        if (pairs > 0)
            return (((first + i / (sequence * sequence) % batch) * heads + first_head + i / pairs) * sequence + i / sequence % sequence) *
                       sequence +
                   i % sequence;
        const Token t = tokens[i / cols];
        return ((first + t.sequence) * sequence + t.position) * cols + i % cols;
    }
    __device__ bool keeps(std::int64_t index) const {
        return uniform(dropout.seed, dropout.stream, static_cast<std::uint64_t>(index)) >= dropout.rate;
    }
};

Drops drops(const Pointwise& w, const Launch& l) {
    const KernelFacts& f = l.context.facts;
    const Buffer& value = l.written(0);
    const std::int64_t square = f.micro_batch * f.sequence * f.sequence;
    const bool pairs = w.site == DropoutSite::attention;
    const std::int64_t n = elements(value);
    return {dropout_at(l.context, w.site, l.op.layer),
            pairs ? nullptr : l.tokens(value, n / value.shape.back()),
            value.shape.back(),
            f.sequence,
            l.context.first_sequence,
            f.heads,
            pairs ? l.coordinate(Axis::tp) * (n / square) : 0,
            f.micro_batch,
            pairs ? square : 0,
            static_cast<float>(1 / (1 - f.dropout))};
}

void drop_gradient(const Launch& l) {
    const View dy = l.input(0), mask = l.input(1), dx = l.output(0);
    const float scale = static_cast<float>(1 / (1 - l.context.facts.dropout));
    each_pack(l.stream(), dx.count, packing(dy, mask, dx), [=] __device__(auto width, std::int64_t i) {
        constexpr int N = decltype(width)::n;
        Pack<N> d = dy.load(width, i);
        const unsigned kept = mask.flags(width, i);
        for (int k = 0; k < N; ++k) d.x[k] = kept >> k & 1 ? d.x[k] * scale : 0.0f;
        dx.store(width, i, d);
    });
}

void drop(const Pointwise& w, const Launch& l) {
    const Drops d = drops(w, l);
    const View x = l.input(0), y = l.output(0), mask = l.output(1);
    each_pack(l.stream(), y.count, packing(x, y, mask), [=] __device__(auto width, std::int64_t i) {
        constexpr int N = decltype(width)::n;
        Pack<N> v = x.load(width, i);
        const std::int64_t index = d.index(i);
        unsigned kept = 0;
        for (int k = 0; k < N; ++k) {
            const bool keep = d.keeps(index + k);
            kept |= static_cast<unsigned>(keep) << k;
            v.x[k] = keep ? v.x[k] * d.scale : 0.0f;
        }
        mask.set_flags(width, i, kept);
        y.store(width, i, v);
    });
}

void bias_dropout_add(const Pointwise& w, const Launch& l) {
    const bool dropping = l.out.size() > 1, biased = l.in.size() > 2;
    const View branch = l.input(0), x = l.input(1), y = l.output(0), b = biased ? l.input(2) : y, mask = dropping ? l.output(1) : y;
    const Drops d = dropping ? drops(w, l) : Drops{};
    each_pack(l.stream(), y.count, packing(branch, x, y, b, mask), [=] __device__(auto width, std::int64_t i) {
        constexpr int N = decltype(width)::n;
        Pack<N> v = branch.load(width, i), sum = x.load(width, i);
        if (biased) {
            const Pack<N> added = b.load(width, i % y.cols);
            for (int k = 0; k < N; ++k) v.x[k] += added.x[k];
        }
        const std::int64_t index = dropping ? d.index(i) : 0;
        unsigned kept = 0;
        for (int k = 0; k < N; ++k) {
            const bool keep = !dropping || d.keeps(index + k);
            kept |= static_cast<unsigned>(keep) << k;
            sum.x[k] += !dropping ? v.x[k] : keep ? v.x[k] * d.scale : 0.0f;
        }
        if (dropping) mask.set_flags(width, i, kept);
        y.store(width, i, sum);
    });
}

template <int N> __device__ Pack<N> sum(Pack<N> a, const Pack<N>& b) {
    for (int k = 0; k < N; ++k) a.x[k] += b.x[k];
    return a;
}

// dscores, scores, counts -> dscores plus the balancing loss's gradient.
void balance(const Launch& l) {
    const View a = l.input(0), y = l.output(0), counts = l.input(2);
    const KernelFacts& f = l.context.facts;
    const float scale =
        static_cast<float>(loss_factor(l.context) * f.auxiliary_weight * static_cast<double>(a.cols) / static_cast<double>(f.loss_tokens) /
                           static_cast<double>(a.rows() * f.sequence_parts * f.moe.top_k));
    each(l.stream(), y.count,
         [=] __device__(std::int64_t i) { y.put(i, a.get(i) + scale * static_cast<float>(counts.integer(i % y.cols))); });
}

// x, table -> x + table[position];  dy, g -> g[position] += dy.
void positions(bool forward, const Launch& l) {
    const View a = l.input(0), b = l.input(1), y = l.output(0);
    const Token* tokens = l.tokens(l.read(0), a.rows());
    if (!forward) {
        const std::int64_t cols = a.cols, rows = a.rows();
        if (l.context.facts.deterministic)
            each(l.stream(), cols, [=] __device__(std::int64_t c) {
                for (std::int64_t t = 0; t < rows; ++t) {
                    const std::int64_t at = tokens[t].position * cols + c;
                    y.put(at, y.get(at) + a.get(t * cols + c));
                }
            });
        else
            each(l.stream(), a.count, [=] __device__(std::int64_t i) { y.add(tokens[i / cols].position * cols + i % cols, a.get(i)); });
        return;
    }
    each_pack(l.stream(), y.count, packing(a, b, y), [=] __device__(auto width, std::int64_t i) {
        y.store(width, i, sum(a.load(width, i), b.load(width, tokens[i / y.cols].position * y.cols + i % y.cols)));
    });
}

void add(const Launch& l) {
    const View a = l.input(0), b = l.input(1), y = l.output(0);
    each_pack(l.stream(), y.count, packing(a, b, y),
              [=] __device__(auto width, std::int64_t i) { y.store(width, i, sum(a.load(width, i), b.load(width, i))); });
}

// y, b -> y + s b;  dy -> s dy.
void add_scaled(bool forward, const Launch& l) {
    const View a = l.input(0), b = l.input(forward ? 1 : 0), y = l.output(0);
    const auto scale = static_cast<float>(l.context.facts.adapter_scale);
    each(l.stream(), y.count, [=] __device__(std::int64_t i) { y.put(i, (forward ? a.get(i) : 0) + scale * b.get(i)); });
}

// g += sums over rows of p dy (p empty: of dy).
void add_columns(const Launch& l, const View& dy, const View& p, const View& g, std::int64_t rows, std::int64_t cols) {
    add_column_sums(l, rows, cols, g, packing(dy) && cols % 8 == 0, [=] __device__(auto width, std::int64_t r, std::int64_t col) {
        constexpr int N = decltype(width)::n;
        Pack<N> v = dy.load(width, r * cols + col);
        if (p.data)
            for (int k = 0; k < N; ++k) v.x[k] *= p.get(r);
        return v;
    });
}

// dy, g[, counts] -> g: sums of columns, of experts' rows expert by expert.
void bias_gradient(const Launch& l) {
    const View dy = l.input(0), g = l.output(0);
    const std::int64_t cols = dy.cols, rows = dy.rows();
    if (l.written(0).expert) {
        const RowGroups groups = l.row_groups(rows, l.written(0).shape[0]);
        for (std::size_t e = 0; e < groups.begin.size(); ++e)
            add_columns(l, at(dy, groups.begin[e] * cols), View{}, at(g, static_cast<std::int64_t>(e) * cols), groups.count[e], cols);
        return;
    }
    add_columns(l, dy, View{}, g, rows, cols);
}

// x, p, b -> x + p b[e];  dy, b -> dp;  dy, p, g -> g += sum of p dy.
void weighted_bias(const Pointwise& w, const Launch& l) {
    const View x = l.input(0), out = l.output(0), table = l.input(w.direction == Direction::backward ? 1 : 2);
    const std::int64_t cols = x.cols;
    const RowGroups groups = l.row_groups(x.rows(), table.count / cols);
    for (std::size_t e = 0; e < groups.begin.size(); ++e) {
        const std::int64_t begin = groups.begin[e], rows = groups.count[e];
        const View b = at(table, static_cast<std::int64_t>(e) * cols), xe = at(x, begin * cols);
        if (w.direction == Direction::weight_gradient) {
            add_columns(l, xe, at(l.input(1), begin), at(out, static_cast<std::int64_t>(e) * cols), rows, cols);
        } else if (w.direction == Direction::forward) {
            const View p = at(l.input(1), begin), y = at(out, begin * cols);
            each(l.stream(), rows * cols, [=] __device__(std::int64_t i) { y.put(i, xe.get(i) + p.get(i / cols) * b.get(i % cols)); });
        } else {
            const View dp = at(out, begin);
            each_row(l.stream(), rows, [=] __device__(std::int64_t r) {
                float dot = 0;
                for (std::int64_t j = threadIdx.x; j < cols; j += blockDim.x) dot += xe.get(r * cols + j) * b.get(j);
                dot = block_sum(dot);
                if (threadIdx.x == 0) dp.put(r, dot);
            });
        }
    }
}

// A factor of 0 says that the gradients of a scaled loss have overflowed; they stay scaled (exec/kernels/loss_scale.hpp).
void clip(const Launch& l) {
    const View total = l.input(0), factor = l.output(0);
    const float limit = static_cast<float>(l.context.facts.optimizer.clip), unscale = static_cast<float>(1 / loss_factor(l.context));
    float* const overflow = l.overflow();
    each(l.stream(), 1, [=] __device__(std::int64_t) {
        const float norm = sqrtf(total.get(0)) * unscale;
        const bool bad = overflow && !isfinite(norm);
        if (overflow) *overflow = bad ? 1.0f : 0.0f;
        factor.put(0, bad ? 0.0f : fminf(1.0f, limit / (norm + 1e-6f)));
    });
    PieceList<2> list;
    for (std::size_t i = 1; i < l.out.size(); ++i) list.add({l.input(i), l.output(i)});
    each_piece(l.stream(), list, [=] __device__(auto width, const PieceView<2>& v, std::int64_t i) {
        constexpr int N = decltype(width)::n;
        Pack<N> g = v.part[0].load(width, i);
        for (int k = 0; k < N; ++k) g.x[k] *= factor.get(0);
        v.part[1].store(width, i, g);
    });
}

void weigh(const Pointwise& w, const Launch& l) {
    const bool forward = w.direction == Direction::forward;
    const View dy = l.input(0), x = l.input(forward ? 0 : 1), p = l.input(forward ? 1 : 2), out = l.output(0),
               dp = forward ? View{} : l.output(1);
    each_row(l.stream(), out.rows(), [=] __device__(std::int64_t r) {
        float dot = 0;
        for (std::int64_t i = r * out.cols + threadIdx.x; i < (r + 1) * out.cols; i += blockDim.x) {
            dot += dy.get(i) * x.get(i);
            out.put(i, (forward ? x.get(i) : dy.get(i)) * p.get(r));
        }
        if (forward) return;
        dot = block_sum(dot);
        if (threadIdx.x == 0) dp.put(r, dot);
    });
}

// Copies a list of buffers into a list of others, concatenated; elements left over are 0.
void copy(const Launch& l) {
    std::size_t from = 0;
    std::int64_t done_from = 0;
    for (std::size_t to = 0; to < l.out.size(); ++to) {
        const View y = l.output(to);
        std::int64_t done = 0;
        while (done < y.count && from < l.in.size()) {
            const View x = l.input(from);
            const std::int64_t n = std::min(y.count - done, x.count - done_from), a = done_from, b = done;
            const View source{at(x, a).data, x.kind, n, n}, target{at(y, b).data, y.kind, n, n};
            each_pack(l.stream(), n, packing(source, target),
                      [=] __device__(auto width, std::int64_t i) { target.store(width, i, source.load(width, i)); });
            done += n;
            done_from += n;
            if (done_from == x.count) {
                ++from;
                done_from = 0;
            }
        }
        const std::int64_t begin = done;
        each(l.stream(), y.count - done, [=] __device__(std::int64_t i) { y.put(begin + i, 0); });
    }
}

// This rank's part of what the operands hold side by side; behind their end 0.
void own_part(const Launch& l) {
    const View y = l.output(0);
    const std::int64_t begin = own_index(l.context.plan, l.written(0), l.context.at) * y.count, end = begin + y.count;
    std::int64_t first = 0; // of the operand, in all
    for (std::size_t k = 0; k < l.in.size(); ++k) {
        const View x = l.input(k);
        const std::int64_t from = std::max(first, begin), to = std::min(first + x.count, end), of_x = from - first, of_y = from - begin;
        if (from < to) each(l.stream(), to - from, [=] __device__(std::int64_t i) { y.put(of_y + i, x.get(of_x + i)); });
        first += x.count;
    }
    const std::int64_t filled = std::max<std::int64_t>(0, std::min(first, end) - begin);
    each(l.stream(), y.count - filled, [=] __device__(std::int64_t i) { y.put(filled + i, 0); });
}

void zero(const Launch& l) {
    constexpr std::int64_t alone = 1 << 20; // elements that are worth a launch
    PieceList<1> list;
    for (std::size_t i = 0; i < l.out.size(); ++i) {
        const View v = l.output(i);
        if ((v.kind == Kind::fp32 || v.kind == Kind::bf16 || v.kind == Kind::fp16) && v.count < alone)
            list.add({v});
        else
            check(cudaMemsetAsync(v.data, 0, static_cast<std::size_t>(v.count) * stored_bytes(l.written(i).dtype, l.context.real),
                                  l.stream()),
                  "zero");
    }
    each_piece(l.stream(), list, [=] __device__(auto width, const PieceView<1>& v, std::int64_t i) {
        constexpr int N = decltype(width)::n;
        v.part[0].store(width, i, Pack<N>{});
    });
}

void average(const Launch& l) {
    const auto workers = static_cast<float>(l.context.facts.workers);
    for (std::size_t i = 0; i < l.out.size(); ++i) {
        const View x = l.input(i), y = l.output(i);
        each(l.stream(), y.count, [=] __device__(std::int64_t k) { y.put(k, x.get(k) / workers); });
    }
}

void merge(const Launch& l) {
    const View o1 = l.input(0), l1 = l.input(1), o2 = l.input(2), l2 = l.input(3), o = l.output(0), lse = l.output(1);
    const std::int64_t dim = o.cols / lse.cols;
    each(l.stream(), lse.count, [=] __device__(std::int64_t i) {
        const float a = l1.get(i), b = l2.get(i), top = fmaxf(a, b),
                    sum = top == -INFINITY ? -INFINITY : top + logf(expf(a - top) + expf(b - top));
        const float wa = a == -INFINITY ? 0 : expf(a - sum), wb = b == -INFINITY ? 0 : expf(b - sum);
        for (std::int64_t d = i * dim; d < (i + 1) * dim; ++d) o.put(d, o1.get(d) * wa + o2.get(d) * wb);
        lse.put(i, sum);
    });
}

} // namespace

void run(const Pointwise& w, const Launch& l) {
    switch (w.kind) {
    case PointwiseKind::gelu:
    case PointwiseKind::relu:
    case PointwiseKind::squared_relu:
    case PointwiseKind::swiglu:
    case PointwiseKind::geglu:
        return activation(w, l);
    case PointwiseKind::clamp:
        return clamp(w.direction == Direction::forward, l);
    case PointwiseKind::softcap:
        return softcap(w, l);
    case PointwiseKind::bias:
        return bias_gradient(l);
    case PointwiseKind::weighted_bias:
        return weighted_bias(w, l);
    case PointwiseKind::positions:
        return positions(w.direction == Direction::forward, l);
    case PointwiseKind::dropout:
        return w.direction == Direction::forward ? drop(w, l) : drop_gradient(l);
    case PointwiseKind::add:
        return add(l);
    case PointwiseKind::add_scaled:
        return add_scaled(w.direction == Direction::forward, l);
    case PointwiseKind::balance:
        return balance(l);
    case PointwiseKind::bias_dropout_add:
        return w.direction == Direction::forward ? bias_dropout_add(w, l) : drop_gradient(l);
    case PointwiseKind::rope:
    case PointwiseKind::latent_rope:
        return rope(w, l);
    case PointwiseKind::weigh:
        return weigh(w, l);
    case PointwiseKind::clip:
        return clip(l);
    case PointwiseKind::cast:
    case PointwiseKind::copy:
    case PointwiseKind::index:    // of every place in order
    case PointwiseKind::pad_rows: // rows of experts need no padding here
        return copy(l);
    case PointwiseKind::one_hot: // rows are moved by their map
        return;
    case PointwiseKind::zero:
        return zero(l);
    case PointwiseKind::average:
        return average(l);
    case PointwiseKind::merge:
        return merge(l);
    case PointwiseKind::split:
    case PointwiseKind::narrow:
    case PointwiseKind::cast_columns:
    case PointwiseKind::concat:
    case PointwiseKind::pack:
    case PointwiseKind::unpack:
    case PointwiseKind::join_columns:
    case PointwiseKind::sum_copies:
        return rearrange(w, l);
    case PointwiseKind::own_part:
        return own_part(l);
    case PointwiseKind::by_owner:
    case PointwiseKind::sum_parts:
    case PointwiseKind::difference:
    case PointwiseKind::outer_step:
    case PointwiseKind::own_share:
    case PointwiseKind::swap:
        throw std::runtime_error(
            "buckets in blocks, outer steps, workers' shares and held gradients have no kernels on a GPU yet: use --device cpu");
    }
}

} // namespace orrery::cuda

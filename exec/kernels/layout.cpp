// Copies with an order of their own, and rotary position embeddings, which write queries, keys and values apart where that is wanted.
#include "exec/kernels/heads.hpp"
#include "exec/kernels/pointwise.hpp"
#include "exec/kernels/tokens.hpp"

#include <algorithm>
#include <cmath>

namespace orrery {
namespace {

// Turns `dim` columns of a head by the token's position (Su et al., arXiv:2104.09864), pairs half of them apart as Llama
// does: (a, b) -> (a cos - b sin, b cos + a sin), or back.
template <class T> struct Rotation {
    std::int64_t dim;
    std::vector<T> cosine, sine;    // by position from the least, then frequency
    std::vector<std::int64_t> at{}; // of each row: where its angles begin

    Rotation(const KernelFacts& f, const std::vector<Token>& tokens, bool back) : dim(f.rope_dim) {
        const auto by_position = [](const Token& a, const Token& b) { return a.position < b.position; };
        const auto [least, most] = std::minmax_element(tokens.begin(), tokens.end(), by_position);
        const std::int64_t half = dim / 2, from = tokens.empty() ? 0 : least->position, to = tokens.empty() ? 0 : most->position + 1;
        std::vector<double> turns; // of a step to the next position
        for (std::int64_t i = 0; i < half; ++i)
            turns.push_back(std::pow(f.rope_base, -2 * static_cast<double>(i) / static_cast<double>(dim)));
        std::vector<char> wanted(static_cast<std::size_t>(to - from), 0);
        for (const Token& t : tokens) {
            wanted[t.position - from] = 1;
            at.push_back((t.position - from) * half);
        }
        cosine.resize((to - from) * half);
        sine.resize(cosine.size());
        for (std::int64_t position = from; position < to; ++position)
            for (std::int64_t i = 0; i < half && wanted[position - from]; ++i) {
                const double angle = static_cast<double>(position) * turns[i];
                const auto here = static_cast<std::size_t>((position - from) * half + i);
                cosine[here] = static_cast<T>(f.rope_scale * std::cos(angle));
                sine[here] = static_cast<T>(f.rope_scale * (back ? -std::sin(angle) : std::sin(angle)));
            }
    }
    // x and y: where these columns begin; add: to y.
    void turn(std::int64_t row, const T* x, T* y, bool add = false) const {
        const std::int64_t half = dim / 2;
        const std::int64_t begin = at[row];
        const T *c = cosine.data() + begin, *s = sine.data() + begin;
        for (std::int64_t i = 0; i < half; ++i) {
            const T a = x[i], b = x[i + half], low = a * c[i] - b * s[i], high = b * c[i] + a * s[i];
            y[i] = add ? y[i] + low : low;
            y[i + half] = add ? y[i + half] + high : high;
        }
    }
};

template <class T> void plain_rope(const Call& c, bool forward) {
    const HeadShape shape = heads_of_rank(c.context);
    const Heads<T> from = heads_in<T>(c.in, shape), to = heads_in<T>(c.out, shape);
    const Rotation<T> rotation(c.context.facts, tokens_of(c.context, c.read(0), from.rows), !forward);
    const std::int64_t still = shape.qk_dim - rotation.dim;
    const auto head = [&](std::int64_t row, const T* x, T* y) {
        rotation.turn(row, x, y);
        std::copy_n(x + rotation.dim, still, y + rotation.dim);
    };
    split_rows(c.team(), from.rows, columns(c.read(0)), [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row) {
            for (std::size_t h = 0; h < from.q.size(); ++h) head(row, from.q[h] + row * from.q_stride, to.q[h] + row * to.q_stride);
            for (std::size_t g = 0; g < from.k.size(); ++g) {
                head(row, from.k[g] + row * from.k_stride, to.k[g] + row * to.k_stride);
                std::copy_n(from.v[g] + row * from.v_stride, shape.v_dim, to.v[g] + row * to.v_stride);
            }
        }
    });
}

// Latent attention: queries, keys without position beside values, and the part of the key with position that all heads share.
template <class T> void join_latent(const Call& c) {
    const HeadShape shape = heads_of_rank(c.context);
    const Heads<T> to = heads_in<T>(c.out, shape);
    const Rotation<T> rotation(c.context.facts, tokens_of(c.context, c.read(0), to.rows), false);
    const std::int64_t still = shape.qk_dim - rotation.dim, kv = still + shape.v_dim;
    for (std::int64_t row = 0; row < to.rows; ++row) {
        const T *q = c.input<T>(0) + row * columns(c.read(0)), *up = c.input<T>(1) + row * columns(c.read(1)),
                *key = c.input<T>(2) + row * rotation.dim;
        for (std::size_t h = 0; h < to.q.size(); ++h, q += shape.qk_dim, up += kv) {
            T *qh = to.q[h] + row * to.q_stride, *kh = to.k[h] + row * to.k_stride;
            std::copy_n(q, still, qh);
            rotation.turn(row, q + still, qh + still);
            std::copy_n(up, still, kh);
            rotation.turn(row, key, kh + still);
            std::copy_n(up + still, shape.v_dim, to.v[h] + row * to.v_stride);
        }
    }
}

template <class T> void part_latent(const Call& c) {
    const HeadShape shape = heads_of_rank(c.context);
    const Heads<T> from = heads_in<T>(c.in, shape);
    const Rotation<T> rotation(c.context.facts, tokens_of(c.context, c.read(0), from.rows), true);
    const std::int64_t still = shape.qk_dim - rotation.dim, kv = still + shape.v_dim;
    for (std::int64_t row = 0; row < from.rows; ++row) {
        T *q = c.output<T>(0) + row * columns(c.written(0)), *up = c.output<T>(1) + row * columns(c.written(1)),
          *key = c.output<T>(2) + row * rotation.dim;
        std::fill_n(key, rotation.dim, T(0));
        for (std::size_t h = 0; h < from.q.size(); ++h, q += shape.qk_dim, up += kv) {
            const T *qh = from.q[h] + row * from.q_stride, *kh = from.k[h] + row * from.k_stride;
            std::copy_n(qh, still, q);
            rotation.turn(row, qh + still, q + still);
            std::copy_n(kh, still, up);
            rotation.turn(row, kh + still, key, true);
            std::copy_n(from.v[h] + row * from.v_stride, shape.v_dim, up + still);
        }
    }
}

// Columns of rows on their way between [rows][ranks x part] and [rank][rows][part]. A head that several ranks need stands once on the
// tokens' side and `copies` times, one after the other, on the heads' side.
struct Turning {
    std::int64_t rows, part, ranks, copies, dim;
}; // dim: a head's columns, where there are copies

Turning turning(const Call& c, const Buffer& tokens, const Buffer& heads) {
    const HeadShape shape = heads_of_rank(c.context);
    Turning t{};
    t.rows = elements(tokens) / columns(tokens);
    t.ranks = c.context.facts.context_ranks;
    const std::int64_t width = elements(heads) / t.rows;
    t.part = width / t.ranks;
    t.copies = width / columns(tokens);
    t.dim = t.copies > 1 ? columns(tokens) / shape.kv_heads : columns(tokens);
    return t;
}

} // namespace

template <class T> void rope(const Pointwise& w, const Call& c) {
    const bool forward = w.direction == Direction::forward;
    if (forward && c.in.size() == 3)
        join_latent<T>(c);
    else if (!forward && c.out.size() == 3)
        part_latent<T>(c);
    else
        plain_rope<T>(c, forward);
}

template <class T> void split(const Pointwise&, const Call& c) {
    const HeadShape shape = heads_of_rank(c.context);
    const Heads<T> from = heads_in<T>(c.in, shape), to = heads_in<T>(c.out, shape);
    for (std::int64_t row = 0; row < from.rows; ++row) {
        for (std::size_t h = 0; h < from.q.size(); ++h)
            std::copy_n(from.q[h] + row * from.q_stride, shape.qk_dim, to.q[h] + row * to.q_stride);
        for (std::size_t g = 0; g < from.k.size(); ++g) {
            std::copy_n(from.k[g] + row * from.k_stride, shape.qk_dim, to.k[g] + row * to.k_stride);
            std::copy_n(from.v[g] + row * from.v_stride, shape.v_dim, to.v[g] + row * to.v_stride);
        }
    }
}

// The last columns, or the first. backward: their gradient into what has, or will have, that of the others.
template <class T> void narrow(const Pointwise& w, const Call& c, bool first) {
    const bool forward = w.direction == Direction::forward;
    const Buffer &wide = forward ? c.read(0) : c.written(0), &thin = forward ? c.written(0) : c.read(0);
    const std::int64_t rows = elements(thin) / columns(thin), n = columns(thin), offset = first ? 0 : columns(wide) - n;
    for (std::int64_t row = 0; row < rows; ++row) {
        if (forward)
            std::copy_n(c.input<T>(0) + row * columns(wide) + offset, n, c.output<T>(0) + row * n);
        else
            std::copy_n(c.input<T>(0) + row * n, n, c.output<T>(0) + row * columns(wide) + offset);
    }
}

template <class T> void concat(const Pointwise& w, const Call& c) {
    const bool forward = w.direction == Direction::forward;
    const auto whole = forward ? c.out : c.in, parts = forward ? c.in : c.out;
    const std::int64_t width = columns(*whole[0].buffer), rows = elements(*whole[0].buffer) / width;
    T* const all = reinterpret_cast<T*>(whole[0].data);
    std::int64_t offset = 0;
    for (const Operand& part : parts) {
        T* const p = reinterpret_cast<T*>(part.data);
        const std::int64_t n = columns(*part.buffer);
        for (std::int64_t row = 0; row < rows; ++row) {
            if (forward)
                std::copy_n(p + row * n, n, all + row * width + offset);
            else
                std::copy_n(all + row * width + offset, n, p + row * n);
        }
        offset += n;
    }
}

template <class T> void pack(const Call& c) {
    const Turning t = turning(c, c.read(0), c.written(0));
    const std::int64_t width = columns(c.read(0));
    for (std::int64_t rank = 0; rank < t.ranks; ++rank)
        for (std::int64_t row = 0; row < t.rows; ++row)
            for (std::int64_t i = 0; i < t.part; ++i) {
                const std::int64_t col = rank * t.part + i, from = col / (t.dim * t.copies) * t.dim + col % t.dim;
                c.output<T>(0)[(rank * t.rows + row) * t.part + i] = c.input<T>(0)[row * width + from];
            }
}

template <class T> void unpack(const Call& c) {
    const Turning t = turning(c, c.written(0), c.read(0));
    const std::int64_t width = columns(c.written(0));
    std::fill_n(c.output<T>(0), t.rows * width, T(0));
    for (std::int64_t rank = 0; rank < t.ranks; ++rank)
        for (std::int64_t row = 0; row < t.rows; ++row)
            for (std::int64_t i = 0; i < t.part; ++i) {
                const std::int64_t col = rank * t.part + i, to = col / (t.dim * t.copies) * t.dim + col % t.dim;
                c.output<T>(0)[row * width + to] += c.input<T>(0)[(rank * t.rows + row) * t.part + i];
            }
}

// The columns of a row that tensor-parallel ranks have, side by side; backward: this rank's columns.
template <class T> void join_columns(const Pointwise& w, const Call& c) {
    const bool forward = w.direction == Direction::forward;
    const Buffer &wide = forward ? c.written(0) : c.read(0), &thin = forward ? c.read(0) : c.written(0);
    const std::int64_t width = columns(wide), part = columns(thin), rows = elements(wide) / width;
    for (std::int64_t row = 0; row < rows; ++row) {
        if (!forward) {
            std::copy_n(c.input<T>(0) + row * width + c.coordinate(Axis::tp) * part, part, c.output<T>(0) + row * part);
            continue;
        }
        for (std::int64_t rank = 0; rank * part < width; ++rank)
            std::copy_n(c.input<T>(0) + (rank * rows + row) * part, part, c.output<T>(0) + row * width + rank * part);
    }
}

template void join_columns<float>(const Pointwise&, const Call&);
template void join_columns<double>(const Pointwise&, const Call&);
template void rope<float>(const Pointwise&, const Call&);
template void rope<double>(const Pointwise&, const Call&);
template void split<float>(const Pointwise&, const Call&);
template void split<double>(const Pointwise&, const Call&);
template void narrow<float>(const Pointwise&, const Call&, bool);
template void narrow<double>(const Pointwise&, const Call&, bool);
template void concat<float>(const Pointwise&, const Call&);
template void concat<double>(const Pointwise&, const Call&);
template void pack<float>(const Call&);
template void pack<double>(const Call&);
template void unpack<float>(const Call&);
template void unpack<double>(const Call&);

} // namespace orrery

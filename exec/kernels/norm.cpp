// LayerNorm and RMSNorm over the first columns of each row, and RMSNorm of every head's query and key, or of all queries and all keys.
//
// y = w (x - mean) r + b with r = 1 / sqrt(var + eps), statistics (mean, r); RMS: y = w x r with r = 1 / sqrt(mean x^2 + eps), statistics
// r. Adjoint, with g = dy w and xh the normalised x:  dx = r (g - mean(g) - xh mean(g xh)), RMS without mean(g);  dw += dy xh;  db += dy.
#include "exec/kernels/call.hpp"
#include "exec/kernels/clones.hpp"
#include "exec/kernels/packed.hpp"
#include "exec/kernels/vector.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace orrery {
namespace {

constexpr std::int64_t narrowest = 64; // columns of a part: several lines of the cache in each row

template <class T>
ORRERY_CLONES void normalise(const T* x, const T* w, const T* b, T* y, T* statistics, std::int64_t n, bool layer, double epsilon) {
    const T mean = layer ? sum(x, n) / static_cast<T>(n) : T(0);
    for (std::int64_t i = 0; i < n; ++i) y[i] = x[i] - mean;
    const T r = 1 / std::sqrt(dot(y, y, n) / static_cast<T>(n) + static_cast<T>(epsilon));
    if (b)
        for (std::int64_t i = 0; i < n; ++i) y[i] = w[i] * (y[i] * r) + b[i];
    else
        for (std::int64_t i = 0; i < n; ++i) y[i] = w[i] * (y[i] * r);
    if (layer) {
        statistics[0] = mean;
        statistics[1] = r;
    } else {
        statistics[0] = r;
    }
}

template <class T>
ORRERY_CLONES void adjoint(const T* dy, const T* x, const T* statistics, const T* w, T* dx, T* scratch, std::int64_t n, bool layer) {
    const T mean = layer ? statistics[0] : T(0), r = layer ? statistics[1] : statistics[0], scale = 1 / static_cast<T>(n);
    T *const xh = scratch, *const g = scratch + n;
    for (std::int64_t i = 0; i < n; ++i) xh[i] = (x[i] - mean) * r;
    for (std::int64_t i = 0; i < n; ++i) g[i] = dy[i] * w[i];
    const T total = layer ? sum(g, n) : T(0), product = dot(g, xh, n);
    for (std::int64_t i = 0; i < n; ++i) dx[i] = r * (g[i] - (total + xh[i] * product) * scale);
}

// gw += dy xh, gb += dy of a row, in columns [from, to).
template <class T>
ORRERY_CLONES void weight_gradients(const T* dy, const T* x, const T* statistics, T* gw, T* gb, std::int64_t from, std::int64_t to,
                                    bool layer) {
    const T mean = layer ? statistics[0] : T(0), r = layer ? statistics[1] : statistics[0];
    for (std::int64_t i = from; i < to; ++i) gw[i] += dy[i] * ((x[i] - mean) * r);
    for (std::int64_t i = from; i < to && gb; ++i) gb[i] += dy[i];
}

template <class T> void heads_forward(const Call& c, std::int64_t heads_and_keys, std::int64_t dim) {
    const Packed p = packed_layout(c.context.facts, columns(c.read(0)), dim, heads_and_keys);
    const std::int64_t rows = elements(c.read(0)) / columns(c.read(0)), width = columns(c.read(0));
    for (std::int64_t row = 0; row < rows; ++row) {
        const T* x = c.input<T>(0) + row * width;
        T *y = c.output<T>(0) + row * width, *statistics = c.output<T>(1) + row * heads_and_keys;
        for (std::int64_t h = 0; h < p.heads; ++h)
            normalise(x + p.query(h), c.input<T>(1), static_cast<T*>(nullptr), y + p.query(h), statistics + h, dim, false,
                      c.context.facts.norm_epsilon);
        for (std::int64_t h = 0; h < p.kv_heads; ++h) {
            normalise(x + p.key(h), c.input<T>(2), static_cast<T*>(nullptr), y + p.key(h), statistics + p.heads + h, dim, false,
                      c.context.facts.norm_epsilon);
            for (std::int64_t i = 0; i < p.v_dim; ++i) y[p.value(h) + i] = x[p.value(h) + i];
        }
    }
}

// in: dy, x, statistics, query weight, key weight, their gradients.
template <class T> void heads_backward(const Call& c, std::int64_t heads_and_keys, std::int64_t dim) {
    const Packed p = packed_layout(c.context.facts, columns(c.read(0)), dim, heads_and_keys);
    const std::int64_t rows = elements(c.read(0)) / columns(c.read(0)), width = columns(c.read(0));
    std::vector<T> scratch(static_cast<std::size_t>(2 * dim));
    const bool trained = c.out.size() > 1;
    T *const gq = trained ? c.output<T>(1) : nullptr, *const gk = trained ? c.output<T>(2) : nullptr;
    for (std::int64_t row = 0; row < rows; ++row) {
        const T *dy = c.input<T>(0) + row * width, *x = c.input<T>(1) + row * width, *statistics = c.input<T>(2) + row * heads_and_keys;
        T* dx = c.output<T>(0) + row * width;
        const auto head = [&](std::int64_t at, std::int64_t h, const T* weight, T* gw) {
            if (gw) weight_gradients(dy + at, x + at, statistics + h, gw, static_cast<T*>(nullptr), 0, dim, false);
            adjoint(dy + at, x + at, statistics + h, weight, dx + at, scratch.data(), dim, false);
        };
        for (std::int64_t h = 0; h < p.heads; ++h) head(p.query(h), h, c.input<T>(3), gq);
        for (std::int64_t h = 0; h < p.kv_heads; ++h) {
            head(p.key(h), p.heads + h, c.input<T>(4), gk);
            for (std::int64_t i = 0; i < p.v_dim; ++i) dx[p.value(h) + i] = dy[p.value(h) + i];
        }
    }
}

// One norm over all queries of a packed row and one over all its keys, which stand group by group: they are collected, and put back.
template <class T> struct Across {
    Packed p;
    std::int64_t dim;
    std::vector<T> a{}, b{}, c{}, scratch{}; // a row's queries or keys, side by side

    Across(const Packed& packed, std::int64_t width) : p(packed), dim(width) {
        const auto most = static_cast<std::size_t>(std::max(p.heads, p.kv_heads) * dim);
        for (std::vector<T>* v : {&a, &b, &c}) v->resize(most);
        scratch.resize(2 * most);
    }
    std::int64_t count(bool keys) const { return keys ? p.kv_heads : p.heads; }
    std::int64_t at(bool keys, std::int64_t h) const { return keys ? p.key(h) : p.query(h); }
    void collect(bool keys, const T* row, std::vector<T>& to) const {
        for (std::int64_t h = 0; h < count(keys); ++h) std::copy_n(row + at(keys, h), dim, to.data() + h * dim);
    }
    void spread(bool keys, const std::vector<T>& from, T* row) const {
        for (std::int64_t h = 0; h < count(keys); ++h) std::copy_n(from.data() + h * dim, dim, row + at(keys, h));
    }
    void pass_values(const T* from, T* to) const {
        for (std::int64_t h = 0; h < p.kv_heads; ++h) std::copy_n(from + p.value(h), p.v_dim, to + p.value(h));
    }
};

template <class T> void across_forward(const Norm& w, const Call& c) {
    const std::int64_t width = columns(c.read(0)), rows = elements(c.read(0)) / width, dim = w.cols / w.heads;
    Across<T> across(packed_layout(c.context.facts, width, dim, w.heads), dim);
    for (std::int64_t row = 0; row < rows; ++row) {
        const T* x = c.input<T>(0) + row * width;
        T* y = c.output<T>(0) + row * width;
        for (const bool keys : {false, true}) {
            across.collect(keys, x, across.a);
            normalise(across.a.data(), c.input<T>(keys ? 2 : 1), static_cast<T*>(nullptr), across.b.data(),
                      c.output<T>(1) + 2 * row + (keys ? 1 : 0), across.count(keys) * dim, false, c.context.facts.norm_epsilon);
            across.spread(keys, across.b, y);
        }
        across.pass_values(x, y);
    }
}

// in: as heads_backward.
template <class T> void across_backward(const Norm& w, const Call& c) {
    const std::int64_t width = columns(c.read(0)), rows = elements(c.read(0)) / width, dim = w.cols / w.heads;
    Across<T> across(packed_layout(c.context.facts, width, dim, w.heads), dim);
    const bool trained = c.out.size() > 1;
    for (std::int64_t row = 0; row < rows; ++row) {
        const T *dy = c.input<T>(0) + row * width, *x = c.input<T>(1) + row * width;
        T* dx = c.output<T>(0) + row * width;
        for (const bool keys : {false, true}) {
            const std::int64_t n = across.count(keys) * dim;
            const T *weight = c.input<T>(keys ? 4 : 3), *statistics = c.input<T>(2) + 2 * row + (keys ? 1 : 0);
            across.collect(keys, dy, across.a);
            across.collect(keys, x, across.b);
            if (trained)
                weight_gradients(across.a.data(), across.b.data(), statistics, c.output<T>(keys ? 2 : 1), static_cast<T*>(nullptr), 0, n,
                                 false);
            adjoint(across.a.data(), across.b.data(), statistics, weight, across.c.data(), across.scratch.data(), n, false);
            across.spread(keys, across.c, dx);
        }
        across.pass_values(dy, dx);
    }
}

template <class T> void rows_forward(const Norm& w, const Call& c, std::int64_t rows, bool layer) {
    const T* bias = layer && c.in.size() > 2 ? c.input<T>(2) : nullptr;
    const std::int64_t from = columns(c.read(0)), to = columns(c.written(0)), statistics = layer ? 2 : 1;
    split_rows(c.team(), rows, w.cols, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t r = begin; r < end; ++r)
            normalise(c.input<T>(0) + r * from, c.input<T>(1), bias, c.output<T>(0) + r * to, c.output<T>(1) + r * statistics, w.cols,
                      layer, c.context.facts.norm_epsilon);
    });
}

// dx may be wider than what was normalised: the rest is another's to fill. Several threads take the weights' gradients by columns, then dx
// (which may take dy's place) by rows; one takes both row by row. Each sum has the rows' order.
template <class T> void rows_backward(const Norm& w, const Call& c, std::int64_t rows, bool layer) {
    const bool trained = c.out.size() > 1;
    T *const gw = trained ? c.output<T>(1) : nullptr, *const gb = layer && c.out.size() > 2 ? c.output<T>(2) : nullptr;
    const std::int64_t dy_width = columns(c.read(0)), x_width = columns(c.read(1)), dx_width = columns(c.written(0)),
                       statistics = layer ? 2 : 1;
    const T *const dy = c.input<T>(0), *const x = c.input<T>(1), *const kept = c.input<T>(2);
    const auto weights = [&](std::int64_t r, std::int64_t from, std::int64_t to) {
        if (gw) weight_gradients(dy + r * dy_width, x + r * x_width, kept + r * statistics, gw, gb, from, to, layer);
    };
    const auto input = [&](std::int64_t r, T* scratch) {
        adjoint(dy + r * dy_width, x + r * x_width, kept + r * statistics, c.input<T>(3), c.output<T>(0) + r * dx_width, scratch, w.cols,
                layer);
    };
    if (!c.team()) {
        std::vector<T> scratch(static_cast<std::size_t>(2 * w.cols));
        for (std::int64_t r = 0; r < rows; ++r) {
            weights(r, 0, w.cols);
            input(r, scratch.data());
        }
        return;
    }
    split(c.team(), w.cols, narrowest, [&](std::int64_t from, std::int64_t to) {
        for (std::int64_t r = 0; r < rows; ++r) weights(r, from, to);
    });
    split_rows(c.team(), rows, w.cols, [&](std::int64_t begin, std::int64_t end) {
        std::vector<T> scratch(static_cast<std::size_t>(2 * w.cols));
        for (std::int64_t r = begin; r < end; ++r) input(r, scratch.data());
    });
}

} // namespace

template <class T> void run(const Norm& w, const Call& c) {
    const bool layer = w.kind == NormKind::layernorm, forward = w.direction == Direction::forward;
    const std::int64_t rows = elements(c.read(0)) / columns(c.read(0));
    if (w.across) {
        forward ? across_forward<T>(w, c) : across_backward<T>(w, c);
        return;
    }
    if (w.heads > 0) {
        forward ? heads_forward<T>(c, w.heads, w.cols) : heads_backward<T>(c, w.heads, w.cols);
        return;
    }
    forward ? rows_forward<T>(w, c, rows, layer) : rows_backward<T>(w, c, rows, layer);
}

template void run<float>(const Norm&, const Call&);
template void run<double>(const Norm&, const Call&);

} // namespace orrery

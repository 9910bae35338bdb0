// Linear layers, whole or one matrix an expert: y = x w^T (+ b), dx = dy w, dw (+)= dy^T x.
#include "exec/kernels/call.hpp"
#include "exec/kernels/gemm.hpp"
#include "exec/kernels/rows.hpp"

#include <algorithm>

namespace orrery {
namespace {

template <class T> void forward(const Call& c, std::int64_t n, std::int64_t k, const RowGroups& groups) {
    const T *const x = c.input<T>(0), *const w = c.input<T>(1),
                   *const bias = c.in.size() > 2 && c.read(2).role != Role::counts ? c.input<T>(2) : nullptr;
    T* const y = c.output<T>(0);
    for (std::size_t g = 0; g < groups.begin.size(); ++g) {
        const std::int64_t first = groups.begin[g], m = groups.count[g];
        if (bias)
            split_rows(c.team(), m, n, [&](std::int64_t from, std::int64_t to) {
                for (std::int64_t i = from; i < to; ++i) std::copy_n(bias + static_cast<std::int64_t>(g) * n, n, y + (first + i) * n);
            });
        if (m > 0)
            gemm(c.team(), false, true, m, n, k, T(1), x + first * k, k, w + static_cast<std::int64_t>(g) * n * k, k, bias ? T(1) : T(0),
                 y + first * n, n);
    }
}

// Copies of the input that modules have for themselves (Emitter::further_casts), side by side in each row. (A weight in 8 bits beside the
// result is of another dtype.)
template <class T> void keep_casts(const Call& c, std::int64_t k) {
    if (c.out.size() < 2 || c.written(1).dtype != c.read(0).dtype) return;
    const std::int64_t width = columns(c.written(1)), rows = elements(c.written(1)) / width;
    const T* const x = c.input<T>(0);
    T* const casts = c.output<T>(1);
    split_rows(c.team(), rows, width, [&](std::int64_t from, std::int64_t to) {
        for (std::int64_t i = from; i < to; ++i)
            for (std::int64_t at = 0; at < width; at += k) std::copy_n(x + i * k, k, casts + i * width + at);
    });
}

template <class T> void input_gradient(const Call& c, std::int64_t n, std::int64_t k, const RowGroups& groups) {
    const T *const dy = c.input<T>(0), *const w = c.input<T>(1);
    T* const dx = c.output<T>(0);
    for (std::size_t g = 0; g < groups.begin.size(); ++g) {
        const std::int64_t first = groups.begin[g], m = groups.count[g];
        if (m > 0)
            gemm(c.team(), false, false, m, k, n, T(1), dy + first * n, n, w + static_cast<std::int64_t>(g) * n * k, k, T(0),
                 dx + first * k, k);
    }
}

template <class T> void weight_gradient(const Call& c, std::int64_t n, std::int64_t k, const RowGroups& groups, bool accumulate) {
    const T *const dy = c.input<T>(0), *const x = c.input<T>(1);
    T* const g = c.output<T>(0);
    for (std::size_t e = 0; e < groups.begin.size(); ++e) {
        const std::int64_t first = groups.begin[e], m = groups.count[e];
        T* const of = g + static_cast<std::int64_t>(e) * n * k;
        if (m > 0)
            gemm(c.team(), true, false, n, k, m, T(1), dy + first * n, n, x + first * k, k, accumulate ? T(1) : T(0), of, k);
        else if (!accumulate)
            std::fill_n(of, n * k, T(0));
    }
}

} // namespace

namespace {

// Takes some rows of a whole tensor: the input, or its gradient.
template <class T> void run_part(const Linear& w, const Call& c) {
    const std::int64_t at = w.first * w.k;
    const T *const a = c.input<T>(0), *const b = c.input<T>(1);
    T* const out = c.output<T>(0);
    if (w.direction == Direction::forward)
        gemm(c.team(), false, true, w.m, w.n, w.k, T(1), a + at, w.k, b, w.k, T(0), out, w.n);
    else if (w.direction == Direction::input_gradient)
        gemm(c.team(), false, false, w.m, w.k, w.n, T(1), a, w.n, b, w.k, T(0), out + at, w.k);
    else
        gemm(c.team(), true, false, w.n, w.k, w.m, T(1), a, w.n, b + at, w.k, w.accumulate ? T(1) : T(0), out, w.k);
}

} // namespace

template <class T> void run(const Linear& w, const Call& c) {
    if (w.first >= 0) return run_part<T>(w, c);
    const std::int64_t rows = elements(c.read(0)) / columns(c.read(0));
    const RowGroups groups = row_groups(c, rows, w.groups);
    switch (w.direction) {
    case Direction::forward:
        forward<T>(c, w.n, w.k, groups);
        keep_casts<T>(c, w.k);
        break;
    case Direction::input_gradient:
        input_gradient<T>(c, w.n, w.k, groups);
        break;
    case Direction::weight_gradient:
        weight_gradient<T>(c, w.n, w.k, groups, w.accumulate);
        break;
    case Direction::backward:
        broken("a linear has two gradients, each an op of its own");
    }
}

template void run<float>(const Linear&, const Call&);
template void run<double>(const Linear&, const Call&);

} // namespace orrery

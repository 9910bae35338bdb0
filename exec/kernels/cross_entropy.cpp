// Cross-entropy of a part of the vocabulary (Megatron's vocabulary-parallel loss), in steps between which ranks reduce a row's
// statistics. Columns that only pad the vocabulary take no part. A negative label is no target: its loss and gradient are 0.
//   maximum: max x;  sums: e = exp(x - max), (sum e, x[label] - max);  loss = log(sum) - target;  gradient = (e / sum - [label]) / tokens
#include "exec/kernels/call.hpp"
#include "exec/kernels/clones.hpp"
#include "exec/kernels/loss_scale.hpp"
#include "exec/kernels/vector.hpp"

#include <algorithm>
#include <cmath>

namespace orrery {
namespace {

struct Columns {
    std::int64_t first, count, used;
}; // of this rank in the vocabulary; used: not padding

Columns columns_of(const Call& c, const Buffer& logits) {
    Columns out{0, columns(logits), 0};
    if (logits.placement.on(Axis::tp) == PlacementKind::sharded) out.first = c.coordinate(Axis::tp) * out.count;
    out.used = std::clamp<std::int64_t>(c.context.facts.vocabulary - out.first, 0, out.count);
    return out;
}

template <class T> ORRERY_CLONES void subtract(const T* x, T max, T by, T* y, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) y[i] = x[i] - max - by;
}

template <class T> ORRERY_CLONES void multiply(const T* x, T by, T* y, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) y[i] = x[i] * by;
}

template <class T> void sums(const CrossEntropy& w, const Call& c) {
    const Columns v = columns_of(c, c.read(0));
    const std::int64_t* labels = c.input<std::int64_t>(2) + w.first;
    split_rows(c.team(), w.tokens, 4 * v.count, [&](std::int64_t from, std::int64_t to) {
        for (std::int64_t i = from; i < to; ++i) {
            const T *x = c.input<T>(0) + i * v.count, max = c.input<T>(1)[i];
            T *e = c.output<T>(0) + i * v.count, *pair = c.output<T>(1) + 2 * i;
            const std::int64_t target = labels[i] - v.first;
            const T aim = labels[i] >= 0 && target >= 0 && target < v.used ? x[target] - max : T(0); // e may take x's place
            exp_of(x, max, e, v.used);
            const T total = sum(e, v.used);
            std::fill(e + v.used, e + v.count, T(0));
            pair[0] = total;
            pair[1] = aim;
            if (c.out.size() < 3) continue; // eager frameworks keep the log-softmax; the sum over other ranks is not in it
            T* const kept = c.output<T>(2) + i * v.count;
            subtract(x, max, std::log(total), kept, v.used);
            std::fill(kept + v.used, kept + v.count, T(0));
        }
    });
}

template <class T> void gradient(const CrossEntropy& w, const Call& c) {
    const Columns v = columns_of(c, c.written(0));
    const KernelFacts& f = c.context.facts;
    const std::int64_t* labels = c.input<std::int64_t>(2) + w.first;
    const bool further = w.ahead > 1;
    const T weight =
        static_cast<T>(loss_factor(c.context) * (further ? f.mtp_weight / f.mtp_layers : 1.0) / static_cast<double>(f.loss_tokens));
    split_rows(c.team(), w.tokens, v.count, [&](std::int64_t from, std::int64_t to) {
        for (std::int64_t i = from; i < to; ++i) {
            const T *e = c.input<T>(0) + i * v.count, scale = labels[i] < 0 ? T(0) : weight / c.input<T>(1)[2 * i];
            T* dx = c.output<T>(0) + i * v.count;
            multiply(e, scale, dx, v.count);
            const std::int64_t target = labels[i] - v.first;
            if (labels[i] >= 0 && target >= 0 && target < v.used) dx[target] -= weight;
            for (std::size_t more = 1; more < c.out.size(); ++more) // further gradients that eager frameworks make on the way
                if (c.output<T>(more) != c.output<T>(0)) std::copy_n(dx, v.count, c.output<T>(more) + i * v.count);
        }
    });
}

} // namespace

template <class T> void run(const CrossEntropy& w, const Call& c) {
    switch (w.part) {
    case CrossEntropy::Part::maximum: {
        const Columns v = columns_of(c, c.read(0));
        split_rows(c.team(), w.tokens, v.count, [&](std::int64_t from, std::int64_t to) {
            for (std::int64_t i = from; i < to; ++i) c.output<T>(0)[i] = largest(c.input<T>(0) + i * v.count, v.used);
        });
        break;
    }
    case CrossEntropy::Part::sums:
        sums<T>(w, c);
        break;
    case CrossEntropy::Part::loss:
        for (std::int64_t i = 0; i < w.tokens; ++i) c.output<T>(0)[w.first + i] = std::log(c.input<T>(0)[2 * i]) - c.input<T>(0)[2 * i + 1];
        break;
    case CrossEntropy::Part::gradient:
        gradient<T>(w, c);
        break;
    }
}

template void run<float>(const CrossEntropy&, const Call&);
template void run<double>(const CrossEntropy&, const Call&);

} // namespace orrery

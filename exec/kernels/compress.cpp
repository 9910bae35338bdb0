// Gradients made small for their way and whole again: factors of low rank, the largest elements, signs (Compress in sim/plan/work.hpp).
#include "exec/kernels/call.hpp"
#include "exec/kernels/optimizer.hpp"
#include "exec/kernels/random.hpp"
#include "sim/plan/low_rank.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace orrery {
namespace {

std::int64_t total(std::span<const Operand> list) {
    std::int64_t n = 0;
    for (const Operand& o : list) n += elements(*o.buffer);
    return n;
}

LowRank layout(const Compress& w, const Call& c) { return low_rank(c.context.plan, c.context.plan.buckets[w.bucket], w.rank, w.min_ratio); }

// Whether tensor t of a bucket is a matrix that travels as factors.
std::vector<char> factored(const LowRank& l, std::size_t tensors) {
    std::vector<char> is(tensors, 0);
    for (const LowRankMatrix& m : l.matrices) is[m.tensor] = 1;
    return is;
}

// gradients.., [error] -> whole[, rest].
template <class T> void feed(const Compress& w, const Call& c) {
    const bool kept = c.in.back().buffer->role == Role::gradient_error;
    const std::span<const Operand> gradients = c.in.first(c.in.size() - (kept ? 1 : 0));
    const T* const error = kept ? c.input<T>(c.in.size() - 1) : nullptr;
    T* const whole = c.output<T>(0);
    std::int64_t at = 0;
    for (std::size_t k = 0; k < gradients.size(); ++k)
        for (std::int64_t i = 0, n = elements(*gradients[k].buffer); i < n; ++i, ++at)
            whole[at] = c.input<T>(k)[i] + (error ? error[at] : T(0));
    if (c.out.size() < 2) return;
    const std::vector<char> matrix = factored(layout(w, c), gradients.size());
    T* rest = c.output<T>(1);
    for (std::size_t k = 0; k < gradients.size(); ++k)
        if (!matrix[k]) rest = std::copy_n(c.input<T>(k), elements(*gradients[k].buffer), rest);
}

// P = M Q, of every matrix.
template <class T> void project(const Compress& w, const Call& c) {
    for (const LowRankMatrix& m : layout(w, c).matrices) {
        const T *const a = c.input<T>(0) + m.begin, *const q = c.input<T>(1) + m.q;
        T* const p = c.output<T>(0) + m.p;
        for (std::int64_t i = 0; i < m.rows; ++i) {
            std::fill_n(p + i * m.rank, m.rank, T(0));
            for (std::int64_t j = 0; j < m.cols; ++j)
                for (std::int64_t k = 0; k < m.rank; ++k) p[i * m.rank + k] += a[i * m.cols + j] * q[j * m.rank + k];
        }
    }
}

// Q = M^T P.
template <class T> void turn(const Compress& w, const Call& c) {
    for (const LowRankMatrix& m : layout(w, c).matrices) {
        const T *const a = c.input<T>(0) + m.begin, *const p = c.input<T>(1) + m.p;
        T* const q = c.output<T>(0) + m.q;
        std::fill_n(q, m.cols * m.rank, T(0));
        for (std::int64_t i = 0; i < m.rows; ++i)
            for (std::int64_t j = 0; j < m.cols; ++j)
                for (std::int64_t k = 0; k < m.rank; ++k) q[j * m.rank + k] += a[i * m.cols + j] * p[i * m.rank + k];
    }
}

// Columns of P orthonormal, by Gram and Schmidt, each column freed twice of those before it. A column that these span is zero: it adds
// nothing to P Q^T.
template <class T> void orthonormal(const Compress& w, const Call& c) {
    for (const LowRankMatrix& m : layout(w, c).matrices) {
        T* const p = c.output<T>(0) + m.p;
        const auto dot = [&](std::int64_t a, std::int64_t b) {
            double sum = 0;
            for (std::int64_t i = 0; i < m.rows; ++i)
                sum += static_cast<double>(p[i * m.rank + a]) * static_cast<double>(p[i * m.rank + b]);
            return sum;
        };
        for (std::int64_t k = 0; k < m.rank; ++k) {
            const double before = std::sqrt(dot(k, k));
            for (int twice = 0; twice < 2; ++twice)
                for (std::int64_t j = 0; j < k; ++j) {
                    const double along = dot(j, k);
                    for (std::int64_t i = 0; i < m.rows; ++i) p[i * m.rank + k] -= static_cast<T>(along) * p[i * m.rank + j];
                }
            const double left = std::sqrt(dot(k, k));
            const double least = before * (sizeof(T) == 8 ? 1e-12 : 1e-5);
            for (std::int64_t i = 0; i < m.rows; ++i)
                p[i * m.rank + k] = left > least ? static_cast<T>(static_cast<double>(p[i * m.rank + k]) / left) : T(0);
        }
    }
}

// [P, Q,] [rest] -> gradients.., [start].
template <class T> void expand(const Compress& w, const Call& c) {
    const LowRank l = layout(w, c);
    const std::size_t tensors = c.context.plan.buckets[w.bucket].tensors.size();
    const std::vector<char> matrix = factored(l, tensors);
    for (const LowRankMatrix& m : l.matrices) {
        const T *const p = c.input<T>(0) + m.p, *const q = c.input<T>(1) + m.q;
        T* const g = c.output<T>(m.tensor);
        for (std::int64_t i = 0; i < m.rows; ++i)
            for (std::int64_t j = 0; j < m.cols; ++j) {
                T sum = 0;
                for (std::int64_t k = 0; k < m.rank; ++k) sum += p[i * m.rank + k] * q[j * m.rank + k];
                g[i * m.cols + j] = sum;
            }
    }
    if (l.rest > 0) {
        const T* rest = c.input<T>(c.in.size() - 1);
        for (std::size_t k = 0; k < tensors; ++k)
            if (!matrix[k]) {
                const std::int64_t n = elements(c.written(k));
                std::copy_n(rest, n, c.output<T>(k));
                rest += n;
            }
    }
    // The first Q of a matrix that is not reduced in rank spans all there is for good; what was found may not, where a gradient had less
    // rank.
    for (const LowRankMatrix& m : l.matrices)
        if (m.rank < std::min(m.rows, m.cols)) std::copy_n(c.input<T>(1) + m.q, m.cols * m.rank, c.output<T>(tensors) + m.q);
}

// whole, gradients.. -> error: what of this rank's summand is not its share of the sum that was made. Tensors that travelled whole miss
// nothing.
template <class T> void miss(const Compress& w, const Call& c) {
    const LowRank l = layout(w, c);
    const TensorBucket& bucket = c.context.plan.buckets[w.bucket];
    const T ranks = static_cast<T>(size(c.context.plan, bucket.reduce));
    T* const error = c.output<T>(0);
    std::fill_n(error, elements(c.written(0)), T(0));
    for (const LowRankMatrix& m : l.matrices)
        for (std::int64_t i = 0; i < m.rows * m.cols; ++i)
            error[m.begin + i] = c.input<T>(0)[m.begin + i] - c.input<T>(1 + m.tensor)[i] / ranks;
}

// The largest magnitudes and their places; of equal ones the first.
template <class T> void choose(const Call& c) {
    const std::int64_t n = elements(c.read(0)), count = elements(c.written(0));
    const T* const x = c.input<T>(0);
    std::vector<std::int32_t> order(static_cast<std::size_t>(n));
    std::iota(order.begin(), order.end(), 0);
    const auto larger = [&](std::int32_t a, std::int32_t b) {
        const T one = std::abs(x[a]), other = std::abs(x[b]);
        return one != other ? one > other : a < b;
    };
    std::nth_element(order.begin(), order.begin() + (count - 1), order.end(), larger);
    std::sort(order.begin(), order.begin() + count);
    for (std::int64_t k = 0; k < count; ++k) {
        c.output<T>(0)[k] = x[order[k]];
        c.output<std::int32_t>(1)[k] = order[k];
    }
}

template <class T> void drop(const Call& c) {
    std::copy_n(c.input<T>(0), elements(c.written(0)), c.output<T>(0));
    for (std::int64_t k = 0, n = elements(c.read(1)); k < n; ++k) c.output<T>(0)[c.input<std::int32_t>(1)[k]] = 0;
}

// Sums, rank by rank.
template <class T> void spread(const Call& c) {
    std::vector<T> sum(static_cast<std::size_t>(total(c.out)), T(0));
    for (std::int64_t k = 0, n = elements(c.read(0)); k < n; ++k) sum[c.input<std::int32_t>(1)[k]] += c.input<T>(0)[k];
    auto from = sum.begin();
    for (std::size_t k = 0; k < c.out.size(); ++k) {
        const std::int64_t n = elements(c.written(k));
        std::copy_n(from, n, c.output<T>(k));
        from += n;
    }
}

// Signs are 1 and -1, and 0 behind the end. Their scale makes the root of the mean square what it was.
template <class T> void signs(const Call& c) {
    const std::int64_t n = elements(c.read(0)), padded = elements(c.written(0));
    const T* const x = c.input<T>(0);
    double squares = 0;
    for (std::int64_t i = 0; i < n; ++i) squares += static_cast<double>(x[i]) * static_cast<double>(x[i]);
    *c.output<T>(1) = static_cast<T>(std::sqrt(squares / static_cast<double>(n)));
    for (std::int64_t i = 0; i < padded; ++i) c.output<T>(0)[i] = i >= n ? T(0) : x[i] < 0 ? T(-1) : T(1);
}

template <class T> void unsent(const Call& c) {
    const T scale = *c.input<T>(2);
    for (std::int64_t i = 0, n = elements(c.written(0)); i < n; ++i) c.output<T>(0)[i] = c.input<T>(0)[i] - scale * c.input<T>(1)[i];
}

template <class T> void sum_signs(const Call& c) {
    const std::int64_t n = elements(c.written(0)), ranks = elements(c.read(1));
    const T* const error = c.in.size() > 2 ? c.input<T>(2) : nullptr;
    for (std::int64_t i = 0; i < n; ++i) {
        T sum = error ? error[i] : T(0);
        for (std::int64_t r = 0; r < ranks; ++r) sum += c.input<T>(1)[r] * c.input<T>(0)[r * n + i];
        c.output<T>(0)[i] = sum;
    }
}

template <class T> void unpack_sent(const Call& c) {
    const std::int64_t n = elements(c.written(0)), slice = elements(c.read(0)) / elements(c.read(1));
    for (std::int64_t i = 0; i < n; ++i) c.output<T>(0)[i] = c.input<T>(1)[i / slice] * c.input<T>(0)[i];
}

// gradients.., moment, [error] -> this rank's summand of the next moment: of the last one its share.
template <class T> void feed_momentum(const Compress& w, const Call& c) {
    const bool kept = c.in.back().buffer->role == Role::gradient_error;
    const std::size_t gradients = c.in.size() - (kept ? 2 : 1);
    const T *const moment = c.input<T>(gradients), *const error = kept ? c.input<T>(gradients + 1) : nullptr;
    const StepConstants k = step_constants(c.context);
    const T b1 = static_cast<T>(k.beta1), share = static_cast<T>(k.beta1 / static_cast<double>(c.context.facts.replicas));
    std::int64_t at = 0;
    for (std::size_t g = 0; g < gradients; ++g)
        for (std::int64_t i = 0, n = elements(c.read(g)); i < n; ++i, ++at)
            c.output<T>(0)[at] = share * moment[at] + (1 - b1) * c.input<T>(g)[i] + (error ? error[at] : T(0));
    require(at == w.elements, "a momentum has other elements than its gradients");
}

// By what Adam divides.
template <class T> T divisor(const StepConstants& k, T second) {
    return std::sqrt(second) * static_cast<T>(1 / std::sqrt(k.correction2)) + static_cast<T>(k.epsilon);
}

// common, weights.., moment2, [error] -> whole.
template <class T> void feed_drift(const Call& c) {
    const bool kept = c.in.back().buffer->role == Role::gradient_error;
    const std::size_t second = c.in.size() - (kept ? 2 : 1);
    const StepConstants k = step_constants(c.context);
    std::int64_t at = 0;
    for (std::size_t g = 1; g < second; ++g)
        for (std::int64_t i = 0, n = elements(c.read(g)); i < n; ++i, ++at)
            c.output<T>(0)[at] =
                (c.input<T>(0)[at] - c.input<T>(g)[i]) * divisor(k, c.input<T>(second)[at]) + (kept ? c.input<T>(second + 1)[at] : T(0));
}

// whole, moment2 -> common, weights.., moment: all go on from what their mean drift leads to. The momentum is that drift over the rates it
// was taken at, those of the steps since the last exchange.
template <class T> void apply_drift(const Call& c) {
    KernelContext at_step = c.context;
    double rates = 0;
    for (std::int64_t s = std::max<std::int64_t>(0, c.context.step + 1 - c.context.facts.local_steps); s <= c.context.step; ++s) {
        at_step.step = s;
        const StepConstants k = step_constants(at_step);
        rates += k.lr / k.correction1;
    }
    const StepConstants k = step_constants(c.context);
    T *const common = c.output<T>(0), *const moment = c.output<T>(c.out.size() - 1);
    std::int64_t at = 0;
    for (std::size_t g = 1; g + 1 < c.out.size(); ++g)
        for (std::int64_t i = 0, n = elements(c.written(g)); i < n; ++i, ++at) {
            const T mean = c.input<T>(0)[at];
            common[at] -= mean / divisor(k, c.input<T>(1)[at]);
            c.output<T>(g)[i] = common[at];
            moment[at] = rates > 0 ? mean / static_cast<T>(rates) : T(0);
        }
}

} // namespace

template <class T> void run(const Compress& w, const Call& c) {
    switch (w.part) {
    case Compress::Part::feed:
        return feed<T>(w, c);
    case Compress::Part::feed_momentum:
        return feed_momentum<T>(w, c);
    case Compress::Part::feed_drift:
        return feed_drift<T>(c);
    case Compress::Part::project:
        return project<T>(w, c);
    case Compress::Part::orthonormal:
        return orthonormal<T>(w, c);
    case Compress::Part::turn:
        return turn<T>(w, c);
    case Compress::Part::expand:
        return expand<T>(w, c);
    case Compress::Part::miss:
        return miss<T>(w, c);
    case Compress::Part::choose:
        return choose<T>(c);
    case Compress::Part::spread:
        return spread<T>(c);
    case Compress::Part::drop:
        return drop<T>(c);
    case Compress::Part::signs:
        return signs<T>(c);
    case Compress::Part::unsent:
        return unsent<T>(c);
    case Compress::Part::sum_signs:
        return sum_signs<T>(c);
    case Compress::Part::unpack:
        return unpack_sent<T>(c);
    case Compress::Part::apply_drift:
        return apply_drift<T>(c);
    }
}

void initialise_factors(const Compress& w, const Operand& start, const KernelContext& k) {
    const TensorBucket& bucket = k.plan.buckets[w.bucket];
    for (const LowRankMatrix& m : low_rank(k.plan, bucket, w.rank, w.min_ratio).matrices) {
        const std::uint64_t stream = name_key("q." + k.plan.tensors[bucket.tensors[m.tensor].tensor].name);
        for (std::int64_t i = 0; i < m.cols * m.rank; ++i)
            write_element(start.data, m.q + i, normal(k.facts.seed, stream, static_cast<std::uint64_t>(i)),
                          stored_type(start.buffer->dtype, k.real));
    }
}

template void run<float>(const Compress&, const Call&);
template void run<double>(const Compress&, const Call&);

} // namespace orrery

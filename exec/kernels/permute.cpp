// Tokens to rows and back. A row's weight p is its score over the sum of its token's chosen scores (one chosen: the score itself);
// with d = dp, its adjoint is ds_i = (d_i - sum_j p_j d_j) / sum of chosen scores. Rows no token has (padding) are 0.
#include "exec/kernels/routing.hpp"
#include "exec/kernels/rows.hpp"

#include <algorithm>

namespace orrery {
namespace {

// The rows of a map: all experts' where tokens are at home, this rank's where tokens came to their experts.
std::vector<RoutedRow> rows_of(const Permute& w, const Call& c, const unsigned char* map, const Buffer& map_buffer) {
    const std::int64_t experts = columns(map_buffer);
    ExpertRange here{0, experts};
    if (map_buffer.expert) {
        const std::int64_t local = experts / c.context.plan.expert_mesh.extent(Axis::ep);
        here.first = c.context.expert_at[Axis::ep] * local;
        here.last = here.first + local;
    }
    const MoeSpec& moe = c.context.facts.moe;
    const std::int64_t most = most_rows(moe, w.tokens, w.rows, here.last - here.first);
    auto rows = routed_rows(map, w.tokens, experts, here, most, moe.pads());
    check_room(rows.empty() ? 0 : rows.back().row + 1, w.rows);
    return rows;
}

template <class T>
std::vector<T> chosen_sums(const T* scores, const unsigned char* map, std::int64_t tokens, std::int64_t experts, std::int64_t top_k) {
    std::vector<T> sums(static_cast<std::size_t>(tokens), T(1));
    if (top_k == 1) return sums;
    for (std::int64_t t = 0; t < tokens; ++t) {
        T sum = 0;
        for (std::int64_t e = 0; e < experts; ++e)
            if (map[t * experts + e]) sum += scores[t * experts + e];
        sums[t] = sum;
    }
    return sums;
}

// x, map[, scores] -> rows[, weights]. backward: dy, map[, rows in fp32, which the gradient of weights reads] -> drows
template <class T> void gather(const Permute& w, const Call& c) {
    const bool weighs = c.out.size() > 1;
    const unsigned char* map = c.input<unsigned char>(1);
    const std::int64_t experts = columns(c.read(1));
    const auto rows = rows_of(w, c, map, c.read(1));
    std::fill_n(c.output<T>(0), elements(c.written(0)), T(0));
    if (weighs) std::fill_n(c.output<T>(1), elements(c.written(1)), T(0));
    const std::vector<T> sums = weighs ? chosen_sums(c.input<T>(2), map, w.tokens, experts, c.context.facts.moe.top_k) : std::vector<T>{};
    for (const RoutedRow& r : rows) {
        std::copy_n(c.input<T>(0) + r.token * w.cols, w.cols, c.output<T>(0) + r.row * w.cols);
        if (weighs) c.output<T>(1)[r.row] = c.input<T>(2)[r.token * experts + r.expert] / sums[r.token];
    }
}

// forward: rows, map -> y.  backward: drows, dweights, map, scores -> dx, dscores
template <class T> void scatter(const Permute& w, const Call& c) {
    const bool weighs = c.out.size() > 1;
    const std::size_t at = weighs ? 2 : 1;
    const unsigned char* map = c.input<unsigned char>(at);
    const std::int64_t experts = columns(c.read(at));
    const auto rows = rows_of(w, c, map, c.read(at));
    std::fill_n(c.output<T>(0), elements(c.written(0)), T(0));
    for (const RoutedRow& r : rows) {
        const T* from = c.input<T>(0) + r.row * w.cols;
        T* const to = c.output<T>(0) + r.token * w.cols;
        for (std::int64_t j = 0; j < w.cols; ++j) to[j] += from[j];
    }
    if (!weighs) return;
    const T *scores = c.input<T>(3), *dp = c.input<T>(1);
    T* const ds = c.output<T>(1);
    const std::int64_t top_k = c.context.facts.moe.top_k;
    const std::vector<T> sums = chosen_sums(scores, map, w.tokens, experts, top_k);
    std::fill_n(ds, w.tokens * experts, T(0));
    std::vector<T> mean(static_cast<std::size_t>(w.tokens), T(0)); // sum of p dp: a dropped row has none
    for (const RoutedRow& r : rows) mean[r.token] += scores[r.token * experts + r.expert] / sums[r.token] * dp[r.row];
    for (std::int64_t t = 0; t < w.tokens && top_k > 1; ++t)
        for (std::int64_t e = 0; e < experts; ++e)
            if (map[t * experts + e]) ds[t * experts + e] = -mean[t] / sums[t];
    for (const RoutedRow& r : rows) ds[r.token * experts + r.expert] += dp[r.row] / sums[r.token];
}

// From sender by sender, each one's by local expert, to expert by expert, or back. Parts are as long as the counts say, or equal.
template <class T> void sort(const Permute& w, const Call& c) {
    const Mesh& mesh = c.context.plan.expert_mesh;
    const std::int64_t experts = c.context.facts.moe.experts, local = local_experts(c.context),
                       first = c.context.expert_at[Axis::ep] * local;
    const bool counted = !is_floating(c.read(c.in.size() - 1).dtype), to_experts = w.direction == Direction::forward;
    const std::int64_t senders = counted ? elements(c.read(c.in.size() - 1)) / experts : mesh.extent(Axis::ep) * mesh.extent(Axis::tp);
    const auto length = [&](std::int64_t r, std::int64_t e) {
        return counted ? c.input<std::int64_t>(c.in.size() - 1)[arrived(c.context.plan, r) * experts + first + e]
                       : w.rows / (senders * local);
    };
    std::vector<std::int64_t> begin(static_cast<std::size_t>(senders * local)); // of each part among those by sender
    std::int64_t at = 0;
    for (std::int64_t r = 0; r < senders; ++r)
        for (std::int64_t e = 0; e < local; ++e) {
            begin[r * local + e] = at;
            at += length(r, e);
        }
    check_room(at, w.rows);
    for (std::size_t i = 0; i < c.out.size(); ++i) {
        const std::int64_t cols = columns(c.read(i));
        std::int64_t by_expert = 0;
        for (std::int64_t e = 0; e < local; ++e)
            for (std::int64_t r = 0; r < senders; ++r) {
                const std::int64_t by_sender = begin[r * local + e], n = length(r, e);
                std::copy_n(c.input<T>(i) + (to_experts ? by_sender : by_expert) * cols, n * cols,
                            c.output<T>(i) + (to_experts ? by_expert : by_sender) * cols);
                by_expert += n;
            }
    }
}

} // namespace

std::vector<RoutedRow> routed_rows(const unsigned char* map, std::int64_t tokens, std::int64_t experts, ExpertRange here,
                                   std::int64_t capacity, bool padded) {
    std::vector<RoutedRow> out;
    std::int64_t row = 0;
    for (std::int64_t e = here.first; e < here.last; ++e) {
        if (padded) row = (e - here.first) * capacity;
        std::int64_t taken = 0;
        for (std::int64_t t = 0; t < tokens; ++t) {
            if (!map[t * experts + e] || (capacity > 0 && taken == capacity)) continue;
            out.push_back({t, e, row++});
            ++taken;
        }
    }
    return out;
}

template <class T> void run(const Permute& w, const Call& c) {
    switch (w.part) {
    case Permute::Part::gather:
        return gather<T>(w, c);
    case Permute::Part::scatter:
        return scatter<T>(w, c);
    case Permute::Part::sort:
        return sort<T>(w, c);
    }
}

template void run<float>(const Permute&, const Call&);
template void run<double>(const Permute&, const Call&);

} // namespace orrery

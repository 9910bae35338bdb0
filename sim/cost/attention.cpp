// The rate law of attention.hpp.
#include "sim/cost/attention.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <initializer_list>

namespace orrery {
namespace {

// Between tabulated head dimensions by the logarithm of the dimension. Below the smallest a score costs what it costs there
// (its exponential binds), so the rate falls with the dimension; above the largest the rate stays.
AttentionPoint at_dimension(const std::vector<AttentionPoint>& points, double dim) {
    if (dim <= points.front().head_dim) return {dim, points.front().tflops * dim / points.front().head_dim, points.front().s0};
    for (std::size_t i = 1; i < points.size(); ++i) {
        const AttentionPoint &a = points[i - 1], &b = points[i];
        if (dim > b.head_dim) continue;
        const double x = std::log(dim / a.head_dim) / std::log(b.head_dim / a.head_dim);
        return {dim, a.tflops + x * (b.tflops - a.tflops), a.s0 + x * (b.s0 - a.s0)};
    }
    return {dim, points.back().tflops, points.back().s0};
}

double power_of_two(std::int64_t dim) {
    return static_cast<double>(std::bit_ceil(static_cast<std::uint64_t>(std::max<std::int64_t>(dim, 16))));
}

// Flash kernels are made for a few head dimensions, and fill rows up to the next of them (FlashAttention 1: 16, 32, 64, 128; 2: multiples
// of 32, its head_size_rounded; 3: 64, 96, 128, 192, 256; FlexAttention: powers of two, QK_HEAD_DIM_ROUNDED). Where values are of another
// dimension than keys, FlexAttention alone fills each up. On TPUs each is, to whole lanes.
double computed_dimension(const Attention& op, double lanes) {
    const auto filled = [lanes](std::int64_t d) { return lanes * std::ceil(static_cast<double>(d) / lanes); };
    if (lanes > 0) return (filled(op.qk_dim) + filled(op.v_dim)) / 2;
    if (op.kernel == AttentionKernel::flex) return power_of_two(op.qk_dim) / 2 + power_of_two(op.v_dim) / 2;
    const double dim = static_cast<double>(op.qk_dim + op.v_dim) / 2;
    if (op.qk_dim != op.v_dim || dim > 256) return dim;
    const auto next = [&](std::initializer_list<double> made) {
        const auto at = std::lower_bound(made.begin(), made.end(), dim);
        return at == made.end() ? dim : *at;
    };
    switch (op.kernel) {
    case AttentionKernel::flash1:
        return next({16, 32, 64, 128});
    case AttentionKernel::flash2:
        return std::ceil(dim / 32) * 32;
    case AttentionKernel::flash3:
        return next({64, 96, 128, 192, 256});
    default:
        return dim;
    }
}

double penalty(const AttentionWaves& w, double processors, double heads, double rows) {
    const double blocks = heads * std::ceil(rows / w.rows) / processors;
    const double waves = blocks > 1 ? ((1 - w.soft_waves) * std::ceil(blocks) + w.soft_waves * blocks) / blocks : 1;
    const double critical = w.critical * 2 * w.rows * processors / (heads * rows);
    return waves * std::pow(1 + std::pow(critical / waves, 1.5), 1 / 1.5);
}

double bytes(const Attention& op) {
    const double b = static_cast<double>(op.batch), q = static_cast<double>(op.seq_q * op.heads),
                 kv = static_cast<double>(op.seq_kv * op.kv_heads);
    const double once = b * (q + kv) * static_cast<double>(op.qk_dim + op.v_dim) * bytes_per_element(op.dtype);
    return op.direction == Direction::forward ? once : 2.5 * once;
}

} // namespace

double attention_us(const KernelTables& tables, const AttentionTable& table, const AttentionDevice& device, const Attention& op) {
    const bool forward = op.direction == Direction::forward;
    const AttentionSeries& series = forward ? table.forward : table.backward;
    const bool causal = op.causal || op.share < 0.75;
    const double dim = computed_dimension(op, tables.systolic.lanes);
    const AttentionPoint point = at_dimension(causal ? series.causal : series.full, dim);

    const double heads = static_cast<double>(op.batch * op.heads), rows = static_cast<double>(op.seq_q),
                 keys = static_cast<double>(op.seq_kv);
    // A window has a second edge, in the rows that are past it: all but window / keys = 1 - edges of them.
    const double edges = std::sqrt(std::max(0.0, 1 - 2 * op.share));
    const double mean = std::max(1.0, op.share * keys), overhead = causal ? point.s0 / 2 * (1 + edges) : point.s0;
    const double busy = std::min(1.0, 2 * mean / (mean + overhead)),
                 clock = device.busy_clock > 0 ? device.clock + busy * (device.busy_clock - device.clock) : device.clock,
                 rate = point.tflops * 1e6 * clock * device.tflops_16 / tables.reference_tflops_16;
    const double work = 4 * dim * heads * rows * (mean + overhead) * (forward ? 1.0 : 2.5) / rate;
    const double readme_heads = 2048 / dim;
    const double shape =
        penalty(tables.waves, device.processors, heads, rows) / penalty(tables.waves, device.processors, readme_heads, 16384);
    const double stream = bytes(op) / (0.8 * tables.memory_fused * device.bandwidth);
    const double dropout = op.dropout > 0 ? 1.15 : 1.0; // assumed: the generator's share of the inner loop
    const double kernels = forward ? 1.0 : 2.0;         // backward: row sums of dO O and dQ's conversion around the main kernel
    return tables.waves.start * kernels + std::max(work * std::max(shape, 1.0) * dropout, stream);
}

} // namespace orrery

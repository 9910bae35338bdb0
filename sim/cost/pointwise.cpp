// Times of memory-bound ops (pointwise.hpp).
#include "sim/cost/pointwise.hpp"

#include <algorithm>
#include <cmath>

namespace orrery {
namespace {

const char* entry_name(const Pointwise& p) {
    switch (p.kind) {
    case PointwiseKind::gelu:
        return "gelu";
    case PointwiseKind::relu:
        return "relu";
    case PointwiseKind::swiglu:
        return "swiglu";
    case PointwiseKind::geglu:
        return "geglu";
    case PointwiseKind::bias:
    case PointwiseKind::weighted_bias:
        return "bias";
    case PointwiseKind::positions:
        return p.direction == Direction::forward ? "add" : "bias";
    case PointwiseKind::dropout:
        return "dropout";
    case PointwiseKind::add:
    case PointwiseKind::sum_copies:
    case PointwiseKind::balance:
    case PointwiseKind::merge:
    case PointwiseKind::sum_parts:
    case PointwiseKind::difference:
    case PointwiseKind::outer_step:
        return "add";
    case PointwiseKind::add_scaled:
        return p.direction == Direction::forward ? "add" : "scale";
    case PointwiseKind::bias_dropout_add:
        return "bias-dropout-add";
    case PointwiseKind::rope:
        return "rope";
    case PointwiseKind::latent_rope:
        return "latent-rope";
    case PointwiseKind::weigh:
    case PointwiseKind::clip:
    case PointwiseKind::average:
    case PointwiseKind::own_share:
        return "scale";
    case PointwiseKind::cast:
    case PointwiseKind::cast_columns:
    case PointwiseKind::by_owner:
    case PointwiseKind::one_hot:
        return "cast";
    case PointwiseKind::copy:
    case PointwiseKind::split:
    case PointwiseKind::narrow:
    case PointwiseKind::concat:
    case PointwiseKind::pack:
    case PointwiseKind::unpack:
    case PointwiseKind::join_columns:
    case PointwiseKind::own_part:
    case PointwiseKind::swap:
        return "copy";
    case PointwiseKind::clamp:
        return "clamp";
    case PointwiseKind::squared_relu:
        return "squared-relu";
    case PointwiseKind::softcap:
        return "softcap";
    case PointwiseKind::pad_rows:
        return p.direction == Direction::forward || p.direction == Direction::backward ? "pad-rows" : "unpad-rows";
    case PointwiseKind::score_rows:
        return "score-rows";
    case PointwiseKind::zero:
        return "zero";
    case PointwiseKind::index:
        return "index";
    }
    return "copy";
}

KernelTime timed(const KernelTables& k, MemoryDevice d, double bytes, double phi, int kernels) {
    return {k.kernel_us * kernels + bytes / (phi * k.memory_fused * d.bandwidth), kernels};
}

constexpr double stream = 0.85; // share of the bandwidth at which the bytes of counted sequences go (pointwise.json: eager_source)

// By how much the visits of a class take longer than its bytes, which are counted already.
double beyond_bytes(const KernelTables& k, MemoryDevice d, Visits v, double elements, double scale, double rate) {
    if (rate <= 0 || v.times <= 0) return 0;
    return std::max(0.0, elements * v.times / rate - elements * scale * v.bytes / (stream * k.memory_fused * d.bandwidth));
}

KernelTime by_entry(const PointwiseTable& t, const KernelTables& k, MemoryDevice d, const char* name, Direction direction, double elements,
                    double buffer_bytes, bool fused) {
    const TrafficEntry& e = t.ops.at(name)[direction == Direction::forward ? 0 : 1];
    const std::size_t mode = fused ? 1 : 0;
    const double bytes = buffer_bytes > 0 ? buffer_bytes : elements * e.bytes;
    KernelTime time = timed(k, d, bytes * e.traffic[mode], e.phi[mode], e.kernels[mode]);
    if (fused || elements <= 0) return time;
    const double scale = bytes / (elements * e.bytes);
    for (const auto& [visits, rate] : {std::pair{e.strided, d.strided}, {e.unlike, d.unlike}, {e.narrowing, d.narrowing}})
        time.us += beyond_bytes(k, d, visits, elements, scale, rate);
    return time;
}

// Casts between 16 and 32 bits in PyTorch's elementwise kernel, or its copies of strided rows in 32 bits.
KernelTime passed(const PointwiseTable& t, const KernelTables& k, MemoryDevice d, const char* name, double elements, double bytes,
                  double rate) {
    KernelTime time = by_entry(t, k, d, name, Direction::forward, elements, elements * bytes, false);
    if (rate > 0) time.us = std::max(time.us, k.kernel_us + elements / rate);
    return time;
}

KernelTime operator+(KernelTime a, KernelTime b) { return {a.us + b.us, a.kernels + b.kernels}; }

} // namespace

KernelTime memory_time(const PointwiseTable& t, const KernelTables& k, MemoryDevice d, const Pointwise& op, double buffer_bytes) {
    const bool scores = op.kind == PointwiseKind::score_rows;
    if (scores) return by_entry(t, k, d, "score-rows", op.direction, static_cast<double>(op.elements), 0, op.fused);
    if (op.kind == PointwiseKind::pad_rows) { // of rows moved by an index, counted kernel by kernel
        const bool adjoint = op.direction == Direction::backward || op.direction == Direction::weight_gradient;
        return by_entry(t, k, d, entry_name(op), adjoint ? Direction::backward : Direction::forward, static_cast<double>(op.elements), 0,
                        true);
    }
    if (op.by_expert) return by_entry(t, k, d, "weighted-bias", op.direction, static_cast<double>(op.elements), buffer_bytes, false);
    return by_entry(t, k, d, entry_name(op), op.direction, static_cast<double>(op.elements), buffer_bytes, op.fused);
}

KernelTime rotation_time(const PointwiseTable& t, const KernelTables& k, MemoryDevice d, const Pointwise& op, double buffer_bytes) {
    return by_entry(t, k, d, "rope-halves", op.direction, static_cast<double>(op.elements), buffer_bytes, op.fused);
}

KernelTime memory_time(const PointwiseTable& t, const KernelTables& k, MemoryDevice d, const Norm& op, double buffer_bytes) {
    // Frameworks have always had one kernel for LayerNorm; RMSNorm was spelt out in eager PyTorch, without casts where rows have 32 bits.
    const double bytes_of_16_bits = op.direction == Direction::forward ? 4 : 6, elements = static_cast<double>(op.rows * op.cols);
    const bool wide = buffer_bytes > 1.5 * bytes_of_16_bits * elements;
    const char* name = op.kind == NormKind::layernorm ? "layernorm" : wide ? "rmsnorm-wide" : "rmsnorm";
    return by_entry(t, k, d, name, op.direction, elements, buffer_bytes, op.fused);
}

KernelTime torch_norm_time(const PointwiseTable& t, const KernelTables& k, MemoryDevice d, const Norm& op, double buffer_bytes) {
    Norm fused = op;
    fused.fused = true;
    const auto& own = t.torch_norms;
    const double rows = static_cast<double>(op.rows), share = k.memory_fused * d.bandwidth, turns = rows / std::max(1.0, d.processors);
    KernelTime time = memory_time(t, k, d, fused, buffer_bytes);
    if (op.direction == Direction::forward) {
        time.us = std::max(time.us, k.kernel_us + d.norm_rows[0] * turns);
    } else { // of three buffers the weight's gradient reads two
        const double bytes = buffer_bytes > 0 ? buffer_bytes : 6 * rows * static_cast<double>(op.cols);
        const bool parts = rows > own.partial_rows && static_cast<double>(op.cols) < 16 * d.processors;
        const double weight = std::max(bytes * 2 / 3 / (own.weight * share), parts ? 0.0 : own.weight_row_us * rows);
        const double input = std::max(bytes / (own.input * share), d.norm_rows[1] * turns);
        time.us = std::max(time.us, 2 * k.kernel_us + input + weight);
    }
    if (op.kind != NormKind::rmsnorm) return time;
    Norm steps = op;
    steps.fused = false;
    const KernelTime spelt = memory_time(t, k, d, steps, buffer_bytes);
    return spelt.us < time.us ? KernelTime{spelt.us, time.kernels} : time;
}

double head_norm_us(const PointwiseTable& t, int processors, double rows) {
    return t.head_norms.start_us +
           t.head_norms.block_us * std::min(rows / t.head_norms.rows, t.head_norms.blocks_per_processor * processors);
}

KernelTime memory_time(const PointwiseTable& t, const KernelTables& k, MemoryDevice d, const Softmax& op, double buffer_bytes) {
    return by_entry(t, k, d, op.causal ? "softmax-causal" : "softmax", op.direction,
                    static_cast<double>(op.rows) * static_cast<double>(op.cols), buffer_bytes, op.fused);
}

KernelTime memory_time(const PointwiseTable& t, const KernelTables& k, MemoryDevice d, const Router& op, double buffer_bytes) {
    return by_entry(t, k, d, "router", op.direction, static_cast<double>(op.tokens * op.experts), buffer_bytes, op.fused);
}

namespace {

// Rows from several ranks into the order of their experts, or back, by an index: the gather into padded rows or into rows as they are, and
// its adjoint, an index put that adds; the index put into an empty tensor, of padded rows with a slice behind it, and its adjoint.
KernelTime sort_time(const PointwiseTable& t, const KernelTables& k, MemoryDevice d, const Permute& op) {
    const bool to_experts = (op.direction == Direction::forward) != op.adjoint, padded = op.by == ExpertRows::padded;
    const char* name = to_experts ? padded ? "pad-rows" : "permute-by-index" : op.adjoint && !padded ? "unpermute-by-adding" : "unpad-rows";
    return by_entry(t, k, d, name, op.adjoint ? Direction::backward : Direction::forward, static_cast<double>(op.rows * op.cols), 0, true);
}

} // namespace

KernelTime memory_time(const PointwiseTable& t, const KernelTables& k, MemoryDevice d, const Permute& op) {
    const bool indexed_sort = op.by == ExpertRows::padded || op.by == ExpertRows::added;
    if (op.part == Permute::Part::sort && indexed_sort) return sort_time(t, k, d, op);
    // The adjoint of a gather is a scatter: the entry of a part and direction is that of the forward part and its adjoint.
    const bool forward = op.direction == Direction::forward;
    const bool to_experts = (op.part == Permute::Part::gather) == forward, by_index = op.by != ExpertRows::kernels;
    const char* name = op.part == Permute::Part::sort     ? "sort-rows"
                       : by_index && to_experts           ? "permute-by-index"
                       : op.by == ExpertRows::padded      ? "unpermute-by-index"
                       : op.by == ExpertRows::added       ? "unpermute-by-adding"
                       : op.by == ExpertRows::gathered    ? "unpermute-by-gathering"
                       : op.part == Permute::Part::gather ? "permute"
                                                          : "unpermute";
    // A token is read once for each of its rows.
    return by_entry(t, k, d, name, op.direction, static_cast<double>(op.rows * op.cols), 0, op.fused || by_index);
}

KernelTime memory_time(const PointwiseTable& t, const KernelTables& k, MemoryDevice d, const CrossEntropy& op, LossSteps steps) {
    const std::size_t modes[] = {0, 2, 3, 5, 0}, compiled[] = {0, 2, 7, 8, 0}, fused[] = {1, 1, 4, 4, 6},
                      mode = (op.fused         ? fused
                              : steps.compiled ? compiled
                                               : modes)[static_cast<std::size_t>(steps.eager)],
                      part = static_cast<std::size_t>(op.part);
    const double per_token = 16; // the target, its logit and the statistics
    const double tokens = static_cast<double>(op.tokens), logits = tokens * static_cast<double>(op.vocab);
    const double bytes = logits * t.loss_bytes[mode][part] + tokens * per_token;
    // Megatron's sequence is plain streams of fp32, long enough to run as fast as fused kernels do.
    KernelTime time = timed(k, d, bytes,
                            mode == 0                ? t.loss_stream_phi
                            : mode == 2              ? t.loss_whole_phi
                            : mode == 3 || mode == 5 ? t.loss_autocast_phi
                            : mode >= 7              ? t.loss_compiled_phi
                                                     : t.loss_phi,
                            t.loss_kernels[mode][part]);
    const bool sums = op.part == CrossEntropy::Part::sums;
    if (op.fused || (!sums && op.part != CrossEntropy::Part::gradient)) return time;
    if (steps.casts) time = time + passed(t, k, d, "cast", logits, 6, sums ? d.unlike : d.narrowing);
    if (!steps.shifted) return time;
    time = time + passed(t, k, d, "copy", logits, 8, d.strided);
    return sums ? time : time + passed(t, k, d, "zero", logits, 4, 0);
}

KernelTime memory_time(const PointwiseTable& t, const KernelTables& k, MemoryDevice d, const Embedding& op, double element_bytes,
                       bool wide_gradient) {
    const double rows = static_cast<double>(op.tokens * op.hidden) * element_bytes;
    if (op.direction == Direction::forward) return timed(k, d, 2 * rows, t.embedding_phi, 1);
    const double table = static_cast<double>(op.vocab * op.hidden);
    const double dense = table * element_bytes + (wide_gradient ? table * (element_bytes + 8) : 0);
    return timed(k, d, 3 * rows + dense, t.embedding_phi, wide_gradient ? 4 : 3);
}

namespace {

// Bytes of a pass over parameters: the table's, or less where the buffers hold less; eager sequences in proportion.
double parameter_bytes(const std::array<double, 2>& per_parameter, double elements, bool fused, double buffer_bytes) {
    double bytes = elements * per_parameter[1];
    if (buffer_bytes > 0) bytes = std::min(bytes, buffer_bytes);
    return fused ? bytes : bytes * per_parameter[0] / per_parameter[1];
}

int launches(const PointwiseTable& t, std::int64_t elements) {
    return 1 + static_cast<int>(static_cast<double>(elements) / t.optimizer_kernel_elements);
}

} // namespace

KernelTime memory_time(const PointwiseTable& t, const KernelTables& k, MemoryDevice d, const GradientNorm& op, double buffer_bytes) {
    const double bytes = parameter_bytes(t.optimizer.at("gradient_norm"), static_cast<double>(op.elements), op.fused, buffer_bytes);
    return timed(k, d, bytes, t.optimizer_phi, launches(t, op.elements) + 1);
}

// Muon steps on one matrix after another, in PyTorch's own operators, whatever the buffers are that the plan has for it.
KernelTime muon_time(const PointwiseTable& t, const KernelTables& k, MemoryDevice d, const OptimizerStep& op) {
    const bool direction = op.part == OptimizerStep::Part::direction, orthogonal = op.part == OptimizerStep::Part::orthogonal;
    const char* name = direction ? "muon_direction" : orthogonal ? "muon_orthogonal" : "muon_apply";
    const auto [each, bytes] = t.optimizer.at(name);
    const auto matrices = static_cast<double>(std::max<std::int64_t>(1, op.matrices));
    return timed(k, d, static_cast<double>(op.elements) * bytes, t.optimizer_phi, static_cast<int>(each * matrices));
}

double optimizer_bytes(const PointwiseTable& t, const OptimizerStep& op, double buffer_bytes) {
    const char* names[] = {"sgd", "momentum", "adam", "lamb", "lars", "muon_apply"};
    return parameter_bytes(t.optimizer.at(names[static_cast<std::size_t>(op.kind)]), static_cast<double>(op.elements), op.fused,
                           buffer_bytes);
}

KernelTime memory_time(const PointwiseTable& t, const KernelTables& k, MemoryDevice d, const OptimizerStep& op, double buffer_bytes) {
    if (op.kind == OptimizerKind::muon) return muon_time(t, k, d, op);
    const int kernels = launches(t, op.elements) * (op.fused ? 1 : t.optimizer_eager_kernels);
    return timed(k, d, optimizer_bytes(t, op, buffer_bytes), t.optimizer_phi, kernels);
}

} // namespace orrery

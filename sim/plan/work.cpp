#include "sim/plan/work.hpp"

#include "topology/overloaded.hpp"

#include <algorithm>

namespace orrery {
namespace {

double product(std::initializer_list<std::int64_t> dims) {
    double p = 1;
    for (std::int64_t d : dims) p *= static_cast<double>(d);
    return p;
}

const char* pointwise_name(const Pointwise& p) {
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
        return "add";
    case PointwiseKind::bias_dropout_add:
        return "bias-dropout-add";
    case PointwiseKind::rope:
        return "rope";
    case PointwiseKind::latent_rope:
        return "latent-rope";
    case PointwiseKind::weigh:
    case PointwiseKind::clip:
    case PointwiseKind::own_share:
        return "scale";
    case PointwiseKind::cast:
    case PointwiseKind::cast_columns:
        return "cast";
    case PointwiseKind::copy:
        return "copy";
    case PointwiseKind::zero:
        return "zero";
    case PointwiseKind::index:
        return "index";
    case PointwiseKind::merge:
        return "merge";
    case PointwiseKind::split:
    case PointwiseKind::narrow:
    case PointwiseKind::concat:
    case PointwiseKind::pack:
    case PointwiseKind::unpack:
    case PointwiseKind::join_columns:
    case PointwiseKind::pad_rows:
    case PointwiseKind::score_rows:
        return "copy";
    case PointwiseKind::one_hot:
        return "one-hot";
    case PointwiseKind::clamp:
        return "clamp";
    case PointwiseKind::squared_relu:
        return "squared-relu";
    case PointwiseKind::softcap:
        return "softcap";
    case PointwiseKind::average:
        return "average";
    case PointwiseKind::by_owner:
        return "cast";
    case PointwiseKind::sum_parts:
        return "add";
    case PointwiseKind::own_part:
        return "copy";
    case PointwiseKind::swap:
        return "swap";
    case PointwiseKind::difference:
        return "difference";
    case PointwiseKind::outer_step:
        return "outer-step";
    case PointwiseKind::add_scaled:
        return p.direction == Direction::forward ? "add" : "scale";
    }
    return "?";
}

} // namespace

GemmShape gemm_shape(const Linear& l) {
    switch (l.direction) {
    case Direction::input_gradient:
        return {l.m, l.k, l.n};
    case Direction::weight_gradient:
        return {l.n, l.k, l.m};
    default:
        return {l.m, l.n, l.k};
    }
}

const char* name(CollectiveKind k) {
    switch (k) {
    case CollectiveKind::all_reduce:
        return "all-reduce";
    case CollectiveKind::all_gather:
        return "all-gather";
    case CollectiveKind::reduce_scatter:
        return "reduce-scatter";
    case CollectiveKind::all_to_all:
        return "all-to-all";
    case CollectiveKind::broadcast:
        return "broadcast";
    case CollectiveKind::shift:
        return "shift";
    case CollectiveKind::shift_back:
        return "shift-back";
    }
    return "?";
}

const char* name(Compress::Part p) {
    constexpr const char* all[] = {"feed",   "feed-momentum", "feed-drift", "project", "orthonormal", "turn",      "expand", "miss",
                                   "choose", "spread",        "drop",       "signs",   "unsent",      "sum-signs", "unpack", "apply-drift"};
    return all[static_cast<std::size_t>(p)];
}

Flops flops(const Work& work) {
    return std::visit(Overloaded{
                          [](const Linear& l) {
                              return Flops{2 * product({l.groups, l.m, l.n, l.k})};
                          },
                          [](const Matmul& x) {
                              return Flops{2 * product({x.batch, x.m, x.n, x.k})};
                          },
                          // Backward of flash attention runs five GEMMs where forward runs two.
                          [](const Attention& a) {
                              const double square = product({a.batch, a.heads, a.seq_q, a.seq_kv}) * a.share;
                              const double qk = static_cast<double>(a.qk_dim), v = static_cast<double>(a.v_dim);
                              return Flops{square * 2 * (a.direction == Direction::forward ? qk + v : 3 * qk + 2 * v)};
                          },
                          [](const OptimizerStep& o) {
                              const double m = static_cast<double>(std::min(o.rows, o.cols)),
                                           n = static_cast<double>(std::max(o.rows, o.cols));
                              return Flops{newton_schulz_iterations * static_cast<double>(o.matrices) * (4 * m * m * n + 2 * m * m * m)};
                          },
                          [](const auto&) { return Flops{0}; },
                      },
                      work);
}

const char* kind_name(const Work& work) {
    return std::visit(
        Overloaded{
            [](const Linear&) { return "linear"; },
            [](const Matmul&) { return "matmul"; },
            [](const Attention&) { return "attention"; },
            [](const Softmax&) { return "softmax"; },
            [](const Norm&) { return "norm"; },
            [](const Pointwise& p) { return pointwise_name(p); },
            [](const Embedding&) { return "embedding"; },
            [](const CrossEntropy&) { return "cross-entropy"; },
            [](const Router&) { return "router"; },
            [](const Permute& p) {
                return p.part == Permute::Part::gather ? "permute" : p.part == Permute::Part::scatter ? "unpermute" : "sort-rows";
            },
            [](const OptimizerStep&) { return "optimizer"; },
            [](const GradientNorm&) { return "gradient-norm"; },
            [](const Compress&) { return "compress"; },
            [](const Collective& c) { return name(c.kind); },
            [](const Exchange&) { return "exchange"; },
            [](const Copy&) { return "copy-host"; },
            [](const HostSync&) { return "host-sync"; },
            [](const HostWork&) { return "host-work"; },
            [](const Alloc&) { return "alloc"; },
            [](const Free&) { return "free"; },
        },
        work);
}

bool is_memory_op(const Work& work) { return std::holds_alternative<Alloc>(work) || std::holds_alternative<Free>(work); }

} // namespace orrery

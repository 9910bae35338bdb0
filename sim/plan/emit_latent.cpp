// Latent attention and what joins values: forward and adjoint.
#include "sim/plan/emitter.hpp"

namespace orrery {
namespace {

PointwiseKind work_of(NodeKind kind) {
    if (kind == NodeKind::narrow) return PointwiseKind::narrow;
    return kind == NodeKind::concat ? PointwiseKind::concat : PointwiseKind::latent_rope;
}

} // namespace

bool Emitter::forward_latent(const Node& n, const std::vector<BufferId>& in, std::vector<BufferId>& out, bool recomputing) {
    switch (n.kind) {
    case NodeKind::narrow:
    case NodeKind::concat:
    case NodeKind::latent_join: {
        std::vector<BufferId> outs; // joined, or for context parallelism queries, keys and values apart
        std::int64_t count = 0;
        for (ValueId v : n.out) {
            outs.push_back(output_for(v, out, recomputing));
            count += elements(value(v));
        }
        emit(n.name + (recomputing ? ".again" : ""), Pointwise{work_of(n.kind), Direction::forward, count, n.fused}, in, outs);
        return true;
    }
    default:
        return false;
    }
}

bool Emitter::backward_latent(const Node& n, BufferId dy) {
    const auto work = [&](PointwiseKind kind) {
        std::int64_t count = 0;
        for (ValueId v : n.out) count += elements(value(v));
        return Pointwise{kind, Direction::backward, count, n.fused};
    };
    switch (n.kind) {
    case NodeKind::narrow: { // into the columns that the gradient of the others left free
        BufferId& whole = gradient[static_cast<std::size_t>(n.in[0])];
        const BufferId joined = view(value(n.in[0]).name + ".grad.joined", whole, l.buffer(whole).placement);
        emit(n.name + ".bwd", work(work_of(n.kind)), {dy, whole}, {joined});
        whole = joined;
        return true;
    }
    case NodeKind::concat:
    case NodeKind::latent_join: {
        std::vector<BufferId> joined, parts;
        for (ValueId v : n.out) joined.push_back(gradient[static_cast<std::size_t>(v)]);
        for (ValueId v : n.in) parts.push_back(fresh_gradient(v));
        emit(n.name + ".bwd", work(work_of(n.kind)), joined, parts);
        for (std::size_t i = 0; i < n.in.size(); ++i) add_gradient(n.in[i], parts[i], true);
        return true;
    }
    default:
        return false;
    }
}

} // namespace orrery

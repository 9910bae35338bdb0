// Latent attention and what joins values: forward and adjoint.
#include "sim/plan/emitter.hpp"

namespace orrery {

bool Emitter::forward_latent(const Node& n, const std::vector<BufferId>& in, std::vector<BufferId>& out, bool recomputing) {
    const auto work = [&] { return Pointwise{n.kind == NodeKind::latent_join ? PointwiseKind::rope : PointwiseKind::copy, Direction::forward, elements(value(n.out[0])), n.fused}; };
    switch (n.kind) {
    case NodeKind::narrow:
    case NodeKind::concat:
    case NodeKind::latent_join: emit(n.name + (recomputing ? ".again" : ""), work(), in, {output_for(n.out[0], out, recomputing)}); return true;
    default: return false;
    }
}

bool Emitter::backward_latent(const Node& n, BufferId dy) {
    const auto work = [&](PointwiseKind kind) { return Pointwise{kind, Direction::backward, elements(value(n.out[0])), n.fused}; };
    switch (n.kind) {
    case NodeKind::narrow: {   // into the columns that the gradient of the others left free
        BufferId& whole = gradient[static_cast<std::size_t>(n.in[0])];
        const BufferId joined = view(value(n.in[0]).name + ".grad.joined", whole, l.buffer(whole).placement);
        emit(n.name + ".bwd", work(PointwiseKind::copy), {dy, whole}, {joined});
        whole = joined;
        return true;
    }
    case NodeKind::concat:
    case NodeKind::latent_join: {
        std::vector<BufferId> parts;
        for (ValueId v : n.in) parts.push_back(fresh_gradient(v));
        emit(n.name + ".bwd", work(n.kind == NodeKind::concat ? PointwiseKind::copy : PointwiseKind::rope), {dy}, parts);
        for (std::size_t i = 0; i < n.in.size(); ++i) add_gradient(n.in[i], parts[i], true);
        return true;
    }
    default: return false;
    }
}

} // namespace orrery

// Latent attention and what joins values: forward and adjoint.
#include "sim/plan/emitter.hpp"

namespace orrery {
namespace {

// What puts values side by side takes them apart the other way round.
Pointwise work_of(const Emitter& e, const Node& n, Direction direction) {
    const bool apart = n.kind == NodeKind::apart;
    if (apart) direction = direction == Direction::forward ? Direction::backward : Direction::forward;
    const PointwiseKind kind = n.kind == NodeKind::narrow            ? PointwiseKind::narrow
                               : apart || n.kind == NodeKind::concat ? PointwiseKind::concat
                                                                     : PointwiseKind::latent_rope;
    std::int64_t count = 0;
    for (ValueId v : n.out) count += elements(e.value(v));
    return {kind, direction, count, n.fused};
}

} // namespace

// Side by side, apart, cut, or joined for attention: one result, or for context parallelism queries, keys and values apart.
void Emitter::forward_joined(const Node& n, const Making& m) {
    const std::vector<BufferId> outs = outputs(n, m);
    emit(name_of(n, m), work_of(*this, n, Direction::forward), m.in, outs);
}

// Into the columns that the gradient of the others left free.
void Emitter::adjoint_narrow(const Node& n, BufferId dy) {
    BufferId& whole = gradient[n.in[0]];
    const BufferId joined = view(value(n.in[0]).name + ".grad.joined", whole, l.buffer(whole).placement);
    emit(n.name + ".bwd", work_of(*this, n, Direction::backward), {dy, whole}, {joined});
    whole = joined;
}

void Emitter::adjoint_joined(const Node& n, BufferId) {
    std::vector<BufferId> joined, parts;
    for (ValueId v : n.out) joined.push_back(gradient[v]);
    for (ValueId v : n.in) parts.push_back(fresh_gradient(v));
    emit(n.name + ".bwd", work_of(*this, n, Direction::backward), joined, parts);
    for (std::size_t i = 0; i < n.in.size(); ++i) add_gradient(n.in[i], parts[i], true);
}

} // namespace orrery

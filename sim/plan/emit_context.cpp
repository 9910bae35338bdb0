// Rules of context parallelism's composites, forward and adjoint (passes/context_parallel.cpp puts them in).
//
// gather_context: all-gather of a K/V shard, gathered again where the backward pass reads it; adjoint reduce-scatter.
#include "sim/plan/emitter.hpp"

#include <fmt/format.h>

namespace orrery {
namespace {

Op& on_context(Emitter& e, const std::string& name, CollectiveKind kind, Bytes bytes, DType dtype, std::vector<BufferId> in, std::vector<BufferId> out) {
    const CommId cp = e.l.comm("cp");
    Op op = e.make_op(name, Collective{kind, cp, bytes, dtype}, std::move(in), std::move(out));
    op.queue = queue_of(cp);
    return e.push(std::move(op));
}

} // namespace

BufferId Emitter::gather_context(const Node& n, BufferId shard, BufferId whole, const char* suffix) {
    const Value& v = value(n.out[0]);
    on_context(*this, n.name + suffix, CollectiveKind::all_gather, bytes(v.shape, v.dtype), v.dtype, {shard}, {whole});
    return whole;
}

void Emitter::forward_context(const Node& n, const std::vector<BufferId>& in, std::vector<BufferId>& out, bool recomputing) {
    const char* again = recomputing ? ".again" : "";
    switch (n.kind) {
    case NodeKind::split: {
        std::vector<BufferId> parts;
        for (ValueId v : n.out) parts.push_back(output_for(v, out, recomputing));
        emit(n.name + again, Pointwise{PointwiseKind::copy, Direction::forward, elements(value(n.in[0])), true}, in, parts);
        break;
    }
    case NodeKind::gather_context: gather_context(n, in[0], output_for(n.out[0], out, recomputing), again); break;
    default: break;
    }
}

void Emitter::backward_context(const Node& n, BufferId dy) {
    const DType act = activation_dtype(s());
    const auto fresh = [&](ValueId v) {
        const BufferId b = make(value(v).name + ".grad", value(v), act);
        l.buffer(b).placement = gradient_placement(value(v).placement);
        return b;
    };
    switch (n.kind) {
    case NodeKind::split: {
        std::vector<BufferId> parts;
        for (ValueId v : n.out) parts.push_back(gradient[static_cast<std::size_t>(v)]);
        const BufferId packed = fresh(n.in[0]);
        emit(n.name + ".bwd", Pointwise{PointwiseKind::copy, Direction::backward, elements(value(n.in[0])), true}, parts, {packed});
        add_gradient(n.in[0], packed, true);
        break;
    }
    case NodeKind::gather_context: {
        const BufferId shard = fresh(n.in[0]);
        on_context(*this, n.name + ".adjoint", CollectiveKind::reduce_scatter, bytes(value(n.out[0]).shape, act), act, {gradient[static_cast<std::size_t>(n.out[0])]}, {shard});
        add_gradient(n.in[0], shard, true);
        break;
    }
    default: break;
    }
}

} // namespace orrery

// Rules of attention in separate steps, forward and adjoint: two batched GEMMs, a softmax between them, and the kernels that only move
// or add, which Megatron-LM's CoreAttention and its like run around them:
//
//   scores    a bias by distance (ALiBi) comes in as the product's third operand: it is copied to the result's place before
//   context   heads of a sequence, one after the other, become columns of a token again
//   adjoint   gradients of queries, keys and values, made apart, are joined to that of what they were cut from
//
// Such a kernel reads and writes its tensor once; the plan keeps the tensor where it is (the runtime's GEMMs work by strides).
#include "sim/plan/emitter.hpp"

namespace orrery {

BufferId Emitter::passed(const std::string& name, Direction direction, BufferId b, bool fused, PointwiseKind kind) {
    const BufferId owner = l.buffer(b).storage >= 0 ? l.buffer(b).storage : b;
    const BufferId there = view(name, owner, l.buffer(b).placement);
    std::int64_t count = 1;
    for (std::int64_t d : l.buffer(b).shape) count *= d;
    emit(name, Pointwise{kind, direction, count, fused}, {b}, {there});
    return there;
}

// A fused kernel of the plan reads what the copies were made of. They live until the backward pass; where none follows, or where it makes
// them again, they keep no memory.
void Emitter::forward_copy_heads(const Node& n, const Making& m) {
    const Pointwise copy{PointwiseKind::index, Direction::forward, elements(value(n.out[0])), n.fused};
    const bool read_later = needs_gradient[n.out[0]] && (m.again || !n.recompute || value(n.out[0]).saved);
    if (s().runtime.attention_kernel == AttentionKernel::unfused || read_later) {
        emit(name_of(n, m), copy, m.in, {output(n, 0, m)});
        return;
    }
    const Buffer& whole = l.buffer(m.in[0]);
    const BufferId there = view(name_of(n, m), whole.storage >= 0 ? whole.storage : m.in[0], whole.placement);
    emit(name_of(n, m), copy, m.in, {there});
    m.out[n.in[0]] = m.out[n.out[0]] = there;
}

void Emitter::forward_scores(const Node& n, const Making& m) {
    const AttentionShape& a = n.attention;
    const BufferId scores = output(n, 0, m);
    emit(name_of(n, m), Matmul{Direction::forward, a.batch * a.heads, a.seq_q, a.seq_kv, a.qk_dim, dtype_of(n), a.causal}, m.in, {scores});
    if (s().model.position == PositionKind::alibi) m.out[n.out[0]] = passed(name_of(n, m) + ".alibi", Direction::forward, scores, n.fused);
}

void Emitter::forward_softmax(const Node& n, const Making& m) {
    const AttentionShape& a = n.attention;
    emit(name_of(n, m), Softmax{Direction::forward, a.batch * a.heads * a.seq_q, a.seq_kv, a.causal, n.fused}, m.in, {output(n, 0, m)});
}

void Emitter::forward_context(const Node& n, const Making& m) {
    const AttentionShape& a = n.attention;
    const BufferId o = output(n, 0, m);
    emit(name_of(n, m),
         Matmul{Direction::forward, a.batch * a.heads, a.seq_q, a.v_dim, a.seq_kv, dtype_of(n), a.causal, Matmul::Part::context}, m.in,
         {o});
    if (m.again && value(n.out[0]).saved) return; // nobody reads it again
    m.out[n.out[0]] = passed(name_of(n, m) + ".heads", Direction::forward, o, n.fused);
}

namespace {

std::vector<BufferId> with_copies(Emitter& e, const Node& n, std::vector<BufferId> list, std::size_t from) {
    for (std::size_t i = from; i < n.in.size(); ++i) list.push_back(e.need(n.in[i]));
    return list;
}

} // namespace

// The type in which the copies' gradients are added up. A fused kernel's adjoint has read the copies too: they live until here.
void Emitter::adjoint_copy_heads(const Node& n, BufferId) {
    const BufferId copies = s().runtime.attention_kernel == AttentionKernel::unfused ? -1 : need(n.out[0]);
    BufferId& whole = gradient[n.in[0]];
    whole = passed(n.name + ".grad", Direction::backward, whole, n.fused, PointwiseKind::index);
    if (copies >= 0) block->ops.back().in.push_back(copies);
}

// dP = dO V^T;  dV = P^T dO, the V part of dqkv.
void Emitter::adjoint_context(const Node& n, BufferId dy) {
    const AttentionShape& a = n.attention;
    const DType act = activation_dtype(s());
    const std::int64_t batch = a.batch * a.heads;
    const BufferId dp = fresh_gradient(n.in[0]), dqkv = fresh_gradient(n.in[1]);
    const BufferId p = need(n.in[0]), qkv = need(n.in[1]);
    emit(n.name + ".dP", Matmul{Direction::input_gradient, batch, a.seq_q, a.seq_kv, a.v_dim, act, a.causal, Matmul::Part::d_probabilities},
         with_copies(*this, n, {dy, qkv}, 2), {dp});
    emit(n.name + ".dV", Matmul{Direction::input_gradient, batch, a.seq_kv, a.v_dim, a.seq_q, act, a.causal, Matmul::Part::d_values},
         {p, dy}, {dqkv});
    add_gradient(n.in[0], dp, true);
    gradient[n.in[1]] = dqkv;
}

// dQ = dS K;  dK = dS^T Q, the other parts of the same dqkv: whole when all three are there.
void Emitter::adjoint_scores(const Node& n, BufferId dy) {
    const AttentionShape& a = n.attention;
    const DType act = activation_dtype(s());
    const std::int64_t batch = a.batch * a.heads;
    const BufferId qkv = need(n.in[0]), v_alone = gradient[n.in[0]];
    const std::string name = value(n.in[0]).name + ".grad";
    const BufferId q_too = view(name + ".qv", v_alone, l.buffer(v_alone).placement),
                   whole = view(name + ".qkv", v_alone, l.buffer(v_alone).placement);
    emit(n.name + ".dQ", Matmul{Direction::input_gradient, batch, a.seq_q, a.qk_dim, a.seq_kv, act, a.causal, Matmul::Part::d_queries},
         with_copies(*this, n, {dy, qkv, v_alone}, 1), {q_too});
    emit(n.name + ".dK", Matmul{Direction::input_gradient, batch, a.seq_kv, a.qk_dim, a.seq_q, act, a.causal, Matmul::Part::d_keys},
         {dy, qkv, q_too}, {whole});
    gradient[n.in[0]] = passed(name + ".joined", Direction::backward, whole, n.fused);
}

void Emitter::adjoint_softmax(const Node& n, BufferId dy) {
    const AttentionShape& a = n.attention;
    const std::int64_t batch = a.batch * a.heads;
    const BufferId ds = view(value(n.in[0]).name + ".grad", dy, l.buffer(dy).placement); // in place
    emit(n.name + ".bwd", Softmax{Direction::backward, batch * a.seq_q, a.seq_kv, a.causal, n.fused}, {dy, need(n.out[0])}, {ds});
    add_gradient(n.in[0], ds, true);
}

} // namespace orrery

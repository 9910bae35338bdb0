// Rules of context parallelism's composites, forward and adjoint (passes/context_parallel.cpp puts them in).
//
// gather_context        all-gather of a K/V shard, gathered again where the backward pass reads it; adjoint reduce-scatter.
// to_heads, from_heads  all-to-all with a copy that brings a rank's part together; adjoint the mirror.
// ring_attention        step i meets the block from i ranks before, while the next one is on its way; results are merged by their
//                       log-sum-exps in fp32. Kept are Q, O, log-sum-exp and the block that came last: the backward pass starts with
//                       that, and sends K/V home the other way, the sum of their gradients one step after (as Transformer Engine does).
#include "sim/plan/emitter.hpp"

#include <fmt/format.h>

namespace orrery {
namespace {

void on_context(Emitter& e, const std::string& name, CollectiveKind kind, Bytes bytes, DType dtype, std::vector<BufferId> in,
                std::vector<BufferId> out) {
    const CommId cp = e.l.comm("cp");
    Op op = e.make_op(name, Collective{kind, cp, bytes, dtype}, std::move(in), std::move(out));
    op.queue = queue_of(cp);
    e.push(std::move(op));
}

// A buffer of `like`'s tokens and placement with other columns.
BufferId beside(Emitter& e, const std::string& name, const Value& like, std::int64_t cols) {
    Value v = like;
    v.shape.back() = cols;
    return e.make(name, v, v.dtype);
}

void copy(Emitter& e, PointwiseKind kind, const std::string& name, Direction direction, BufferId from, BufferId to, std::int64_t elements) {
    e.emit(name, Pointwise{kind, direction, elements, true}, {from}, {to});
}

// Between tokens and heads: the rank's own tokens with all heads, in the order they are sent, and the exchange.
struct Turn {
    std::int64_t cols;
    Bytes bytes;
};
Turn turn(const Value& tokens, const Value& heads) {
    const std::int64_t cols = elements(heads) / tokens.shape[0];
    return {cols, bytes({tokens.shape[0], cols}, heads.dtype)};
}

constexpr const char* part_names[] = {".q", ".k", ".v"};

} // namespace

BufferId Emitter::gather_context(const Node& n, BufferId shard, BufferId whole, const char* suffix) {
    const Value& v = value(n.out[0]);
    on_context(*this, n.name + suffix, CollectiveKind::all_gather, bytes(v.shape, v.dtype), v.dtype, {shard}, {whole});
    return whole;
}

void Emitter::forward_ring(const Node& n, const Making& m) {
    const std::string again = m.again ? ".again" : "";
    const BufferId q = m.in[0];
    BufferId kv = m.in[1];
    const Value &value_o = value(n.out[0]), &value_lse = value(n.out[1]), &value_kv = value(n.out[2]);
    const std::size_t steps = n.ring.size();
    const DType dtype = value_o.dtype;
    const BufferId sum_o = make(n.name + ".sum" + again, value_o, DType::fp32),
                   sum_lse = make(n.name + ".lse.sum" + again, value_lse, DType::fp32);
    std::vector<BufferId> so_far; // output and log-sum-exp of the steps before
    for (std::size_t i = 0; i < steps; ++i) {
        const std::string step = fmt::format(".{}", i) + again;
        BufferId next = -1;
        if (i + 1 < steps) {
            next = i + 2 == steps ? output(n, 2, m) : make(fmt::format("{}.kv.{}", n.name, i + 1) + again, value_kv, value_kv.dtype);
            on_context(*this, fmt::format("{}.shift.{}", n.name, i + 1) + again, CollectiveKind::shift,
                       bytes(value_kv.shape, value_kv.dtype), value_kv.dtype, {kv}, {next});
        }
        const std::vector<BufferId> part{make(n.name + ".o" + step, value_o, dtype), make(n.name + ".lse" + step, value_lse, DType::fp32)};
        emit(n.name + step, ring_work(n, i, Direction::forward, dtype), {q, kv}, part);
        kv = next;
        if (i == 0) {
            so_far = part;
            continue;
        }
        const std::vector<BufferId> in{so_far[0], so_far[1], part[0], part[1]};
        so_far = i + 1 < steps ? std::vector{sum_o, sum_lse} : std::vector{output(n, 0, m), output(n, 1, m)};
        emit(n.name + ".merge" + step, Pointwise{PointwiseKind::merge, Direction::forward, elements(value_o), true}, in, so_far);
    }
}

// Block after block as they pass on their way home; under a step's attention the next K/V come, and what the ranks after added to
// the gradient of this step's.
void Emitter::adjoint_ring(const Node& n, BufferId dy) {
    const DType act = activation_dtype(s());
    const Value &value_q = value(n.in[0]), &value_kv = value(n.in[1]);
    const std::size_t steps = n.ring.size();
    const BufferId q = need(n.in[0]), o = need(n.out[0]), lse = need(n.out[1]);
    BufferId kv = need(n.out[2]), dq = -1, dkv = -1;
    const auto fresh = [&](const std::string& name, const Value& like) {
        const BufferId b = make(name, like, act);
        l.buffer(b).placement = gradient_placement(like.placement);
        return b;
    };
    for (std::size_t i = 0; i < steps; ++i) {
        const std::string step = fmt::format(".{}", i);
        std::vector<BufferId> sent, received;
        Bytes size{0};
        if (i + 1 < steps) {
            sent.push_back(kv);
            received.push_back(make(n.name + ".kv.home" + step, value_kv, value_kv.dtype));
            size = size + bytes(value_kv.shape, value_kv.dtype);
        }
        if (i > 0) {
            sent.push_back(dkv);
            received.push_back(fresh(n.name + ".dkv.home" + step, value_kv));
            size = size + bytes(value_kv.shape, act);
        }
        on_context(*this, n.name + ".shift_back" + step, CollectiveKind::shift_back, size, act, sent, received);
        const BufferId part_q = fresh(n.name + ".dq" + step, value_q), part_kv = fresh(n.name + ".dkv" + step, value_kv);
        emit(n.name + ".bwd" + step, ring_work(n, steps - 1 - i, Direction::backward, act), {dy, q, kv, o, lse}, {part_q, part_kv});
        if (i + 1 < steps) kv = received.front();
        if (i == 0) {
            dq = part_q;
            dkv = part_kv;
            continue;
        }
        emit(n.name + ".dq.add" + step, Pointwise{PointwiseKind::add, Direction::backward, elements(value_q), true}, {part_q, dq}, {dq});
        dkv = received.back();
        emit(n.name + ".dkv.add" + step, Pointwise{PointwiseKind::add, Direction::backward, elements(value_kv), true}, {part_kv, dkv},
             {dkv});
    }
    add_gradient(n.in[0], dq, true);
    add_gradient(n.in[1], dkv, true);
}

Attention Emitter::ring_work(const Node& n, std::size_t behind, Direction direction, DType dtype) const {
    const RingStep& step = n.ring[behind];
    Attention work = attention_work(n, direction, dtype);
    work.seq_kv = step.seq_kv;
    work.causal = step.causal;
    work.share = step.share;
    work.behind = static_cast<std::int16_t>(behind);
    return work;
}

void Emitter::forward_split(const Node& n, const Making& m) {
    const std::vector<BufferId> parts = outputs(n, m);
    emit(name_of(n, m), Pointwise{PointwiseKind::split, Direction::forward, elements(value(n.in[0])), true}, m.in, parts);
}

void Emitter::forward_gather_context(const Node& n, const Making& m) {
    gather_context(n, m.in[0], output(n, 0, m), m.again ? ".again" : "");
}

void Emitter::forward_to_heads(const Node& n, const Making& m) {
    const std::string again = m.again ? ".again" : "";
    for (std::size_t i = 0; i < n.in.size(); ++i) {
        const Value &tokens = value(n.in[i]), &heads = value(n.out[i]);
        const Turn t = turn(tokens, heads);
        const std::string name = n.name + part_names[i] + again;
        const BufferId packed = beside(*this, name + ".pack", tokens, t.cols);
        copy(*this, PointwiseKind::pack, name + ".pack", Direction::forward, m.in[i], packed, tokens.shape[0] * t.cols);
        on_context(*this, name, CollectiveKind::all_to_all, t.bytes, heads.dtype, {packed}, {output(n, i, m)});
    }
}

void Emitter::forward_from_heads(const Node& n, const Making& m) {
    const std::string again = m.again ? ".again" : "";
    const Value &heads = value(n.in[0]), &tokens = value(n.out[0]);
    const Turn t = turn(tokens, heads);
    const BufferId packed = beside(*this, n.name + again + ".pack", tokens, t.cols);
    on_context(*this, n.name + again, CollectiveKind::all_to_all, t.bytes, heads.dtype, {m.in[0]}, {packed});
    copy(*this, PointwiseKind::unpack, n.name + again + ".unpack", Direction::forward, packed, output(n, 0, m), elements(tokens));
}

void Emitter::adjoint_split(const Node& n, BufferId) {
    std::vector<BufferId> parts;
    for (ValueId v : n.out) parts.push_back(gradient[v]);
    const BufferId packed = fresh_gradient(n.in[0]);
    emit(n.name + ".bwd", Pointwise{PointwiseKind::split, Direction::backward, elements(value(n.in[0])), true}, parts, {packed});
    add_gradient(n.in[0], packed, true);
}

void Emitter::adjoint_gather_context(const Node& n, BufferId dy) {
    const DType act = activation_dtype(s());
    const BufferId shard = fresh_gradient(n.in[0]);
    on_context(*this, n.name + ".adjoint", CollectiveKind::reduce_scatter, bytes(value(n.out[0]).shape, act), act, {dy}, {shard});
    add_gradient(n.in[0], shard, true);
}

void Emitter::adjoint_to_heads(const Node& n, BufferId) {
    const DType act = activation_dtype(s());
    for (std::size_t i = 0; i < n.in.size(); ++i) {
        const Value &tokens = value(n.in[i]), &heads = value(n.out[i]);
        const Turn t = turn(tokens, heads);
        const std::string name = n.name + part_names[i] + ".adjoint";
        const BufferId packed = beside(*this, name + ".pack", tokens, t.cols), local = fresh_gradient(n.in[i]);
        on_context(*this, name, CollectiveKind::all_to_all, t.bytes, act, {gradient[n.out[i]]}, {packed});
        const PointwiseKind kind = t.cols > tokens.shape[1] ? PointwiseKind::sum_copies : PointwiseKind::unpack;
        copy(*this, kind, name + ".unpack", Direction::backward, packed, local, tokens.shape[0] * t.cols);
        add_gradient(n.in[i], local, true);
    }
}

void Emitter::adjoint_from_heads(const Node& n, BufferId dy) {
    const DType act = activation_dtype(s());
    const Value &heads = value(n.in[0]), &tokens = value(n.out[0]);
    const Turn t = turn(tokens, heads);
    const BufferId packed = beside(*this, n.name + ".adjoint.pack", tokens, t.cols), whole = fresh_gradient(n.in[0]);
    copy(*this, PointwiseKind::pack, n.name + ".adjoint.pack", Direction::backward, dy, packed, elements(tokens));
    on_context(*this, n.name + ".adjoint", CollectiveKind::all_to_all, t.bytes, act, {packed}, {whole});
    add_gradient(n.in[0], whole, true);
}

} // namespace orrery

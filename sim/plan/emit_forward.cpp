// Forward rules: what ops each node of a chunk's graph becomes.
#include "sim/plan/emitter.hpp"

#include <cstdio>
#include <cstdlib>
#include <fmt/format.h>
#include <utility>

namespace orrery {

Emitter::Emitter(Lowering& lowering, const Graph& graph) : l(lowering), g(graph) {
    const std::size_t n = g.values.size();
    forward_buffer.assign(n, -1);
    recomputed.assign(n, -1);
    gradient.assign(n, -1);
    producer.assign(n, -1);
    parameter.assign(n, -1);
    for (std::size_t i = 0; i < g.nodes.size(); ++i)
        for (ValueId v : g.nodes[i].out) producer[v] = static_cast<std::int32_t>(i);
    split = l.schedule->splits_backward;
    find_needs();
}

// A chunk's input has a gradient where a chunk before it has something to train.
void Emitter::find_needs() {
    const auto trained = [](const Graph& graph, ValueId p) { return graph.value(p).trained; };
    const int length = static_cast<int>(l.graphs.size()) / l.plan.directions;
    needs_gradient.assign(g.values.size(), 0);
    for (int c = g.chunk / length * length; c < g.chunk && g.input >= 0; ++c)
        for (const Node& n : l.graphs[c].nodes)
            for (ValueId p : n.params) needs_gradient[g.input] |= trained(l.graphs[c], p) ? 1 : 0;
    for (const Node& n : g.nodes) {
        const bool needs = std::any_of(n.params.begin(), n.params.end(), [&](ValueId p) { return trained(g, p); }) ||
                           std::any_of(n.in.begin(), n.in.end(), [&](ValueId v) { return needs_gradient[v] != 0; });
        for (ValueId v : n.out) needs_gradient[v] |= needs ? 1 : 0;
    }
}

BufferId Emitter::make(const std::string& name, const Value& like, DType dtype) {
    Buffer b;
    b.name = fmt::format("c{}.{}", g.chunk, name);
    b.shape = like.shape;
    b.dtype = dtype;
    b.bytes = bytes(like.shape, dtype);
    b.kind = MemoryKind::activations;
    b.scope = Scope::microbatch;
    b.stage = static_cast<std::int16_t>(g.stage);
    b.chunk = static_cast<std::int16_t>(g.chunk);
    b.placement = like.placement;
    b.expert = like.expert;
    if (like.counts) b.role = Role::counts;
    return l.add(std::move(b));
}

BufferId Emitter::view(const std::string& name, BufferId of, const Placement& placement) {
    Buffer b = l.buffer(of);
    b.name = fmt::format("c{}.{}", g.chunk, name);
    b.storage = of;
    b.placement = placement;
    return l.add(std::move(b));
}

Op Emitter::make_op(const std::string& name, Work work, std::vector<BufferId> in, std::vector<BufferId> out) const {
    Op op;
    op.name = name;
    op.work = std::move(work);
    op.phase = phase;
    op.layer = layer;
    op.unit = unit;
    op.eager = eager;
    op.in = std::move(in);
    op.out = std::move(out);
    return op;
}

Op& Emitter::push(Op op) {
    op.mlp_border = std::exchange(mlp_border, false);
    block->ops.push_back(std::move(op));
    return block->ops.back();
}

Op& Emitter::emit_collective(const std::string& name, CollectiveKind kind, Bytes bytes, DType dtype, BufferId in, BufferId out,
                             const char* comm) {
    Op op = make_op(name, Collective{kind, l.comm(comm), bytes, dtype}, {in}, {out});
    op.queue = queue_of(l.comm(comm));
    return push(std::move(op));
}

std::int32_t Emitter::parameter_index(ValueId v) {
    std::int32_t& known = parameter[v];
    if (known < 0) known = find_parameter(v);
    return known;
}

std::int32_t Emitter::find_parameter(ValueId v) {
    auto& parameters = l.parameters[g.stage];
    const Value& value = g.value(v);
    const TensorId tensor = l.tensor(value);
    for (std::size_t i = 0; i < parameters.size(); ++i) {
        Parameter& known = parameters[i];
        if (known.tensor != tensor) continue;
        // If chunks of several directions share it, the first in model order has it, so that it is in the same bucket on all stages.
        const int length = static_cast<int>(l.graphs.size()) / l.plan.directions;
        if (g.chunk % length < known.chunk % length) {
            known.chunk = g.chunk;
            known.unit = unit;
        }
        return static_cast<std::int32_t>(i);
    }
    Parameter p;
    p.tensor = tensor;
    p.stage = g.stage;
    p.chunk = g.chunk;
    p.unit = unit;
    p.elements = elements(value);
    p.matrix = value.shape.size() >= 2;
    p.expert = value.expert;
    Buffer w;
    w.name = "w." + value.name;
    w.shape = value.shape;
    w.dtype = value.dtype;
    w.bytes = bytes(value.shape, value.dtype);
    w.kind = MemoryKind::parameters;
    w.scope = Scope::run;
    w.stage = static_cast<std::int16_t>(g.stage);
    w.chunk = static_cast<std::int16_t>(g.chunk);
    w.placement = value.placement;
    w.expert = value.expert;
    w.role = Role::parameter;
    w.tensor = tensor;
    Buffer grad = w;
    grad.name = "g." + value.name;
    grad.dtype = l.scenario.training.gradient_dtype;
    grad.bytes = bytes(value.shape, grad.dtype);
    grad.kind = MemoryKind::gradients;
    grad.scope = Scope::step;
    grad.role = Role::gradient;
    grad.placement.set(Axis::dp, PlacementKind::partial);
    grad.placement.set(Axis::dpr, PlacementKind::partial);
    grad.placement.set(Axis::cp, PlacementKind::partial); // each context rank has its own tokens
    p.weight = l.add(std::move(w));
    if (value.trained) p.gradient = l.add(std::move(grad));
    parameters.push_back(p);
    return static_cast<std::int32_t>(parameters.size()) - 1;
}

BufferId Emitter::tokens_buffer(int ahead) {
    for (std::size_t i = 0; i < l.plan.buffers.size(); ++i)
        if (const Buffer& b = l.plan.buffers[i]; b.stage == g.stage && b.role == Role::batch && b.ahead == ahead)
            return static_cast<BufferId>(i);
    Buffer b;
    b.name = ahead == 0 ? "tokens" : ahead == 1 ? "labels" : fmt::format("labels.{}", ahead - 1);
    b.role = Role::batch;
    b.ahead = static_cast<std::int16_t>(ahead);
    b.shape = {s().training.micro_batch_size * s().training.sequence_length / s().strategy.context_parallel};
    b.dtype = DType::int64;
    b.bytes = bytes(b.shape, b.dtype) * (l.plan.microbatches / l.plan.steps); // the rank's whole batch of a step
    b.kind = MemoryKind::workspace;
    b.scope = Scope::run;
    b.stage = static_cast<std::int16_t>(g.stage);
    b.placement.set(Axis::dp, PlacementKind::sharded);
    b.placement.set(Axis::dpr, PlacementKind::sharded);
    b.placement.set(Axis::cp, PlacementKind::sharded);
    return l.add(std::move(b));
}

BufferId Emitter::weight(ValueId v) { return l.parameters[g.stage][parameter_index(v)].weight; }
BufferId Emitter::weight_gradient(ValueId v) { return l.parameters[g.stage][parameter_index(v)].gradient; }

BufferId Emitter::input_of(ValueId v, bool recomputing) {
    if (!recomputing) return forward_buffer[v];
    if (recomputed[v] >= 0) return recomputed[v];
    return need(v);
}

BufferId Emitter::output(const Node& n, std::size_t i, const Making& m) {
    const Value& v = value(n.out[i]);
    BufferId& b = m.out[n.out[i]];
    if (b < 0) b = make(m.again ? v.name + ".again" : v.name, v, v.dtype);
    return b;
}

std::vector<BufferId> Emitter::outputs(const Node& n, const Making& m) {
    std::vector<BufferId> list;
    for (std::size_t i = 0; i < n.out.size(); ++i) list.push_back(output(n, i, m));
    return list;
}

std::vector<BufferId> Emitter::with_weights(const Node& n, std::vector<BufferId> list) {
    for (ValueId p : n.params) list.push_back(weight_as_multiplied(p));
    return list;
}

BufferId Emitter::weight_as_multiplied(ValueId p) {
    const BufferId w = weight(p);
    if (l.buffer(w).dtype != DType::nf4) return w;
    const DType act = activation_dtype(s());
    const BufferId wide = make(value(p).name + (phase == Phase::forward ? ".wide" : ".wide.again"), value(p), act);
    l.buffer(wide).kind = MemoryKind::workspace;
    emit(value(p).name + ".widen", Pointwise{PointwiseKind::cast, Direction::forward, elements(value(p)), true}, {w}, {wide});
    return wide;
}

BufferId Emitter::weight_of_gate(const Node& n) {
    const BufferId w = weight_as_multiplied(n.params[0]);
    if (l.buffer(w).dtype == n.gemm_dtype || n.gemm_dtype != DType::fp32) return w;
    const Value& v = value(n.params[0]);
    const BufferId wide = make(v.name + (phase == Phase::forward ? ".fp32" : ".fp32.again"), v, DType::fp32);
    l.buffer(wide).kind = MemoryKind::workspace;
    emit(v.name + ".widen", Pointwise{PointwiseKind::cast, Direction::forward, elements(v), n.fused}, {w}, {wide});
    return wide;
}

// The host waits until this is there.
void Emitter::wait_for(const std::string& name, BufferId b) {
    Op wait = make_op(name + ".wait", HostSync{}, {b}, {});
    wait.queue = host_queue;
    push(std::move(wait));
}

namespace {

double computed_share(const AttentionShape& a) {
    if (a.share > 0) return a.share;
    const double s = static_cast<double>(a.seq_kv);
    if (a.window > 0 && a.window < a.seq_kv) {
        const double w = a.window;
        return (w * s - w * w / 2) / (s * s);
    }
    return a.causal ? 0.5 : 1.0;
}

PointwiseKind pointwise_of(ActivationKind k) {
    switch (k) {
    case ActivationKind::gelu:
        return PointwiseKind::gelu;
    case ActivationKind::relu:
        return PointwiseKind::relu;
    case ActivationKind::swiglu:
        return PointwiseKind::swiglu;
    case ActivationKind::geglu:
        return PointwiseKind::geglu;
    }
    return PointwiseKind::gelu;
}

} // namespace

Attention Emitter::attention_work(const Node& n, Direction direction, DType dtype) const {
    const AttentionKernel kernel = s().runtime.attention_kernel;
    const AttentionShape& a = n.attention;
    if (n.gemm_dtype == DType::fp8) dtype = DType::fp8;
    return {direction, a.batch,  a.seq_q,           a.seq_kv, a.heads, a.kv_heads, a.qk_dim,
            a.v_dim,   a.causal, computed_share(a), dtype,    kernel,  n.dropout};
}

// A weight of three dimensions is one matrix for each expert of this rank; they share the rows that there are.
Linear Emitter::linear_work(const Node& n, Direction direction, DType out) const {
    const auto& w = value(n.params[0]).shape;
    if (w.size() == 2) return {direction, rows(n.out[0]), w[0], w[1], 1, n.gemm_dtype, out};
    return {direction, (filled(n.out[0]) + w[0] - 1) / w[0], w[1], w[2], w[0], n.gemm_dtype, out};
}

PointwiseKind Emitter::activation_work() const { return pointwise_of(s().model.activation); }

void Emitter::stand_for(const Node& n, Op& op) const {
    const bool linear = n.kind == NodeKind::linear;
    op.modules = linear ? modules_of(l, n) : n.adapts;
    op.of_adapter = linear ? n.part == LinearPart::adapter_down : n.site == DropoutSite::none;
}

void Emitter::forward(const Node& n, std::vector<BufferId>& out, bool again) {
    set_place(n);
    if (phase == Phase::forward && n.begins_mlp) mlp_border = true;
    std::vector<BufferId> in;
    for (ValueId v : n.in) in.push_back(input_of(v, again));
    (this->*rule_of(n.kind).forward)(n, {in, out, again});
}

void Emitter::forward_embedding(const Node& n, const Making& m) {
    emit(name_of(n, m), Embedding{Direction::forward, rows(n.out[0]), cols(n.out[0]), value(n.params[0]).shape[0]},
         with_weights(n, {tokens_buffer(tokens_ahead(n))}), {output(n, 0, m)});
}

void Emitter::forward_positions(const Node& n, const Making& m) {
    emit(name_of(n, m), Pointwise{PointwiseKind::positions, Direction::forward, elements(value(n.out[0])), n.fused}, with_weights(n, m.in),
         {output(n, 0, m)});
}

void Emitter::forward_dropout(const Node& n, const Making& m) {
    Op& op =
        emit(name_of(n, m), Pointwise{PointwiseKind::dropout, Direction::forward, elements(value(n.out[0])), n.fused, false, false, n.site},
             m.in, outputs(n, m));
    stand_for(n, op);
}

// Works on whole rows, or on every head's query and key.
void Emitter::forward_norm(const Node& n, const Making& m) {
    const AttentionShape& a = n.attention;
    const Norm work = n.kind == NodeKind::head_norm ? Norm{Direction::forward, NormKind::rmsnorm, rows(n.out[0]) * (a.heads + a.kv_heads),
                                                           a.qk_dim,           n.fused,           a.heads + a.kv_heads}
                                                    : Norm{Direction::forward, s().model.norm, rows(n.out[0]), cols(n.out[0]), n.fused};
    emit(name_of(n, m), work, with_weights(n, m.in), outputs(n, m));
}

// Whether the weight's copy in 8 bits lives from the forward pass to the backward pass: not in layers of which something is made again.
// (Experts' weights are cast by nobody where Practice::keeps_cast_weights holds.)
bool Emitter::keeps_cast_weight(const Node& n) const {
    return l.practice.keeps_cast_weights && n.gemm_dtype == DType::fp8 && n.part != LinearPart::expert_fc1 &&
           n.part != LinearPart::expert_fc2 && n.layer >= 0 &&
           std::none_of(g.nodes.begin(), g.nodes.end(), [&](const Node& other) { return other.layer == n.layer && other.recompute; });
}

void Emitter::forward_linear(const Node& n, const Making& m) {
    const BufferId y = output(n, 0, m);
    const std::vector<BufferId> read =
        n.part == LinearPart::router ? std::vector{m.in[0], weight_of_gate(n)} : with_counts(n, with_weights(n, m.in));
    Op& op = emit(name_of(n, m), linear_work(n, Direction::forward, dtype_of(n)), read, {y});
    op.pieces = n.pieces;
    stand_for(n, op);
    if (keeps_cast_weight(n)) {
        const BufferId kept = cast_weights[n.params[0]] = make(name_of(n, m) + ".weight.cast", value(n.params[0]), DType::fp8);
        op.out.push_back(kept); // what the kernel reads; a cast inside it
    }
    if (l.practice.loops_over_experts && (n.part == LinearPart::expert_fc1 || n.part == LinearPart::expert_fc2)) wait_for(name_of(n, m), y);
    if (n.bias_apart) m.out[n.out[0]] = passed(name_of(n, m) + ".bias", Direction::forward, y, n.fused);
}

// One packed result, or queries, keys and values apart.
void Emitter::forward_rope(const Node& n, const Making& m) {
    const AttentionShape& a = n.attention;
    emit(name_of(n, m), Pointwise{PointwiseKind::rope, Direction::forward, rows(n.out[0]) * (a.heads + a.kv_heads) * a.qk_dim, n.fused},
         m.in, outputs(n, m));
}

void Emitter::forward_attention(const Node& n, const Making& m) {
    emit(name_of(n, m), attention_work(n, Direction::forward, dtype_of(n)), m.in, outputs(n, m));
}

void Emitter::forward_clamp(const Node& n, const Making& m) {
    emit(name_of(n, m), Pointwise{PointwiseKind::clamp, Direction::forward, elements(value(n.out[0])), n.fused}, m.in, {output(n, 0, m)});
}

// Step by step, what the gate became is kept as well.
void Emitter::forward_activation(const Node& n, const Making& m) {
    emit(name_of(n, m), Pointwise{activation_work(), Direction::forward, elements(value(n.out[0])), n.fused, fused_expert(n)}, m.in,
         outputs(n, m));
}

void Emitter::forward_residual(const Node& n, const Making& m) {
    const bool plain = n.out.size() == 1 && n.params.empty();
    emit(name_of(n, m),
         Pointwise{plain ? PointwiseKind::add : PointwiseKind::bias_dropout_add, Direction::forward, elements(value(n.out[0])), n.fused,
                   false, false, n.site},
         with_weights(n, m.in), outputs(n, m));
}

void Emitter::forward_adapt(const Node& n, const Making& m) {
    std::vector<BufferId> in = m.in;
    if (l.practice.scales_adapters_apart) { // the sum scales here: this is what the kernel takes
        in[1] = make(name_of(n, m) + ".scaled", value(n.in[1]), value(n.in[1]).dtype);
        emit(name_of(n, m) + ".scale", Pointwise{PointwiseKind::copy, Direction::forward, elements(value(n.out[0])), n.fused}, {m.in[1]},
             {in[1]});
    }
    emit(name_of(n, m), Pointwise{PointwiseKind::add_scaled, Direction::forward, elements(value(n.out[0])), n.fused}, std::move(in),
         {output(n, 0, m)});
}

// A copy that is kept for a backward pass is not made where none comes.
void Emitter::forward_cast(const Node& n, const Making& m) {
    if (value(n.in[0]).kept_as == n.out[0] && !needs_gradient[n.in[0]]) return;
    emit(name_of(n, m),
         Pointwise{cast_kind(n), Direction::forward, elements(value(n.out[0])), n.fused, fused_expert(n) && made_by_activation(n.in[0])},
         m.in, {output(n, 0, m)});
}

void Emitter::forward_enter(const Node& n, const Making& m) {
    if (!n.along_seq) {
        m.out[n.out[0]] = m.in[0];
        return;
    }
    gather_sequence(n, name_of(n, m), value(n.out[0]), m.in[0], output(n, 0, m), n.pieces, !casts_turn(n.out[0]));
}

void Emitter::forward_exit(const Node& n, const Making& m) {
    const DType dtype = dtype_of(n);
    const CollectiveKind kind = n.along_seq ? CollectiveKind::reduce_scatter : CollectiveKind::all_reduce;
    BufferId& result = m.out[n.out[0]];
    const std::string name = value(n.out[0]).name + (m.again ? ".again" : "");
    if (result < 0) result = n.along_seq ? make(name, value(n.out[0]), dtype) : view(name, m.in[0], value(n.out[0]).placement);
    const BufferId summand = n.along_seq ? rank_by_rank(n, name_of(n, m), value(n.in[0]), m.in[0]) : m.in[0];
    emit_collective(name_of(n, m), kind, bytes(value(n.in[0]).shape, dtype), dtype, summand, result).pieces = n.pieces;
}

} // namespace orrery

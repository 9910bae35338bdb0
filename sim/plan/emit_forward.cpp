// Forward rules: what ops each node of a chunk's graph becomes.
#include "sim/plan/emitter.hpp"

#include <cmath>
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
    w.dtype = l.practice.fp32_parameters && (value.trained || value.dtype == activation_dtype(s())) ? DType::fp32 : value.dtype;
    w.bytes = bytes(value.shape, w.dtype);
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
    for (const Axis a : {Axis::dp, Axis::dpr, Axis::dpw, Axis::cp}) // each context rank has its own tokens
        grad.placement.set(a, PlacementKind::partial);
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
    for (const Axis a : {Axis::dp, Axis::dpr, Axis::dpw, Axis::cp}) b.placement.set(a, PlacementKind::sharded);
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
    for (ValueId p : n.params) list.push_back(weight_as_multiplied(n, p));
    return list;
}

bool Emitter::narrows_weight(const Node& n, ValueId p) {
    const bool multiplied = n.kind == NodeKind::linear || n.kind == NodeKind::chunked_loss;
    return multiplied && n.gemm_dtype == activation_dtype(s()) && l.buffer(weight(p)).dtype == DType::fp32 && l.practice.fp32_parameters;
}

// A cast for each module.
BufferId Emitter::cast_of_weight(const Node& n, ValueId p, const std::string& suffix) {
    const BufferId cast = make(value(p).name + suffix, value(p), activation_dtype(s()));
    Op& op =
        emit(value(p).name + suffix, Pointwise{PointwiseKind::cast, Direction::forward, elements(value(p)), n.fused}, {weight(p)}, {cast});
    op.modules = n.kind == NodeKind::linear ? modules_of(l, n) : std::uint8_t{1};
    return cast;
}

// Autocast remembers a parameter's cast until its context ends, which is when the forward pass does (cached_cast and clear_cache of
// aten/src/ATen/autocast_mode.cpp); autograd keeps it beyond that for the gradient of the product's input. A checkpoint that is made
// again enters a context of its own (torch/utils/checkpoint.py), so that its weights are cast once more: none of them was saved.
BufferId Emitter::narrow_weight(const Node& n, ValueId p) {
    const bool again = phase != Phase::forward && n.recompute;
    const auto [known, fresh] = (again ? narrow_again : narrow_weights).try_emplace(p, -1);
    if (!fresh) return known->second;
    const Phase saved = phase;
    if (again) phase = Phase::recompute;
    known->second = cast_of_weight(n, p, again ? ".narrow.again" : ".narrow");
    phase = saved;
    if (!again && value(p).trained) l.cached_casts.push_back(known->second); // a frozen one's is not remembered
    return known->second;
}

BufferId Emitter::weight_as_multiplied(const Node& n, ValueId p) {
    if (narrows_weight(n, p)) return narrow_weight(n, p);
    const BufferId w = weight(p);
    if (l.buffer(w).dtype != DType::nf4) return w;
    const DType act = activation_dtype(s());
    const BufferId wide = make(value(p).name + (phase == Phase::forward ? ".wide" : ".wide.again"), value(p), act);
    l.buffer(wide).kind = MemoryKind::workspace;
    emit(value(p).name + ".widen", Pointwise{PointwiseKind::cast, Direction::forward, elements(value(p)), true}, {w}, {wide});
    return wide;
}

BufferId Emitter::weight_of_gate(const Node& n) {
    const BufferId w = weight_as_multiplied(n, n.params[0]);
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
    case ActivationKind::squared_relu:
        return PointwiseKind::squared_relu;
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

// A compiler puts the factor of the rows into the lookup's kernel.
bool Emitter::scales_embedding_apart() const { return s().model.embedding_scale != 1 && !s().strategy.fused; }

// (The plan's lookup multiplies already. The kernel in which eager code multiplies is a copy here.)
void Emitter::forward_embedding(const Node& n, const Making& m) {
    const BufferId x = output(n, 0, m);
    const BufferId found = scales_embedding_apart() ? make(name_of(n, m) + ".rows", value(n.out[0]), dtype_of(n)) : x;
    emit(name_of(n, m), Embedding{Direction::forward, rows(n.out[0]), cols(n.out[0]), value(n.params[0]).shape[0]},
         with_weights(n, {tokens_buffer(tokens_ahead(n))}), {found});
    if (found != x)
        emit(name_of(n, m) + ".scale", Pointwise{PointwiseKind::copy, Direction::forward, elements(value(n.out[0])), n.fused}, {found},
             {x});
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

// Works on whole rows, on every head's query and key, or on all queries and all keys of a row.
Norm Emitter::norm_work(const Node& n, Direction direction) const {
    const std::int64_t count = rows(n.out[0]), heads = n.attention.heads + n.attention.kv_heads, dim = n.attention.qk_dim;
    if (n.kind != NodeKind::head_norm) return {direction, s().model.norm, count, cols(n.out[0]), n.fused};
    if (s().model.attention.qk_norm_across) return {direction, NormKind::rmsnorm, count, heads * dim, n.fused, heads, true};
    return {direction, NormKind::rmsnorm, count * heads, dim, n.fused, heads};
}

void Emitter::forward_norm(const Node& n, const Making& m) {
    emit(name_of(n, m), norm_work(n, Direction::forward), with_weights(n, m.in), outputs(n, m));
}

// Whether the weight's copy in 8 bits lives from the forward pass to the backward pass: not in layers of which something is made again.
// (Experts' weights are cast by nobody where Practice::keeps_cast_weights holds.)
bool Emitter::keeps_cast_weight(const Node& n) const {
    return l.practice.keeps_cast_weights && n.gemm_dtype == DType::fp8 && n.part != LinearPart::expert_fc1 &&
           n.part != LinearPart::expert_fc2 && n.layer >= 0 &&
           std::none_of(g.nodes.begin(), g.nodes.end(), [&](const Node& other) { return other.layer == n.layer && other.recompute; });
}

// Autocast casts what each module is given, again for each of queries, keys and values, of gate and up, and autograd keeps every copy for
// the module's weight gradient (of parameters alone it remembers a cast: cached_cast in aten/src/ATen/autocast_mode.cpp). A compiler makes
// one copy. On an H200 an eager Llama 3.2 1B casts 228 tensors to 16 bits a step, 113 of them weights, and keeps three copies a layer more
// than the first of each (scenarios/validation/measured/h200-pytorch-look.json). Adapters that cast their rows to fp32 and back have such
// copies too, one of them in the place of what they read, unless attention keeps that itself. How many there are beside the linear's input.
int Emitter::further_casts(const Node& n) const {
    if (!value(n.params[0]).trained) return 0;
    if (n.part == LinearPart::adapter_down) {
        const std::int32_t by = producer[n.in[0]];
        const bool kept = by >= 0 && (g.nodes[by].kind == NodeKind::attention || g.nodes[by].kind == NodeKind::ring_attention);
        return l.practice.casts_adapters_rows ? modules_of(l, n) - (kept ? 0 : 1) : 0;
    }
    const bool several = n.part == LinearPart::qkv || n.part == LinearPart::fc1 || n.part == LinearPart::shared_fc1;
    // In a parallel block of one norm the first cast is the queries'.
    const bool of_attention = n.part == LinearPart::fc1 && s().model.parallel_block && !s().model.parallel_norms;
    return several && l.practice.autocast && !s().strategy.fused && s().model.gated() ? modules_of(l, n) - (of_attention ? 0 : 1) : 0;
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
    if (const int more = further_casts(n); more > 0) {
        Value casts = value(n.in[0]);
        casts.shape.back() *= more;
        op.out.push_back(input_casts[n.out[0]] = make(name_of(n, m) + ".input.casts", casts, activation_dtype(s())));
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

// Scores in separate steps are not scaled yet where they are capped.
Pointwise Emitter::cap_work(const Node& n, Direction direction) const {
    Pointwise work{PointwiseKind::softcap, direction, elements(value(n.out[0])), n.fused};
    work.cap = n.kind == NodeKind::logit_cap ? s().model.logit_cap
                                             : s().model.attention.score_cap * std::sqrt(static_cast<double>(n.attention.qk_dim));
    return work;
}

void Emitter::forward_cap(const Node& n, const Making& m) { emit(name_of(n, m), cap_work(n, Direction::forward), m.in, {output(n, 0, m)}); }

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

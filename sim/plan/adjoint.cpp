// The backward pass by one rule per node: gradients of inputs (B) and of weights (W), communication included.
//
// Whole blocks hold a weight gradient back until the collective its node's input gradient goes into has been issued, so that it
// runs underneath (Megatron's asynchronous all-reduce, and the reduce-scatter of sequence parallelism). Split blocks put it in W.
#include "sim/plan/emit.hpp"
#include "sim/plan/emitter.hpp"
#include "sim/plan/inputs.hpp"
#include "sim/scenario/layers.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace orrery {

// The output of a layer's branch that is added to the residual stream, where the software holds it until the norm ahead of the branch has
// had its backward pass.
ValueId Emitter::held_branch(const Node& norm) const {
    if (norm.kind != NodeKind::norm || norm.layer < 0 || norm.recompute || !l.practice.holds_branches) return -1;
    const auto residual =
        std::find_if(g.nodes.begin() + (&norm - g.nodes.data()), g.nodes.end(), [](const Node& n) { return n.kind == NodeKind::residual; });
    if (residual == g.nodes.end() || residual->in[0] == norm.out[0]) return -1; // a norm behind the branch
    return residual->in[0];
}

BufferId Emitter::need(ValueId v) {
    if (value(v).kept_as >= 0) v = value(v).kept_as;
    const std::int32_t p = producer[v];
    if (p < 0) return forward_buffer[v];
    const Node& n = g.nodes[p];
    if (n.kind == NodeKind::enter && n.along_seq &&
        (n.late || !l.practice.keeps_gathered)) { // the shard is saved, and gathered anew for each use
        const BufferId shard = need(n.in[0]);
        const BufferId whole = make(value(v).name + ".gathered", value(v), value(v).dtype);
        gather_sequence(n, n.name + ".gather", value(v), shard, whole, 1, true);
        return whole;
    }
    if (n.kind == NodeKind::gather_context)
        return gather_context(n, need(n.in[0]), make(value(v).name + ".gathered", value(v), value(v).dtype), ".gather");
    if (n.kind == NodeKind::enter && !n.along_seq) return need(n.in[0]);
    if (!n.recompute || value(v).saved) return forward_buffer[v];
    if (recomputed[v] < 0) recompute_run(p);
    return recomputed[v];
}

// Runs again the stretch of marked nodes around `node`: all of it, or up to the last value the backward pass reads where the
// framework stops early.
void Emitter::recompute_run(std::int32_t node) {
    const auto marked = [&](std::int32_t i) {
        return i >= 0 && i < static_cast<std::int32_t>(g.nodes.size()) && g.nodes[i].recompute &&
               g.nodes[i].stretch == g.nodes[node].stretch;
    };
    std::int32_t first = node, last = node;
    while (marked(first - 1)) --first;
    while (marked(last + 1)) ++last;
    if (s().runtime.recompute_early_stop) {
        // The layer's tail (last linear, its reduction, the add) makes nothing the adjoint reads: residual and exit read no value of
        // theirs, sums of experts' rows these rows at most.
        const std::int32_t end = last;
        const auto read_later = [&](std::int32_t i) {
            const NodeKind k = g.nodes[i].kind;
            if (k != NodeKind::residual && k != NodeKind::exit && k != NodeKind::linear && !sums_read_rows(g.nodes[i])) return true;
            for (std::int32_t j = i + 1; j <= end; ++j)
                for (ValueId v : g.nodes[i].out)
                    for (ValueId u : g.nodes[j].in)
                        if (u == v && (j <= last || sums_read_rows(g.nodes[j]))) return true;
            return false;
        };
        while (last > node && !read_later(last)) --last;
    }
    const Phase saved_phase = phase;
    const std::int16_t saved_layer = layer, saved_unit = unit;
    phase = Phase::recompute;
    for (std::int32_t i = first; i <= last; ++i) {
        const Node& n = g.nodes[i];
        // The recomputed forward pass gathers its inputs once more; what the adjoint then needs is gathered again there.
        forward(n, recomputed, true);
    }
    phase = saved_phase;
    layer = saved_layer;
    unit = saved_unit;
}

void Emitter::add_gradient(ValueId v, BufferId contribution, bool owned) {
    if (!needs_gradient[v]) return;
    BufferId& have = gradient[v];
    if (have < 0) {
        have = contribution;
        return;
    }
    const std::string name = value(v).name + ".grad";
    const BufferId sum =
        owned ? view(name + ".sum", contribution, l.buffer(contribution).placement) : make(name + ".sum", value(v), value(v).dtype);
    if (!owned) l.buffer(sum).placement = gradient_placement(value(v).placement);
    emit(name + ".add", Pointwise{PointwiseKind::add, Direction::backward, elements(value(v)), s().strategy.fused}, {have, contribution},
         {sum});
    have = sum;
}

bool Emitter::weight_apart(const Node& n) const { return split || (n.part == LinearPart::logits && deferred_output_gradients(s()) > 0); }

void Emitter::hold_weight_op(Op op) {
    if (split) {
        weight_ops.push_back(std::move(op));
        return;
    }
    pending.push_back(std::move(op));
}

void Emitter::flush_weight_ops() {
    for (Op& op : pending) push(std::move(op));
    pending.clear();
}

Placement gradient_placement(const Placement& p) {
    Placement g = p;
    for (PlacementKind& k : g.kind) {
        if (k == PlacementKind::varying)
            k = PlacementKind::partial;
        else if (k == PlacementKind::partial)
            k = PlacementKind::invariant;
    }
    return g;
}

// dW += dy^T x, into the main gradient, or by way of a temporary where the framework does not fuse the accumulation.
std::vector<Op> Emitter::weight_gradient_ops(const Node& n, const std::string& name, Linear work, BufferId dy, BufferId input) {
    const BufferId main = weight_gradient(n.params[0]);
    std::vector<Op> ops;
    if (l.practice.adds_in_products) {
        work.out_dtype = l.buffer(main).dtype;
        work.accumulate = true;
        ops.push_back(make_op(name, work, with_counts(n, {dy, input, main}), {main}));
        return ops;
    }
    const Value& w = value(n.params[0]);
    const BufferId temporary = make(name + ".temporary", w, work.out_dtype);
    l.buffer(temporary).placement = l.buffer(main).placement;
    l.buffer(temporary).role = Role::gradient_summand;
    l.buffer(temporary).tensor = l.buffer(main).tensor;
    ops.push_back(make_op(name, work, with_counts(n, {dy, input}), {temporary}));
    ops.push_back(make_op(name + ".accumulate", Pointwise{PointwiseKind::add, Direction::weight_gradient, elements(w), true},
                          {temporary, main}, {main}));
    return ops;
}

void Emitter::accumulate_weight(const Node& n, ValueId x, BufferId dy) {
    const bool wide = n.part == LinearPart::router && n.gemm_dtype == DType::fp32;
    const DType made = wide ? DType::fp32 : value(n.params[0]).dtype;
    const Phase saved = phase;
    phase = Phase::backward_weight;
    std::vector<Op> ops;
    BufferId input = -1;
    const bool trains_weight = value(n.params[0]).trained;
    if (!trains_weight) {
        // Neither the input nor its gather is wanted.
    } else if (weight_apart(n)) {
        // The inputs of W are made where W runs: gathers and recomputation of the input stay in B's order only where B needs them too.
        Block holder;
        Block* const outer = block;
        const std::int32_t p = producer[x];
        const bool gather = p >= 0 && g.nodes[p].kind == NodeKind::enter && g.nodes[p].along_seq;
        if (gather) need(g.nodes[p].in[0]); // recomputed in B, if at all
        if (gather) block = &holder;
        input = need(x);
        block = outer;
        for (Op& op : holder.ops) ops.push_back(std::move(op));
    } else {
        input = need(x);
    }
    if (trains_weight)
        for (Op& op : weight_gradient_ops(n, n.name + ".wgrad", linear_work(n, Direction::weight_gradient, made), dy, input)) {
            if (std::holds_alternative<Linear>(op.work)) {
                stand_for(n, op);
                // Those of further modules live until here: the kernel reads the first alone.
                if (const auto kept = input_casts.find(n.out[0]); kept != input_casts.end()) op.in.push_back(kept->second);
            }
            ops.push_back(std::move(op));
        }
    if (n.params.size() > 1 && value(n.params[1]).trained) {
        const BufferId bias = weight_gradient(n.params[1]);
        ops.push_back(make_op(n.name + ".bias.grad",
                              Pointwise{PointwiseKind::bias, Direction::weight_gradient, elements(value(n.out[0])), n.fused},
                              with_counts(n, {dy, bias}), {bias}));
    }
    for (Op& op : ops) {
        if (weight_apart(n))
            weight_ops.push_back(std::move(op));
        else
            hold_weight_op(std::move(op));
    }
    phase = saved;
}

// The gradient of a value of this node in a low precision; itself where it has that already.
BufferId Emitter::cast_gradient(const Node& n, ValueId v, BufferId dy, DType low, Direction direction) {
    if (l.buffer(dy).dtype == low) return dy;
    const BufferId quantised = make(n.name + ".dy.cast", value(v), low);
    l.buffer(quantised).placement = l.buffer(dy).placement;
    emit(n.name + ".dy.cast",
         Pointwise{PointwiseKind::cast, direction, elements(value(v)), n.fused, fused_expert(n) && read_by_activation(v)}, {dy},
         {quantised});
    return quantised;
}

// The result of a layer's last product, where a policy by op is carried out op by op: it stores what it names whether or not something
// reads it, until the layer has been made again (_CachingTorchDispatchMode of torch/utils/checkpoint.py). A compiler's partitioner keeps
// what is read. (Under tensor parallelism, where sums over ranks are stored as well, neither is counted.)
bool Emitter::stores_result(const Node& n) const {
    const auto again = [&](const Node& m) { return m.layer == n.layer && m.kind == NodeKind::norm && m.recompute; };
    const Strategy& st = s().strategy;
    return n.part == LinearPart::fc2 && l.practice.selective_by_op && !st.fused && st.tensor_parallel == 1 &&
           st.recompute == RecomputeKind::selective && std::any_of(g.nodes.begin(), g.nodes.end(), again);
}

void Emitter::adjoint_linear(const Node& n, BufferId dy) {
    const ValueId x = n.in[0];
    if (is_low(n.gemm_dtype)) dy = cast_gradient(n, n.out[0], dy, n.gemm_dtype);
    // The weight gradient's operands come first, so that a gather of the input runs under the input gradient.
    accumulate_weight(n, x, dy);
    const std::int32_t gathered = block->ops.empty() ? -1 : static_cast<std::int32_t>(block->ops.size()) - 1;
    if (!needs_gradient[x]) return;
    const bool gather_issued =
        gathered >= 0 && std::holds_alternative<Collective>(block->ops.back().work) && block->ops.back().phase == Phase::backward_weight;
    const DType made = gradient_dtype(x);
    const BufferId w = n.part == LinearPart::router ? weight_of_gate(n) : weight_as_multiplied(n, n.params[0]);
    BufferId dx = make(value(x).name + ".grad", value(x), made);
    l.buffer(dx).placement = gradient_placement(value(x).placement);
    Op& op = emit(n.name + ".dgrad", linear_work(n, Direction::input_gradient, made), with_counts(n, {dy, w}), {dx});
    op.pieces = n.gradient_pieces;
    stand_for(n, op);
    // These live until here: kernels do not read them.
    if (stores_result(n)) op.in.push_back(forward_buffer[n.out[0]]);
    if (const auto kept = cast_weights.find(n.params[0]); kept != cast_weights.end()) op.in.push_back(kept->second);
    if (gather_issued && !s().strategy.overlap.tensor_parallel) op.deps.push_back(gathered);
    if (l.practice.worst_case_rows && n.part == LinearPart::expert_fc1 && s().model.gated()) // of gate and up, products of their own
        dx = passed(n.name + ".dgrad.sum", Direction::backward, dx, n.fused);
    add_gradient(x, dx, true);
}

// In 8 bits: the result's gradient is cast by rows alone, as a value is. By delayed scaling the kernel writes gradients in 8 bits, which
// are cast back (FusedAttnFunc.backward: combine_and_dequantize); by other recipes it writes 16.
void Emitter::adjoint_low_attention(const Node& n, BufferId dy) {
    std::vector<BufferId> in{cast_gradient(n, n.out[0], dy, DType::fp8, Direction::forward), need(n.in[0])};
    for (ValueId v : n.out) in.push_back(need(v));
    const BufferId wide = fresh_gradient(n.in[0]);
    const bool narrow = s().runtime.fp8_recipe == ScalingRecipe::delayed;
    const BufferId made = narrow ? fresh_gradient(n.in[0], ".grad.cast", DType::fp8) : wide;
    emit(n.name + ".bwd", attention_work(n, Direction::backward, DType::fp8), in, {made});
    if (narrow)
        emit(n.name + ".grad.cast", Pointwise{PointwiseKind::cast, Direction::backward, elements(value(n.in[0])), n.fused}, {made}, {wide});
    add_gradient(n.in[0], wide, true);
}

namespace {

// What fused kernels hold while they run: the gradient of the queries is summed in fp32 by blocks of keys, and where heads share keys,
// those of keys and values are made for every head in 16 bits, or summed in fp32 by FlashAttention 3 (dq_accum, dk_expanded and
// dv_expanded, dk_accum and dv_accum in mha_bwd of FlashAttention's csrc/flash_attn and hopper, flash_api.cpp; dQ_accum, dK_fullhead and
// dV_fullhead of cudnn-frontend's backward node). FlexAttention makes the gradient of the queries in a pass of its own; kernels of other
// makers are not known.
std::vector<BufferId> attention_temporaries(Emitter& e, const Node& n) {
    const Runtime& runtime = e.s().runtime;
    const bool fused = runtime.attention_kernel != AttentionKernel::unfused && runtime.attention_kernel != AttentionKernel::flex;
    const AttentionShape& a = n.attention;
    if (!fused || !attention_holds_sums(e.s()) || a.heads <= 0 || a.v_dim <= 0) return {};
    std::vector<BufferId> made;
    Value like = e.value(n.out[0]); // the columns of this rank's heads
    const std::int64_t heads = like.shape.back() / a.v_dim;
    const auto add = [&](const char* what, std::int64_t columns, DType dtype) {
        like.shape.back() = columns;
        made.push_back(e.make(n.name + what, like, dtype));
        e.l.buffer(made.back()).kind = MemoryKind::workspace;
    };
    add(".queries.sum", heads * a.qk_dim, DType::fp32);
    if (a.kv_heads >= a.heads) return made;
    if (runtime.attention_kernel == AttentionKernel::flash3)
        add(".keys.sum", heads * a.kv_heads / a.heads * (a.qk_dim + a.v_dim), DType::fp32);
    else
        add(".keys.apart", heads * (a.qk_dim + a.v_dim), activation_dtype(e.s()));
    return made;
}

} // namespace

void Emitter::adjoint_attention(const Node& n, BufferId dy) {
    if (n.gemm_dtype == DType::fp8) return adjoint_low_attention(n, dy);
    std::vector<BufferId> in{dy}, out; // packed, or in parts
    for (ValueId v : n.in) in.push_back(need(v));
    for (ValueId v : n.out) in.push_back(need(v));
    for (ValueId v : n.in) out.push_back(fresh_gradient(v));
    for (const BufferId temporary : attention_temporaries(*this, n)) out.push_back(temporary);
    emit(n.name + ".bwd", attention_work(n, Direction::backward, activation_dtype(s())), in, out);
    for (std::size_t i = 0; i < n.in.size(); ++i) add_gradient(n.in[i], out[i], true);
}

void Emitter::backward(const Node& n) {
    const bool chunked = n.kind == NodeKind::chunked_loss; // made here, whether or not anything learns from it
    if (!needs_gradient[n.out[0]] && !chunked) return;
    set_place(n);
    phase = Phase::backward_input;
    const bool loss = chunked || n.kind == NodeKind::cross_entropy;
    const BufferId dy = loss ? -1 : gradient[n.out[0]];
    // An exchange is issued before the weight gradients it can hide.
    const bool exchange = (n.kind == NodeKind::dispatch || n.kind == NodeKind::combine) && s().strategy.overlap.expert_parallel;
    if (n.kind != NodeKind::enter && !exchange) flush_weight_ops();
    // A parameter all tensor-parallel ranks hold, used on their different parts of the activations: each has a summand of its gradient.
    for (ValueId p : n.params)
        if (value(p).trained && value(p).placement.on(Axis::tp) == PlacementKind::invariant &&
            value(n.out[0]).placement.on(Axis::tp) == PlacementKind::sharded)
            l.buffer(weight_gradient(p)).placement.set(Axis::tp, PlacementKind::partial);
    (this->*rule_of(n.kind).adjoint)(n, dy);
    mlp_border = mlp_border || n.begins_mlp;
}

std::vector<BufferId> Emitter::with_weight_gradients(const Node& n, std::vector<BufferId> list) {
    for (ValueId p : n.params)
        if (value(p).trained) list.push_back(weight_gradient(p));
    return list;
}

void Emitter::adjoint_embedding(const Node& n, BufferId dy) {
    const BufferId grad = weight_gradient(n.params[0]);
    if (scales_embedding_apart()) {
        const BufferId scaled = fresh_gradient(n.out[0], ".grad.scaled");
        emit(n.name + ".scale.bwd", Pointwise{PointwiseKind::copy, Direction::backward, elements(value(n.out[0])), n.fused}, {dy},
             {scaled});
        dy = scaled;
    }
    emit(n.name + ".grad", Embedding{Direction::weight_gradient, rows(n.out[0]), cols(n.out[0]), value(n.params[0]).shape[0]},
         {tokens_buffer(tokens_ahead(n)), dy, grad}, {grad});
}

void Emitter::adjoint_positions(const Node& n, BufferId dy) {
    if (value(n.params[0]).trained) {
        const BufferId grad = weight_gradient(n.params[0]);
        emit(n.name + ".grad", Pointwise{PointwiseKind::positions, Direction::weight_gradient, elements(value(n.out[0])), n.fused},
             {dy, grad}, {grad});
    }
    add_gradient(n.in[0], dy, false);
}

void Emitter::adjoint_dropout(const Node& n, BufferId dy) {
    const BufferId dx = fresh_gradient(n.in[0]);
    Op& op = emit(n.name + ".bwd", Pointwise{PointwiseKind::dropout, Direction::backward, elements(value(n.out[0])), n.fused},
                  {dy, need(n.out[1])}, {dx});
    stand_for(n, op);
    add_gradient(n.in[0], dx, true);
}

void Emitter::adjoint_norm(const Node& n, BufferId dy) {
    const bool heads = n.kind == NodeKind::head_norm;
    const BufferId dx = fresh_gradient(n.in[0]);
    std::vector<BufferId> read{dy, need(n.in[0]), need(n.out[1]), weight(n.params[0])};
    if (heads) read.push_back(weight(n.params[1])); // the keys' beside the queries'; a bias is not read
    read = with_weight_gradients(n, std::move(read));
    if (n.out.size() > 2) read.push_back(need(n.out[2]));                                 // it lives until here: kernels do not read it
    if (const ValueId branch = held_branch(n); branch >= 0) read.push_back(need(branch)); // likewise
    emit(n.name + ".bwd", norm_work(n, Direction::backward), std::move(read), with_weight_gradients(n, {dx}));
    add_gradient(n.in[0], dx, true);
}

void Emitter::adjoint_rope(const Node& n, BufferId) {
    const BufferId dx = fresh_gradient(n.in[0]);
    std::vector<BufferId> parts;
    for (ValueId v : n.out) parts.push_back(gradient[v]);
    emit(n.name + ".bwd",
         Pointwise{PointwiseKind::rope, Direction::backward,
                   rows(n.out[0]) * (n.attention.heads + n.attention.kv_heads) * n.attention.qk_dim, n.fused},
         parts, {dx});
    add_gradient(n.in[0], dx, true);
}

// None where it was cut off.
void Emitter::adjoint_clamp(const Node& n, BufferId dy) {
    const BufferId dx = fresh_gradient(n.in[0]);
    emit(n.name + ".bwd", Pointwise{PointwiseKind::clamp, Direction::backward, elements(value(n.out[0])), n.fused}, {dy, need(n.in[0])},
         {dx});
    add_gradient(n.in[0], dx, true);
}

// dx = dy (1 - tanh(x / cap)^2), of the saved x. (Code that goes step by step saves the tangent, which is as large, and not x.)
void Emitter::adjoint_cap(const Node& n, BufferId dy) {
    const BufferId dx = fresh_gradient(n.in[0]);
    emit(n.name + ".bwd", cap_work(n, Direction::backward), {dy, need(n.in[0])}, {dx});
    add_gradient(n.in[0], dx, true);
}

// For experts a = p f(x), so that dp = dy f(x), which is made again of the saved x.
void Emitter::adjoint_activation(const Node& n, BufferId dy) {
    std::vector<BufferId> in{dy}, out{fresh_gradient(n.in[0])};
    for (ValueId v : n.in) in.push_back(need(v));
    if (n.out.size() > 1) in.push_back(need(n.out[1]));
    if (n.in.size() > 1) out.push_back(fresh_gradient(n.in[1], ".grad", DType::fp32));
    emit(n.name + ".bwd", Pointwise{activation_work(), Direction::backward, elements(value(n.out[0])), n.fused, fused_expert(n)}, in, out);
    for (std::size_t i = 0; i < n.in.size(); ++i) add_gradient(n.in[i], out[i], true);
}

// The branch's gradient is dy itself but for the dropout, and the dtype where autocast adds 16 bits to fp32. Of two branches beside each
// other one may have nothing that is trained.
void Emitter::adjoint_residual(const Node& n, BufferId dy) {
    const bool bias = !n.params.empty() && value(n.params[0]).trained;
    if (bias || needs_gradient[n.in[0]]) add_gradient(n.in[0], adjoint_branch(n, dy, bias), false);
    add_gradient(n.in[1], dy, false);
}

BufferId Emitter::adjoint_branch(const Node& n, BufferId dy, bool with_bias) {
    BufferId branch = dy;
    if (n.out.size() > 1) {
        branch = fresh_gradient(n.in[0]);
        emit(n.name + ".bwd", Pointwise{PointwiseKind::bias_dropout_add, Direction::backward, elements(value(n.out[0])), n.fused},
             {dy, need(n.out[1])}, {branch});
    } else if (gradient_dtype(n.in[0]) != gradient_dtype(n.out[0])) {
        branch = fresh_gradient(n.in[0]);
        emit(n.name + ".bwd", Pointwise{PointwiseKind::cast, Direction::backward, elements(value(n.out[0])), n.fused}, {dy}, {branch});
    }
    if (with_bias) {
        const BufferId bias = weight_gradient(n.params[0]);
        emit(n.name + ".bias.grad", Pointwise{PointwiseKind::bias, Direction::weight_gradient, elements(value(n.out[0])), n.fused},
             {branch, bias}, {bias});
    }
    return branch;
}

void Emitter::adjoint_adapt(const Node& n, BufferId dy) {
    if (needs_gradient[n.in[1]]) {
        const BufferId scaled = fresh_gradient(n.in[1]);
        emit(n.name + ".bwd", Pointwise{PointwiseKind::add_scaled, Direction::backward, elements(value(n.out[0])), n.fused}, {dy},
             {scaled});
        add_gradient(n.in[1], scaled, true);
    }
    add_gradient(n.in[0], dy, false);
}

// Straight through; a copy for the backward pass alone has no gradient.
void Emitter::adjoint_cast(const Node& n, BufferId dy) {
    if (dy < 0) return;
    if (gradient_dtype(n.in[0]) == gradient_dtype(n.out[0])) return add_gradient(n.in[0], dy, false);
    const BufferId wide = fresh_gradient(n.in[0]); // autocast's, whose input is in fp32
    emit(n.name + ".bwd", Pointwise{cast_kind(n), Direction::backward, elements(value(n.out[0])), n.fused}, {dy}, {wide});
    add_gradient(n.in[0], wide, true);
}

// A norm of latent attention reads the first columns of what it shares with the keys' rotated part.
PointwiseKind Emitter::cast_kind(const Node& n) const {
    return value(n.in[0]).shape.back() == value(n.out[0]).shape.back() ? PointwiseKind::cast : PointwiseKind::cast_columns;
}

DType Emitter::gradient_dtype(ValueId v) const {
    const DType act = activation_dtype(s());
    const bool widens = l.practice.autocast || l.practice.wide_norms || l.practice.wide_gate;
    return widens && value(v).dtype == DType::fp32 ? DType::fp32 : act;
}

BufferId Emitter::fresh_gradient(ValueId v, const char* suffix) { return fresh_gradient(v, suffix, gradient_dtype(v)); }

BufferId Emitter::fresh_gradient(ValueId v, const char* suffix, DType dtype) {
    const BufferId b = make(value(v).name + suffix, value(v), dtype);
    l.buffer(b).placement = gradient_placement(value(v).placement);
    return b;
}

void set_units(Block& b) {
    b.unit_begin.clear();
    for (std::size_t i = 0; i < b.ops.size(); ++i)
        if (i == 0 || b.ops[i].unit != b.ops[i - 1].unit) b.unit_begin.push_back(static_cast<std::int32_t>(i));
}

namespace {

// Where the chunk before is on the same stage, nothing is sent: its backward blocks read this chunk's input gradient itself.
void join_gradients(Lowering& l, int chunk) {
    ChunkBlocks& before = l.chunks[static_cast<std::size_t>(chunk) - 1];
    const BufferId old = before.output_gradient, now = l.chunks[chunk].input_gradient;
    for (std::int32_t id : {before.backward, before.weight}) {
        if (id < 0) continue;
        for (Op& op : l.plan.blocks[id].ops)
            for (auto* list : {&op.in, &op.out}) std::replace(list->begin(), list->end(), old, now);
    }
    for (Buffer& b : l.plan.buffers)
        if (b.storage == old) b.storage = now;
    if (before.input_gradient == old) before.input_gradient = now;
    before.output_gradient = now;
}

// The first and the last node of a chunk's layers; one that is not there where it has none.
struct LayerNodes {
    std::size_t first = no_node, last = no_node;
    static constexpr std::size_t no_node = static_cast<std::size_t>(-1);
};
LayerNodes layer_nodes(const Graph& g) {
    LayerNodes found;
    for (std::size_t i = 0; i < g.nodes.size(); ++i) {
        if (g.nodes[i].layer < 0 || g.nodes[i].late) continue;
        if (found.first == LayerNodes::no_node) found.first = i;
        found.last = i;
    }
    return found;
}

Block new_block(const Graph& g, BlockKind kind, const char* letter) {
    Block b;
    b.name = fmt::format("{}{}", letter, g.chunk);
    b.kind = kind;
    b.stage = static_cast<std::int16_t>(g.stage);
    b.chunk = static_cast<std::int16_t>(g.chunk);
    return b;
}

} // namespace

void emit_chunk(Lowering& l, int chunk) {
    const Graph& g = l.graphs[chunk];
    Emitter e(l, g);
    ChunkBlocks& ends = l.chunks[chunk];
    const bool local_before = g.input >= 0 && l.graphs[static_cast<std::size_t>(chunk) - 1].stage == g.stage;

    Block forward = new_block(g, BlockKind::forward, "F");
    e.block = &forward;
    const BufferId batch = e.fetch_batch();
    const std::size_t first = forward.ops.size();
    if (g.input >= 0) {
        ends.input =
            local_before ? l.chunks[static_cast<std::size_t>(chunk) - 1].output : e.make("input", g.value(g.input), g.value(g.input).dtype);
        e.forward_buffer[g.input] = ends.input;
    }
    const LayerNodes layers = layer_nodes(g);
    for (std::size_t i = 0; i < g.nodes.size(); ++i) {
        if (i == layers.last) e.reduce_maxima("forward", 3); // input, weight, result: what follows the layers waits for them
        if (!g.nodes[i].late) e.forward(g.nodes[i], e.forward_buffer, false);
    }
    if (batch >= 0) forward.ops[first].in.push_back(batch);
    if (g.output >= 0) ends.output = e.forward_buffer[g.output];
    set_units(forward);
    ends.forward = l.add(std::move(forward));

    Block backward = new_block(g, BlockKind::backward, e.split ? "I" : "B");
    e.block = &backward;
    if (g.output >= 0 && e.needs_gradient[g.output]) {
        // A chunk after on the same stage later puts its input gradient in this one's place.
        ends.output_gradient = e.make("output.grad", g.value(g.output), e.gradient_dtype(g.output));
        l.buffer(ends.output_gradient).placement = gradient_placement(g.value(g.output).placement);
        e.gradient[g.output] = ends.output_gradient;
    }
    note_leaving(l, g, e.forward_buffer);
    for (std::size_t i = g.nodes.size(); i-- > 0;) {
        if (i == layers.first && l.practice.reduces_maxima) {
            e.flush_weight_ops();
            e.reduce_maxima("backward", 2); // gradients of result and input
        }
        e.backward(g.nodes[i]);
    }
    e.flush_weight_ops();
    if (g.input >= 0) ends.input_gradient = e.gradient[g.input];
    if (local_before && ends.input_gradient >= 0) join_gradients(l, chunk);
    set_units(backward);
    ends.backward = l.add(std::move(backward));
    if (e.split || !e.weight_ops.empty()) {
        Block weight = new_block(g, BlockKind::weight, "W");
        weight.ops = std::move(e.weight_ops);
        set_units(weight);
        ends.weight = l.add(std::move(weight));
    }
}

} // namespace orrery

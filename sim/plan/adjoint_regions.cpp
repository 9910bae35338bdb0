// Adjoints of the ends of tensor-parallel regions: what was gathered or copied in is reduced, what was summed going out is gathered. The
// copies around what goes along the sequence, of either pass. Both rules of what is gathered along the columns (Practice::gathers_heads).
#include "sim/plan/emit.hpp"
#include "sim/plan/emitter.hpp"

#include <algorithm>

namespace orrery {

// Whether a compiler puts a gathered value in order inside the casts that read it: no kernel of its own does.
bool Emitter::casts_turn(ValueId v) const {
    if (!l.practice.compiler_sees_casts || !s().strategy.fused) return false;
    const auto reads = [&](const Node& n) { return std::find(n.in.begin(), n.in.end(), v) != n.in.end(); };
    return std::all_of(g.nodes.begin(), g.nodes.end(), [&](const Node& n) { return !reads(n) || n.kind == NodeKind::cast; });
}

// All tokens of `like` into `whole`. The parts of the ranks come one behind another; where software holds sequences in rows of their own, a
// copy puts the parts of each together.
void Emitter::gather_sequence(const Node& n, const std::string& name, const Value& like, BufferId shard, BufferId whole,
                              std::uint8_t pieces, bool turns) {
    const DType dtype = l.buffer(whole).dtype;
    BufferId parts = whole;
    if (turns && l.practice.turns_gathered) {
        parts = make(name + ".parts", like, dtype);
        l.buffer(parts).placement = l.buffer(whole).placement;
    }
    const std::uint8_t times = n.kind == NodeKind::enter ? n.times : 1;
    Op& op = emit_collective(name, CollectiveKind::all_gather, bytes(like.shape, dtype), dtype, shard, parts);
    op.pieces = pieces;
    std::get<Collective>(op.work).times = times;
    if (parts != whole) emit(name + ".turn", turned(like), {parts}, {whole}).modules = times;
}

// The other way: what a reduce-scatter along the sequence reads, the part of each rank behind that of the one before it.
BufferId Emitter::rank_by_rank(const Node& n, const std::string& name, const Value& like, BufferId b) {
    if (!l.practice.turns_scattered) return b;
    const BufferId parts = make(name + ".parts", like, l.buffer(b).dtype);
    l.buffer(parts).placement = l.buffer(b).placement;
    emit(name + ".turn", turned(like), {b}, {parts}).modules = n.kind == NodeKind::enter ? n.times : 1;
    return parts;
}

// (The plan's tokens lie in the order that its collectives bring: its copy moves none to another place.)
Pointwise Emitter::turned(const Value& like) { return {PointwiseKind::copy, Direction::forward, elements(like), true}; }

void Emitter::adjoint_enter(const Node& n, BufferId dy) {
    const ValueId x = n.in[0];
    const bool overlap = s().strategy.overlap.tensor_parallel;
    if (!overlap) flush_weight_ops();
    const DType dtype = l.buffer(dy).dtype;
    const CollectiveKind kind = n.along_seq ? CollectiveKind::reduce_scatter : CollectiveKind::all_reduce;
    const std::string name = value(x).name + ".grad.reduced";
    const Placement placement = gradient_placement(value(x).placement);
    BufferId reduced;
    if (n.along_seq) {
        dy = rank_by_rank(n, n.name + ".adjoint", value(n.out[0]), dy);
        reduced = make(name, value(x), dtype);
        l.buffer(reduced).placement = placement;
    } else {
        reduced = view(name, dy, placement);
    }
    Op& op = emit_collective(n.name + ".adjoint", kind, bytes(value(n.out[0]).shape, dtype), dtype, dy, reduced);
    std::get<Collective>(op.work).times = n.times;
    flush_weight_ops();
    add_gradient(x, reduced, true);
}

// The gradient of what a reduce-scatter summed: gathered, in 8 bits where its linear reads no other (Transformer Engine casts a gradient
// before it gathers it). Scales of blocks run along rows and columns: both would have to travel, as many bytes as 16 bits.
void Emitter::adjoint_exit(const Node& n, BufferId dy) {
    if (!n.along_seq) return add_gradient(n.in[0], dy, false);
    const std::int32_t p = producer[n.in[0]];
    const bool one_scale = s().runtime.fp8_recipe == ScalingRecipe::delayed || s().runtime.fp8_recipe == ScalingRecipe::current;
    const bool low = p >= 0 && one_scale && multiplies_in_fp8(g.nodes[p]) && g.nodes[p].params.size() == 1;
    if (low) dy = cast_gradient(n, n.out[0], dy, DType::fp8);
    const DType dtype = low ? DType::fp8 : activation_dtype(s());
    const BufferId whole = fresh_gradient(n.in[0], ".grad.gathered", dtype);
    gather_sequence(n, n.name + ".adjoint", value(n.in[0]), dy, whole, n.gradient_pieces, true);
    add_gradient(n.in[0], whole, true);
}

// The value with the columns of all tensor-parallel ranks, given that of one rank.
Value Emitter::columns_of_all(const Value& part) const {
    Value all = part;
    all.shape[1] *= l.tp();
    all.placement.set(Axis::tp, PlacementKind::invariant);
    return all;
}

// The same with the parts of the ranks one behind another.
Value Emitter::one_behind_another(const Value& part) const {
    Value all = part;
    all.shape[0] *= l.tp();
    all.placement.set(Axis::tp, PlacementKind::invariant);
    return all;
}

// All ranks' columns: `parts` come one behind another, a copy puts them side by side (_gather_along_last_dim of megatron/core/
// tensor_parallel/mappings.py; DTensor's gather of a tensor that is split along its last dimension).
void Emitter::gather_columns(const std::string& name, BufferId in, BufferId parts, std::vector<BufferId> out) {
    const Bytes size = l.buffer(parts).bytes;
    const DType dtype = l.buffer(parts).dtype;
    emit_collective(name + ".gather", CollectiveKind::all_gather, size, dtype, in, parts);
    emit(name, Pointwise{PointwiseKind::join_columns, Direction::forward, elements_of(l.buffer(parts)), true}, {parts}, std::move(out));
}

// The rank's heads are a slice of all columns, which what comes next copies: it is charged here.
void Emitter::forward_join_heads(const Node& n, const Making& m) {
    const Value& part = value(n.in[0]);
    const std::string name = name_of(n, m);
    const BufferId own = output(n, 0, m), parts = make(name + ".parts", one_behind_another(part), part.dtype),
                   whole = make(name + ".all", columns_of_all(part), part.dtype);
    gather_columns(name, m.in[0], parts, {whole, own});
}

// A rank has the gradient of its own heads. It writes them among zeros, a summand of the gradient of all columns, which a reduce-scatter
// sums (_reduce_scatter_along_last_dim).
void Emitter::adjoint_join_heads(const Node& n, BufferId dy) {
    Value all = columns_of_all(value(n.in[0])), behind = one_behind_another(value(n.in[0]));
    for (Value* v : {&all, &behind}) v->placement.set(Axis::tp, PlacementKind::partial);
    const DType dtype = l.buffer(dy).dtype;
    const BufferId among = make(n.name + ".grad.all", all, dtype), parts = make(n.name + ".grad.parts", behind, dtype),
                   own = fresh_gradient(n.in[0]);
    emit(n.name + ".bwd", Pointwise{PointwiseKind::join_columns, Direction::input_gradient, elements(all), true}, {dy}, {among});
    emit(n.name + ".bwd.parts", Pointwise{PointwiseKind::copy, Direction::backward, elements(all), true}, {among}, {parts});
    emit_collective(n.name + ".adjoint", CollectiveKind::reduce_scatter, bytes(all.shape, dtype), dtype, parts, own);
    add_gradient(n.in[0], own, true);
}

} // namespace orrery

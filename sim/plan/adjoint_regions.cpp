// Adjoints of the ends of tensor-parallel regions: what was gathered or copied in is reduced, what was summed going out is gathered.
#include "sim/plan/emit.hpp"
#include "sim/plan/emitter.hpp"

namespace orrery {

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
    const bool low =
        p >= 0 && one_scale && g.nodes[p].kind == NodeKind::linear && g.nodes[p].gemm_dtype == DType::fp8 && g.nodes[p].params.size() == 1;
    if (low) dy = cast_gradient(n, n.out[0], dy, DType::fp8);
    const DType dtype = low ? DType::fp8 : activation_dtype(s());
    const BufferId whole = fresh_gradient(n.in[0], ".grad.gathered", dtype);
    emit_collective(n.name + ".adjoint", CollectiveKind::all_gather, bytes(value(n.in[0]).shape, dtype), dtype, dy, whole).pieces =
        n.gradient_pieces;
    add_gradient(n.in[0], whole, true);
}

} // namespace orrery

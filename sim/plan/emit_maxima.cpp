// Transformer Engine's delayed scaling: maxima of all tensors that a rank's modules cast are joined, reduced over the ranks that share the
// scales, and become the next scales, once behind the layers of a chunk's forward pass (the exit of the outermost fp8_autocast, which
// Megatron's TransformerBlock opens around its layers) and once ahead of the end of its backward pass. What comes next waits: the
// collective is not asynchronous (FP8GlobalStateManager.reduce_and_update_fp8_tensors, transformer_engine/pytorch/fp8.py).
//
// The plan's casts have no scales: what is joined here are zeros, and nothing reads what they become.
#include "sim/plan/emitter.hpp"

#include <fmt/format.h>

namespace orrery {
namespace {

// Products of a rank that have scales, of all its chunks: the modules' maxima lie in one list. A mixture has a product for each expert.
std::int64_t scaled_products(const Lowering& l, int stage) {
    std::int64_t count = 0;
    for (const Graph& g : l.graphs) {
        if (g.stage != stage) continue;
        for (const Node& n : g.nodes) {
            if (!multiplies_in_fp8(n)) continue;
            const std::vector<std::int64_t>& w = g.value(n.params[0]).shape;
            count += w.size() == 3 ? w[0] : 1;
        }
    }
    return count;
}

} // namespace

// tensors: of a product, those that are cast in this pass.
void Emitter::reduce_maxima(const char* pass, int tensors) {
    if (!l.practice.reduces_maxima || block->ops.empty() || std::none_of(g.nodes.begin(), g.nodes.end(), multiplies_in_fp8)) return;
    AxisMask axes = mask(Axis::tp) | mask(Axis::cp);
    if (!s().runtime.tensor_parallel_maxima) axes |= mask(Axis::dp) | mask(Axis::dpr);
    Value list;
    list.shape = {scaled_products(l, g.stage) * tensors};
    int ranks = 1;
    for (Axis a : {Axis::tp, Axis::cp, Axis::dp, Axis::dpr}) {
        if (l.plan.mesh.extent(a) == 1) axes &= static_cast<AxisMask>(~mask(a)); // its time is that of the axes that are there
        if (axes & mask(a)) list.placement.set(a, PlacementKind::partial), ranks *= l.plan.mesh.extent(a);
    }
    if (ranks == 1) return;
    const std::string name = std::string("maxima.") + pass;
    l.add_communicator("maxima", axes);
    const BufferId own = make(name, list, DType::fp32), all = view(name + ".reduced", own, {});
    emit(name + ".join", Pointwise{PointwiseKind::zero, Direction::forward, list.shape[0], true}, {}, {own});
    Op& op = emit_collective(name + ".reduce", CollectiveKind::all_reduce, bytes(list.shape, DType::fp32), DType::fp32, own, all, "maxima");
    std::get<Collective>(op.work).maximum = true;
    Buffer scales = l.buffer(own); // which the next passes' casts would read
    scales.name = fmt::format("c{}.{}.scales", g.chunk, name);
    scales.placement = {};
    scales.kind = MemoryKind::workspace;
    scales.scope = Scope::step;
    emit(name + ".scales", Pointwise{PointwiseKind::copy, Direction::forward, list.shape[0], true}, {all}, {l.add(std::move(scales))});
}

} // namespace orrery

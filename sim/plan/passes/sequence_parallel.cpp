// Sequence parallelism (Korthikanti et al., arXiv:2205.05198): outside the tensor-parallel regions values are split along the
// sequence; an enter becomes an all-gather, an exit a reduce-scatter. The gathered value is not saved, each use gathers it anew,
// but where software keeps it (Practice::keeps_gathered).
//
// After it: every value outside a region is sharded along its first dimension over tp.
#include "sim/plan/passes/passes.hpp"

namespace orrery {

void sequence_parallel(Lowering& l) {
    const std::int64_t t = l.tp();
    if (t == 1 || !l.scenario.strategy.sequence_parallel) return;
    for (Graph& g : l.graphs) {
        for (Value& v : g.values) {
            if (v.parameter || v.dims.empty() || v.dims[0] != DimKind::seq || v.placement.on(Axis::tp) != PlacementKind::invariant)
                continue;
            v.shape[0] /= t;
            v.placement.set(Axis::tp, PlacementKind::sharded, 0);
        }
        for (Node& n : g.nodes)
            if (n.kind == NodeKind::enter || n.kind == NodeKind::exit) n.along_seq = true;
    }
}

} // namespace orrery

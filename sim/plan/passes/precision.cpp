// 8-bit and 4-bit precision (Transformer Engine's way): the linears of the layers run in it, their inputs are cast before them and
// saved cast; embedding, head, norms and attention stay in bf16. A norm that feeds a linear writes the cast value itself.
//
// After it: every linear's gemm_dtype is final, and its input has that dtype.
#include "sim/plan/passes/passes.hpp"

namespace orrery {
namespace {

std::int32_t producer_of(const std::vector<Node>& nodes, ValueId v) {
    for (std::size_t i = nodes.size(); i-- > 0;)
        for (ValueId o : nodes[i].out)
            if (o == v) return static_cast<std::int32_t>(i);
    return -1;
}

// Whether all that reads v works on the low type, so that its norm may write that alone.
bool read_low_only(const Graph& g, ValueId v) {
    for (const Node& n : g.nodes)
        for (ValueId u : n.in)
            if (u == v && n.kind != NodeKind::enter && (n.kind != NodeKind::linear || n.keeps_precision)) return false;
    return true;
}

} // namespace

void precision(Lowering& l) {
    const DType low = l.scenario.training.precision;
    if (low != DType::fp8 && low != DType::mxfp8 && low != DType::nvfp4) return;
    for (Graph& g : l.graphs) {
        std::vector<Node> nodes;
        for (Node& n : g.nodes) {
            if (n.kind != NodeKind::linear || n.layer < 0 || n.keeps_precision) { nodes.push_back(n); continue; }
            n.gemm_dtype = low;
            ValueId x = n.in[0];
            const std::int32_t enter = producer_of(nodes, x);
            const bool entered = enter >= 0 && nodes[static_cast<std::size_t>(enter)].kind == NodeKind::enter;
            const ValueId source = entered ? nodes[static_cast<std::size_t>(enter)].in[0] : x;
            const std::int32_t norm = producer_of(nodes, source);
            if (g.value(x).dtype == low) { nodes.push_back(n); continue; }
            if (norm >= 0 && nodes[static_cast<std::size_t>(norm)].kind == NodeKind::norm && nodes[static_cast<std::size_t>(norm)].fused && read_low_only(g, source)) {
                g.value(source).dtype = low;
                g.value(x).dtype = low;
                nodes.push_back(n);
                continue;
            }
            Value cast = g.value(x);
            cast.name += ".cast";
            cast.dtype = low;
            const ValueId out = g.add(std::move(cast));
            Node c;
            c.kind = NodeKind::cast;
            c.name = n.name + ".cast";
            c.layer = n.layer;
            c.unit = n.unit;
            c.in = {x};
            c.out = {out};
            c.fused = n.fused;
            nodes.push_back(c);
            n.in[0] = out;
            nodes.push_back(n);
        }
        g.nodes = std::move(nodes);
    }
}

} // namespace orrery

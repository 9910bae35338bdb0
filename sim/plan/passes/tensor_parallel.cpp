// Tensor parallelism (Shoeybi et al., arXiv:1909.08053): what counts heads, ffn columns or vocabulary is divided by t; column-parallel
// linears read a value that entered the region, row-parallel ones leave a partial sum that an exit node reduces.
//
// After it: every value is placed along tp; every partial value is read by an exit alone; every value a sharded linear reads
// came through an enter.
#include "sim/plan/passes/passes.hpp"

#include <algorithm>

namespace orrery {
namespace {

bool sharded(const Value& v) { return v.placement.on(Axis::tp) == PlacementKind::sharded; }

void shard_values(Graph& g, std::int64_t t) {
    for (Value& v : g.values)
        for (std::size_t d = 0; d < v.dims.size(); ++d)
            if (v.dims[d] == DimKind::parallel) {
                v.shape[d] /= t;
                v.placement.set(Axis::tp, PlacementKind::sharded, static_cast<int>(d));
                break;
            }
    for (Node& n : g.nodes) {
        n.attention.heads = std::max<std::int64_t>(1, n.attention.heads / t);
        n.attention.kv_heads = std::max<std::int64_t>(1, n.attention.kv_heads / t);
    }
}

Node boundary(NodeKind kind, const Node& at, const std::string& value_name, ValueId in, ValueId out) {
    Node n;
    n.kind = kind;
    n.name = value_name + (kind == NodeKind::enter ? ".enter" : ".exit");
    n.layer = at.layer;
    n.unit = at.unit;
    n.in = {in};
    n.out = {out};
    return n;
}

} // namespace

void tensor_parallel(Lowering& l) {
    const std::int64_t t = l.tp();
    if (t == 1) return;
    for (Graph& g : l.graphs) {
        shard_values(g, t);
        std::vector<Node> nodes;
        std::vector<ValueId> entered(g.values.size(), -1), replaced(g.values.size(), -1);
        for (Node& n : g.nodes) {
            for (ValueId& v : n.in)
                if (replaced[v] >= 0) v = replaced[v];
            const bool weighted = n.kind == NodeKind::linear || n.kind == NodeKind::embedding;
            const bool column = n.kind == NodeKind::linear && sharded(g.value(n.params[0])) && g.value(n.params[0]).placement.dim[0] == 0;
            if (column && !sharded(g.value(n.in[0]))) {
                ValueId& inside = entered[n.in[0]];
                if (inside < 0) {
                    Value v = g.value(n.in[0]);
                    const std::string name = v.name;
                    v.name += ".entered";
                    v.placement.set(Axis::tp, PlacementKind::varying);
                    inside = g.add(std::move(v));
                    entered.push_back(-1);
                    replaced.push_back(-1);
                    nodes.push_back(boundary(NodeKind::enter, n, name, n.in[0], entered[n.in[0]]));
                    if (l.practice.linears_meet_apart) nodes.back().times = modules_of(l, n);
                }
                n.in[0] = entered[n.in[0]];
            }
            if (n.kind == NodeKind::latent_join && !sharded(g.value(n.in[2]))) { // each rank takes the key's common part for its heads
                Value v = g.value(n.in[2]);
                const std::string name = v.name;
                v.name += ".entered";
                v.placement.set(Axis::tp, PlacementKind::varying);
                const ValueId inside = g.add(std::move(v));
                entered.push_back(-1);
                replaced.push_back(-1);
                nodes.push_back(boundary(NodeKind::enter, n, name, n.in[2], inside));
                n.in[2] = inside;
            }
            if (n.kind == NodeKind::cross_entropy)
                for (ValueId v : n.out)
                    if (!sharded(g.value(v))) g.value(v).placement.set(Axis::tp, PlacementKind::varying);
            nodes.push_back(n);
            const bool reduces = weighted && !column && sharded(g.value(n.params[0]));
            if (reduces) {
                const ValueId partial = n.out[0];
                Value whole = g.value(partial);
                g.value(partial).placement.set(Axis::tp, PlacementKind::partial);
                const std::string name = whole.name;
                whole.name += ".reduced";
                const ValueId out = g.add(std::move(whole));
                entered.push_back(-1);
                replaced.push_back(-1);
                replaced[partial] = out;
                nodes.push_back(boundary(NodeKind::exit, n, name, partial, out));
            }
        }
        g.nodes = std::move(nodes);
        if (g.output >= 0 && replaced[g.output] >= 0) g.output = replaced[g.output];
    }
}

} // namespace orrery

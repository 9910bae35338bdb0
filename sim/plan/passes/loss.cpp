// The part of the logits that exists at once (runtime.loss). vocabulary-parallel: nothing is done, each tensor-parallel rank has its
// columns. whole: the columns of all ranks are joined ahead of the loss, which every rank then makes of all logits. chunked: output layer
// and loss are one node, which makes logits, loss and gradients of some rows at a time (Liger, arXiv:2410.10989); it runs in the backward
// pass, and so does the gather of its input.
//
// After it: a loss of whole logits reads values that are the same on all tensor-parallel ranks; a chunked one has no logits in the graph.
#include "sim/plan/passes/passes.hpp"

#include <algorithm>

namespace orrery {
namespace {

// A value of a part of the vocabulary or of its sums, as every rank has it of all columns.
void make_whole(Value& v, std::int64_t t) {
    if (v.placement.on(Axis::tp) == PlacementKind::sharded) v.shape[v.placement.dim[0]] *= t;
    v.placement.set(Axis::tp, PlacementKind::invariant);
}

void join_logits(Graph& g, std::int64_t t) {
    std::vector<Node> nodes;
    for (Node& n : g.nodes) {
        if (n.kind == NodeKind::cross_entropy) {
            Value whole = g.value(n.in[0]);
            whole.name += ".whole";
            make_whole(whole, t);
            for (ValueId v : n.out) make_whole(g.value(v), t);
            Node join;
            join.kind = NodeKind::join_vocabulary;
            join.name = n.name + ".join";
            join.layer = n.layer;
            join.unit = n.unit;
            join.in = {n.in[0]};
            join.out = {n.in[0] = g.add(std::move(whole))};
            nodes.push_back(std::move(join));
        }
        nodes.push_back(std::move(n));
    }
    g.nodes = std::move(nodes);
}

void cut_loss(Graph& g, int chunks) {
    std::vector<Node> nodes;
    for (Node& n : g.nodes) {
        if (n.kind == NodeKind::cross_entropy) {
            const Node& head = nodes.back(); // the output layer stands ahead of its loss
            const std::int64_t rows = g.value(n.out[0]).shape[0];
            n.kind = NodeKind::chunked_loss;
            n.late = true;
            n.chunks = static_cast<int>(std::min<std::int64_t>(chunks, rows));
            n.gemm_dtype = head.gemm_dtype;
            n.params = head.params;
            n.in = head.in;
            nodes.pop_back();
            for (Node& enter : nodes)
                if (enter.kind == NodeKind::enter && enter.out[0] == n.in[0]) enter.late = true;
        }
        nodes.push_back(std::move(n));
    }
    g.nodes = std::move(nodes);
}

} // namespace

void loss_logits(Lowering& l) {
    const Runtime& runtime = l.scenario.runtime;
    for (Graph& g : l.graphs) {
        if (runtime.loss == LossKind::whole && l.tp() > 1) join_logits(g, l.tp());
        if (runtime.loss == LossKind::chunked) cut_loss(g, runtime.loss_chunks);
    }
}

} // namespace orrery

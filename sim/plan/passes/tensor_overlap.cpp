// Transformer Engine's overlap of tensor-parallel communication (user buffers, ub_tp_comm_overlap of Megatron's recipes): the
// gather ahead of a linear travels round the ring a shard at a time while the shards that are there are multiplied, forward and for the
// gradient after a row-parallel linear. Gather and reduce-scatter of a column-parallel linear's gradients run whole, under its two
// products, with or without it. The reduce-scatter after a forward linear runs in four pieces as well, but lends itself 16 processors of
// the linear's and leaves the last piece bare: by NVIDIA's published runs it hides about what it costs, and it is planned whole. For
// whom: Practice::pieced_gathers. Source of which layer goes by which method: TransformerEngine, pytorch/module/base.py, initialize_ub.
//
// After it: Node::pieces and Node::gradient_pieces of dense layers' regions, and of the linears at their ends.
#include "sim/plan/inputs.hpp"
#include "sim/plan/passes/passes.hpp"

#include <vector>

namespace orrery {
namespace {

// The writer of a value, and its readers (the last of `readers` nodes).
struct Ends {
    Node* writer = nullptr;
    Node* reader = nullptr;
    int readers = 0;
};

std::vector<Ends> ends_of(Graph& g) {
    std::vector<Ends> ends(g.values.size());
    for (Node& n : g.nodes) {
        for (ValueId v : n.out) ends[v].writer = &n;
        for (ValueId v : n.in) {
            Ends& e = ends[v];
            e.readers += e.reader != &n;
            e.reader = &n;
        }
    }
    return ends;
}

bool is_dense_linear(const Graph& g, const Node* n) {
    return n != nullptr && n->kind == NodeKind::linear && n->layer >= 0 && !n->keeps_precision && g.value(n->params[0]).shape.size() == 2;
}

} // namespace

void tensor_overlap(Lowering& l) {
    const Strategy& s = l.scenario.strategy;
    // Its buffers are mapped into the devices of an NVLink domain: a node, or the nodes of a rack.
    if (!l.practice.pieced_gathers || !s.overlap.tensor_parallel || !s.sequence_parallel || l.tp() == 1 ||
        !tensor_ranks_share_a_node(l.scenario))
        return;
    const auto ranks = static_cast<std::uint8_t>(l.tp());
    for (Graph& g : l.graphs) {
        const std::vector<Ends> ends = ends_of(g);
        for (Node& n : g.nodes) {
            if (!n.along_seq) continue;
            if (n.kind == NodeKind::enter) {
                const Ends& e = ends[n.out[0]];
                if (e.readers == 1 && is_dense_linear(g, e.reader)) n.pieces = e.reader->pieces = ranks;
            } else if (Node* const writer = ends[n.in[0]].writer; n.kind == NodeKind::exit && is_dense_linear(g, writer)) {
                n.gradient_pieces = writer->gradient_pieces = ranks;
            }
        }
    }
}

} // namespace orrery

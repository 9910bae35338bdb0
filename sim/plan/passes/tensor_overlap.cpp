// Transformer Engine's overlap of tensor-parallel communication (user buffers, ub_tp_comm_overlap of Megatron's recipes): the
// gather ahead of a linear travels round the ring a shard at a time while the shards that are there are multiplied, forward and for the
// gradient behind a row-parallel linear. Gather and reduce-scatter of a column-parallel linear's gradients run whole, under its two
// products, with or without it. The reduce-scatter behind a forward linear runs in four pieces as well, but lends itself 16 processors of
// the linear's and leaves the last piece bare: by NVIDIA's published runs it hides about what it costs, and it is planned whole. So is all of
// it before 2025: runs of NeMo 24.09 and 24.11 (dgxc_2024) take what bare gathers take, those of 25.02 and later, with Transformer Engine 2, less.
// Source of which layer goes by which method: TransformerEngine, pytorch/module/base.py, initialize_ub.
//
// After it: Node::pieces and Node::gradient_pieces of dense layers' regions, and of the linears at their ends.
#include "sim/plan/passes/passes.hpp"

#include <algorithm>

namespace orrery {
namespace {

bool is_dense_linear(const Graph& g, const Node& n) {
    return n.kind == NodeKind::linear && n.layer >= 0 && !n.keeps_precision && g.value(n.params[0]).shape.size() == 2;
}

void overlap_gather(Graph& g, Node& enter, std::uint8_t ranks) {
    std::vector<Node*> readers;
    for (Node& n : g.nodes)
        if (std::find(n.in.begin(), n.in.end(), enter.out[0]) != n.in.end()) readers.push_back(&n);
    if (readers.size() != 1 || !is_dense_linear(g, *readers[0])) return;
    enter.pieces = readers[0]->pieces = ranks;
}

void overlap_adjoint(Graph& g, Node& exit, std::uint8_t ranks) {
    const auto writer = std::find_if(g.nodes.begin(), g.nodes.end(), [&](const Node& n) { return !n.out.empty() && n.out[0] == exit.in[0]; });
    if (writer == g.nodes.end() || !is_dense_linear(g, *writer)) return;
    exit.gradient_pieces = writer->gradient_pieces = ranks;
}

} // namespace

void tensor_overlap(Lowering& l) {
    const Strategy& s = l.scenario.strategy;
    const bool engine = (s.framework == "megatron" || s.framework == "nemo") && l.scenario.runtime.year >= 2025;
    // Its buffers are mapped into the devices of a node.
    if (!engine || !s.overlap.tensor_parallel || !s.sequence_parallel || l.tp() == 1 || l.tp() > l.scenario.cluster.devices_per_node) return;
    const auto ranks = static_cast<std::uint8_t>(l.tp());
    for (Graph& g : l.graphs)
        for (Node& n : g.nodes) {
            if (n.kind == NodeKind::enter && n.along_seq) overlap_gather(g, n, ranks);
            if (n.kind == NodeKind::exit && n.along_seq) overlap_adjoint(g, n, ranks);
        }
}

} // namespace orrery

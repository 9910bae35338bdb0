// Activation recomputation: marks the nodes whose outputs the backward pass makes again instead of reading them saved.
// none; selective: the core of attention (Korthikanti et al.), or a policy by op (Practice::selective_by_op); full: whole layers, their
// inputs kept; or a list of op kinds ("latent": what latent attention unfolds; Megatron's mla_up_proj), with the casts of their results.
// Within a memory budget a layer keeps the results that save the most work (memory_budget.hpp).
// Segments of several layers keep their inputs alone, and are made again whole when the backward pass comes to them: sqrt(layers) of them
// keep the fewest (Chen et al., arXiv:1604.06174); or segments have a number of layers, a chunk's last what is left (Megatron's
// --recompute-method uniform). recompute_layers limits it to the first layers of each stage, {"per_chunk": n} to the first of each chunk
// (--recompute-method block: the loop over a TransformerBlock's layers, which are a virtual stage's, in _checkpointed_forward of
// megatron/core/transformer/transformer_block.py), {"every": n} to every n-th layer.
//
// After it: Node::recompute is set, and the last value of a fully recomputed stretch (a layer, a segment) is marked saved (the next one's
// checkpoint).
#include "sim/plan/passes/memory_budget.hpp"
#include "sim/plan/passes/passes.hpp"

#include <algorithm>
#include <map>
#include <set>

namespace orrery {
namespace {

bool attention_core(NodeKind k) {
    return k == NodeKind::attention || k == NodeKind::ring_attention || k == NodeKind::scores || k == NodeKind::score_cap ||
           k == NodeKind::softmax || k == NodeKind::attention_dropout || k == NodeKind::context;
}

// The core of attention, and the cast to 8 bits ahead of it: Transformer Engine's fused attention casts what it is given, so that a
// checkpoint around it keeps 16 bits and casts them again.
bool core_with_cast(const Graph& g, std::size_t i) {
    if (attention_core(g.nodes[i].kind)) return true;
    return g.nodes[i].kind == NodeKind::cast && i + 1 < g.nodes.size() && g.nodes[i + 1].kind == NodeKind::attention &&
           g.nodes[i + 1].in[0] == g.nodes[i].out[0];
}

// torchtitan's selective checkpointing by op keeps attention and every second matmul of a layer (wq, wv, w1, w2) and makes the rest again:
// wk, wo, w3 and all that is elementwise. q, k and v are one matmul here, kept whole; of w1 and w3, one matmul too, every second layer's
// is made again, which is as much time and memory over the layers of a stage. Results of communication are kept; a mixture's gate is made
// again by name (force_recompute_mm_shapes_by_fqns: moe.router.gate). (Eager code keeps w2's too, which nothing reads:
// Emitter::stores_result.)
bool made_again_by_op(const Strategy& st, const Node& n, bool keeps_attention) {
    switch (n.kind) {
    case NodeKind::attention:
    case NodeKind::ring_attention:
        return !keeps_attention;
    case NodeKind::exit: // reduce_scatter_tensor is one of the kept, all_gather_into_tensor is not
    case NodeKind::dispatch:
    case NodeKind::combine:
        return false;
    case NodeKind::linear: // (torch._grouped_mm is none of the kept ones)
        return n.part == LinearPart::expert_fc1 || n.part == LinearPart::expert_fc2 || n.part == LinearPart::router ||
               (n.part == LinearPart::proj && st.tensor_parallel == 1) || (n.part == LinearPart::fc1 && n.layer % 2 == 1);
    default:
        return true;
    }
}

// The nodes of a mixture, from its router to the sum of its experts.
bool of_mixture(const Graph& g, const Node& n) {
    switch (n.kind) {
    case NodeKind::route:
    case NodeKind::permute:
    case NodeKind::dispatch:
    case NodeKind::weigh:
    case NodeKind::weighted_bias:
    case NodeKind::combine:
    case NodeKind::unpermute:
        return true;
    case NodeKind::linear:
        return n.part == LinearPart::router || n.part == LinearPart::expert_fc1 || n.part == LinearPart::expert_fc2 ||
               n.part == LinearPart::shared_fc1 || n.part == LinearPart::shared_fc2 ||
               g.value(n.params[0]).dims[0] == DimKind::expert; // experts' adapters
    default: // a clamp, an activation, a cast, a region's end: of what the mixture's linears make
        return std::any_of(g.nodes.begin(), g.nodes.end(), [&](const Node& m) {
            return m.kind == NodeKind::linear && m.layer == n.layer && !n.in.empty() && m.out[0] == n.in[0] &&
                   m.part != LinearPart::router && of_mixture(g, m);
        });
    }
}

// Of the experts that every token meets: their two linears and what stands between and behind these (Megatron's checkpoint of
// self.shared_experts, megatron/core/transformer/moe/moe_layer.py).
bool of_shared_experts(const Graph& g, const Node& n) {
    const auto linear = [](const Node& m) { return m.part == LinearPart::shared_fc1 || m.part == LinearPart::shared_fc2; };
    if (linear(n)) return true;
    if (n.kind == NodeKind::residual || n.in.empty()) return false;
    return std::any_of(g.nodes.begin(), g.nodes.end(),
                       [&](const Node& m) { return m.layer == n.layer && linear(m) && m.out[0] == n.in[0]; });
}

// Whether a recompute list names the node, which may be of the core of attention.
bool listed(const std::vector<RecomputeOp>& ops, const Graph& g, const Node& n, bool core) {
    const auto has = [&](RecomputeOp op) { return std::find(ops.begin(), ops.end(), op) != ops.end(); };
    if (has(RecomputeOp::moe) && of_mixture(g, n)) return true;
    if (has(RecomputeOp::shared_experts) && of_shared_experts(g, n)) return true;
    if (has(RecomputeOp::attention) && core) return true;
    if (has(RecomputeOp::norm) && (n.kind == NodeKind::norm || n.kind == NodeKind::head_norm)) return true;
    if (has(RecomputeOp::activation) && (n.kind == NodeKind::activation || n.kind == NodeKind::weigh || n.kind == NodeKind::clamp))
        return true;
    if (has(RecomputeOp::rope) && n.kind == NodeKind::rope) return true;
    if (has(RecomputeOp::latent) && (n.kind == NodeKind::latent_join || n.part == LinearPart::q_up || n.part == LinearPart::kv_up))
        return true;
    if (has(RecomputeOp::residual) && n.kind == NodeKind::residual) return true;
    if (has(RecomputeOp::cast) && n.kind == NodeKind::cast) return true;
    if (n.kind != NodeKind::linear) return false;
    const auto op = named<RecomputeOp>(name(n.part));
    return has(RecomputeOp::linear) || (op && has(*op));
}

// By layer, the first layer of its stretch: the listed layers in even segments, longer ones first, or in segments of
// recompute_segment_layers; every other layer alone.
std::map<int, std::int16_t> stretches_of(const Graph& g, const std::vector<std::int16_t>& layers, const Strategy& st) {
    std::map<int, std::int16_t> of;
    for (const Node& n : g.nodes) of[n.layer] = n.layer;
    const int segments = st.recompute_segments, each = st.recompute_segment_layers;
    const int count = static_cast<int>(layers.size()), used = std::max(1, std::min(segments, count));
    for (int i = 0; each > 0 && i < count; ++i) of[layers[i]] = layers[i / each * each];
    const int length = count / used, longer = count % used;
    for (int i = 0; segments > 0 && i < count; ++i) {
        const int first = i < longer * (length + 1) ? i / (length + 1) * (length + 1) : i - (i - longer * (length + 1)) % length;
        of[layers[i]] = layers[first];
    }
    return of;
}

// Whether a node belongs to a further token's loss in the output layer's chunk. It has a layer's number but is part of no layer.
bool beside_head(const Graph& g, const Node& n) { return g.unit_kinds[static_cast<std::size_t>(n.unit)] == UnitKind::head; }

// The layers of a chunk that are recomputed, in order. seen: layers of its stage met in the chunks before.
std::vector<std::int16_t> recomputed_layers(const Strategy& st, const Graph& g, int& seen) {
    std::vector<std::int16_t> layers;
    int last = -1, in_chunk = 0;
    for (const Node& n : g.nodes) {
        if (n.layer < 0 || n.layer == last || beside_head(g, n)) continue;
        last = n.layer;
        const int index = seen++;
        const bool first =
            st.recompute_per_chunk > 0 // (what predicts further tokens stays out of it: multi_token_prediction.py warns of that)
                ? g.unit_kinds[static_cast<std::size_t>(n.unit)] == UnitKind::layer && in_chunk++ < st.recompute_per_chunk
                : st.recompute_layers.empty() ||
                      index < st.recompute_layers[static_cast<std::size_t>(g.stage) % st.recompute_layers.size()];
        if (st.recompute_every > 0 ? n.layer % st.recompute_every == 0 : first) layers.push_back(n.layer);
    }
    return layers;
}

} // namespace

void mark_recompute(Lowering& l) {
    const Strategy& st = l.scenario.strategy;
    if (st.recompute == RecomputeKind::none) return;
    std::vector<int> seen(static_cast<std::size_t>(l.plan.stages), 0); // layers met on each stage, in model order
    for (Graph& g : l.graphs) {
        const std::vector<std::int16_t> layers = recomputed_layers(st, g, seen[g.stage]);
        const std::map<int, std::int16_t> stretches = stretches_of(g, layers, st);
        std::set<std::int32_t> kept;
        if (st.recompute == RecomputeKind::budget) kept = kept_in_budget(g, st.recompute_budget);
        for (std::size_t i = 0; i < g.nodes.size(); ++i) {
            Node& n = g.nodes[i];
            if (n.layer < 0 || beside_head(g, n)) continue;
            n.stretch = stretches.at(n.layer);
            if (std::find(layers.begin(), layers.end(), n.layer) == layers.end()) continue;
            switch (st.recompute) {
            case RecomputeKind::selective:
                n.recompute = l.practice.selective_by_op ? made_again_by_op(st, n, l.practice.keeps_attention_by_op) : core_with_cast(g, i);
                break;
            case RecomputeKind::full:
                n.recompute = true;
                break;
            case RecomputeKind::list:
                n.recompute = listed(st.recompute_ops, g, n, core_with_cast(g, i));
                break;
            case RecomputeKind::budget:
                n.recompute = !kept.contains(static_cast<std::int32_t>(i));
                break;
            case RecomputeKind::none:
                break;
            }
            const bool last_of_stretch = i + 1 == g.nodes.size() || stretches.at(g.nodes[i + 1].layer) != n.stretch;
            if (last_of_stretch) g.value(n.out[0]).saved = true;
        }
    }
    // The core's result is the projection's input, which selective recomputation keeps: it is what a checkpointed function returned (a
    // policy by op keeps no result of a kernel that it makes again).
    const bool by_op = st.recompute == RecomputeKind::selective && l.practice.selective_by_op;
    if (st.recompute == RecomputeKind::selective || (st.recompute == RecomputeKind::list && !l.practice.keeps_named_alone))
        for (Graph& g : l.graphs)
            for (Node& n : g.nodes) {
                const bool kernel = n.kind == NodeKind::attention || n.kind == NodeKind::ring_attention;
                if (n.recompute && (n.kind == NodeKind::context || (kernel && !by_op))) g.value(n.out[0]).saved = true;
            }
    // A cast of what is made again is made again with it: kept, it would take the place of what is not.
    if (st.recompute == RecomputeKind::list)
        for (Graph& g : l.graphs)
            for (Node& n : g.nodes)
                if (n.kind == NodeKind::cast && n.layer >= 0)
                    for (const Node& made : g.nodes)
                        if (made.recompute && made.unit == n.unit && made.out[0] == n.in[0] && !g.value(made.out[0]).saved)
                            n.recompute = true;
    // A loss in chunks runs in the backward pass: made again there, its input would be made twice, and the first time for nobody.
    for (Graph& g : l.graphs)
        for (const Node& late : g.nodes)
            if (late.late)
                for (Node& made : g.nodes)
                    if (made.recompute && made.out[0] == late.in[0]) made.recompute = false;
    // A value that is kept in another value's place is not recomputed.
    for (Graph& g : l.graphs)
        for (Node& n : g.nodes)
            if (n.kind == NodeKind::cast && g.value(n.in[0]).kept_as == n.out[0]) n.recompute = false;
}

} // namespace orrery

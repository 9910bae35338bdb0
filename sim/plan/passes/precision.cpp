// 8-bit and 4-bit precision (Transformer Engine's way): the linears of the layers run in it, their inputs are cast before them and
// saved cast; embedding, head, norms and, unless it is asked for, attention stay in bf16. A norm that feeds a linear writes the cast value
// itself; tokens are cast before they go to their experts, where the runtime does so. The input an activation keeps may have 8 bits in any
// precision. Software that keeps the inputs themselves casts them again in the backward pass.
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

Node cast_node(const Node& at, const std::string& name, ValueId in, ValueId out) {
    Node c;
    c.kind = NodeKind::cast;
    c.name = name;
    c.layer = at.layer;
    c.unit = at.unit;
    c.in = {in};
    c.out = {out};
    c.fused = at.fused;
    return c;
}

ValueId low_copy(Graph& g, ValueId x, const std::string& suffix, DType low) {
    Value copy = g.value(x);
    copy.name += suffix;
    copy.dtype = low;
    copy.kept_as = -1;
    copy.saved = false;
    return g.add(std::move(copy));
}

// The dispatch of tokens to experts works with any dtype: they are cast before they travel (DeepSeek-V3, arXiv:2412.19437, section
// 3.3.2). x: the experts' input, low from here on; false: it is not what a dispatch or permutation brings.
bool cast_before_dispatch(Graph& g, std::vector<Node>& nodes, ValueId x, DType low) {
    std::int32_t first = -1;
    const auto brings = [&](std::int32_t i) {
        return i >= 0 && (nodes[i].kind == NodeKind::dispatch || nodes[i].kind == NodeKind::permute);
    };
    for (std::int32_t i = producer_of(nodes, x); brings(i); i = producer_of(nodes, nodes[i].in[0])) {
        first = i;
        g.value(nodes[i].out[0]).dtype = low;
    }
    if (first < 0) return false;
    Node& mover = nodes[first];
    const ValueId source = mover.in[0], out = low_copy(g, source, ".cast", low);
    const Node cast = cast_node(mover, mover.name + ".cast", source, out);
    mover.in[0] = out;
    nodes.insert(nodes.begin() + first, cast);
    return true;
}

// Beside each activation, a copy of its input in 8 bits, which is all the backward pass reads.
void keep_activation_inputs_low(Graph& g) {
    std::vector<Node> nodes;
    for (Node& n : g.nodes) {
        nodes.push_back(n);
        if (n.kind != NodeKind::activation) continue;
        const ValueId x = n.in[0], copy = low_copy(g, x, ".kept", DType::fp8);
        g.value(x).kept_as = copy;
        nodes.push_back(cast_node(n, n.name + ".keep", x, copy));
    }
    g.nodes = std::move(nodes);
}

// Layers that stay in 16 bits at either end of the model; what predicts further tokens counts as the last.
bool stays(const Scenario& s, int layer) {
    return layer < s.training.bf16_first_layers || layer >= s.model.layers - s.training.bf16_last_layers;
}

bool may_make_attention_again(const Strategy& s) {
    if (s.recompute == RecomputeKind::list) return std::ranges::find(s.recompute_ops, RecomputeOp::attention) != s.recompute_ops.end();
    return s.recompute != RecomputeKind::none;
}

// Attention in 8 bits: its operands are cast and saved so; by delayed scaling its result is kept in 8 bits for its backward pass too
// (where that is not made again).
void run_attention_low(Graph& g, const Scenario& scenario, Node n, std::vector<Node>& nodes) {
    n.gemm_dtype = DType::fp8;
    const ValueId packed = n.in[0], result = n.out[0];
    n.in[0] = low_copy(g, packed, ".cast", DType::fp8);
    nodes.push_back(cast_node(n, n.name + ".cast", packed, n.in[0]));
    nodes.push_back(n);
    if (scenario.runtime.fp8_recipe != ScalingRecipe::delayed || may_make_attention_again(scenario.strategy)) return;
    const ValueId copy = low_copy(g, result, ".kept", DType::fp8);
    g.value(result).kept_as = copy;
    nodes.push_back(cast_node(n, n.name + ".keep", result, copy));
}

void run_linears_low(Graph& g, const Scenario& scenario, const Practice& practice, DType low) {
    const Runtime& runtime = scenario.runtime;
    std::vector<Node> nodes;
    for (Node& n : g.nodes) {
        if (runtime.fp8_dispatch && (n.kind == NodeKind::combine || n.kind == NodeKind::unpermute) && !stays(scenario, n.layer))
            n.gradient_dtype = low;
        if (n.kind == NodeKind::attention && practice.low_attention && n.layer >= 0 && !stays(scenario, n.layer)) {
            run_attention_low(g, scenario, n, nodes);
            continue;
        }
        if (n.kind != NodeKind::linear || n.layer < 0 || n.keeps_precision || stays(scenario, n.layer)) {
            nodes.push_back(n);
            continue;
        }
        n.gemm_dtype = low;
        const ValueId x = n.in[0];
        const std::int32_t enter = producer_of(nodes, x);
        const bool entered = enter >= 0 && nodes[enter].kind == NodeKind::enter;
        const ValueId source = entered ? nodes[enter].in[0] : x;
        const std::int32_t norm = producer_of(nodes, source);
        if (g.value(x).dtype == low) {
            nodes.push_back(n);
            continue;
        }
        const bool own_casts = practice.keeps_wide_inputs;
        if (!own_casts && norm >= 0 && nodes[norm].kind == NodeKind::norm && nodes[norm].fused && read_low_only(g, source)) {
            g.value(source).dtype = low;
            g.value(x).dtype = low;
            nodes.push_back(n);
            continue;
        }
        if (runtime.fp8_dispatch && cast_before_dispatch(g, nodes, x, low)) {
            nodes.push_back(n);
            continue;
        }
        n.in[0] = low_copy(g, x, ".cast", low);
        nodes.push_back(cast_node(n, n.name + ".cast", x, n.in[0]));
        nodes.back().recompute = own_casts;
        nodes.push_back(n);
    }
    g.nodes = std::move(nodes);
}

} // namespace

void precision(Lowering& l) {
    const Runtime& runtime = l.scenario.runtime;
    const DType low = l.scenario.training.precision;
    for (Graph& g : l.graphs) {
        if (is_low(low)) run_linears_low(g, l.scenario, l.practice, low);
        if (runtime.fp8_activation_input && l.scenario.strategy.recompute != RecomputeKind::full) keep_activation_inputs_low(g);
    }
}

} // namespace orrery

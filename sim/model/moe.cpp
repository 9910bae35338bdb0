// A mixture of experts in an MLP's place (Shazeer et al., arXiv:1701.06538): a router, rows of tokens in the order of their experts, one
// grouped linear for all experts, and the sum of each token's rows; beside it, shared experts that every token passes.
//
// A row is weighted by its probability in the experts' activation, as Megatron does since 2025: the second linear and the sum are linear,
// so that the result is the same, and the probability's gradient follows from the activation's saved input. Weighted in the sum it would
// need the experts' output, a row of hidden_size for each token and expert.
#include "sim/model/builder.hpp"

namespace orrery {
namespace {

ValueId routed_rows(Builder& b, const std::string& what, std::int64_t cols, DimKind kind, DType dtype) {
    return b.value(what, {b.tokens * b.s.model.moe->top_k, cols}, {DimKind::routed, kind}, dtype);
}

// rows[.., n] = rows[.., k] W[e, n, k]^T for each row's expert e.
ValueId expert_linear(Builder& b, LinearPart part, ValueId x, std::int64_t n, std::int64_t k, bool column) {
    const std::string what = name(part);
    const DimKind out = column ? DimKind::expert_parallel : DimKind::hidden, in = column ? DimKind::hidden : DimKind::expert_parallel;
    const std::int64_t experts = b.s.model.moe->experts;
    const ValueId y = routed_rows(b, what, n, out, b.act);
    std::vector<ValueId> params{b.parameter(b.prefix() + what + ".weight", {experts, n, k}, {DimKind::expert, out, in},
                                            column ? Initial::normal : Initial::output)};
    if (b.s.model.bias && column)
        params.push_back(b.parameter(b.prefix() + what + ".bias", {experts, n}, {DimKind::expert, out}, Initial::zero));
    b.node(NodeKind::linear, what, {x}, {y}, params).part = part;
    return y;
}

// y = x + p b[e]: a bias after the weighted activation is weighted by each row's probability p itself.
ValueId weighted_bias(Builder& b, const std::string& what, ValueId x, ValueId probabilities) {
    const std::int64_t h = b.s.model.hidden_size;
    const ValueId y = routed_rows(b, what + "_biased", h, DimKind::hidden, b.act);
    b.node(NodeKind::weighted_bias, what + "_bias", {x, probabilities}, {y},
           {b.parameter(b.prefix() + what + ".bias", {b.s.model.moe->experts, h}, {DimKind::expert, DimKind::hidden}, Initial::zero)});
    return y;
}

// Whether the clamp is a sequence of kernels before the activation's; one kernel for all experts (fused_experts) and compiled code clamp
// inside.
bool clamps_apart(const Scenario& s, const Practice& practice) {
    if (s.model.activation_clamp <= 0) return false;
    return practice.clamps_ahead ? !s.runtime.fused_experts : !s.strategy.fused;
}

// f(x) of the experts' rows, each times its probability.
ValueId weighted_activation(Builder& b, ValueId f, ValueId weights) {
    const std::int64_t width = b.s.model.moe->expert_ffn_size;
    const auto columns = [&](const char* what, std::int64_t n) { return routed_rows(b, what, n, DimKind::expert_parallel, b.act); };
    const ValueId a = columns("expert_act", width);
    if (b.s.model.gated() && clamps_apart(b.s, b.practice)) {
        const ValueId clamped = columns("expert_clamp", 2 * width);
        b.node(NodeKind::clamp, "expert_clamp", {f}, {clamped});
        f = clamped;
    }
    if (b.s.model.gated()) return b.activation("expert_act", {f, weights}, a, b.keeps_gates() ? columns("expert_act.gate", width) : -1);
    b.activation("expert_act", {f}, a, -1); // no framework has a kernel for both
    const ValueId weighted = columns("expert_weighted", width);
    b.node(NodeKind::weigh, "expert_weighted", {a, weights}, {weighted});
    return weighted;
}

} // namespace

ValueId Builder::expert_branch(ValueId n2) {
    const Model& m = s.model;
    const MoeSpec& e = *m.moe;
    const bool widens = practice.wide_gate && act != DType::fp32;
    const ValueId read = widens ? rows("router.input", h, DimKind::hidden, DType::fp32) : n2;
    if (widens) node(NodeKind::cast, "router.input", {n2}, {read});
    const ValueId logits = whole_linear(LinearPart::router, read, e.experts, h, widens ? DType::fp32 : act);
    if (widens) g.nodes.back().gemm_dtype = DType::fp32;
    g.nodes.back().keeps_precision = true;
    const ValueId probabilities = value("route", {tokens, e.experts}, {DimKind::seq, DimKind::other}, DType::fp32);
    const ValueId map = value("route.map", {tokens, e.experts}, {DimKind::seq, DimKind::other}, DType::boolean);
    const ValueId counts = value("route.counts", {e.experts}, {DimKind::other}, DType::int64);
    g.value(counts).counts = true;
    std::vector<ValueId> bias;
    if (e.router_bias) bias.push_back(parameter(prefix() + "router.bias", {e.experts}, {DimKind::other}, Initial::zero));
    node(NodeKind::route, "route", {logits}, {probabilities, map, counts}, bias);

    // Shared experts: before the routed ones, as Megatron's joined steps have them too (fine_grained_callables.py: in the node of the
    // attention); or beside their dispatch and combine (--moe-shared-expert-overlap: token_dispatcher.py launches their two linears with
    // the exchanges, on a stream of their own). Where tokens travel, the exchange back stands behind the sum of their rows.
    const bool under = s.strategy.overlap.shared_experts;
    const bool tokens_travel = s.runtime.token_dispatcher != TokenDispatcher::alltoall;
    const std::int64_t width = e.shared_experts * (e.shared_expert_ffn_size > 0 ? e.shared_expert_ffn_size : e.expert_ffn_size);
    ValueId shared = n2;
    const auto shared_first = [&] {
        const ValueId f = linear(LinearPart::shared_fc1, n2, width * (m.gated() ? 2 : 1), h, true, m.bias);
        shared = activation("shared_act", {f}, rows("shared_act", width, DimKind::parallel, act),
                            keeps_gates() ? rows("shared_act.gate", width, DimKind::parallel, act) : -1);
    };
    const auto shared_second = [&] { shared = linear(LinearPart::shared_fc2, shared, h, width, false, false); };
    if (width > 0 && !under) {
        shared_first();
        shared_second();
    }
    const ValueId sent = routed_rows(*this, "permuted", h, DimKind::hidden, act);
    const ValueId weights = routed_rows(*this, "row_probabilities", 1, DimKind::other, DType::fp32);
    const bool compiled = s.strategy.fused && practice.expert_rows != ExpertRows::padded;
    node(NodeKind::permute, "permute", {n2, map, counts, probabilities}, {sent, weights}).fused = compiled;
    if (width > 0 && under) shared_first();
    const ValueId f = expert_linear(*this, LinearPart::expert_fc1, sent, e.expert_ffn_size * (m.gated() ? 2 : 1), h, true);
    const ValueId a = weighted_activation(*this, f, weights);
    ValueId back = expert_linear(*this, LinearPart::expert_fc2, a, h, e.expert_ffn_size, false);
    if (m.bias) back = weighted_bias(*this, "expert_fc2", back, weights);
    if (width > 0 && under && !tokens_travel) shared_second();
    ValueId y = rows("unpermuted", h, DimKind::hidden, act);
    node(NodeKind::unpermute, "unpermute", {back, map}, {y}).fused = compiled;
    if (width > 0 && under && tokens_travel) shared_second();
    if (width == 0) return y;
    const ValueId sum = rows("experts", h, DimKind::hidden, act);
    std::vector<ValueId> bias_of_shared; // added after the reduction of a row-parallel linear
    if (m.bias) bias_of_shared.push_back(parameter(prefix() + "shared_fc2.bias", {h}, {DimKind::hidden}, Initial::zero));
    node(NodeKind::residual, "experts", {shared, y}, {sum}, bias_of_shared);
    return sum;
}

} // namespace orrery

#include "sim/graph/graph.hpp"

#include <cmath>
#include <fmt/format.h>

namespace orrery {

const char* name(LinearPart p) {
    switch (p) {
    case LinearPart::none:
        return "";
    case LinearPart::qkv:
        return "qkv";
    case LinearPart::q_down:
        return "q_down";
    case LinearPart::q_up:
        return "q_up";
    case LinearPart::kv_down:
        return "kv_down";
    case LinearPart::kv_up:
        return "kv_up";
    case LinearPart::proj:
        return "proj";
    case LinearPart::fc1:
        return "fc1";
    case LinearPart::fc2:
        return "fc2";
    case LinearPart::router:
        return "router";
    case LinearPart::shared_fc1:
        return "shared_fc1";
    case LinearPart::shared_fc2:
        return "shared_fc2";
    case LinearPart::expert_fc1:
        return "expert_fc1";
    case LinearPart::expert_fc2:
        return "expert_fc2";
    case LinearPart::mtp_proj:
        return "mtp_proj";
    case LinearPart::mtp_logits:
        return "mtp_logits";
    case LinearPart::logits:
        return "logits";
    case LinearPart::adapter_down:
        return "adapter_down";
    case LinearPart::adapter_up:
        return "adapter_up";
    }
    return "?";
}

const char* name(NodeKind k) {
    switch (k) {
    case NodeKind::embedding:
        return "embedding";
    case NodeKind::positions:
        return "positions";
    case NodeKind::dropout:
        return "dropout";
    case NodeKind::norm:
        return "norm";
    case NodeKind::linear:
        return "linear";
    case NodeKind::join_heads:
        return "join-heads";
    case NodeKind::rope:
        return "rope";
    case NodeKind::head_norm:
        return "head-norm";
    case NodeKind::attention:
        return "attention";
    case NodeKind::scores:
        return "scores";
    case NodeKind::score_cap:
        return "score-cap";
    case NodeKind::softmax:
        return "softmax";
    case NodeKind::attention_dropout:
        return "attention-dropout";
    case NodeKind::copy_heads:
        return "copy-heads";
    case NodeKind::context:
        return "context";
    case NodeKind::clamp:
        return "clamp";
    case NodeKind::activation:
        return "activation";
    case NodeKind::residual:
        return "residual";
    case NodeKind::logit_cap:
        return "logit-cap";
    case NodeKind::cross_entropy:
        return "cross-entropy";
    case NodeKind::join_vocabulary:
        return "join-vocabulary";
    case NodeKind::chunked_loss:
        return "chunked-loss";
    case NodeKind::enter:
        return "enter";
    case NodeKind::exit:
        return "exit";
    case NodeKind::adapt:
        return "adapt";
    case NodeKind::cast:
        return "cast";
    case NodeKind::narrow:
        return "narrow";
    case NodeKind::concat:
        return "concat";
    case NodeKind::apart:
        return "apart";
    case NodeKind::latent_join:
        return "latent-join";
    case NodeKind::route:
        return "route";
    case NodeKind::permute:
        return "permute";
    case NodeKind::dispatch:
        return "dispatch";
    case NodeKind::combine:
        return "combine";
    case NodeKind::weigh:
        return "weigh";
    case NodeKind::weighted_bias:
        return "weighted-bias";
    case NodeKind::unpermute:
        return "unpermute";
    case NodeKind::split:
        return "split";
    case NodeKind::gather_context:
        return "gather-context";
    case NodeKind::to_heads:
        return "to-heads";
    case NodeKind::from_heads:
        return "from-heads";
    case NodeKind::ring_attention:
        return "ring-attention";
    }
    return "?";
}

std::int64_t elements(const Value& v) {
    std::int64_t n = 1;
    for (std::int64_t d : v.shape) n *= d;
    return n;
}

Bytes bytes(const std::vector<std::int64_t>& shape, DType dtype) {
    double n = 1;
    for (std::int64_t d : shape) n *= static_cast<double>(d);
    return {static_cast<std::int64_t>(std::ceil(n * bytes_per_element(dtype)))};
}

namespace {

std::string placement_text(const Placement& p) {
    std::string text;
    for (int a = 0; a < axis_count; ++a) {
        const Axis axis = static_cast<Axis>(a);
        switch (p.on(axis)) {
        case PlacementKind::invariant:
            break;
        case PlacementKind::varying:
            text += fmt::format(" {}:varying", name(axis));
            break;
        case PlacementKind::sharded:
            text += fmt::format(" {}:shard{}", name(axis), p.dim[a]);
            break;
        case PlacementKind::partial:
            text += fmt::format(" {}:partial", name(axis));
            break;
        }
    }
    return text;
}

std::string value_text(const Graph& g, ValueId id) {
    const Value& v = g.value(id);
    return fmt::format("{}[{}]{}", v.name, fmt::join(v.shape, "x"), placement_text(v.placement));
}

} // namespace

std::string to_text(const Graph& g) {
    std::string text = fmt::format("chunk {} on stage {}: {} units\n", g.chunk, g.stage, g.units);
    for (const Node& n : g.nodes) {
        text += fmt::format("  u{} {} {}{}:", n.unit, name(n.kind), n.name, n.recompute ? " (recomputed)" : "");
        for (ValueId v : n.in) text += " " + value_text(g, v);
        for (ValueId v : n.params) text += " *" + value_text(g, v);
        text += " ->";
        for (ValueId v : n.out) text += " " + value_text(g, v);
        text += "\n";
    }
    return text;
}

} // namespace orrery

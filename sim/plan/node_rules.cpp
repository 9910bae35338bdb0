// The rules of every kind of node: what ops it becomes, and its adjoint. No default: a kind that has no row is an error of the compiler.
#include "sim/plan/emitter.hpp"

#include "topology/check.hpp"

namespace orrery {
namespace {

template <auto Forward, auto Adjoint> constexpr NodeRule row{Forward, Adjoint};

} // namespace

const NodeRule& rule_of(NodeKind kind) {
    switch (kind) {
    case NodeKind::embedding:
        return row<&Emitter::forward_embedding, &Emitter::adjoint_embedding>;
    case NodeKind::positions:
        return row<&Emitter::forward_positions, &Emitter::adjoint_positions>;
    case NodeKind::dropout:
        return row<&Emitter::forward_dropout, &Emitter::adjoint_dropout>;
    case NodeKind::norm:
        return row<&Emitter::forward_norm, &Emitter::adjoint_norm>;
    case NodeKind::linear:
        return row<&Emitter::forward_linear, &Emitter::adjoint_linear>;
    case NodeKind::join_heads:
        return row<&Emitter::forward_join_heads, &Emitter::adjoint_join_heads>;
    case NodeKind::rope:
        return row<&Emitter::forward_rope, &Emitter::adjoint_rope>;
    case NodeKind::head_norm:
        return row<&Emitter::forward_norm, &Emitter::adjoint_norm>;
    case NodeKind::attention:
        return row<&Emitter::forward_attention, &Emitter::adjoint_attention>;
    case NodeKind::copy_heads:
        return row<&Emitter::forward_copy_heads, &Emitter::adjoint_copy_heads>;
    case NodeKind::scores:
        return row<&Emitter::forward_scores, &Emitter::adjoint_scores>;
    case NodeKind::score_cap:
    case NodeKind::logit_cap:
        return row<&Emitter::forward_cap, &Emitter::adjoint_cap>;
    case NodeKind::softmax:
        return row<&Emitter::forward_softmax, &Emitter::adjoint_softmax>;
    case NodeKind::attention_dropout:
        return row<&Emitter::forward_dropout, &Emitter::adjoint_dropout>;
    case NodeKind::context:
        return row<&Emitter::forward_context, &Emitter::adjoint_context>;
    case NodeKind::clamp:
        return row<&Emitter::forward_clamp, &Emitter::adjoint_clamp>;
    case NodeKind::activation:
        return row<&Emitter::forward_activation, &Emitter::adjoint_activation>;
    case NodeKind::residual:
        return row<&Emitter::forward_residual, &Emitter::adjoint_residual>;
    case NodeKind::cross_entropy:
        return row<&Emitter::forward_loss, &Emitter::adjoint_loss>;
    case NodeKind::join_vocabulary:
        return row<&Emitter::forward_join_vocabulary, &Emitter::adjoint_join_vocabulary>;
    case NodeKind::chunked_loss:
        return row<&Emitter::forward_chunked_loss, &Emitter::adjoint_chunked_loss>;
    case NodeKind::enter:
        return row<&Emitter::forward_enter, &Emitter::adjoint_enter>;
    case NodeKind::exit:
        return row<&Emitter::forward_exit, &Emitter::adjoint_exit>;
    case NodeKind::adapt:
        return row<&Emitter::forward_adapt, &Emitter::adjoint_adapt>;
    case NodeKind::cast:
        return row<&Emitter::forward_cast, &Emitter::adjoint_cast>;
    case NodeKind::narrow:
        return row<&Emitter::forward_joined, &Emitter::adjoint_narrow>;
    case NodeKind::concat:
        return row<&Emitter::forward_joined, &Emitter::adjoint_joined>;
    case NodeKind::apart:
        return row<&Emitter::forward_joined, &Emitter::adjoint_joined>;
    case NodeKind::latent_join:
        return row<&Emitter::forward_joined, &Emitter::adjoint_joined>;
    case NodeKind::route:
        return row<&Emitter::forward_route, &Emitter::adjoint_route>;
    case NodeKind::permute:
        return row<&Emitter::forward_permute, &Emitter::adjoint_permute>;
    case NodeKind::dispatch:
        return row<&Emitter::forward_dispatch, &Emitter::adjoint_dispatch>;
    case NodeKind::weigh:
        return row<&Emitter::forward_weigh, &Emitter::adjoint_weigh>;
    case NodeKind::weighted_bias:
        return row<&Emitter::forward_weighted_bias, &Emitter::adjoint_weighted_bias>;
    case NodeKind::combine:
        return row<&Emitter::forward_combine, &Emitter::adjoint_combine>;
    case NodeKind::unpermute:
        return row<&Emitter::forward_unpermute, &Emitter::adjoint_unpermute>;
    case NodeKind::split:
        return row<&Emitter::forward_split, &Emitter::adjoint_split>;
    case NodeKind::gather_context:
        return row<&Emitter::forward_gather_context, &Emitter::adjoint_gather_context>;
    case NodeKind::to_heads:
        return row<&Emitter::forward_to_heads, &Emitter::adjoint_to_heads>;
    case NodeKind::from_heads:
        return row<&Emitter::forward_from_heads, &Emitter::adjoint_from_heads>;
    case NodeKind::ring_attention:
        return row<&Emitter::forward_ring, &Emitter::adjoint_ring>;
    }
    broken("a node of no kind");
}

} // namespace orrery

// Field by field, all of model, training, strategy and runtime: a binding names every member, so that a new one does not compile until it
// is here. Of the cluster only schedules that plan with times look at anything: there only one and the same is alike.
#include "sim/plan/inputs.hpp"

#include "sim/plan/schedules/schedule.hpp"

#include <tuple>

namespace orrery {
namespace {

auto fields(const AttentionSpec& x) {
    const auto& [kind, causal, window, every, q, kv, nope, rope, v, bias, norm] = x;
    return std::tie(kind, causal, window, every, q, kv, nope, rope, v, bias, norm);
}

auto fields(const MoeSpec& x) {
    const auto& [experts, top_k, shared, dense, frequency, ffn, shared_ffn, capacity, imbalance, loads, scoring, groups, limit, auxiliary,
                 bias] = x;
    return std::tie(experts, top_k, shared, dense, frequency, ffn, shared_ffn, capacity, imbalance, loads, scoring, groups, limit,
                    auxiliary, bias);
}

bool alike(const Model& a, const Model& b) {
    const auto plain = [](const Model& x) {
        const auto& [name, layers, hidden, heads, kv_heads, head_dim, ffn, activation, clamp, norm, vocab, tied, position, scale, positions,
                     bias, final_norm, embedding_norm, parallel, dropout, attention, moe, mtp] = x;
        static_cast<void>(attention); // compared below
        static_cast<void>(moe);
        return std::tie(name, layers, hidden, heads, kv_heads, head_dim, ffn, activation, clamp, norm, vocab, tied, position, scale,
                        positions, bias, final_norm, embedding_norm, parallel, dropout, mtp);
    };
    if (plain(a) != plain(b) || fields(a.attention) != fields(b.attention) || a.moe.has_value() != b.moe.has_value()) return false;
    return !a.moe || fields(*a.moe) == fields(*b.moe);
}

auto fields(const Training& x) {
    const auto& [global, micro, sequence, precision, optimizer, gradients, master, remainders, moments, clipping, rate, warmup, seed] = x;
    return std::tie(global, micro, sequence, precision, optimizer, gradients, master, remainders, moments, clipping, rate, warmup, seed);
}

auto fields(const Overlap& x) {
    const auto& [reduce, gather, tensor, pipeline, expert, offload] = x;
    return std::tie(reduce, gather, tensor, pipeline, expert, offload);
}

auto fields(const Offload& x) {
    const auto& [optimizer, parameters, gradients, activations] = x;
    return std::tie(optimizer, parameters, gradients, activations);
}

bool alike(const Strategy& a, const Strategy& b) {
    const auto plain = [](const Strategy& x) {
        const auto& [framework, dp, tp, pp, vp, cp, ep, etp, sp, schedule, split, context, zero, shard, recompute, ops, layers, every,
                     flash, fused, bucket, overlap, offload, compression, post, order, algorithm] = x;
        static_cast<void>(overlap); // compared below
        static_cast<void>(offload);
        return std::tie(framework, dp, tp, pp, vp, cp, ep, etp, sp, schedule, split, context, zero, shard, recompute, ops, layers, every,
                        flash, fused, bucket.count, compression, post, order, algorithm);
    };
    return plain(a) == plain(b) && fields(a.overlap) == fields(b.overlap) && fields(a.offload) == fields(b.offload);
}

auto fields(const Runtime& x) {
    const auto& [year, attention, softmax, activation, rope, loss, compiled, upcast, norm, optimizer, accumulation, blocking, early_stop,
                 recipe, activation_input, dispatch8, dispatcher, permute, experts, graphs, launch, plan, reserved, loader, batch] = x;
    return std::tie(year, attention, softmax, activation, rope, loss, compiled, upcast, norm, optimizer, accumulation, blocking, early_stop,
                    recipe, activation_input, dispatch8, dispatcher, permute, experts, graphs, launch, plan, reserved, loader, batch);
}

} // namespace

bool lowers_alike(const Scenario& a, const Scenario& b) {
    const ScheduleInfo* schedule = find_schedule(a.strategy.schedule);
    if (!schedule || schedule->splits_backward) return false; // its order follows from devices and links
    return alike(a.model, b.model) && fields(a.training) == fields(b.training) && alike(a.strategy, b.strategy) &&
           fields(a.runtime) == fields(b.runtime);
}

} // namespace orrery

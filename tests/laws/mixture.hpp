// A small mixture of experts, and what its plan does, summed over ranks.
#pragma once

#include "sim/plan/lower.hpp"
#include "sim/plan/verify.hpp"
#include "sim/scenario/parse.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <string>

namespace orrery::laws {

struct Mixture {
    int layers = 4, hidden = 256, heads = 8, vocab = 512, sequence = 256, micro_batch = 2, global_batch = 64;
    int experts = 8, top_k = 2, ffn = 512, shared = 0, dense_layers = 0;
    bool bias = false;
    int tp = 1, cp = 1, ep = 1, etp = 1, dp = 1, pp = 1, zero = 0;
    std::string dispatcher = "alltoall", moe, model, strategy, cluster;

    int world() const { return tp * cp * dp * pp; }
    std::string text() const {
        const int per_node = world() < 8 ? world() : 8;
        return fmt::format(
            R"({{"name": "mixture", "model": {{"layers": {}, "hidden_size": {}, "attention_heads": {}, "kv_heads": {}, "vocab_size": {}, "ffn_size": {}, "activation": "swiglu",
                  "norm": "rmsnorm", "position": "rope", "bias": {}, "tied_embeddings": false,
                  "moe": {{"experts": {}, "top_k": {}, "expert_ffn_size": {}, "shared_experts": {}, "first_dense_layers": {}{}}}{}}},
                "cluster": {},
                "training": {{"global_batch_size": {}, "micro_batch_size": {}, "sequence_length": {}}},
                "strategy": {{"framework": "megatron", "data_parallel": {}, "tensor_parallel": {}, "sequence_parallel": {}, "context_parallel": {}, "context_parallel_kind": "allgather",
                  "pipeline_parallel": {}, "schedule": "{}", "expert_parallel": {}, "expert_tensor_parallel": {}, "zero_stage": {}{}}},
                "runtime": {{"token_dispatcher": "{}"}}}})",
            layers, hidden, heads, heads, vocab, 2 * ffn, bias, experts, top_k, ffn, shared, dense_layers, moe, model,
            cluster.empty() ? fmt::format(R"({{"preset": "dgx-h100", "nodes": {}, "devices_per_node": {}}})",
                                          (world() + per_node - 1) / per_node, per_node)
                            : cluster,
            global_batch, micro_batch, sequence, dp, tp, tp > 1 ? "true" : "false", cp, pp, pp > 1 ? "1f1b" : "none", ep, etp, zero,
            strategy, dispatcher);
    }
    Scenario make(const std::vector<std::string>& overrides = {}) const {
        ParseOptions options;
        options.overrides = overrides;
        ParseResult parsed = parse_scenario(text(), options);
        EXPECT_TRUE(parsed.scenario.has_value()) << to_text(parsed.problems) << text();
        return parsed.scenario.value_or(Scenario{});
    }
};

// f(action's block, op) for every op each rank of `stage` runs in a step.
template <class F> void each_op(const Plan& plan, int stage, F&& f) {
    for (const Action& a : plan.programs[stage].actions)
        for (std::int32_t i = a.first; i < a.last; ++i) f(plan.blocks[a.block], plan.blocks[a.block].ops[i]);
}

inline bool expert_parameter(const Buffer& b) { return b.expert && b.role == Role::parameter; }

} // namespace orrery::laws

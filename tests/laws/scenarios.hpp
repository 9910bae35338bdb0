// Scenario texts the laws are tried on, and sums over a plan's own buffers.
#pragma once

#include "sim/plan/lower.hpp"
#include "sim/scenario/parse.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <map>
#include <optional>
#include <string>

namespace orrery::laws {

inline Scenario scenario(const std::string& text) {
    ParseResult parsed = parse_scenario(text, {});
    EXPECT_TRUE(parsed.scenario.has_value()) << to_text(parsed.problems);
    return parsed.scenario.value_or(Scenario{});
}

// A GPT as the papers of 2021 trained it: fp16, GELU, layernorm, dropout, unfused attention unless said otherwise.
struct Gpt {
    int layers = 4, hidden = 1024, heads = 16, vocab = 51200, sequence = 512, micro_batch = 2, microbatches = 4;
    int tp = 1, pp = 1, dp = 1, vp = 1;
    bool sp = false, flash = false, tied = true;
    int zero = 0;
    double dropout = 0.1;
    std::string schedule, recompute = "none", framework = "megatron", gradient_dtype = "fp16", optimizer = "adam", extra_strategy, extra,
                          cluster;

    std::string text() const {
        const int world = tp * pp * dp;
        const int per_node = world < 8 ? world : 8;
        return fmt::format(
            R"({{"name": "law", "model": {{"layers": {}, "hidden_size": {}, "attention_heads": {}, "vocab_size": {}, "dropout": {}, "tied_embeddings": {}}},
                "cluster": {},
                "training": {{"global_batch_size": {}, "micro_batch_size": {}, "sequence_length": {}, "precision": "fp16", "optimizer": "{}", "gradient_dtype": "{}"}},
                "strategy": {{"framework": "{}", "data_parallel": {}, "tensor_parallel": {}, "sequence_parallel": {}, "pipeline_parallel": {}, "virtual_pipeline": {}{},
                             "zero_stage": {}, "recompute": "{}", "flash_attention": {}{}}},
                "runtime": {{"attention_kernel": "{}"}}{}}})",
            layers, hidden, heads, vocab, dropout, tied,
            cluster.empty() ? fmt::format(R"({{"preset": "dgx-a100-80gb", "nodes": {}, "devices_per_node": {}}})",
                                          (world + per_node - 1) / per_node, per_node)
                            : cluster,
            static_cast<std::int64_t>(microbatches) * micro_batch * dp, micro_batch, sequence, optimizer, gradient_dtype, framework, dp, tp,
            sp, pp, vp, schedule.empty() ? "" : fmt::format(R"(, "schedule": "{}")", schedule), zero, recompute, flash, extra_strategy,
            flash ? "flash-2" : "unfused", extra);
    }
    Scenario make() const { return scenario(text()); }
};

// Bytes a block leaves allocated when it ends: Alloc less Free.
inline std::int64_t left_allocated(const Plan& plan, const Block& block) {
    std::int64_t bytes = 0;
    for (const Op& op : block.ops) {
        if (const auto* a = std::get_if<Alloc>(&op.work)) bytes += plan.buffers[a->buffer].bytes.count;
        if (const auto* f = std::get_if<Free>(&op.work)) bytes -= plan.buffers[f->buffer].bytes.count;
    }
    return bytes;
}

inline const Block& block_named(const Plan& plan, const std::string& name) {
    for (const Block& b : plan.blocks)
        if (b.name == name) return b;
    ADD_FAILURE() << "no block " << name;
    return plan.blocks.front();
}

// The bytes that a rank of `stage` holds all step, by kind.
inline std::map<MemoryKind, double> resident(const Plan& plan, int stage) {
    std::map<MemoryKind, double> sum;
    for (const Buffer& b : plan.buffers)
        if (b.stage == stage && b.storage < 0 && (b.scope == Scope::run || b.scope == Scope::step))
            sum[b.kind] += static_cast<double>(b.bytes.count);
    return sum;
}

// Bytes that the copies one way move in a step of a rank of `stage`: all, or those of one kind.
inline std::int64_t copied(const Plan& plan, CopyKind way, std::optional<MemoryKind> what = {}, int stage = 0) {
    std::int64_t bytes = 0;
    for (const Action& a : plan.programs[static_cast<std::size_t>(stage)].actions)
        for (std::int32_t i = a.first; i < a.last; ++i) {
            const Op& op = plan.blocks[a.block].ops[i];
            const auto* c = std::get_if<Copy>(&op.work);
            if (c && c->kind == way && (!what || plan.buffers[op.in[0]].kind == *what)) bytes += c->bytes.count;
        }
    return bytes;
}

} // namespace orrery::laws

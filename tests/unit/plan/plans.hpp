// Small scenarios that between them use every strategy, and their plans.
#pragma once

#include "sim/plan/lower.hpp"
#include "sim/plan/verify.hpp"
#include "sim/scenario/parse.hpp"

#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <vector>

namespace orrery::test {

struct Example {
    std::string name;
    std::vector<std::string> overrides;
    friend std::ostream& operator<<(std::ostream& out, const Example& e) { return out << e.name; }
};

// Two layers on eight devices; every example changes what it is about.
inline Scenario scenario_of(const std::vector<std::string>& overrides) {
    static constexpr const char* text = R"({
        "name": "small",
        "model": {"name": "tiny", "layers": 2, "hidden_size": 64, "attention_heads": 8, "vocab_size": 256, "max_positions": 32},
        "cluster": {"preset": "dgx-h100", "nodes": 1},
        "training": {"global_batch_size": 8, "micro_batch_size": 1, "sequence_length": 32},
        "strategy": {"framework": "megatron", "tensor_parallel": 1, "pipeline_parallel": 1, "schedule": "none", "zero_stage": 0}})";
    ParseOptions options;
    options.overrides = overrides;
    ParseResult result = parse_scenario(text, options);
    if (!result.scenario)
        ADD_FAILURE() << to_text(result.problems);
    else if (const auto problems = unsupported(*result.scenario); !problems.empty())
        ADD_FAILURE() << to_text(problems);
    return result.scenario.value();
}

inline Plan plan_of(const std::vector<std::string>& overrides) { return lower(scenario_of(overrides)); }

inline std::vector<std::string> operator+(std::vector<std::string> a, const std::vector<std::string>& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
}

inline const std::vector<std::string> tp2{"strategy.tensor_parallel=2"};
inline const std::vector<std::string> sp2{"strategy.tensor_parallel=2", "strategy.sequence_parallel=true"};
inline const std::vector<std::string> pp2{"strategy.pipeline_parallel=2", "strategy.schedule=1f1b"};
inline const std::vector<std::string> interleaved{"model.layers=4", "strategy.pipeline_parallel=2", "strategy.virtual_pipeline=2",
                                                  "strategy.schedule=interleaved-1f1b"};
inline const std::vector<std::string> zb_v{"model.layers=4", "strategy.pipeline_parallel=2", "strategy.virtual_pipeline=2",
                                           "strategy.schedule=zb-v"};
// Four stages: two of layers, one that predicts a further token, and the output layer's.
inline const std::vector<std::string> further{
    "model.layers=4",      "model.mtp_layers=1", "strategy.pipeline_parallel=4", "strategy.schedule=1f1b", "strategy.layer_split=[2,2,0,0]",
    "strategy.mtp_chunk=2"};
inline const std::vector<std::string> unfused_attention{"strategy.flash_attention=false", "runtime.attention_kernel=unfused",
                                                        "model.dropout=0.1"};
inline const std::vector<std::string> llama_like{"model.tied_embeddings=false", "model.position=rope", "model.activation=swiglu",
                                                 "model.norm=rmsnorm",          "model.kv_heads=4",    "model.bias=false"};

inline std::vector<Example> examples() {
    const auto zero = [](int stage) { return std::vector<std::string>{"strategy.zero_stage=" + std::to_string(stage)}; };
    const auto framework = [](const std::string& name) { return std::vector<std::string>{"strategy.framework=" + name}; };
    const auto schedule = [](const std::string& name) { return std::vector<std::string>{"strategy.schedule=" + name}; };
    const std::vector<std::string> hybrid{"strategy.shard_group_size=2"},
        eager{"runtime.fused_weight_gradient_accumulation=false", "runtime.fused_loss=false", "strategy.fused=false",
              "runtime.fused_norm=false"};
    const std::vector<std::string> by_weight{"strategy.bucket_bytes=1000"};
    const std::vector<std::string> experts{R"(model.moe={"experts": 4, "top_k": 2, "expert_ffn_size": 64, "shared_experts": 1})",
                                           "strategy.expert_parallel=2"};
    return {
        {"one stage a device, all-reduce", framework("ddp") + llama_like},
        {"one device, gradients made anew each step",
         framework("ddp") + llama_like +
             std::vector<std::string>{"cluster.devices_per_node=1", "model.dropout=0.1", "strategy.recompute=full"}},
        {"autocast, several stages",
         framework("ddp") + pp2 + std::vector<std::string>{"strategy.data_parallel=1", "cluster.devices_per_node=2"}},
        {"ddp on two nodes' worth of groups", framework("ddp") + hybrid},
        {"tensor, sequence, pipeline, zero 1", sp2 + pp2 + zero(1)},
        {"tensor without sequence, scattered transfers", framework("deepspeed") + tp2 + pp2 + zero(1)},
        {"interleaved, overlapped transfers", sp2 + interleaved + zero(1) + std::vector<std::string>{"strategy.overlap.pipeline=true"}},
        {"interleaved, blocking transfers", tp2 + interleaved + llama_like},
        {"interleaved, groups of three and a rest",
         interleaved + zero(1) + std::vector<std::string>{"training.global_batch_size=20", "strategy.microbatch_group_size=3"}},
        {"fsdp zero 3, interleaved, groups of three and a rest",
         framework("fsdp") + interleaved + zero(3) +
             std::vector<std::string>{"training.global_batch_size=20", "strategy.microbatch_group_size=3"}},
        {"interleaved, a chunk without layers", sp2 + interleaved + zero(1) + std::vector<std::string>{"strategy.layer_split=[2,1,0,1]"}},
        {"further tokens in a chunk of their own", further + zero(1) + std::vector<std::string>{"model.tied_embeddings=true"}},
        {"further tokens in a chunk of their own, recomputed",
         further + llama_like + sp2 + std::vector<std::string>{"strategy.recompute=full", "strategy.overlap.pipeline=true"}},
        {"further tokens behind chunks without layers",
         further + zero(1) + llama_like +
             std::vector<std::string>{"strategy.virtual_pipeline=2", "strategy.schedule=interleaved-1f1b", "model.mtp_layers=2",
                                      "strategy.layer_split=[1,1,0,1,1,0,0,0]", "strategy.mtp_chunk=6"}},
        {"interleaved, the first layer of each chunk recomputed",
         interleaved +
             std::vector<std::string>{"model.layers=8", "strategy.recompute=full", R"(strategy.recompute_layers={"per_chunk": 1})"}},
        {"segments of two layers", std::vector<std::string>{"model.layers=3", R"(strategy.recompute={"segment_layers": 2})"}},
        {"fsdp zero 3", framework("fsdp") + zero(3)},
        {"fsdp zero 3, one batch", framework("fsdp") + zero(3) + llama_like},
        {"fsdp zero 3 with tensor parallelism, several batches",
         framework("fsdp") + zero(3) + sp2 + std::vector<std::string>{"training.global_batch_size=16"}},
        {"fsdp2 zero 2, replicated shards", framework("fsdp2") + zero(2) + hybrid},
        {"fsdp2 zero 3, replicated shards, accumulation",
         framework("fsdp2") + zero(3) + hybrid + std::vector<std::string>{"training.global_batch_size=16"}},
        {"fsdp zero 2 with virtual chunks", framework("fsdp") + interleaved + sp2 + zero(2)},
        {"fsdp zero 3 with virtual chunks", framework("fsdp") + interleaved + zero(3)},
        {"megatron zero 2 with virtual chunks", interleaved + zero(2)},
        {"gpipe, head norms",
         schedule("gpipe") + std::vector<std::string>{"strategy.pipeline_parallel=2", "model.attention.qk_norm=true"} + sp2},
        {"zb-h1", pp2 + schedule("zb-h1") + sp2 + zero(1)},
        {"zb-h2, post-validation", pp2 + schedule("zb-h2") + std::vector<std::string>{"strategy.optimizer_sync=post-validation"}},
        {"zb-v", zb_v + zero(1)},
        {"zb-v zero 2, tied embeddings on one stage", zb_v + zero(2)},
        {"dropout, unfused attention", tp2 + pp2 + unfused_attention},
        {"selective recomputation", sp2 + pp2 + unfused_attention + std::vector<std::string>{"strategy.recompute=selective"}},
        {"full recomputation", sp2 + pp2 + std::vector<std::string>{"strategy.recompute=full"}},
        {"full recomputation, stopping early",
         sp2 + std::vector<std::string>{"strategy.recompute=full", "runtime.recompute_early_stop=true"}},
        {"fp8", sp2 + pp2 + zero(1) + std::vector<std::string>{"training.precision=fp8"}},
        {"fp8 attention, delayed scaling", sp2 + pp2 + zero(1) + llama_like +
                                               std::vector<std::string>{"training.precision=fp8", "runtime.year=2025",
                                                                        "runtime.fp8_recipe=delayed", "runtime.attention_dtype=fp8"}},
        {"fp8 attention, current scaling, made again",
         sp2 + pp2 + llama_like +
             std::vector<std::string>{"training.precision=fp8", "runtime.year=2025", "runtime.attention_dtype=fp8",
                                      "strategy.recompute=selective"}},
        {"more ranks than key heads", llama_like + std::vector<std::string>{"strategy.tensor_parallel=8", "strategy.sequence_parallel=true",
                                                                            "runtime.year=2025", "model.attention.qk_norm=true"}},
        {"more ranks than key heads, recomputed",
         std::vector<std::string>{"strategy.tensor_parallel=4", "model.kv_heads=2", "runtime.year=2025", "model.position=rope",
                                  "model.bias=false", "strategy.recompute=full"}},
        {"fp8, eager", tp2 + pp2 + eager + std::vector<std::string>{"training.precision=fp8"}},
        {"eager kernels", tp2 + pp2 + eager + std::vector<std::string>{"strategy.overlap.tensor_parallel=false"}},
        {"nanotron: gathered inputs and activated gates kept", framework("nanotron") + sp2 + pp2 + llama_like},
        {"nanotron, recomputed", framework("nanotron") + sp2 + llama_like + std::vector<std::string>{"strategy.recompute=full"}},
        {"parallel blocks, no clipping, sgd",
         sp2 + pp2 + std::vector<std::string>{"model.parallel_block=true", "training.gradient_clipping=0", "training.optimizer=sgd"}},
        {"norms behind attention and MLP", sp2 + pp2 + zero(1) + llama_like + std::vector<std::string>{"model.norm_placement=after"}},
        {"four norms a layer, recomputed",
         sp2 + llama_like + std::vector<std::string>{"model.norm_placement=both", "strategy.recompute=full", "model.logit_cap=30"}},
        {"four norms a layer, fp8", sp2 + llama_like + std::vector<std::string>{"model.norm_placement=both", "training.precision=fp8"}},
        {"norms behind, fp8, eager",
         tp2 + eager + llama_like + std::vector<std::string>{"model.norm_placement=after", "training.precision=fp8"}},
        {"capped scores in steps, a scaled embedding",
         tp2 + eager + unfused_attention +
             std::vector<std::string>{"model.attention.score_cap=50", "model.logit_cap=30", "model.embedding_scale=8",
                                      "strategy.recompute=selective"}},
        {"a norm across heads, context parallelism",
         llama_like + std::vector<std::string>{"model.attention.qk_norm=true", "model.attention.qk_norm_across=true",
                                               "strategy.context_parallel=2", "strategy.context_parallel_kind=allgather"}},
        {"parallel blocks of two norms", sp2 + pp2 + std::vector<std::string>{"model.parallel_block=true", "model.parallel_norms=true"}},
        {"norms without biases", sp2 + std::vector<std::string>{"model.norm_bias=false"}},
        {"biases of norms alone", sp2 + std::vector<std::string>{"model.bias=false", "model.norm_bias=true"}},
        {"stages without layers", std::vector<std::string>{"model.layers=4", "strategy.pipeline_parallel=4", "strategy.schedule=1f1b",
                                                           "strategy.layer_split=[0,2,2,0]"}},
        {"data loading", pp2 + std::vector<std::string>{"runtime.dataloader_us=100"}},
        {"experts, divided too", sp2 + pp2 + experts + std::vector<std::string>{"model.bias=false"}},
        {"experts with biases, whole", sp2 + pp2 + experts + std::vector<std::string>{"strategy.expert_tensor_parallel=1"}},
        {"experts in 8 bits, parts made again",
         pp2 + experts + llama_like +
             std::vector<std::string>{"training.precision=fp8", "runtime.fp8_dispatch=true", "runtime.fp8_activation_input=true",
                                      "runtime.token_dispatcher=deepep", R"(strategy.recompute=["norm", "activation"])"}},
        {"experts, fsdp zero 3", framework("fsdp") + zero(3) + experts},
        {"weight by weight", framework("jax") + zero(3) + by_weight + std::vector<std::string>{"strategy.recompute=none"}},
        {"weight by weight, sequence parallel, recomputed",
         framework("jax") + zero(3) + sp2 + by_weight + llama_like + std::vector<std::string>{"strategy.recompute=full"}},
        {"weight by weight, virtual chunks, accumulation",
         framework("jax") + zero(3) + interleaved + by_weight + std::vector<std::string>{"training.global_batch_size=32"}},
        {"weight by weight, biases and pairs of norms as large as weights",
         framework("jax") + zero(3) + experts +
             std::vector<std::string>{"strategy.bucket_bytes=20", "model.bias=true", "model.attention.qk_norm=true",
                                      "strategy.recompute=none"}},
        {"weight by weight, but gradients in a half of their own", framework("jax") + zero(3) + pp2 + schedule("zb-h1") + by_weight},
        {"weight by weight, experts",
         framework("jax") + zero(3) + experts + by_weight + std::vector<std::string>{"strategy.recompute=none"}},
        {"context parallelism",
         sp2 + pp2 + zero(1) + std::vector<std::string>{"strategy.context_parallel=2", "strategy.context_parallel_kind=allgather"}},
        {"dualpipe-v, joined blocks", zb_v + schedule("dualpipe-v") + zero(1) + std::vector<std::string>{"training.global_batch_size=16"}},
        {"dualpipe, two copies of the model",
         std::vector<std::string>{"model.layers=4", "strategy.pipeline_parallel=4", "training.global_batch_size=16"} +
             schedule("dualpipe")},
        {"one device", std::vector<std::string>{"cluster.nodes=1", "cluster.devices_per_node=1"}},
    };
}

} // namespace orrery::test

// A scenario after parsing: every field resolved, defaults filled in. The parser is parse.hpp; the text format is described by schema.hpp.
#pragma once

#include "topology/cluster.hpp"
#include "topology/dtype.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace orrery {

enum class ActivationKind { gelu, relu, swiglu, geglu };
enum class NormKind { layernorm, rmsnorm };
enum class PositionKind { learned, rope, alibi, none };

struct AttentionSpec {
    enum class Kind { full, mla } kind = Kind::full;
    bool causal = true;
    int sliding_window = 0; // 0: none
    int full_every = 0;     // every n-th layer attends to all keys in spite of the window; 0: none does
    int q_lora_rank = 0, kv_lora_rank = 0, qk_nope_head_dim = 0, qk_rope_head_dim = 0, v_head_dim = 0; // mla
    bool qkv_bias = false; // a bias on Q, K and V alone (Qwen 2)
    bool qk_norm = false;  // a norm on each head's query and key (Qwen 3)
};

// Tokens each token of that layer sees; 0: all. Layers that predict further tokens count on.
inline int window_of(const AttentionSpec& a, int layer) {
    return a.full_every > 0 && (layer + 1) % a.full_every == 0 ? 0 : a.sliding_window;
}

struct MoeSpec {
    int experts = 0, top_k = 0, shared_experts = 0, first_dense_layers = 0, layer_frequency = 1;
    std::int64_t expert_ffn_size = 0;
    std::int64_t shared_expert_ffn_size = 0;          // 0: expert_ffn_size for each shared expert
    double capacity_factor = 0;                       // 0: dropless
    std::string imbalance = "none";                   // none, zipf:<s>, list, file
    std::vector<std::vector<double>> imbalance_loads; // list: one of every layer; file: one a mixture layer in model order, or one of all
    std::string scoring = "softmax";                  // softmax, sigmoid
    int groups = 1, group_limit = 1;
    bool auxiliary_loss = true;
    bool router_bias = false; // a correction bias per expert (DeepSeek-V3)
};

struct Model {
    std::string name;
    int layers = 0;
    std::int64_t hidden_size = 0;
    int attention_heads = 0;
    int kv_heads = 0;
    int head_dim = 0;
    std::int64_t ffn_size = 0;
    ActivationKind activation = ActivationKind::gelu;
    double activation_clamp = 0; // of experts: an activation's gate is cut off above it, what it lets through beyond +-; 0: neither
    NormKind norm = NormKind::layernorm;
    std::int64_t vocab_size = 0;
    bool tied_embeddings = true;
    PositionKind position = PositionKind::learned;
    double rope_scale = 1;          // of the rotations' cosines and sines (YaRN)
    std::int64_t max_positions = 0; // rows of the learned position table; 0: the sequence length
    bool bias = true;
    bool final_norm = true;
    bool embedding_norm = false; // BLOOM's norm behind the embedding
    bool parallel_block = false; // attention and MLP read one norm (PaLM, GPT-NeoX)
    double dropout = 0;
    AttentionSpec attention;
    std::optional<MoeSpec> moe;
    int mtp_layers = 0;

    bool gated() const { return activation == ActivationKind::swiglu || activation == ActivationKind::geglu; }
};

struct Training {
    std::int64_t global_batch_size = 0; // sequences
    std::int64_t micro_batch_size = 1;
    std::int64_t sequence_length = 0;
    DType precision = DType::bf16;      // fp32, tf32, fp16, bf16, fp8, mxfp8, nvfp4
    std::string optimizer = "adamw";    // sgd momentum adam adamw lamb lars
    DType gradient_dtype = DType::fp32; // what gradients are accumulated and reduced in
    bool master_weights = true;         // fp32 copy of 16-bit parameters
    bool master_remainders = false;     // of that copy only the 16 bits that the bf16 parameters lack
    DType moment_dtype = DType::fp32;   // of the optimizer's moments
    double gradient_clipping = 1.0;     // 0: none
    double learning_rate = 0;
    std::int64_t warmup_steps = 0;
    std::uint64_t seed = 0;
};

enum class RecomputeKind { none, selective, full, list };
enum class ContextKind { ring, allgather, ulysses };
enum class Tier { none, cpu, nvme };

struct Overlap {
    bool grad_reduce = false, param_gather = false, tensor_parallel = false, pipeline = false, expert_parallel = false, offload = false;
};
struct Offload {
    Tier optimizer = Tier::none, parameters = Tier::none, gradients = Tier::none, activations = Tier::none;
};

struct Strategy {
    std::string framework = "megatron";
    int data_parallel = 1, tensor_parallel = 1, pipeline_parallel = 1, virtual_pipeline = 1, context_parallel = 1, expert_parallel = 1,
        expert_tensor_parallel = 1;
    bool sequence_parallel = false;
    std::string schedule = "1f1b";     // a name of the schedule catalog
    std::vector<int> layers_per_chunk; // resolved from layer_split: one count per chunk in model order, p * v of them
    ContextKind context_parallel_kind = ContextKind::ring;
    int zero_stage = 0;
    int shard_group_size = 0; // HSDP; 0: the whole data-parallel group
    RecomputeKind recompute = RecomputeKind::none;
    std::vector<std::string> recompute_ops; // with RecomputeKind::list
    std::vector<int> recompute_layers;      // layers recomputed per pipeline stage; empty: all of them
    int recompute_every = 0;                // {"every": n}: every n-th layer; 0: not used
    bool flash_attention = true;
    bool fused = true;
    Bytes bucket_bytes; // of a gradient bucket
    Overlap overlap;
    Offload offload;
    std::string gradient_compression = "none";
    bool post_validation = false;              // optimizer_sync: post-validation
    std::string rank_order = "tp-cp-ep-dp-pp"; // fastest-varying first
    std::string collective_algorithm = "auto";
};

enum class AttentionKernel { unfused, flash1, flash2, flash3, cudnn };

struct Runtime {
    int year = 2024;
    AttentionKernel attention_kernel = AttentionKernel::flash2;
    bool fused_softmax = true, fused_activation = true, fused_rope = true, fused_loss = true, compiled_loss = false, loss_upcast = true,
         fused_norm = true, fused_optimizer = true, fused_weight_gradient_accumulation = true;
    bool launch_blocking = false, recompute_early_stop = false;
    std::string fp8_recipe = "delayed"; // delayed current blockwise mxfp8 nvfp4
    bool fp8_activation_input = false;  // an MLP's activation keeps its input in 8 bits for the backward pass
    bool fp8_dispatch = false;          // tokens go to their experts in 8 bits, and so do gradients of what they bring back
    std::string token_dispatcher = "alltoall";
    bool permute_fusion = false;
    bool fused_experts = false; // experts: one kernel a linear for all, with activation and casts inside; counts stay on the device
    bool cuda_graphs = false;
    double launch_us = 0;        // host time per kernel launch
    bool plan_allocator = false; // allocator: plan; else caching
    double reserved_gb = -1;     // < 0: the framework's own estimate
    double dataloader_us = 0;
    double batch_us = 0; // a forward pass waits so long for the host to hand it its microbatch; 0: it does not
};

struct Perturbation {
    enum class Kind { slow_rank, slow_node, slow_link, jitter, background } kind = Kind::slow_rank;
    double factor = 1;       // slow: how many times slower; jitter: sigma; background: share of the links' capacity
    int index = -1;          // rank or node; of a link: the node it belongs to, -1 any
    std::string link;        // a link's name, or a class (nic, scale_up, trunk)
    bool in_cluster = false; // the cluster's own rates have it already (sim/scenario/perturb.hpp)
};

struct Scenario {
    std::string name;
    Model model;
    Cluster cluster;
    Training training;
    Strategy strategy;
    Runtime runtime;
    std::vector<Perturbation> perturb;

    std::vector<std::string> notes;              // fields that have no effect, and the like, for the report
    std::map<std::string, std::string> defaults; // JSON pointer -> where the value came from when left out

    int world_size() const {
        return strategy.data_parallel * strategy.tensor_parallel * strategy.pipeline_parallel * strategy.context_parallel;
    }
    std::int64_t microbatches() const { return training.global_batch_size / (strategy.data_parallel * training.micro_batch_size); }
};

} // namespace orrery

// A scenario after parsing: every field resolved, defaults filled in. The parser is parse.hpp; the text format is described by schema.hpp.
#pragma once

#include "sim/graph/mesh.hpp"
#include "sim/scenario/federated.hpp"
#include "sim/scenario/whole_run.hpp"
#include "sim/scenario/words.hpp"
#include "topology/cluster.hpp"
#include "topology/dtype.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace orrery {

class OwnConstants; // sim/cost/own_constants.hpp

enum class ActivationKind { gelu, relu, swiglu, geglu, squared_relu };
template <> struct Spelling<ActivationKind> { static constexpr const char* all[] = {"gelu", "relu", "swiglu", "geglu", "squared_relu"}; };
enum class NormKind { layernorm, rmsnorm };
template <> struct Spelling<NormKind> { static constexpr const char* all[] = {"layernorm", "rmsnorm"}; };
// A layer's norms: ahead of attention and MLP; behind them, before their results are added to the residual stream (OLMo 2); or both
// (Gemma).
enum class NormPlacement : std::uint8_t { before, after, both };
template <> struct Spelling<NormPlacement> { static constexpr const char* all[] = {"before", "after", "both"}; };
enum class PositionKind { learned, rope, alibi, none };
template <> struct Spelling<PositionKind> { static constexpr const char* all[] = {"learned", "rope", "alibi", "none"}; };

struct AttentionSpec {
    enum class Kind { full, mla } kind = Kind::full;
    bool causal = true;
    int sliding_window = 0; // 0: none
    int full_every = 0;     // every n-th layer attends to all keys in spite of the window; 0: none does
    int q_lora_rank = 0, kv_lora_rank = 0, qk_nope_head_dim = 0, qk_rope_head_dim = 0, v_head_dim = 0; // mla
    bool qkv_bias = false;       // a bias on Q, K and V alone (Qwen 2)
    bool qk_norm = false;        // a norm on each head's query and key (Qwen 3)
    bool qk_norm_across = false; // that norm goes over all queries at once, and over all keys at once (OLMo 2)
    double score_cap = 0;        // scores x become cap tanh(x / cap) ahead of the softmax (Gemma 2); 0: they stay
    bool operator==(const AttentionSpec&) const = default;
};
template <> struct Spelling<AttentionSpec::Kind> { static constexpr const char* all[] = {"full", "mla"}; };

// Tokens each token of that layer sees; 0: all. Layers that predict further tokens count on.
inline int window_of(const AttentionSpec& a, int layer) {
    return a.full_every > 0 && (layer + 1) % a.full_every == 0 ? 0 : a.sliding_window;
}

// Where experts' shares of the rows come from: even, as assumed or as a benchmark forces them to be; by rank (1/i^exponent); one list; a
// list a mixture layer; of a router that has not learned (router_at_start.hpp).
enum class Imbalance : std::uint8_t { none, forced, zipf, list, file, untrained };
template <> struct Spelling<Imbalance> { static constexpr const char* all[] = {"none", "forced", "zipf", "list", "file", "untrained"}; };
enum class RouterScoring : std::uint8_t { softmax, sigmoid };
template <> struct Spelling<RouterScoring> { static constexpr const char* all[] = {"softmax", "sigmoid"}; };

struct MoeSpec {
    int experts = 0, top_k = 0, shared_experts = 0, first_dense_layers = 0, layer_frequency = 1;
    std::int64_t expert_ffn_size = 0;
    std::int64_t shared_expert_ffn_size = 0; // 0: expert_ffn_size for each shared expert
    double capacity_factor = 0;              // 0: dropless
    bool pad_to_capacity = true;             // with a capacity: every expert has rows of all of it, empty ones too
    Imbalance imbalance = Imbalance::none;
    double imbalance_exponent = 0;                    // of zipf
    std::vector<std::vector<double>> imbalance_loads; // list: one of every layer; file: one a mixture layer in model order, or one of all;
                                                      // untrained: one a mixture layer
    RouterScoring scoring = RouterScoring::softmax;
    int groups = 1, group_limit = 1;
    bool auxiliary_loss = true;
    bool router_bias = false;     // a correction bias per expert (DeepSeek-V3)
    bool stacked_weights = false; // all experts' weights are one parameter of three dimensions, gate and up one matrix in it (GPT-OSS)
    bool even() const { return imbalance == Imbalance::none || imbalance == Imbalance::forced; }
    // Rows are as many as capacities, whatever the router says.
    bool pads() const { return capacity_factor > 0 && pad_to_capacity; }
    bool operator==(const MoeSpec&) const = default;
};

// Fine-tuning: what of a model is trained. With LoRA (arXiv:2106.09685) these are pairs of narrow matrices beside the targets, and the
// model itself stays as it is; without, all but what `frozen` names.
enum class LoraTarget : std::uint8_t { qkv, proj, fc1, fc2, q_down, q_up, kv_down, kv_up, shared_fc1, shared_fc2, expert_fc1, expert_fc2 };
template <> struct Spelling<LoraTarget> {
    static constexpr const char* all[] = {"qkv",     "proj",  "fc1",        "fc2",        "q_down",     "q_up",
                                          "kv_down", "kv_up", "shared_fc1", "shared_fc2", "expert_fc1", "expert_fc2"};
};
enum class ModelPart : std::uint8_t { embedding, norm, attention, mlp, router, experts, head };
template <> struct Spelling<ModelPart> {
    static constexpr const char* all[] = {"embedding", "norm", "attention", "mlp", "router", "experts", "head"};
};
enum class BaseDType : std::uint8_t { same, nf4 };
template <> struct Spelling<BaseDType> { static constexpr const char* all[] = {"same", "nf4"}; };
struct Trainable {
    bool lora = false;
    int rank = 8;
    double alpha = 16;
    double dropout = 0;                     // of the rows that A reads, under LoRA
    std::vector<LoraTarget> targets;        // empty: all that the model's layers have
    std::vector<ModelPart> frozen;          // without LoRA
    int frozen_layers = 0;                  // the first layers, with the embedding: nothing of them is trained, and adapters have none
    BaseDType base_dtype = BaseDType::same; // of the matrices of layers under LoRA: nf4 is QLoRA's
    bool partial() const { return lora || !frozen.empty() || frozen_layers > 0; }
    bool operator==(const Trainable&) const = default;
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
    double rope_base = 10000;       // of the rotations' frequencies
    double rope_fraction = 1;       // of a head's columns: the first ones, which are rotated (GPT-NeoX, GLM-4.5)
    double norm_epsilon = 1e-5;     // added to a variance before its root is taken
    std::int64_t max_positions = 0; // rows of the learned position table; 0: the sequence length
    bool bias = true;
    bool final_norm = true;
    bool embedding_norm = false; // BLOOM's norm after the embedding
    bool parallel_block = false; // attention and MLP stand beside each other and read one norm (PaLM)
    bool parallel_norms = false; // of a parallel block: attention and MLP have a norm each (GPT-NeoX)
    NormPlacement norm_placement = NormPlacement::before;
    bool norm_bias = true;      // of layernorms
    double embedding_scale = 1; // what rows of the embedding are multiplied by (Gemma: the root of hidden_size)
    double logit_cap = 0;       // logits x become cap tanh(x / cap) (Gemma 2); 0: they stay
    double dropout = 0;
    AttentionSpec attention;
    std::optional<MoeSpec> moe;
    int mtp_layers = 0;
    Trainable trainable;

    bool gated() const { return activation == ActivationKind::swiglu || activation == ActivationKind::geglu; }
    bool operator==(const Model&) const = default;
};

// muon: matrices of layers by Muon, all else by AdamW.
enum class Optimizer : std::uint8_t { sgd, momentum, adam, adamw, lamb, lars, muon };
template <> struct Spelling<Optimizer> {
    static constexpr const char* all[] = {"sgd", "momentum", "adam", "adamw", "lamb", "lars", "muon"};
};

// Whether Muon makes each tensor-parallel rank's part of a matrix orthogonal by itself, or gathers the matrix and does all of it on each.
enum class MuonMatrices : std::uint8_t { blockwise, duplicated };
template <> struct Spelling<MuonMatrices> { static constexpr const char* all[] = {"blockwise", "duplicated"}; };

struct Training {
    std::int64_t global_batch_size = 0; // sequences
    std::int64_t micro_batch_size = 1;
    std::int64_t sequence_length = 0;
    DType precision = DType::bf16; // fp32, tf32, fp16, bf16, fp8, mxfp8, nvfp4
    Optimizer optimizer = Optimizer::adamw;
    DType gradient_dtype = DType::fp32;              // what gradients are accumulated and reduced in
    bool master_weights = true;                      // fp32 copy of 16-bit parameters
    bool master_remainders = false;                  // of that copy only the 16 bits that the bf16 parameters lack
    DType moment_dtype = DType::fp32;                // of the optimizer's moments
    MuonMatrices muon_matrices = {};                 // under tensor parallelism; blockwise
    std::int64_t document_tokens = 0;                // of packed documents that do not see each other; 0: a sequence is one
    int bf16_first_layers = 0, bf16_last_layers = 0; // layers whose linears stay in 16 bits where the others have 8 or 4
    bool optimizer_in_backward = false;              // each bucket is updated as soon as its gradients are complete, which are freed then
    double gradient_clipping = 1.0;                  // 0: none
    double learning_rate = 0;
    std::int64_t warmup_steps = 0;
    std::uint64_t seed = 0;
    std::optional<InputPipeline> data;
    std::optional<Convergence> convergence;
    bool operator==(const Training&) const = default;
};

// Whose defaults and practice hold (frameworks.hpp, practice.hpp); nobody outside this room looks at it.
enum class Framework : std::uint8_t {
    colossalai,
    composer,
    ddp,
    deepspeed,
    fsdp,
    fsdp2,
    horovod,
    internlm,
    jax,
    megatron,
    nanotron,
    nemo,
    te,
    torchtitan
};
template <> struct Spelling<Framework> {
    static constexpr const char* all[] = {"colossalai", "composer", "ddp",      "deepspeed", "fsdp", "fsdp2", "horovod",
                                          "internlm",   "jax",      "megatron", "nanotron",  "nemo", "te",    "torchtitan"};
};
enum class RecomputeKind { none, selective, full, list, budget };
// The ops that a list may recompute; linear: all of qkv, proj, fc1, fc2; latent: what latent attention unfolds its latents to; moe: the
// whole mixture (Megatron's moe module); shared_experts: those of it that every token meets.
enum class RecomputeOp : std::uint8_t {
    attention,
    norm,
    activation,
    rope,
    residual,
    cast,
    linear,
    qkv,
    proj,
    fc1,
    fc2,
    latent,
    moe,
    shared_experts
};
template <> struct Spelling<RecomputeOp> {
    static constexpr const char* all[] = {"attention", "norm", "activation", "rope", "residual", "cast", "linear",
                                          "qkv",       "proj", "fc1",        "fc2",  "latent",   "moe",  "shared_experts"};
};
enum class ContextKind { ring, allgather, ulysses };
template <> struct Spelling<ContextKind> { static constexpr const char* all[] = {"ring", "allgather", "ulysses"}; };
enum class Tier { none, cpu, nvme };
template <> struct Spelling<Tier> { static constexpr const char* all[] = {"none", "cpu", "nvme"}; };
// The payload in place of data-parallel gradients. powersgd: two factors of low rank of each matrix (arXiv:1905.13727). top_k:
// the largest elements of a bucket and their places. The others send signs and a scale of the momentum, once the variance stands still:
// 1-bit Adam (arXiv:2102.02888), 1-bit LAMB (arXiv:2104.06069), and 0/1 Adam, which also leaves steps out (arXiv:2202.06009).
enum class GradientCompression : std::uint8_t { none, fp16, bf16, int8, int4, top_k, powersgd, onebit_adam, onebit_lamb, zero_one_adam };
template <> struct Spelling<GradientCompression> {
    static constexpr const char* all[] = {"none",  "fp16",     "bf16",        "int8",        "int4",
                                          "top-k", "powersgd", "onebit-adam", "onebit-lamb", "zero-one-adam"};
};
// Signs of the momentum.
constexpr bool of_signs(GradientCompression c) {
    return c == GradientCompression::onebit_adam || c == GradientCompression::onebit_lamb || c == GradientCompression::zero_one_adam;
}
// Each element in 16 bits: what is summed goes wherever whole gradients would go.
constexpr bool is_cast(GradientCompression c) { return c == GradientCompression::fp16 || c == GradientCompression::bf16; }
// The options of these. warmup: steps before start_step, which send whole gradients; compression: those after.
struct Compression {
    enum class Phase : std::uint8_t { compression, warmup } phase = Phase::compression;
    int rank = 1;                  // of powersgd's factors
    double min_ratio = 2;          // a matrix is factored where that leaves less than 1 / min_ratio of its elements
    double density = 0.01;         // share of the elements that top-k sends
    bool error_feedback = true;    // what is not sent is added to the next step's
    bool hierarchical = false;     // int8, int4: only what crosses nodes (Bagua's ByteGrad)
    std::int64_t start_step = 0;   // steps that a run takes before it compresses
    std::int64_t local_steps = 16; // of zero-one-adam, between two that send
    bool operator==(const Compression&) const = default;
};
template <> struct Spelling<Compression::Phase> { static constexpr const char* all[] = {"compression", "warmup"}; };
// automatic: as NCCL chooses.
enum class CollectiveAlgorithm : std::uint8_t { automatic, ring, tree, hierarchical, nvls, sharp, pat };
template <> struct Spelling<CollectiveAlgorithm> {
    static constexpr const char* all[] = {"auto", "ring", "tree", "hierarchical", "nvls", "sharp", "pat"};
};

struct Overlap {
    bool backward_prefetch = true; // of flat units, where param_gather is on: false leaves the forward pass alone with it
    bool grad_reduce = false, param_gather = false, tensor_parallel = false, pipeline = false, expert_parallel = false, offload = false;
    bool shared_experts = false;
    bool operator==(const Overlap&) const = default;
};
// Saved activations that may leave the device: the inputs of layers, or what an op of this kind makes.
enum class OffloadOp : std::uint8_t { layer_input, attention, norm, activation, rope, residual, qkv, proj, fc1, fc2 };
template <> struct Spelling<OffloadOp> {
    static constexpr const char* all[] = {"layer_input", "attention", "norm", "activation", "rope",
                                          "residual",    "qkv",       "proj", "fc1",        "fc2"};
};
struct Offload {
    Tier optimizer = Tier::none, parameters = Tier::none, gradients = Tier::none, activations = Tier::none;
    double optimizer_fraction = 1;               // of a rank's optimizer states, as near as whole tensors or shards of buckets come to it
    bool delayed_update = false;                 // the host updates while the next step computes
    double undone_steps = 0;                     // share of steps whose early updates are undone and done again, clipped (SuperOffload)
    int buffers = 5;                             // units of parameters that have room on the host on their way from NVMe (DeepSpeed)
    int sub_groups = 2;                          // sub-groups that have room there, pipelined
    std::vector<OffloadOp> activation_ops;       // empty: all that is saved
    int activation_layers = -1;                  // the first layers of each stage; -1: all
    std::int64_t sub_group_size = 1'000'000'000; // elements of optimizer states that come from NVMe together
    bool pipelined = false;                      // they come and go while others are updated (DeepSpeed's pipeline_read and pipeline_write)
    bool operator==(const Offload&) const = default;
};
// Weights on their way to a gather, gradients on their way to a reduction (ZeRO++, arXiv:2306.10209).
enum class QuantizedWeights : std::uint8_t { none, int8 };
template <> struct Spelling<QuantizedWeights> { static constexpr const char* all[] = {"none", "int8"}; };
enum class QuantizedGradients : std::uint8_t { none, int4 };
template <> struct Spelling<QuantizedGradients> { static constexpr const char* all[] = {"none", "int4"}; };

// When shard groups that hold the same parameters add their gradients (HSDP, MiCS).
enum class GradientSync : std::uint8_t { every_microbatch, boundary, no_sync };
template <> struct Spelling<GradientSync> { static constexpr const char* all[] = {"every_microbatch", "boundary", "no_sync"}; };

enum class OuterOptimizer : std::uint8_t { none, sgd, nesterov };
template <> struct Spelling<OuterOptimizer> { static constexpr const char* all[] = {"none", "sgd", "nesterov"}; };

// When data-parallel replicas meet. synchronous: every step, in their gradients. local_sgd: each does `inner_steps` steps with its own
// gradients, then their parameters are averaged. fedavg: the same, each weighs as much as it has samples (arXiv:1602.05629). diloco: an
// outer optimizer steps on the mean of what each moved away from what they had in common (arXiv:2311.08105). streaming_diloco: so do parts
// of the layers one after another, while steps go on (arXiv:2501.18512). Those that follow never meet all at once (sim/loose).
// parameter_server: each sends its gradients to servers that update what it then fetches. gossip: each sends its parameters to some peers
// every step, and averages with what peers sent (SGP, arXiv:1811.10792). async_average: beside its steps each exchanges parameters with one
// random peer after another (AD-PSGD, arXiv:1710.06952).
struct Synchronization {
    enum class Kind {
        synchronous,
        local_sgd,
        fedavg,
        diloco,
        streaming_diloco,
        parameter_server,
        gossip,
        async_average
    } kind = Kind::synchronous;
    std::int64_t inner_steps = 1;
    std::vector<int> samples; // fedavg: sequences that each worker has, over and over; empty: alike, the whole text
    OuterOptimizer outer_optimizer = OuterOptimizer::nesterov;
    double outer_learning_rate = 0.7, outer_momentum = 0.9;
    bool outer_on_host = false; // the outer optimizer's states live in the hosts' memory, and come to the device when workers meet
    DType payload_dtype =
        DType::fp32;                // what workers send of what they moved, or of gradients to servers: fp32, fp16, bf16, int8, int4, fp4
    int fragments = 1;              // streaming_diloco: parts of the layers, each sent once a round, at an offset of its own
    bool strided = true;            // a fragment's layers are spread over the model; else they follow one another
    std::int64_t overlap_steps = 0; // steps between sending (a fragment; gossip: the parameters) and merging what came back
    double mixing = 0.5;            // how much of what came back is merged; the rest stays the worker's own
    int servers = 0;                // parameter_server: nodes whose hosts hold equal parts of the parameters; 0: all
    std::int64_t staleness_bound = -1; // parameter_server: steps that a worker may be ahead of the slowest; -1: any
    int degree = 1;                    // gossip: peers that a worker sends to every step
    int workers = 0; // local_sgd, fedavg, diloco: each is data_parallel / workers replicas that share their steps; 0: every replica is one
    bool operator==(const Synchronization&) const = default;
};
template <> struct Spelling<Synchronization::Kind> {
    static constexpr const char* all[] = {"synchronous",      "local_sgd",        "fedavg", "diloco",
                                          "streaming_diloco", "parameter_server", "gossip", "async_average"};
};

// The weights that passes of an asynchronous pipeline read. stash: a microbatch its stage's newest weights, and the same again in
// its backward pass (PipeDream, arXiv:1806.03377). two: all microbatches of a step those of the step before the last update (PipeDream-2BW,
// arXiv:2006.09503).
enum class WeightVersions : std::uint8_t { stash, two };
template <> struct Spelling<WeightVersions> { static constexpr const char* all[] = {"stash", "2bw"}; };

struct Strategy {
    Framework framework = Framework::megatron;
    int data_parallel = 1, tensor_parallel = 1, pipeline_parallel = 1, virtual_pipeline = 1, context_parallel = 1, expert_parallel = 1,
        expert_tensor_parallel = 1;
    bool sequence_parallel = false;
    std::string schedule = "1f1b";                          // a name of the schedule catalog
    WeightVersions weight_versions = WeightVersions::stash; // of an asynchronous schedule
    int flush_every = 64;                                   // steps between two drains of an asynchronous pipeline
    std::vector<int> layers_per_chunk;                      // resolved from layer_split: one count per chunk in model order, p * v of them
    int microbatch_group_size = 0; // microbatches that a chunk of an interleaved pipeline runs one after another; 0: as many as stages
    int mtp_chunk = -1;            // in model order, holds what predicts further tokens; -1: the last, with the output layer
    ContextKind context_parallel_kind = ContextKind::ring;
    int zero_stage = 0;
    int shard_group_size = 0; // HSDP; 0: the whole data-parallel group
    RecomputeKind recompute = RecomputeKind::none;
    std::vector<RecomputeOp> recompute_ops; // with RecomputeKind::list
    std::vector<int> recompute_layers;      // layers recomputed per pipeline stage; empty: all of them
    int recompute_every = 0;                // {"every": n}: every n-th layer; 0: not used
    int recompute_per_chunk = 0;            // {"per_chunk": n}: the first n layers of each chunk; 0: not used
    double recompute_budget = 1;            // with RecomputeKind::budget: the part of what a layer would keep that it may keep
    int recompute_segments = 0;             // {"segments": n}: of each chunk, whose inputs alone are kept; 0: not used
    int recompute_segment_layers = 0;       // {"segment_layers": n}: segments of n layers, a chunk's last of what is left; 0: not used
    bool flash_attention = true;
    bool fused = true;
    int deferred_output_gradients = 0; // the first microbatches whose weight gradients of the output layer wait for the drain; 0: none
    Bytes bucket_bytes;                // of a gradient bucket
    Overlap overlap;
    Offload offload;
    QuantizedWeights quantized_weights = QuantizedWeights::none;
    QuantizedGradients quantized_gradients = QuantizedGradients::none;
    int secondary_shard_size = 1; // ranks that share the copy which the backward pass gathers; 1: it gathers what the forward pass did
    GradientSync gradient_sync = GradientSync::every_microbatch;
    GradientCompression gradient_compression = GradientCompression::none;
    Compression compression;
    Synchronization synchronization;
    bool post_validation = false; // optimizer_sync: post-validation
    RankOrder rank_order = parse_rank_order("tp-cp-ep-dp-pp");
    CollectiveAlgorithm collective_algorithm = CollectiveAlgorithm::automatic;

    int microbatch_group() const { return microbatch_group_size > 0 ? microbatch_group_size : pipeline_parallel; }
    // Of a step's microbatches, those that a stage with this number of chunks runs one after another on one of them.
    std::int64_t run_of(int chunks, std::int64_t microbatches) const {
        return chunks > 1 ? std::min<std::int64_t>(microbatch_group(), microbatches) : 1;
    }
    // The layers that predict further tokens are not in the output layer's chunk, which makes their loss.
    bool mtp_apart() const { return mtp_chunk >= 0 && mtp_chunk + 1 < static_cast<int>(layers_per_chunk.size()); }
    // Recomputation of some layers alone; of several layers at a time.
    bool recomputes_some() const { return !recompute_layers.empty() || recompute_every > 0 || recompute_per_chunk > 0; }
    bool recomputes_segments() const { return recompute_segments != 0 || recompute_segment_layers > 0; }
    // Replicas, or groups of them, are workers that meet between steps, not in them.
    bool workers() const {
        return (synchronization.kind != Synchronization::Kind::synchronous || compresses() == GradientCompression::zero_one_adam) &&
               several_workers();
    }
    bool several_workers() const {
        return data_parallel > 1 && (synchronization.kind == Synchronization::Kind::synchronous || synchronization.workers != 1);
    }
    int worker_count() const {
        const bool grouped = synchronization.kind != Synchronization::Kind::synchronous && synchronization.workers > 0;
        return !workers() ? 1 : grouped ? synchronization.workers : data_parallel;
    }
    int replicas_of_worker() const { return data_parallel / worker_count(); } // that share every step
    // Workers that never meet all at once, and those whose parameters servers update.
    bool loose() const { return synchronization.kind >= Synchronization::Kind::parameter_server && several_workers(); }
    bool served() const { return synchronization.kind == Synchronization::Kind::parameter_server && several_workers(); }
    // Workers train parameters of their own, which grow apart between meetings; those of servers only hold gradients of what these have.
    bool drifts() const { return workers() && !served(); }
    bool streaming() const { return synchronization.kind == Synchronization::Kind::streaming_diloco && several_workers(); }
    bool diloco() const { return (synchronization.kind == Synchronization::Kind::diloco && several_workers()) || streaming(); }
    // In the steps that the scenario is of; none where those are the warm-up's.
    GradientCompression compresses() const {
        return compression.phase == Compression::Phase::warmup ? GradientCompression::none : gradient_compression;
    }
    // Momentum travels as signs, after the backward pass and not in buckets.
    bool sends_signs() const { return of_signs(compresses()); }
    bool operator==(const Strategy&) const = default;
};

enum class AttentionKernel { unfused, flash1, flash2, flash3, cudnn, flex }; // flex: what torch.compile makes of FlexAttention
template <> struct Spelling<AttentionKernel> {
    static constexpr const char* all[] = {"unfused", "flash-1", "flash-2", "flash-3", "cudnn", "flex"};
};
// The type of fused attention's products in layers whose linears have 8 or 4 bits: the activations', or 8 bits.
enum class AttentionPrecision : std::uint8_t { activations, fp8 };
template <> struct Spelling<AttentionPrecision> { static constexpr const char* all[] = {"16-bit", "fp8"}; };
// How the scales of 8- and 4-bit operands are found.
enum class ScalingRecipe : std::uint8_t { delayed, current, blockwise, mxfp8, nvfp4 };
template <> struct Spelling<ScalingRecipe> { static constexpr const char* all[] = {"delayed", "current", "blockwise", "mxfp8", "nvfp4"}; };
// How tokens reach their experts.
enum class TokenDispatcher : std::uint8_t { alltoall, allgather, deepep, hybridep };
template <> struct Spelling<TokenDispatcher> { static constexpr const char* all[] = {"alltoall", "allgather", "deepep", "hybridep"}; };

// The part of the logits that exists at once. vocabulary_parallel: each tensor-parallel rank has its part of the vocabulary (Shoeybi et
// al., arXiv:1909.08053, section 3). whole: all of them on every tensor-parallel rank, gathered. chunked: those of some tokens at a time;
// the product, the loss and all gradients of it are made before the next tokens' (Liger's fused linear cross-entropy, arXiv:2410.10989).
enum class LossKind : std::uint8_t { vocabulary_parallel, whole, chunked };
template <> struct Spelling<LossKind> { static constexpr const char* all[] = {"vocabulary-parallel", "whole", "chunked"}; };

struct Runtime {
    int year = 2024;
    AttentionKernel attention_kernel = AttentionKernel::flash2;
    AttentionPrecision attention_dtype = AttentionPrecision::activations;
    bool fused_softmax = true, fused_activation = true, fused_rope = true, fused_loss = true, compiled_loss = false, loss_upcast = true,
         fused_norm = true, fused_optimizer = true, fused_weight_gradient_accumulation = true;
    LossKind loss = LossKind::vocabulary_parallel;
    int loss_chunks = 8; // of a chunked loss
    bool launch_blocking = false, recompute_early_stop = false;
    ScalingRecipe fp8_recipe = ScalingRecipe::delayed;
    bool fp8_activation_input = false;   // an MLP's activation keeps its input in 8 bits for the backward pass
    bool fp8_all_gather = false;         // sharded weights of 8-bit linears are cast before they are gathered
    bool fp8_parameters = false;         // weights of 8-bit linears have 8 bits themselves, not 16 with a copy in 8 that is kept
    bool tensor_parallel_maxima = false; // maxima of delayed scaling are those of tensor- and context-parallel ranks alone
    bool fp8_dispatch = false;           // tokens go to their experts in 8 bits, and so do gradients of what they bring back
    TokenDispatcher token_dispatcher = TokenDispatcher::alltoall;
    int token_dispatcher_sms = 20; // processors that the kernels of deepep and hybridep hold
    bool permute_fusion = false;
    bool fused_experts = false; // experts: one kernel a linear for all, with activation and casts inside; counts stay on the device
    double expert_room = 2;     // of a plan that runs: rows a rank's experts have room for, over the mean
    bool routed = false;        // no field: the plan leaves that room (exec/runtime/world.hpp, routed_plan)
    bool tensor_parallel_buffers = false; // operands of tensor-parallel linears travel in Transformer Engine's user buffers
    bool cuda_graphs = false;
    double launch_us = -1;            // host time per kernel launch; -1: the device's own, or that of its calibration
    bool plan_allocator = false;      // allocator: plan; else caching
    bool expandable_segments = false; // of a caching allocator: expandable
    double reserved_gb = -1;          // < 0: the framework's own estimate
    double dataloader_us = 0;
    double batch_us = 0; // a forward pass waits so long for the host to hand it its microbatch; 0: it does not
    bool operator==(const Runtime&) const = default;
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
    std::optional<Federated> federated; // clients that train copies of the model: the rest of the scenario is one of them
    std::optional<WholeRun> run;        // months of steps; without it a report is of one step

    std::vector<std::string> notes;                // fields that have no effect, and the like, for the report
    std::map<std::string, std::string> defaults;   // JSON pointer -> where the value came from when left out
    std::shared_ptr<const OwnConstants> constants; // of the cost model, a user's own; null: the built-in ones alone

    int world_size() const {
        return strategy.data_parallel * strategy.tensor_parallel * strategy.pipeline_parallel * strategy.context_parallel;
    }
    // Whether updates are made before the gradient norm is known, and undone where it is too large.
    bool undoes_steps() const { return training.optimizer_in_backward && strategy.post_validation && training.gradient_clipping > 0; }
    std::int64_t microbatches() const { return training.global_batch_size / (strategy.data_parallel * training.micro_batch_size); }
};

} // namespace orrery

// Defaults from the frameworks' table, then those that depend on other fields.
#include "sim/scenario/resolve.hpp"

#include "sim/scenario/frameworks.hpp"
#include "sim/scenario/layers.hpp"
#include "sim/scenario/parameters.hpp"
#include "sim/scenario/practice.hpp"
#include "sim/scenario/router_at_start.hpp"
#include "sim/scenario/stage3.hpp"
#include "sim/scenario/suggest.hpp"
#include "sim/schedules/schedule.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace orrery {
namespace {

void resolve_training(Reading& reading) {
    Training& t = reading.scenario.training;
    const Framework framework = reading.scenario.strategy.framework;
    const bool table = reading.scenario.defaults.contains("/training/gradient_dtype");
    if (!reading.has("/training/gradient_dtype") && table && t.precision == DType::fp16 && t.gradient_dtype == DType::bf16) {
        t.gradient_dtype = DType::fp16;
        note_default(reading, "/training/gradient_dtype", "fp16", "the 16-bit type of the training");
    }
    if (!reading.has("/training/gradient_dtype") && !(table && !is_wide(t.precision))) {
        const bool fp16 = t.precision == DType::fp16, deepspeed = framework == Framework::deepspeed && !is_wide(t.precision);
        const bool parameters_own = (fp16 && megatron_core(framework)) || (deepspeed && (fp16 || reading.scenario.strategy.zero_stage > 0));
        t.gradient_dtype = !parameters_own ? DType::fp32 : fp16 ? DType::fp16 : DType::bf16;
        const char* source =
            is_wide(t.precision) ? "parameters are fp32, so are gradients"
            : t.gradient_dtype == DType::bf16
                ? "DeepSpeed's get_data_types: gradients have the dtype of the model (fp32 in bf16 without ZeRO, its BF16_Optimizer)"
            : t.gradient_dtype == DType::fp16
                ? "fp16 training accumulates and reduces in fp16 (Megatron-LM, DeepSpeed)"
                : "16-bit gradients are accumulated and reduced in fp32 (Megatron-LM with bf16, DeepSpeed's BF16_Optimizer)";
        note_default(reading, "/training/gradient_dtype", name(t.gradient_dtype), source);
    }
    if (!reading.has("/training/gradient_dtype") && !t.master_weights && !is_wide(t.precision) &&
        (framework == Framework::ddp || framework == Framework::fsdp || framework == Framework::fsdp2 ||
         framework == Framework::torchtitan || framework == Framework::composer)) {
        t.gradient_dtype = t.precision == DType::fp16 ? DType::fp16 : DType::bf16;
        note_default(reading, "/training/gradient_dtype", name(t.gradient_dtype),
                     "autograd's gradients have the dtype of their parameters");
    }
    const GradientCompression sent = reading.scenario.strategy.gradient_compression;
    if (!reading.has("/training/gradient_clipping") && of_signs(sent)) {
        t.gradient_clipping = 0;
        note_default(reading, "/training/gradient_clipping", "0", "signs of the momentum are sent, gradients are never summed");
    }
    if (is_wide(t.precision)) {
        t.master_weights = false;
        note_default(reading, "/training/master_weights", "false", "parameters are fp32 themselves");
    } else if (!t.master_weights && !reading.has("/training/moment_dtype")) {
        t.moment_dtype = t.precision == DType::fp16 ? DType::fp16 : DType::bf16;
        note_default(reading, "/training/moment_dtype", name(t.moment_dtype),
                     "moments are like the parameters they belong to (torch.optim)");
    }
}

void resolve_schedule(Reading& reading) {
    Strategy& s = reading.scenario.strategy;
    if (!reading.has("/strategy/schedule")) {
        s.schedule = s.pipeline_parallel == 1 ? "none" : s.virtual_pipeline > 1 ? "interleaved-1f1b" : "1f1b";
        note_default(reading, "/strategy/schedule", s.schedule,
                     s.pipeline_parallel == 1 ? "there is one stage" : "Megatron-LM's, by virtual_pipeline");
    }
    const ScheduleInfo* schedule = find_schedule(s.schedule);
    if (schedule && schedule->usual_chunks != 1 && !reading.has("/strategy/virtual_pipeline")) {
        s.virtual_pipeline = schedule->usual_chunks;
        note_default(reading, "/strategy/virtual_pipeline", std::to_string(s.virtual_pipeline), "the schedule's chunks a rank");
    }
    if (schedule && !schedule->groups_microbatches) s.microbatch_group_size = 0; // a note says so
}

// The share of the ranks that is left over for data parallelism; 0 where the degrees do not divide it (check.cpp says so).
void resolve_data_parallel(Reading& reading) {
    Strategy& s = reading.scenario.strategy;
    if (reading.has("/strategy/data_parallel")) return;
    const std::int64_t devices = static_cast<std::int64_t>(reading.scenario.cluster.nodes) * reading.scenario.cluster.devices_per_node;
    const std::int64_t model = static_cast<std::int64_t>(s.tensor_parallel) * s.pipeline_parallel * s.context_parallel;
    s.data_parallel = model > 0 && model <= devices && devices % model == 0 ? static_cast<int>(devices / model) : 0;
    note_default(reading, "/strategy/data_parallel", std::to_string(s.data_parallel), "devices / (tensor x pipeline x context parallel)");
}

// DeepSpeed's ZeRO-3 asks ahead in each call of a module, of one without parameters too: for stage3_prefetch_bucket_size elements more (5e7
// by default, 0.9 hidden^2 where a trainer sets "auto"), one parameter at least, until stage3_max_live_parameters (1e9) are there
// (fetch_sub_module of deepspeed/runtime/zero/partitioned_param_coordinator.py). A layer has a dozen modules: gathers run layers ahead
// where two layers fit into that. Larger ones are taken to hide nothing between nodes. (The code has no such step: it counts parameters
// one by one and would ask a part of the next large layer ahead. The measured jobs with such layers, of 8e8 parameters on 384 V100, show
// none of that: all eight would be 3 to 12 points faster than they are predicted now, too fast each; scenarios/validation/README.md.)
//
// Gathers and reductions between nodes are of one communicator and take turns in the order in which they are asked for. Asked for ahead,
// gathers of a backward pass would still be hidden; measured jobs take longer (ZeRO++'s baselines on V100:
// scenarios/validation/README.md): those of layers of more than stage3_prefetch_bucket_size are taken to hide nothing there.
//
// Parameters of a layer that DeepSpeed gathers over several nodes; 0: over one, or other software does.
std::int64_t gathered_between_nodes(const Reading& reading) {
    const Scenario& s = reading.scenario;
    if (s.strategy.framework != Framework::deepspeed || !sound(reading, {"/cluster", "/model", "/strategy/tensor_parallel"})) return 0;
    const int ranks = std::max(1, s.strategy.tensor_parallel);
    const int group = s.strategy.shard_group_size > 0 ? s.strategy.shard_group_size * ranks : s.world_size() / s.strategy.worker_count();
    if (group <= s.cluster.devices_per_node || s.model.layers == 0) return 0;
    return layer_parameters(s.model, s.model.layers - 1) / ranks;
}

// Only where there is a capacity: the field says nothing else.
void resolve_capacity(Reading& reading) {
    Scenario& sc = reading.scenario;
    if (!sc.model.moe || sc.model.moe->capacity_factor <= 0 || reading.has("/model/moe/pad_to_capacity")) return;
    const bool megatron = megatron_core(sc.strategy.framework);
    note_default(
        reading, "/model/moe/pad_to_capacity", "true",
        megatron ? "apply_moe_token_drop of NeMo's and Megatron Bridge's recipes sets moe_pad_expert_input_to_capacity with the capacity "
                   "(Megatron-LM's own default is off)"
                 : "buffers of experts x capacity rows, as GShard has them (MaxText's dense_matmul, DeepSpeed's sharded_moe.py)");
}

void resolve_loads(Reading& reading) {
    Scenario& sc = reading.scenario;
    if (!sc.model.moe || !sound(reading, {"/model", "/training/sequence_length"})) return;
    MoeSpec& moe = *sc.model.moe;
    const std::int64_t layers = mixture_layers(sc.model, sc.model.layers + sc.model.mtp_layers), most = 1'000'000;
    if (moe.imbalance == Imbalance::untrained && layers * moe.experts > most)
        return reading.problem("/model/moe/imbalance", "model.moe.imbalance = untrained is worked out for " + std::to_string(most) +
                                                           " experts of all layers at most, " + std::to_string(layers) + " x " +
                                                           std::to_string(moe.experts) + " here: give zipf:<exponent> or a list");
    if (const std::int64_t sequence = sc.training.sequence_length; moe.imbalance == Imbalance::untrained && reading.loads_of != sequence) {
        moe.imbalance_loads = loads_at_start(sc.model, sequence); // variations of a scenario have its model
        reading.loads_of = sequence;
    }
    if (!reading.has("/model/moe/imbalance"))
        note_default(reading, "/model/moe/imbalance", "none",
                     "as many rows for each expert, which a router is trained towards or forced to");
}

// Sharding by default gives way to replicas where the schedule, synchronization or compression needs them.
void resolve_sharding(Reading& reading) {
    Strategy& s = reading.scenario.strategy;
    const ScheduleInfo* schedule = find_schedule(s.schedule);
    const bool replicas = (schedule && schedule->directions > 1) || s.synchronization.kind != Synchronization::Kind::synchronous ||
                          s.gradient_compression != GradientCompression::none;
    if (s.framework != Framework::jax || !replicas || reading.has("/strategy/zero_stage")) return;
    s.zero_stage = 0;
    note_default(reading, "/strategy/zero_stage", "0", "replicas: the schedule, synchronization or compression needs them");
}

void resolve_overlap(Reading& reading) {
    Strategy& s = reading.scenario.strategy;
    const int year = reading.scenario.runtime.year;
    if (s.zero_stage == 3 && s.framework == Framework::deepspeed && s.shard_group_size > 0 && !reading.has("/strategy/gradient_sync"))
        s.gradient_sync = GradientSync::boundary; // MiCS_Optimizer adds the groups' shards at the boundary of accumulation
    if (s.zero_stage == 3 && s.framework == Framework::deepspeed && year < 2022) {
        for (auto [pointer, field] : {std::pair{"/strategy/overlap/param_gather", &s.overlap.param_gather},
                                      std::pair{"/strategy/overlap/grad_reduce", &s.overlap.grad_reduce}}) {
            if (reading.has(pointer)) continue;
            *field = false;
            note_default(reading, pointer, "false",
                         "DeepSpeed before 0.5.10 (January 2022): a parameter is gathered, and waited for, where it is used");
        }
    } else if (s.zero_stage == 3 && !reading.has("/strategy/overlap/param_gather")) {
        s.overlap.param_gather = 2 * gathered_between_nodes(reading) <= stage3::max_live_parameters;
        note_default(reading, "/strategy/overlap/param_gather", s.overlap.param_gather ? "true" : "false",
                     s.overlap.param_gather ? "ZeRO-3 prefetches the next layer's parameters"
                                            : "between nodes, and two layers have more parameters than DeepSpeed's "
                                              "stage3_max_live_parameters (1e9)");
    }
    const std::int64_t layer = gathered_between_nodes(reading);
    const std::int64_t bucket = layer > 0 ? stage3::sizes_of(reading.scenario).prefetch_bucket_size : 0;
    if (s.zero_stage == 3 && year >= 2022 && layer > bucket && !reading.has("/strategy/overlap/backward_prefetch")) {
        s.overlap.backward_prefetch = false;
        note_default(reading, "/strategy/overlap/backward_prefetch", "false",
                     "between nodes gathers and reductions take turns, and a layer has more parameters than DeepSpeed's "
                     "stage3_prefetch_bucket_size (" +
                         std::to_string(bucket) + ")");
    }
    if (s.zero_stage == 3 && s.framework == Framework::deepspeed && year >= 2022 && !reading.has("/strategy/overlap/grad_reduce")) {
        s.overlap.grad_reduce = true;
        note_default(reading, "/strategy/overlap/grad_reduce", "true", "DeepSpeed's overlap_comm is on by default in ZeRO stage 3");
    }
    const bool one_after_another = megatron_core(s.framework) || practice_of(reading.scenario).fully_sharded();
    if (s.offload.optimizer != Tier::none && one_after_another && !reading.has("/strategy/overlap/offload")) {
        s.overlap.offload = false;
        note_default(reading, "/strategy/overlap/offload", "false",
                     megatron_core(s.framework) ? "Megatron-Core's overlap_cpu_optimizer_d2h_h2d is off by default"
                                                : "FSDP's CPUOffloadPolicy copies, updates and copies back one after the other");
    }
    if (reading.has("/strategy/overlap/pipeline") || s.pipeline_parallel == 1) return;
    const char* source = nullptr;
    const ScheduleInfo* schedule = find_schedule(s.schedule);
    const ScheduleTransfers transfers = schedule ? schedule->transfers : ScheduleTransfers::blocking;
    if (transfers == ScheduleTransfers::asynchronous)
        source = "this schedule sends and receives asynchronously";
    else if (megatron_core(s.framework) && transfers == ScheduleTransfers::overlappable && year >= 2023)
        source = "Megatron-LM 2023: overlap_p2p_comm is on with virtual stages";
    else if (practice_of(reading.scenario).fully_sharded())
        source = "torch.distributed.pipelining posts sends and receives asynchronously";
    if (source == nullptr) return;
    s.overlap.pipeline = true;
    note_default(reading, "/strategy/overlap/pipeline", "true", source);
}

void resolve_buckets(Reading& reading) {
    Scenario& sc = reading.scenario;
    Strategy& s = sc.strategy;
    if (reading.has("/strategy/bucket_bytes")) return;
    std::int64_t elements = 0;
    std::string source;
    if (megatron_core(s.framework)) {
        elements = std::max<std::int64_t>(40'000'000, 1'000'000ll * s.data_parallel * s.context_parallel);
        source = "Megatron-Core: the larger of 40 M and 1 M x data-parallel size gradients";
    } else if (s.framework == Framework::deepspeed) {
        // (What an optimizer on the host takes in pieces of this size keeps the other default.)
        const bool trainer = s.zero_stage == 3 && s.tensor_parallel == 1 && s.pipeline_parallel == 1 && s.offload.optimizer == Tier::none &&
                             sound(reading, {"/model"}) && trainer_under_deepspeed(sc);
        elements = trainer ? sc.model.hidden_size * sc.model.hidden_size : 500'000'000;
        source = trainer ? "Hugging Face's Trainer sets reduce_bucket_size \"auto\" of ZeRO 3 to the square of the hidden size"
                         : "DeepSpeed: reduce_bucket_size = 5e8 gradients";
    } else if (s.framework == Framework::colossalai) {
        elements = 12 * 1024 * 1024;
        source = "Colossal-AI: zero_bucket_size_in_m = 12";
    } else if (s.framework == Framework::internlm) {
        elements = 512 * 1024 * 1024;
        source = "InternLM: reduce_bucket_size = 512 * 1024 * 1024 gradients";
    } else {
        if (s.bucket_bytes.count == 0) {
            s.bucket_bytes = Bytes{25 << 20};
            note_default(reading, "/strategy/bucket_bytes", std::to_string(s.bucket_bytes.count),
                         "25 MiB, as PyTorch's DistributedDataParallel");
        }
        return;
    }
    s.bucket_bytes = Bytes{static_cast<std::int64_t>(static_cast<double>(elements) * bytes_per_element(sc.training.gradient_dtype))};
    note_default(reading, "/strategy/bucket_bytes", std::to_string(s.bucket_bytes.count), source);
}

// Liger's kernels are taken together: where its norms, rotations and activation stand in eager layers, so does its loss.
bool ligers_kernels(const Reading& reading) {
    const Runtime& r = reading.scenario.runtime;
    const Strategy& s = reading.scenario.strategy;
    const bool stated =
                   reading.has("/runtime/fused_loss") && reading.has("/runtime/fused_rope") && reading.has("/runtime/fused_activation"),
               trainer = s.framework == Framework::ddp || s.framework == Framework::fsdp || s.framework == Framework::fsdp2 ||
                         s.framework == Framework::deepspeed;
    return stated && trainer && r.fused_loss && r.fused_rope && r.fused_activation && r.fused_norm && !s.fused && r.year >= 2024 &&
           s.tensor_parallel == 1 && s.pipeline_parallel == 1;
}

// Chunks of Liger's loss (fused_linear_cross_entropy.py): tokens / next power of two of (tokens / (vocabulary / hidden size)).
int ligers_chunks(const Scenario& s) {
    const std::int64_t tokens =
        std::max<std::int64_t>(1, s.training.micro_batch_size * s.training.sequence_length / s.strategy.context_parallel);
    const std::int64_t ratio = std::max<std::int64_t>(1, (s.model.vocab_size + s.model.hidden_size - 1) / s.model.hidden_size);
    std::int64_t size = 1;
    while (size < (tokens + ratio - 1) / ratio) size *= 2;
    return static_cast<int>(std::min<std::int64_t>(256, (tokens + size - 1) / size));
}

void resolve_token_dispatcher(Reading& reading) {
    Runtime& r = reading.scenario.runtime;
    if (!reading.scenario.model.moe || reading.has("/runtime/token_dispatcher_sms")) return;
    const bool deepep = r.token_dispatcher == TokenDispatcher::deepep;
    if (!deepep && r.token_dispatcher != TokenDispatcher::hybridep) return;
    r.token_dispatcher_sms = deepep ? 20 : 16;
    note_default(reading, "/runtime/token_dispatcher_sms", std::to_string(r.token_dispatcher_sms),
                 deepep ? "Megatron-Core's moe_deepep_num_sms (transformer_config.py) and DeepEP's own Buffer.num_sms"
                        : "moe_hybridep_num_sms of Megatron-Bridge's recipes, torchtitan's HYBRIDEP_NUM_SMS");
}

void resolve_loss(Reading& reading) {
    Runtime& r = reading.scenario.runtime;
    if (reading.scenario.strategy.framework == Framework::torchtitan && r.fused_loss && !reading.scenario.strategy.fused &&
        !reading.has("/runtime/fused_loss")) {
        r.fused_loss = false;
        note_default(reading, "/runtime/fused_loss", "false", "torchtitan compiles the loss where it compiles the model");
    }
    if (!reading.has("/runtime/loss") && ligers_kernels(reading)) {
        r.loss = LossKind::chunked;
        note_default(reading, "/runtime/loss", "chunked",
                     "Liger's kernels (norms, rotations and activation fused in eager layers) include it");
    }
    if (!reading.has("/runtime/loss") && r.loss == LossKind::whole && reading.scenario.strategy.pipeline_parallel > 1) {
        r.loss = LossKind::vocabulary_parallel;
        note_default(
            reading, "/runtime/loss", "vocabulary-parallel",
            "trainers that have pipelines beside tensor parallelism divide the vocabulary: Megatron, torchtitan's loss parallelism");
    }
    if (r.loss != LossKind::chunked || reading.has("/runtime/loss_chunks") ||
        !sound(reading, {"/model", "/training/micro_batch_size", "/training/sequence_length", "/strategy/context_parallel"}))
        return;
    const bool eight = reading.scenario.strategy.framework == Framework::torchtitan;
    r.loss_chunks = eight ? 8 : ligers_chunks(reading.scenario);
    note_default(reading, "/runtime/loss_chunks", std::to_string(r.loss_chunks),
                 eight ? "torchtitan's ChunkedCELoss: num_chunks = 8"
                       : "as Liger chooses: the logits of a chunk take the memory of hidden states");
}

// By the recipes of NeMo and Megatron Bridge (nemo/collections/llm/recipes/precision/mixed_precision.py of 2025,
// megatron/bridge/training/mixed_precision.py of 2026).
void resolve_low_parameters(Reading& reading) {
    Scenario& s = reading.scenario;
    const DType t = s.training.precision;
    if (s.strategy.framework != Framework::nemo || reading.has("/runtime/fp8_parameters") || (t != DType::fp8 && t != DType::mxfp8)) return;
    const ScalingRecipe recipe = t == DType::mxfp8 ? ScalingRecipe::mxfp8 : s.runtime.fp8_recipe;
    const bool by_tensor = recipe == ScalingRecipe::delayed || recipe == ScalingRecipe::current,
               bridge = recipe == ScalingRecipe::mxfp8 && s.runtime.year >= 2026;
    s.runtime.fp8_parameters = by_tensor || bridge;
    note_default(reading, "/runtime/fp8_parameters", s.runtime.fp8_parameters ? "true" : "false",
                 by_tensor ? "fp8_param_gather = True in bf16_with_fp8_mixed and bf16_with_fp8_current_scaling_mixed"
                 : bridge  ? "fp8_param_gather = True in Megatron Bridge's bf16_with_mxfp8_mixed (NeMo 2.0's has False)"
                 : recipe == ScalingRecipe::mxfp8 ? "fp8_param_gather = False in NeMo 2.0's bf16_with_mxfp8_mixed"
                                                  : "fp8_param_gather = False in bf16_with_fp8_subchannel_scaling_mixed");
}

// Megatron-DeepSpeed, which DeepSpeed's defaults are of, has pipelines and tensor parallelism; without them it is Transformers' models that
// DeepSpeed trains by 2025, and some before.
void resolve_layers_of_deepspeed(Reading& reading) {
    Strategy& s = reading.scenario.strategy;
    if (s.framework != Framework::deepspeed || s.tensor_parallel > 1 || s.pipeline_parallel > 1 || reading.has("/strategy/fused")) return;
    const bool late = reading.scenario.runtime.year >= 2025;
    if (!late && !(sound(reading, {"/model"}) && trainer_under_deepspeed(reading.scenario))) return;
    s.fused = false;
    note_default(
        reading, "/strategy/fused", "false",
        late ? "DeepSpeed of 2025 without tensor and pipeline parallelism trains Transformers' models, in PyTorch's eager kernels"
             : "a model with RMSNorm or a gated MLP without tensor and pipeline parallelism is Hugging Face's Trainer's, whose layers "
               "are PyTorch's eager kernels");
    if (!late || reading.has("/runtime/fused_softmax")) return;
    reading.scenario.runtime.fused_softmax = false;
    note_default(reading, "/runtime/fused_softmax", "false", "follows from strategy.fused");
}

// A compiler drops from a checkpointed block what no gradient needs; torchtitan's eager blocks run again as a whole since August 2025
// (its pull request 1580: activation_checkpoint.early_stop is false by default; 0.3.0 knows nothing else).
void resolve_early_stop(Reading& reading) {
    Scenario& sc = reading.scenario;
    if (sc.strategy.framework != Framework::torchtitan || sc.runtime.year < 2025 || sc.strategy.fused ||
        reading.has("/runtime/recompute_early_stop"))
        return;
    sc.runtime.recompute_early_stop = false;
    note_default(reading, "/runtime/recompute_early_stop", "false",
                 "torchtitan of August 2025: early_stop = False, so that eager blocks run again as a whole (compiled ones do not)");
}

// What scaled_dot_product_attention has no kernel for, or a slow one: windows and documents are masks that it would read as tensors, and
// keys wider than values leave it its memory-efficient kernel (torchtitan's pull request 1610, of August 2025). torchtitan's
// configurations of such models (models/deepseek_v3, models/gpt_oss) have use_flex_attn.
void resolve_flex(Reading& reading) {
    Scenario& s = reading.scenario;
    const AttentionSpec& a = s.model.attention;
    const char* why = a.kind == AttentionSpec::Kind::mla ? "keys wider than values"
                      : a.sliding_window > 0             ? "sliding windows"
                      : s.training.document_tokens > 0   ? "masks of documents"
                                                         : nullptr;
    if (why == nullptr || s.strategy.framework != Framework::torchtitan || s.runtime.year < 2025 || !s.strategy.flash_attention ||
        reading.has("/runtime/attention_kernel"))
        return;
    s.runtime.attention_kernel = AttentionKernel::flex;
    note_default(reading, "/runtime/attention_kernel", "flex", std::string("torchtitan's models with ") + why + " have FlexAttention");
}

// FlashAttention caps scores since 2.6, FlexAttention by a function of one's own.
void resolve_capped(Reading& reading) {
    Scenario& s = reading.scenario;
    AttentionKernel& kernel = s.runtime.attention_kernel;
    const bool lacks_caps = kernel == AttentionKernel::flash1 || kernel == AttentionKernel::cudnn;
    if (s.model.attention.score_cap <= 0 || !s.strategy.flash_attention || reading.has("/runtime/attention_kernel") || !lacks_caps) return;
    note_default(reading, "/runtime/attention_kernel", "flash-2", std::string(name(kernel)) + " has no cap of scores (score_cap)");
    kernel = AttentionKernel::flash2;
}

void resolve_gates(Reading& reading) {
    Scenario& sc = reading.scenario;
    const bool open = sc.runtime.fused_activation && !reading.has("/runtime/fused_activation");
    if (!open || !sc.model.gated() || !practice_of(sc).plain_gates) return;
    sc.runtime.fused_activation = false;
    note_default(reading, "/runtime/fused_activation", "false",
                 "Megatron's gated activations are PyTorch's operators until 2024 (ParallelMLP), and in Megatron-DeepSpeed");
}

// Times that a device or the scenario states are of its own host; the software's defaults are of one of speed 1.
void resolve_host_times(Reading& reading) {
    Scenario& sc = reading.scenario;
    const double own = sc.cluster.device.launch_us, speed = sc.cluster.host.speed;
    if (own >= 0 && !reading.has("/runtime/launch_us")) {
        sc.runtime.launch_us = own;
        note_default(reading, "/runtime/launch_us", std::to_string(own), "measured: given with the device");
    }
    if (speed == 1) return;
    const auto slowed = [&](const char* pointer, double& us) {
        if (reading.has(pointer) || us <= 0) return;
        note_default(reading, pointer, fmt::format("{:g}", us / speed),
                     fmt::format("assumed: the software's {:g} on a host of cluster.host.speed = {:g}", us, speed));
        us /= speed;
    };
    if (own < 0) slowed("/runtime/launch_us", sc.runtime.launch_us);
    slowed("/runtime/batch_us", sc.runtime.batch_us);
}

void resolve_kernels(Reading& reading) {
    resolve_layers_of_deepspeed(reading);
    resolve_early_stop(reading);
    Scenario& sc = reading.scenario;
    const bool flash_given = reading.has("/strategy/flash_attention"), kernel_given = reading.has("/runtime/attention_kernel");
    if (kernel_given && !flash_given) {
        sc.strategy.flash_attention = sc.runtime.attention_kernel != AttentionKernel::unfused;
        note_default(reading, "/strategy/flash_attention", sc.strategy.flash_attention ? "true" : "false",
                     "follows from runtime.attention_kernel");
    } else if (!kernel_given && !sc.strategy.flash_attention) {
        sc.runtime.attention_kernel = AttentionKernel::unfused;
        note_default(reading, "/runtime/attention_kernel", "unfused", "strategy.flash_attention is false");
    }
    for (auto [pointer, field] :
         {std::pair{"/runtime/fused_activation", &sc.runtime.fused_activation}, std::pair{"/runtime/fused_rope", &sc.runtime.fused_rope}}) {
        if (reading.has(pointer)) continue;
        *field = sc.strategy.fused;
        note_default(reading, pointer, sc.strategy.fused ? "true" : "false", "follows from strategy.fused");
    }
    // Seen in data-parallel scripts alone: what splits layers by hand is taken to have fused its norms too.
    const Strategy& s = sc.strategy;
    const Practice practice = practice_of(sc);
    const bool eager_units = practice.fully_sharded() && practice.stack == Stack::eager,
               script = (s.framework == Framework::ddp || s.framework == Framework::deepspeed || eager_units) && s.tensor_parallel == 1 &&
                        s.pipeline_parallel == 1;
    const bool transformers = practice.rotates_halves; // whose LlamaRMSNorm is no torch.nn.RMSNorm (models/llama/modeling_llama.py, 5.0)
    if (!reading.has("/runtime/fused_norm") && script && !s.fused && sc.model.norm == NormKind::rmsnorm &&
        (transformers || sc.runtime.year < 2026)) {
        sc.runtime.fused_norm = false;
        note_default(reading, "/runtime/fused_norm", "false",
                     transformers ? "models of Transformers spell RMSNorm out in several kernels"
                                  : "eager PyTorch spells RMSNorm out in several kernels until 2.9 (October 2025)");
    }
    const DType precision = sc.training.precision;
    if (!reading.has("/runtime/fp8_recipe") && (precision == DType::mxfp8 || precision == DType::nvfp4)) {
        sc.runtime.fp8_recipe = precision == DType::mxfp8 ? ScalingRecipe::mxfp8 : ScalingRecipe::nvfp4;
        note_default(reading, "/runtime/fp8_recipe", name(precision), "training.precision names the recipe");
    }
    resolve_token_dispatcher(reading);
    resolve_low_parameters(reading);
    resolve_loss(reading);
    // Megatron-Core of 2026 on Blackwell: experts' kernels that hold activation and casts and need no counts on the host, graphs of the
    // whole step and the overlap of dispatch and combine are one recipe (hybridep, MXFP8).
    const Runtime& r = sc.runtime;
    const bool low =
        precision == DType::mxfp8 || precision == DType::nvfp4 || (precision == DType::fp8 && r.fp8_recipe == ScalingRecipe::mxfp8);
    if (!reading.has("/runtime/fused_experts") && sc.model.moe && megatron_core(sc.strategy.framework) && r.year >= 2026 && low &&
        sc.cluster.device.architecture == "blackwell" && r.cuda_graphs && r.token_dispatcher == TokenDispatcher::hybridep &&
        sc.strategy.overlap.expert_parallel) {
        sc.runtime.fused_experts = true;
        note_default(reading, "/runtime/fused_experts", "true",
                     "Megatron-Core 2026: graphs of a whole step with dispatch and combine overlapped need them");
    }
}

// Whether Transformer Engine's optimizer holds the masters where Megatron-Core's is precision-aware: OptimizerConfig.__post_init__
// (megatron/core/optimizer/optimizer_config.py) leaves them to it where fp8_recipe is none or delayed. Without 8 bits it is delayed in
// Megatron-LM (its argument's default) and in NeMo 2.0 (DtypeConfig), and none with NVFP4; Megatron Bridge gives the optimizer
// MixedPrecisionConfig's "tensorwise" even in bf16 (training/mixed_precision.py, update_config_with_precision_overrides). Parameters of 8
// bits are no part of a master.
bool optimizer_holds_masters(const Scenario& s) {
    const DType p = s.training.precision;
    if (p == DType::fp8) return s.runtime.fp8_recipe == ScalingRecipe::delayed && !s.runtime.fp8_parameters;
    const bool bridge = s.strategy.framework == Framework::nemo && s.runtime.year >= 2026;
    return p == DType::nvfp4 || (p == DType::bf16 && !bridge);
}

// It is switched on for moments of 16 bits, and in bf16 by NeMo 2.0's performance scripts (scripts/performance/helpers.py: compute_dtype =
// bf16 sets use_precision_aware_optimizer). It needs the distributed optimizer.
void resolve_remainders(Reading& reading) {
    Scenario& sc = reading.scenario;
    const Strategy& s = sc.strategy;
    Training& t = sc.training;
    if (!megatron_core(s.framework) || sc.runtime.year < 2025 || !t.master_weights || reading.has("/training/master_remainders")) return;
    if ((t.optimizer != Optimizer::adam && t.optimizer != Optimizer::adamw) || s.zero_stage < 1) return; // it is Adam, and distributed
    const bool plain = s.offload.optimizer == Tier::none && s.synchronization.kind == Synchronization::Kind::synchronous &&
                       s.gradient_compression == GradientCompression::none,
               scripts = s.framework == Framework::nemo && t.precision == DType::bf16 && s.zero_stage >= 1 && s.zero_stage < 3 && plain;
    if ((t.moment_dtype == DType::fp32 && !scripts) || !optimizer_holds_masters(sc)) return;
    t.master_remainders = true;
    note_default(reading, "/training/master_remainders", "true",
                 "Megatron-Core's precision-aware optimizer keeps them so from Transformer Engine 2.1 on, but with fp8 recipes other than "
                 "delayed");
}

} // namespace

std::string pointer_of(std::string_view path) {
    std::string pointer = "/" + std::string(path);
    std::replace(pointer.begin(), pointer.end(), '.', '/');
    return pointer;
}

void note_default(Reading& reading, std::string_view pointer, std::string_view value, std::string_view source) {
    if (!reading.notes_defaults || reading.has(pointer)) return;
    std::string& text = reading.scenario.defaults[std::string(pointer)];
    text.assign(value).append(": ").append(source);
}

void apply_framework_defaults(Reading& reading, const Json& document) {
    Scenario& sc = reading.scenario;
    const auto section = [&](const char* key) {
        return document.contains(key) && document[key].is_object() ? document[key] : Json::object();
    };
    const Json strategy = section("strategy"), runtime = section("runtime");
    const Device& device = sc.cluster.device;
    const bool came_in_2025 = device.architecture == "blackwell" || device.architecture == "cdna4" || device.name == "tpu-v7x";
    sc.runtime.year = came_in_2025 ? 2025 : 2024;
    sc.defaults["/runtime/year"] = std::to_string(sc.runtime.year) + ": the software of that year, 2025 on devices that came then";
    if (!strategy.contains("framework") && device.vendor == "google") {
        sc.strategy.framework = Framework::jax;
        sc.defaults["/strategy/framework"] = "jax: the usual one on TPUs";
    } else if (!strategy.contains("framework"))
        sc.defaults["/strategy/framework"] = "megatron: the usual one for tensor and pipeline parallelism";
    else if (strategy["framework"].is_string()) // another word is a problem where the field is read
        sc.strategy.framework = named<Framework>(strategy["framework"].get<std::string>()).value_or(Framework::megatron);
    if (runtime.contains("year") && runtime["year"].is_number_integer() && runtime["year"].get<double>() > 2000 &&
        runtime["year"].get<double>() < 3000)
        sc.runtime.year = runtime["year"].get<int>();
    Reading scratch; // the table's own fields must not count as given
    scratch.scenario = sc;
    for (const FrameworkDefault& row : defaults_of(sc.strategy.framework, sc.runtime.year, sc.cluster.device.architecture)) {
        const std::string pointer = pointer_of(row.field);
        read_value(scratch, Json::parse(row.value), pointer, *find_field(row.field));
        scratch.scenario.defaults[pointer] = std::string(row.value) + ": " + row.source;
    }
    sc = scratch.scenario;
}

void resolve_derived(Reading& reading) {
    Scenario& sc = reading.scenario;
    if (sc.model.position == PositionKind::learned && sc.model.max_positions == 0) sc.model.max_positions = sc.training.sequence_length;
    resolve_training(reading);
    resolve_schedule(reading);
    resolve_data_parallel(reading);
    resolve_sharding(reading);
    if (sc.strategy.zero_stage == 0) sc.strategy.shard_group_size = 0; // nothing is sharded: a note says so
    if (sc.model.moe && !reading.has("/strategy/expert_tensor_parallel")) {
        sc.strategy.expert_tensor_parallel = sc.strategy.tensor_parallel;
        note_default(reading, "/strategy/expert_tensor_parallel", std::to_string(sc.strategy.tensor_parallel),
                     "tensor_parallel, as Megatron-Core");
    }
    resolve_capacity(reading);
    resolve_loads(reading);
    resolve_overlap(reading);
    resolve_asynchronous(reading);
    resolve_in_backward(reading);
    resolve_muon(reading);
    resolve_buckets(reading);
    resolve_flex(reading);
    resolve_capped(reading);
    resolve_kernels(reading);
    resolve_host_times(reading);
    resolve_gates(reading);
    resolve_remainders(reading);
    // A value that the user gave is no default, even where the table names it.
    if (reading.notes_defaults) std::erase_if(sc.defaults, [&](const auto& entry) { return reading.has(entry.first); });
    if (sound(reading, {"/model", "/strategy/pipeline_parallel", "/strategy/virtual_pipeline", "/strategy/layer_split",
                        "/strategy/schedule", "/strategy/recompute_layers"}))
        resolve_layers(reading);
}

} // namespace orrery

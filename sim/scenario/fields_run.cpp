// The fields of "training", "strategy", "runtime" and of the scenario itself.
#include "sim/scenario/fields.hpp"
#include "sim/scenario/whole_run_text.hpp"

#include <nlohmann/json.hpp>

namespace orrery {
namespace {

constexpr int max_degree = 1'000'000; // products of three stay inside 64 bits

Field tier(const char* key, ChoiceSlot slot, const char* help) { return Field{key, slot, help}.one_of(words<Tier>()); }

Field degree(const char* key, IntSlot slot, const char* help) { return Field{key, slot, help}.least(1).most(max_degree); }

} // namespace

const Fields& training_fields() {
    static const std::vector<DType> precisions = {DType::fp32, DType::tf32,  DType::fp16, DType::bf16,
                                                  DType::fp8,  DType::mxfp8, DType::nvfp4};
    static const Fields fields = {
        Field{"global_batch_size", LongSlot{[](Scenario& s) { return &s.training.global_batch_size; }}, "sequences of one optimizer step"}
            .least(1)
            .most(1e10)
            .in("sequences")
            .needed(),
        Field{"micro_batch_size", LongSlot{[](Scenario& s) { return &s.training.micro_batch_size; }}, "sequences a rank takes at once"}
            .least(1)
            .most(1e6)
            .in("sequences"),
        Field{"sequence_length", LongSlot{[](Scenario& s) { return &s.training.sequence_length; }}, "tokens of a sequence"}
            .least(1)
            .most(1e10)
            .in("tokens")
            .needed(),
        Field{"precision", ChoiceSlot{[](Scenario& s, int i) { s.training.precision = precisions[i]; }}, "what linear layers compute in"}
            .one_of({"fp32", "tf32", "fp16", "bf16", "fp8", "mxfp8", "nvfp4"}),
        choice<&Scenario::training, &Training::optimizer>(
            "optimizer",
            "the update rule; muon: matrices of layers by Muon (one momentum, made orthogonal by five Newton-Schulz iterations in "
            "bf16), embeddings, output layer, norms and biases by AdamW; simulated only"),
        choice<&Scenario::training, &Training::muon_matrices>(
            "muon_matrices",
            "under tensor parallelism, what Muon makes orthogonal (Megatron-Core's muon_tp_mode): blockwise: each rank its "
            "part of a matrix; duplicated: the matrix is gathered, and each rank does all of it"),
        Field{"gradient_dtype", ChoiceSlot{[](Scenario& s, int i) {
                  s.training.gradient_dtype = i == 0 ? DType::fp32 : i == 1 ? DType::fp16 : DType::bf16;
              }},
              "what gradients are accumulated and reduced in"}
            .one_of({"fp32", "fp16", "bf16"}),
        Field{"master_weights", BoolSlot{[](Scenario& s) { return &s.training.master_weights; }}, "an fp32 copy of 16-bit parameters"},
        Field{"master_remainders", BoolSlot{[](Scenario& s) { return &s.training.master_remainders; }},
              "of the fp32 copy only the 16 bits that bf16 parameters lack are kept (Megatron-Core's store_param_remainders)"},
        Field{"moment_dtype", ChoiceSlot{[](Scenario& s, int i) {
                  s.training.moment_dtype = i == 0 ? DType::fp32 : i == 1 ? DType::fp16 : i == 2 ? DType::bf16 : DType::uint8;
              }},
              "what the optimizer keeps its moments in (Megatron-Core's exp_avg_dtype and exp_avg_sq_dtype); int8: in blocks with a scale "
              "each (8-bit Adam of bitsandbytes and torchao)"}
            .one_of({"fp32", "fp16", "bf16", "int8"}),
        Field{"document_tokens", LongSlot{[](Scenario& s) { return &s.training.document_tokens; }},
              "length of the documents packed into a sequence, whose tokens attend to their own document only; of unequal ones the mean of "
              "the squared lengths over the mean length; context parallelism deals each out to all its ranks, where it is a ring or an "
              "all-gather padded to a multiple of 2 x context_parallel; 0: a sequence is one document"}
            .least(0)
            .most(1e12)
            .in("tokens"),
        Field{"bf16_first_layers", IntSlot{[](Scenario& s) { return &s.training.bf16_first_layers; }},
              "layers at the start whose linears stay in 16 bits where the others have 8 or 4 (Megatron's num-layers-at-start-in-bf16)"}
            .least(0)
            .most(10000),
        Field{"bf16_last_layers", IntSlot{[](Scenario& s) { return &s.training.bf16_last_layers; }},
              "layers at the end whose linears stay in 16 bits where the others have 8 or 4 (Megatron's num-layers-at-end-in-bf16)"}
            .least(0)
            .most(10000),
        Field{"gradient_clipping", NumberSlot{[](Scenario& s) { return &s.training.gradient_clipping; }}, "largest gradient norm; 0: none"}
            .least(0)
            .most(1e12),
        Field{"optimizer_in_backward", BoolSlot{[](Scenario& s) { return &s.training.optimizer_in_backward; }},
              "each unit's parameters are updated in the backward pass as soon as their gradients are complete, which are freed at once "
              "(torchtune's optimizer_in_bwd, torchtitan's early_step_in_backward); with strategy.offload.optimizer = cpu on the host, "
              "beside the rest of the pass (SuperOffload); one microbatch a step; clipping only with optimizer_sync = post-validation on "
              "the host"},
        Field{"learning_rate", NumberSlot{[](Scenario& s) { return &s.training.learning_rate; }}, "for runs on real devices"}.over(0).most(
            1e30),
        Field{"warmup_steps", LongSlot{[](Scenario& s) { return &s.training.warmup_steps; }}, "for runs on real devices"}.least(0).most(
            1e12),
        Field{"seed", SeedSlot{[](Scenario& s) { return &s.training.seed; }},
              "of what is drawn by chance: jitter, failures, clients, peers, steps of servers' workers, initial weights"}
            .least(0),
        Field{"data", SectionSlot{data_fields, [](Scenario& s) { s.training.data.emplace(); }},
              "how samples reach the devices; default: at no cost"},
        Field{"convergence", SectionSlot{convergence_fields, [](Scenario& s) { s.training.convergence.emplace(); }},
              "how many samples a target takes, by the batch size: time and cost to it"},
    };
    return fields;
}

const Fields& overlap_fields() {
    static const Fields fields = {
        Field{"grad_reduce", BoolSlot{[](Scenario& s) { return &s.strategy.overlap.grad_reduce; }},
              "gradients are reduced while the backward pass goes on"},
        Field{"param_gather", BoolSlot{[](Scenario& s) { return &s.strategy.overlap.param_gather; }},
              "parameters are gathered while the layer before computes; under ZeRO 1 and 2, which gather at a step's end what it has "
              "changed, while the next step's forward pass goes on, else before it begins"},
        Field{"backward_prefetch", BoolSlot{[](Scenario& s) { return &s.strategy.overlap.backward_prefetch; }},
              "of FullyShardedDataParallel, and of DeepSpeed's ZeRO-3, with overlap.param_gather: false, as Hugging Face's Trainer has it "
              "under fsdp (NO_PREFETCH), asks in the backward pass for a unit's parameters when it comes to it, behind the reduction of "
              "the unit before"},
        Field{"tensor_parallel", BoolSlot{[](Scenario& s) { return &s.strategy.overlap.tensor_parallel; }},
              "tensor-parallel collectives run under weight gradients"},
        Field{"pipeline", BoolSlot{[](Scenario& s) { return &s.strategy.overlap.pipeline; }},
              "transfers between stages run beside computation"},
        Field{"expert_parallel", BoolSlot{[](Scenario& s) { return &s.strategy.overlap.expert_parallel; }},
              "the experts' all-to-all runs beside computation: with a pipeline, of the other microbatch of a joined forward and backward "
              "step (Megatron's overlap-moe-expert-parallel-comm)"},
        Field{"shared_experts", BoolSlot{[](Scenario& s) { return &s.strategy.overlap.shared_experts; }},
              "shared experts run beside the exchanges of the routed ones' tokens (Megatron's moe-shared-expert-overlap); not together "
              "with overlap.expert_parallel"},
        Field{"offload", BoolSlot{[](Scenario& s) { return &s.strategy.overlap.offload; }},
              "copies to the host run beside computation (those of activations always do, DeepSpeed's checkpoints never)"},
    };
    return fields;
}

const Fields& offload_fields() {
    static const Fields fields = {
        tier(
            "optimizer", [](Scenario& s, int i) { s.strategy.offload.optimizer = static_cast<Tier>(i); }, "where optimizer states live"),
        tier(
            "parameters", [](Scenario& s, int i) { s.strategy.offload.parameters = static_cast<Tier>(i); }, "where parameters live"),
        tier(
            "gradients", [](Scenario& s, int i) { s.strategy.offload.gradients = static_cast<Tier>(i); }, "where gradients live"),
        tier(
            "activations", [](Scenario& s, int i) { s.strategy.offload.activations = static_cast<Tier>(i); },
            "where saved activations live"),
        Field{"optimizer_fraction", NumberSlot{[](Scenario& s) { return &s.strategy.offload.optimizer_fraction; }},
              "share of a rank's optimizer states that offload.optimizer moves, as near as whole tensors or shards of buckets come to it"}
            .least(0)
            .most(1),
        Field{"undone_steps", NumberSlot{[](Scenario& s) { return &s.strategy.offload.undone_steps; }},
              "share of steps whose updates in the backward pass are undone, as the norm is found to be too large, and done again with "
              "clipped gradients (SuperOffload: training.optimizer_in_backward with optimizer_sync = post-validation); such a step takes "
              "two more updates and the parameters' way back, and the mean of all steps is predicted"}
            .least(0)
            .most(1),
        Field{"sub_group_size", LongSlot{[](Scenario& s) { return &s.strategy.offload.sub_group_size; }},
              "elements of optimizer states that come from NVMe together, as near as whole tensors or shards of buckets come to it"}
            .least(1)
            .most(1e15),
        Field{"pipelined", BoolSlot{[](Scenario& s) { return &s.strategy.offload.pipelined; }},
              "a sub-group's states come from NVMe beside the update of the one before (DeepSpeed's pipeline_read and pipeline_write)"},
        Field{"sub_groups", IntSlot{[](Scenario& s) { return &s.strategy.offload.sub_groups; }},
              "sub-groups that have room in the host's memory at a time, with pipelined"}
            .least(2)
            .most(1000),
        Field{"buffers", IntSlot{[](Scenario& s) { return &s.strategy.offload.buffers; }},
              "units of parameters that have room in the host's memory at a time on their way from NVMe (DeepSpeed's buffer_count of "
              "offload_param)"}
            .least(1)
            .most(1000),
        Field{"delayed_update", BoolSlot{[](Scenario& s) { return &s.strategy.offload.delayed_update; }},
              "the host updates while the next step computes, which is then one update behind (ZeRO-Offload)"},
        Field{"activation_ops", CustomSlot{read_offload_ops},
              "saved activations that offload.activations moves: a list of layer_input and of the op kinds that make them; default: all"}
            .like(R"({"type":"array","items":{"type":"string"}})"),
        Field{"activation_layers", IntSlot{[](Scenario& s) { return &s.strategy.offload.activation_layers; }},
              "layers of each stage whose activations offload.activations moves, the first ones; -1: all"}
            .least(-1)
            .most(1'000'000),
    };
    return fields;
}

const Fields& strategy_fields() {
    static const Fields fields = {
        choice<&Scenario::strategy, &Strategy::framework>("framework", "whose defaults fill what is left out (simrun list frameworks)"),
        degree(
            "data_parallel", [](Scenario& s) { return &s.strategy.data_parallel; }, "replicas; derived where left out"),
        degree(
            "tensor_parallel", [](Scenario& s) { return &s.strategy.tensor_parallel; }, "ranks that share each matrix"),
        Field{"sequence_parallel", BoolSlot{[](Scenario& s) { return &s.strategy.sequence_parallel; }},
              "norms and dropout split along the sequence over the tensor-parallel ranks"},
        degree(
            "pipeline_parallel", [](Scenario& s) { return &s.strategy.pipeline_parallel; }, "stages the layers are cut into"),
        degree(
            "virtual_pipeline", [](Scenario& s) { return &s.strategy.virtual_pipeline; }, "chunks per pipeline rank"),
        Field{"schedule", TextSlot{[](Scenario& s) { return &s.strategy.schedule; }},
              "order of forward and backward passes (simrun list schedules); default: 1f1b, interleaved-1f1b with virtual stages, none "
              "without a pipeline"},
        choice<&Scenario::strategy, &Strategy::weight_versions>(
            "weight_versions",
            "with schedule pipedream-async, what a microbatch reads: stash: its stage's newest weights, kept for its backward "
            "pass; 2bw: all of a step those of one update before the last, of which two versions are enough"),
        Field{"flush_every", IntSlot{[](Scenario& s) { return &s.strategy.flush_every; }},
              "with schedule pipedream-async: steps between two drains of the pipeline; default: as many as make filling and draining a "
              "hundredth of the time"}
            .least(1)
            .most(1e6)
            .in("steps"),
        Field{"microbatch_group_size", IntSlot{[](Scenario& s) { return &s.strategy.microbatch_group_size; }},
              "with schedule interleaved-1f1b: microbatches that a chunk runs one after another before the stage turns to its next chunk "
              "(Megatron's microbatch-group-size-per-virtual-pipeline-stage): at least pipeline_parallel, at most the microbatches of a "
              "step; more leave transfers more time and keep more activations"}
            .least(1)
            .most(1e6)
            .in("microbatches"),
        Field{"layer_split", CustomSlot{read_layer_split},
              "layers per pipeline stage, or per chunk in model order; of the chunks some may have none, as in Megatron's "
              "pipeline-model-parallel-layout"}
            .like(R"({"type":"array","items":{"type":"integer","minimum":0}})"),
        Field{"mtp_chunk", IntSlot{[](Scenario& s) { return &s.strategy.mtp_chunk; }},
              "chunk, in model order from 0, that holds the multi-token-prediction layers (the m of Megatron's "
              "pipeline-model-parallel-layout): the last of its stage, behind all layers; their loss stays with the output layer"}
            .least(0)
            .most(max_degree),
        Field{"deferred_output_gradients", IntSlot{[](Scenario& s) { return &s.strategy.deferred_output_gradients; }},
              "the first microbatches of a step whose weight gradients of the output layer wait until the last stage is through with its "
              "backward passes, while the other stages still drain (Megatron-Core's defer_embedding_wgrad_compute with its "
              "wgrad_deferral_limit): what they are made of is kept until then; 0: none"}
            .least(0)
            .most(1e6)
            .in("microbatches"),
        degree(
            "context_parallel", [](Scenario& s) { return &s.strategy.context_parallel; }, "ranks that share each sequence"),
        choice<&Scenario::strategy, &Strategy::context_parallel_kind>("context_parallel_kind", "how attention meets keys of other ranks"),
        degree(
            "expert_parallel", [](Scenario& s) { return &s.strategy.expert_parallel; }, "ranks that share the experts"),
        degree(
            "expert_tensor_parallel", [](Scenario& s) { return &s.strategy.expert_tensor_parallel; },
            "ranks that share each expert's matrices; default: tensor_parallel"),
        Field{"zero_stage", IntSlot{[](Scenario& s) { return &s.strategy.zero_stage; }},
              "0: replicas; 1: optimizer states sharded; 2: and gradients; 3: and parameters"}
            .least(0)
            .most(3),
        Field{"shard_group_size", IntSlot{[](Scenario& s) { return &s.strategy.shard_group_size; }},
              "ranks that shard among themselves, replicated outside (HSDP); 0: all, or all of a worker (synchronization.workers)"}
            .least(0)
            .most(max_degree),
        Field{"recompute", CustomSlot{read_recompute},
              "activations made again in the backward pass: none, selective (attention), full (a layer at a time), a list of op kinds, or "
              "{\"segments\": n}: each chunk's layers in n segments, of which the inputs alone are kept (\"auto\": as few layers, in the "
              "number of segments, as fit the memory); {\"segment_layers\": n}: in segments of n layers, a chunk's last of what is left "
              "(Megatron's recompute-method uniform); {\"memory_budget\": x}: of the "
              "results "
              "of products and attention those are kept that save the most work in the part x of their bytes (torch.compile's "
              "activation_memory_budget)"}
            .like(
                R"({"oneOf":[{"enum":["none","selective","full"]},{"type":"array","items":{"type":"string"}},{"type":"object","properties":{"segments":{"anyOf":[{"type":"integer","minimum":1},{"enum":["auto"]}]}},"required":["segments"],"additionalProperties":false},{"type":"object","properties":{"segment_layers":{"type":"integer","minimum":1}},"required":["segment_layers"],"additionalProperties":false},{"type":"object","properties":{"memory_budget":{"type":"number","minimum":0,"maximum":1}},"required":["memory_budget"],"additionalProperties":false}]})"),
        Field{"recompute_layers", CustomSlot{read_recompute_layers},
              "how many layers are recomputed: a count per stage, a list with one a stage, {\"per_chunk\": n}: the first n of each chunk "
              "(Megatron's recompute-num-layers with recompute-method block, which counts in each virtual stage), or {\"every\": n}"}
            .like(
                R"({"oneOf":[{"type":"integer","minimum":0},{"type":"array","items":{"type":"integer","minimum":0}},{"type":"object","properties":{"per_chunk":{"type":"integer","minimum":1}},"required":["per_chunk"],"additionalProperties":false},{"type":"object","properties":{"every":{"type":"integer","minimum":1}},"required":["every"],"additionalProperties":false}]})"),
        Field{"flash_attention", BoolSlot{[](Scenario& s) { return &s.strategy.flash_attention; }},
              "attention that never stores the scores"},
        Field{"fused", BoolSlot{[](Scenario& s) { return &s.strategy.fused; }}, "element-wise kernels fused (torch.compile or by hand)"},
        Field{"bucket_bytes", CustomSlot{read_bucket_bytes}, "size of a gradient bucket: bytes, or a text such as \"25 MiB\""}
            .in("bytes")
            .like(R"({"oneOf":[{"type":"number","exclusiveMinimum":0},{"type":"string"}]})"),
        Field{"overlap", SectionSlot{overlap_fields, [](Scenario&) {}}, "what communication runs beside computation"},
        Field{"offload", SectionSlot{offload_fields, [](Scenario&) {}}, "what lives outside the device"},
        choice<&Scenario::strategy, &Strategy::quantized_weights>(
            "quantized_weights", "what weights are gathered in by ZeRO 3 (ZeRO++'s qwZ: int8, in blocks with a scale)"),
        Field{"secondary_shard_size", IntSlot{[](Scenario& s) { return &s.strategy.secondary_shard_size; }},
              "ranks that share a second copy of the weights, which the backward pass gathers (ZeRO++'s hpZ); 1: none"}
            .least(1)
            .most(max_degree),
        choice<&Scenario::strategy, &Strategy::gradient_sync>(
            "gradient_sync",
            "when gradients are reduced. boundary: the copies of a shard group (shard_group_size) add theirs once a step, at the "
            "boundary of accumulation (MiCS; HSDP that reduces between copies with the last microbatch alone: OLMo-core's, "
            "set_requires_all_reduce). no_sync: FSDP's ranks keep whole gradients, and reduce and shard them with the last "
            "microbatch "
            "(Transformers' Trainer and Accelerate)"),
        choice<&Scenario::strategy, &Strategy::quantized_gradients>(
            "quantized_gradients",
            "what gradients travel in to their shards: int4, in blocks, inside a node and then between nodes (ZeRO++'s qgZ)"),
        Field{"gradient_compression", SectionSlot{compression_fields, [](Scenario&) {}, "kind"},
              "what travels in place of data-parallel gradients: a kind, or its fields"},
        Field{"synchronization", SectionSlot{synchronization_fields, [](Scenario&) {}}, "when data-parallel replicas meet"},
        Field{
            "optimizer_sync", ChoiceSlot{[](Scenario& s, int i) { s.strategy.post_validation = i == 1; }},
            "global: the gradient norm is a barrier; post-validation: checked after the step, as in the zero-bubble paper and SuperOffload"}
            .one_of({"global", "post-validation"}),
        Field{"rank_order", CustomSlot{read_rank_order}, "axes of the rank grid, fastest-varying first: tp, cp, ep, dp, pp"}.like(
            R"({"type":"string"})"),
        choice<&Scenario::strategy, &Strategy::collective_algorithm>("collective_algorithm", "of collectives; auto: as NCCL chooses"),
    };
    return fields;
}

const Fields& runtime_fields() {
    static const Fields fields = {
        Field{"year", IntSlot{[](Scenario& s) { return &s.runtime.year; }}, "of the software; chooses the framework's defaults"}
            .least(2017)
            .most(2035),
        choice<&Scenario::runtime, &Runtime::attention_kernel>("attention_kernel", "what computes attention"),
        Field{"fused_softmax", BoolSlot{[](Scenario& s) { return &s.runtime.fused_softmax; }},
              "unfused attention: scale, mask and softmax in one kernel"},
        Field{"fused_activation", BoolSlot{[](Scenario& s) { return &s.runtime.fused_activation; }},
              "an MLP's gated activation or squared_relu is one kernel (Megatron's bias_activation_fusion); else its steps, of which gated "
              "ones keep their results; default: strategy.fused, but false for gates of Megatron until 2023 and of Megatron-DeepSpeed"},
        Field{"fused_rope", BoolSlot{[](Scenario& s) { return &s.runtime.fused_rope; }},
              "queries and keys are rotated in one kernel (Megatron's apply_rope_fusion); default: strategy.fused"},
        Field{"fused_loss", BoolSlot{[](Scenario& s) { return &s.runtime.fused_loss; }},
              "the loss in one kernel, logits not copied to fp32"},
        Field{"compiled_loss", BoolSlot{[](Scenario& s) { return &s.runtime.compiled_loss; }},
              "Megatron's fused loss is its own, compiled: steps over two fp32 copies of the logits (cross_entropy_fusion_impl native), "
              "not Transformer Engine's kernel"},
        Field{"loss_upcast", BoolSlot{[](Scenario& s) { return &s.runtime.loss_upcast; }},
              "PyTorch's own loss is of fp32 copies of 16-bit logits (logits.float()); false: of the logits themselves"},
        choice<&Scenario::runtime, &Runtime::loss>(
            "loss", "what of the logits exists at once; vocabulary-parallel: each tensor-parallel rank has a part of the vocabulary; "
                    "whole: every rank "
                    "has all logits of its tokens; chunked: only the logits of some tokens (Liger, torchtitan's chunked loss)"),
        Field{"loss_chunks", IntSlot{[](Scenario& s) { return &s.runtime.loss_chunks; }},
              "parts that a microbatch's tokens are cut into by a chunked loss; default: 8 (torchtitan), elsewhere as Liger chooses: parts "
              "in "
              "which the logits take about the memory of the hidden states"}
            .least(1)
            .most(256),
        Field{"fused_norm", BoolSlot{[](Scenario& s) { return &s.runtime.fused_norm; }}, "a norm is one kernel"},
        Field{"fused_optimizer", BoolSlot{[](Scenario& s) { return &s.runtime.fused_optimizer; }}, "one kernel updates many parameters"},
        Field{"fused_weight_gradient_accumulation", BoolSlot{[](Scenario& s) { return &s.runtime.fused_weight_gradient_accumulation; }},
              "weight gradients are added to the main gradient inside the GEMM"},
        Field{"launch_blocking", BoolSlot{[](Scenario& s) { return &s.runtime.launch_blocking; }},
              "the host waits for every kernel (CUDA_LAUNCH_BLOCKING)"},
        Field{"recompute_early_stop", BoolSlot{[](Scenario& s) { return &s.runtime.recompute_early_stop; }},
              "the last op of a checkpointed layer is not recomputed"},
        choice<&Scenario::runtime, &Runtime::fp8_recipe>("fp8_recipe", "how 8-bit and 4-bit scales are found"),
        choice<&Scenario::runtime, &Runtime::attention_dtype>(
            "attention_dtype",
            "what cuDNN's fused attention multiplies in where precision has 8 or 4 bits: fp8 (Megatron's fp8-dot-product-attention, "
            "Transformer Engine's fp8_dpa) casts queries, keys, values and their result's gradient ahead of it"),
        Field{"fp8_activation_input", BoolSlot{[](Scenario& s) { return &s.runtime.fp8_activation_input; }},
              "an MLP's activation keeps its input in 8 bits for the backward pass (Megatron's activation-func-fp8-input-store)"},
        Field{"fp8_all_gather", BoolSlot{[](Scenario& s) { return &s.runtime.fp8_all_gather; }},
              "weights of 8-bit linears that are sharded over ranks are cast before they are gathered (torchao's "
              "enable_fsdp_float8_all_gather)"},
        Field{
            "fp8_parameters", BoolSlot{[](Scenario& s) { return &s.runtime.fp8_parameters; }},
            "weights of 8-bit linears are parameters of 8 bits (Megatron's fp8-param-gather, Transformer Engine's fp8_model_init), and are "
            "gathered so with zero_stage 1 and 2 unless their recipe is mxfp8; false: parameters of 16 bits, beside which Megatron keeps "
            "copies in 8 or 4 bits"},
        Field{
            "tensor_parallel_maxima", BoolSlot{[](Scenario& s) { return &s.runtime.tensor_parallel_maxima; }},
            "maxima of fp8_recipe delayed are reduced over tensor- and context-parallel ranks alone (Megatron's tp-only-amax-red); false: "
            "over data-parallel ranks as well, behind every forward and backward pass"},
        Field{"fp8_dispatch", BoolSlot{[](Scenario& s) { return &s.runtime.fp8_dispatch; }},
              "tokens go to their experts in the linears' 8 bits, and so do the gradients of what they bring back (DeepSeek-V3)"},
        choice<&Scenario::runtime, &Runtime::token_dispatcher>("token_dispatcher", "how tokens reach experts"),
        Field{"token_dispatcher_sms", IntSlot{[](Scenario& s) { return &s.runtime.token_dispatcher_sms; }},
              "processors of the device that the kernels of deepep and hybridep take, and with them their pace (Megatron-Core's "
              "moe_deepep_num_sms and moe_hybridep_num_sms, DeepEP's Buffer.set_num_sms)"}
            .least(1)
            .most(1024),
        Field{
            "permute_fusion", BoolSlot{[](Scenario& s) { return &s.runtime.permute_fusion; }},
            "tokens are permuted in one kernel (under DeepSpeed Tutel's, in the place of products with one-hot masks where experts have a "
            "capacity)"},
        Field{"fused_experts", BoolSlot{[](Scenario& s) { return &s.runtime.fused_experts; }},
              "experts run in one kernel a linear, their activation and casts inside it, and the host need not know their loads"},
        Field{
            "expert_room", NumberSlot{[](Scenario& s) { return &s.runtime.expert_room; }},
            "simexec run and check: what the buffers of a rank's experts hold, as a multiple of the rows it gets in the mean, at most all "
            "rows of its expert-parallel ranks, where no capacity bounds them; a run ends where its router sends more. Predictions are of "
            "software that takes as much as comes"}
            .least(1)
            .most(1e6),
        Field{"tensor_parallel_buffers", BoolSlot{[](Scenario& s) { return &s.runtime.tensor_parallel_buffers; }},
              "where tensor parallelism overlaps, gathers travel in pieces under the linears that read them, in Transformer Engine's user "
              "buffers (Megatron's tp-comm-overlap); false: communication of the backward pass alone is hidden, under the products of "
              "gradients"},
        Field{"cuda_graphs", BoolSlot{[](Scenario& s) { return &s.runtime.cuda_graphs; }},
              "kernels are launched as captured graphs; of a mixture whose loads the host must know, all but the experts' (a recipe that "
              "captures less, by Megatron-Core's cuda_graph_scope, lies between true and false: parts cannot be named)"},
        Field{"launch_us", NumberSlot{[](Scenario& s) { return &s.runtime.launch_us; }}, "host time per kernel launch"}
            .least(0)
            .most(1e6)
            .in("us"),
        Field{"allocator", ChoiceSlot{[](Scenario& s, int i) {
                  s.runtime.plan_allocator = i == 1;
                  s.runtime.expandable_segments = i == 2;
              }},
              "caching: as PyTorch's; plan: buffers placed ahead of time; expandable: caching with expandable_segments:True, whose free "
              "blocks are never too small for what is asked"}
            .one_of({"caching", "plan", "expandable"}),
        Field{"reserved_gb", NumberSlot{[](Scenario& s) { return &s.runtime.reserved_gb; }},
              "memory the software takes beside tensors; default: an estimate"}
            .least(0)
            .most(1e6)
            .in("GB"),
        Field{"dataloader_us", NumberSlot{[](Scenario& s) { return &s.runtime.dataloader_us; }},
              "host time to load a microbatch, in each forward pass of the first and of the last stage, beside what the device computes"}
            .least(0)
            .most(1e9)
            .in("us"),
        Field{"batch_us", NumberSlot{[](Scenario& s) { return &s.runtime.batch_us; }},
              "every forward pass waits for the host, which asks the device for the sizes of the microbatch and hands it over; 0: it does "
              "not"}
            .least(0)
            .most(1e6)
            .in("us"),
    };
    return fields;
}

const Fields& scenario_fields() {
    static const Fields fields = {
        Field{"name", TextSlot{[](Scenario& s) { return &s.name; }}, "a name for reports"},
        Field{"description", CustomSlot{ignore}, "free text"}.like(R"({"type":"string"})"),
        Field{"$schema", CustomSlot{ignore}, "for editors"}.like(R"({"type":"string"})"),
        Field{"model", CustomSlot{read_model}, "a preset's name, {\"preset\": name, field: override}, {\"hf_config\": path} or the fields"}
            .needed(),
        Field{"cluster", CustomSlot{read_cluster},
              "a preset's name, {\"preset\": name, \"nodes\": n, field: override}, a path or the fields"}
            .needed(),
        Field{"training", SectionSlot{training_fields, [](Scenario&) {}}, "batch, sequence, precision, optimizer"}.needed(),
        Field{"strategy", SectionSlot{strategy_fields, [](Scenario&) {}}, "how the work is distributed"},
        Field{"runtime", SectionSlot{runtime_fields, [](Scenario&) {}}, "what software does the work"},
        Field{"run",
              SectionSlot{whole_run_fields,
                          [](Scenario& s) { // its defaults may have opened it
                              if (!s.run) s.run.emplace();
                          }},
              "months of steps: its length, failures, restarts and saves; without it one step is predicted"},
        Field{"federated", SectionSlot{federated_fields, [](Scenario& s) { s.federated.emplace(); }},
              "federated learning: clients that train copies of the model on data of their own; cluster, strategy and batch are one "
              "client's"},
        Field{"perturb", CustomSlot{read_perturbations}, "slow ranks, nodes and links, jitter, background traffic"},
    };
    return fields;
}

} // namespace orrery

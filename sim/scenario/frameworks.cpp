// The table. Defaults that depend on other fields (bucket sizes in elements, overlap of interleaved schedules) are in defaults.cpp.
// "assumed" marks what no documentation states.
#include "sim/scenario/frameworks.hpp"

#include "sim/scenario/scenario.hpp"

#include <algorithm>

namespace orrery {
namespace {

constexpr FrameworkInfo infos[] = {
    {"colossalai", "Colossal-AI", "HybridParallelPlugin: tensor, pipeline and ZeRO with bf16 reduction"},
    {"composer", "MosaicML Composer / LLM Foundry", "PyTorch FSDP, ZeRO-3, bf16 reduction as LLM Foundry's files have it, eager kernels"},
    {"ddp", "PyTorch DistributedDataParallel", "replicas, 25 MiB buckets reduced under the backward pass"},
    {"deepspeed", "DeepSpeed, Megatron-DeepSpeed", "ZeRO; with a pipeline nothing is overlapped"},
    {"fsdp", "PyTorch FullyShardedDataParallel", "ZeRO-3 by units with prefetch, flat parameters, eager kernels"},
    {"fsdp2", "PyTorch fully_shard", "ZeRO-3 by units with prefetch, a shard per parameter"},
    {"horovod", "Horovod", "replicas, ring all-reduce with tensor fusion"},
    {"internlm", "InternLM, InternEvo", "HybridZeroOptimizer: optimizer states by whole tensors, whose owners broadcast them"},
    {"jax", "JAX / XLA (GSPMD, MaxText)", "sharded by the compiler, everything fused, latency-hiding scheduler"},
    {"megatron", "Megatron-LM, Megatron-Core", "tensor, sequence, pipeline parallelism, distributed optimizer, fused kernels"},
    {"nanotron", "Hugging Face nanotron",
     "Megatron's parallelism in plain PyTorch: gathered inputs kept until 2024, stages by cost, eager kernels"},
    {"nemo", "NVIDIA NeMo, Megatron Bridge", "Megatron-Core with Transformer Engine's overlap and bf16 gradients switched on by recipes"},
    {"te", "Transformer Engine in a loop of one's own", "TransformerLayer: norms, activations and casts inside the modules of the linears"},
    {"torchtitan", "torchtitan", "fully_shard, torch.compile, selective activation checkpointing by op"},
};

static_assert(std::ranges::equal(
    infos, Spelling<Framework>::all, {}, [](const FrameworkInfo& f) { return std::string_view(f.name); },
    [](const char* word) { return std::string_view(word); }));

// Later rows win over earlier ones of the same framework; a framework's rows win over "*".
constexpr FrameworkDefault rows[] = {
    // Everyone.
    {"*", 0, "", "strategy.flash_attention", "false", "FlashAttention's paper is of May 2022; frameworks took it up in 2023"},
    {"*", 2023, "", "strategy.flash_attention", "true", "FlashAttention in Megatron-LM, DeepSpeed, PyTorch 2.0 and LLM Foundry from 2023"},
    {"*", 0, "volta", "strategy.flash_attention", "false", "FlashAttention has no Volta kernels"},
    {"*", 0, "", "runtime.attention_kernel", "\"flash-1\"",
     "FlashAttention of the first generation, and Triton's version of it, until 2023"},
    {"*", 2024, "", "runtime.attention_kernel", "\"flash-2\"",
     "PyTorch 2.2 (January 2024): scaled_dot_product_attention is FlashAttention 2"},
    {"*", 2026, "blackwell", "runtime.attention_kernel", "\"cudnn\"",
     "PyTorch of 2026 prefers cuDNN's kernels on Blackwell (check_prefer_cudnn_attention in sdp_utils.cpp; its pull request 162073 is of "
     "September 2025: until then FlashAttention 2, in its Ampere instructions)"},
    {"*", 0, "", "strategy.fused", "false", "eager PyTorch: a kernel an operation"},
    {"*", 0, "", "strategy.zero_stage", "0", "replicas unless asked otherwise"},
    {"*", 0, "", "strategy.overlap.grad_reduce", "true", "gradients reduced in buckets under the backward pass"},
    {"*", 0, "", "strategy.overlap.param_gather", "false",
     "ZeRO 1 and 2 end a step with gathers that block: DeepSpeed's all_gather_into_tensor_dp_groups (runtime/utils.py), Megatron-Core's "
     "start_param_sync without --overlap-param-gather, torch's ZeroRedundancyOptimizer"},
    {"*", 0, "", "strategy.overlap.backward_prefetch", "true",
     "FullyShardedDataParallel's default is BackwardPrefetch.BACKWARD_PRE (torch/distributed/fsdp/fully_sharded_data_parallel.py)"},
    {"*", 0, "", "strategy.overlap.tensor_parallel", "false", "tensor-parallel collectives on the critical path"},
    {"*", 0, "", "strategy.overlap.pipeline", "false", "sends and receives block"},
    {"*", 0, "", "strategy.overlap.expert_parallel", "false", "all-to-all on the critical path"},
    {"*", 0, "", "strategy.overlap.shared_experts", "false",
     "shared experts ahead of the routed ones; Megatron's --moe-shared-expert-overlap is off by default, and recipes of 2025 leave it off"},
    {"*", 0, "", "strategy.overlap.offload", "true", "copies on streams of their own"},
    {"*", 0, "", "training.master_weights", "true", "mixed precision keeps an fp32 copy (Micikevicius et al., ICLR 2018)"},
    {"*", 0, "", "training.moment_dtype", "\"fp32\"",
     "moments are fp32 beside fp32 parameters or a copy of them (Megatron-Core, torch.optim)"},
    {"*", 0, "", "runtime.fused_softmax", "false", "eager PyTorch: scale, mask and softmax apart"},
    {"*", 0, "", "runtime.fused_norm", "true", "torch's own layer_norm is one kernel"},
    {"*", 0, "", "runtime.fused_loss", "false", "cross-entropy on an fp32 copy of the logits"},
    {"*", 0, "", "runtime.loss", "\"vocabulary-parallel\"", "Megatron's vocabulary-parallel loss, and those after it"},
    {"*", 0, "", "runtime.compiled_loss", "false", "of Megatron's fused loss alone"},
    {"*", 0, "", "runtime.loss_upcast", "false", "Transformers' GPT-2 and its like take the loss of 16-bit logits"},
    {"*", 2023, "", "runtime.loss_upcast", "true", "logits.float() ahead of the loss, as Llama's model and trainers have it"},
    {"*", 0, "", "runtime.fused_optimizer", "false", "foreach optimizers: several kernels a group of parameters"},
    {"*", 0, "", "runtime.fused_weight_gradient_accumulation", "false", "autograd adds the gradient in a kernel of its own"},
    {"*", 0, "", "runtime.recompute_early_stop", "false", "reentrant checkpointing runs the whole layer again"},
    {"*", 0, "", "runtime.fp8_recipe", "\"delayed\"", "Transformer Engine's first recipe"},
    {"*", 2025, "", "runtime.fp8_recipe", "\"current\"", "per-tensor current scaling, Transformer Engine 2.x"},
    {"*", 0, "", "runtime.attention_dtype", "\"16-bit\"",
     "off by default: fp8_dot_product_attention (megatron/core/transformer/transformer_config.py), Transformer Engine's fp8_dpa "
     "(common/recipe)"},
    {"*", 0, "", "runtime.token_dispatcher", "\"alltoall\"", "all-to-all of the permuted tokens"},
    {"*", 0, "", "runtime.permute_fusion", "false", "index_select and scatter_add"},
    {"*", 0, "", "runtime.cuda_graphs", "false", "kernels are launched one by one"},
    {"*", 0, "", "runtime.tensor_parallel_buffers", "false",
     "Megatron's --tp-comm-overlap is off by default (megatron/training/arguments.py)"},
    {"*", 0, "", "runtime.fp8_parameters", "false",
     "Megatron's --fp8-param-gather is off by default (megatron/training/arguments.py), and weights are built in 16 bits outside "
     "Transformer Engine's fp8_model_init"},
    {"*", 0, "", "runtime.tensor_parallel_maxima", "false",
     "tp_only_amax_red is off by default (megatron/core/transformer/transformer_config.py); NVIDIA's scripts of 2025 set it for GPT-3 "
     "175B"},
    {"*", 0, "", "runtime.launch_us", "6.0",
     "assumed: eager PyTorch issues a kernel in 5 to 7 us (Python, dispatcher, autograd, cudaLaunchKernel)"},
    {"*", 0, "", "runtime.allocator", "\"caching\"", "PyTorch's caching allocator"},

    // Megatron-LM and Megatron-Core.
    {"megatron", 0, "", "strategy.fused", "false", "Megatron-LM of 2019: dropout, bias and residual are kernels of their own"},
    {"megatron", 2020, "", "strategy.fused", "true",
     "Megatron-LM fuses bias-GELU and bias-dropout-add (Narayanan et al., SC'21, section 4.2)"},
    {"megatron", 0, "", "runtime.batch_us", "1000.0",
     "fitted: get_batch of every stage broadcasts a microbatch's sizes and reads them back on the host, so each forward pass begins when "
     "the "
     "host, in step with the device, has unpacked tokens, mask and positions: what profiled forward passes of two sizes have in common"},
    {"megatron", 2024, "", "runtime.batch_us", "0.0",
     "get_batch_on_this_tp_rank: nothing is read back, and stages between the first and the last fetch nothing"},
    {"megatron", 2020, "", "runtime.fused_softmax", "true", "Megatron-LM's fused scale-mask-softmax (SC'21, section 4.2)"},
    {"megatron", 0, "", "runtime.fused_norm", "true", "Apex's or Transformer Engine's layernorm"},
    {"megatron", 0, "", "runtime.fused_optimizer", "true", "Apex's FusedAdam"},
    {"megatron", 0, "", "strategy.overlap.grad_reduce", "false",
     "Megatron-LM's local DDP reduces after the last backward pass; --overlap-grad-reduce is of 2023 and off by default"},
    {"megatron", 2024, "", "strategy.overlap.grad_reduce", "true", "NVIDIA's recipes of 2024 set --overlap-grad-reduce"},
    {"megatron", 2024, "", "strategy.overlap.param_gather", "true", "NVIDIA's recipes of 2024 set --overlap-param-gather"},
    {"megatron", 2022, "", "strategy.overlap.tensor_parallel", "true",
     "Megatron-LM, March 2022: asynchronous all-reduce of the input gradient under the weight gradient"},
    {"megatron", 2022, "", "runtime.fused_weight_gradient_accumulation", "true",
     "Megatron-LM, 2022: gradient accumulation fused into the GEMM (Apex), on by default"},
    {"megatron", 2024, "", "strategy.zero_stage", "1", "--use-distributed-optimizer, set by NVIDIA's recipes"},
    {"megatron", 2024, "hopper", "runtime.attention_kernel", "\"cudnn\"", "Transformer Engine prefers cuDNN's fused attention on Hopper"},
    {"megatron", 2025, "blackwell", "runtime.attention_kernel", "\"cudnn\"",
     "Transformer Engine prefers cuDNN's fused attention on Blackwell"},
    {"megatron", 2025, "", "runtime.tensor_parallel_buffers", "true",
     "assumed: NVIDIA's recipes of 2025 for large dense models set --tp-comm-overlap, which Megatron-LM leaves off"},
    {"megatron", 2025, "", "runtime.fused_loss", "true", "Megatron-Core's --cross-entropy-loss-fusion, set by recipes of 2025"},
    {"megatron", 2025, "", "runtime.permute_fusion", "true", "Megatron-Core 0.11: --moe-permute-fusion, set by recipes of 2025"},
    {"megatron", 2025, "", "strategy.overlap.expert_parallel", "false", "--overlap-moe-expert-parallel-comm is off by default"},

    // NeMo and Megatron Bridge: Megatron-Core with recipes.
    {"nemo", 0, "", "strategy.fused", "true", "Megatron's and Transformer Engine's kernels"},
    {"nemo", 0, "", "runtime.fused_softmax", "true", "Megatron's kernels"},
    {"nemo", 0, "", "runtime.fused_optimizer", "true", "Apex's or Transformer Engine's FusedAdam"},
    {"nemo", 0, "", "runtime.fused_weight_gradient_accumulation", "true", "gradient_accumulation_fusion of the recipes"},
    {"nemo", 0, "", "strategy.zero_stage", "1", "distributed_fused_adam, the recipes' optimizer"},
    {"nemo", 0, "", "strategy.overlap.param_gather", "true", "overlap_param_gather of the recipes"},
    {"nemo", 0, "", "strategy.overlap.tensor_parallel", "true", "ub_tp_comm_overlap: Transformer Engine's user buffers"},
    {"nemo", 0, "", "runtime.tensor_parallel_buffers", "true", "ub_tp_comm_overlap, tp_comm_overlap of the recipes"},
    {"nemo", 2024, "hopper", "runtime.attention_kernel", "\"cudnn\"", "Transformer Engine prefers cuDNN's fused attention on Hopper"},
    {"nemo", 2025, "blackwell", "runtime.attention_kernel", "\"cudnn\"", "Transformer Engine prefers cuDNN's fused attention on Blackwell"},
    {"nemo", 2024, "", "runtime.fused_loss", "true", "cross_entropy_loss_fusion = True in NeMo 2.0's models (collections/llm/gpt/model)"},
    {"nemo", 2024, "", "runtime.compiled_loss", "true", "Megatron-Core's own fused loss: there was no other (fused_cross_entropy.py)"},
    {"nemo", 2025, "", "runtime.compiled_loss", "false", "cross_entropy_fusion_impl = te in the performance recipes"},
    {"nemo", 2025, "", "runtime.permute_fusion", "true", "moe_permute_fusion of the recipes"},
    {"nemo", 0, "", "training.gradient_dtype", "\"bf16\"", "grad_reduce_in_fp32 = false in the performance recipes"},

    // Transformer Engine's layers alone.
    {"te", 0, "", "strategy.fused", "true", "TransformerLayer: LayerNormLinear, LayerNormMLP and a compiled bias-dropout-add"},
    {"te", 0, "", "training.gradient_dtype", "\"bf16\"", "gradients have the dtype of the parameters"},
    {"te", 0, "", "strategy.bucket_bytes", "26214400", "25 MiB as DDP"},
    {"te", 0, "hopper", "runtime.attention_kernel", "\"cudnn\"", "Transformer Engine prefers cuDNN's fused attention on Hopper"},
    {"te", 0, "blackwell", "runtime.attention_kernel", "\"cudnn\"", "Transformer Engine prefers cuDNN's fused attention on Blackwell"},

    // PyTorch DDP and FSDP.
    {"ddp", 0, "", "runtime.loss", "\"whole\"",
     "Transformers' tensor-parallel plans and torch's tutorial gather the output layer's logits (colwise_rep, Replicate)"},
    {"ddp", 0, "", "training.gradient_dtype", "\"fp32\"", "autocast keeps fp32 parameters, so fp32 gradients are reduced"},
    {"ddp", 0, "", "strategy.bucket_bytes", "26214400", "bucket_cap_mb = 25, PyTorch's documentation of DistributedDataParallel"},
    {"ddp", 2026, "hopper", "runtime.attention_kernel", "\"cudnn\"",
     "PyTorch of 2026 prefers cuDNN's kernels on Hopper, with cuDNN 9.15 (check_prefer_cudnn_attention in sdp_utils.cpp; 2.9 does not)"},
    {"fsdp", 0, "", "strategy.context_parallel_kind", "\"allgather\"",
     "PyTorch's context_parallel: the default rotation is the all-gather of keys and values"},
    {"fsdp", 0, "", "runtime.loss", "\"whole\"",
     "Transformers' tensor-parallel plans and torch's tutorial gather the output layer's logits (colwise_rep, Replicate)"},
    {"fsdp", 0, "", "strategy.zero_stage", "3", "ShardingStrategy.FULL_SHARD, PyTorch's documentation"},
    {"fsdp", 0, "", "strategy.overlap.param_gather", "true", "backward prefetch BACKWARD_PRE, PyTorch's documentation"},
    {"fsdp", 0, "", "training.gradient_dtype", "\"bf16\"", "MixedPrecision: reduce_dtype is param_dtype where it is not set"},
    {"fsdp", 0, "", "strategy.bucket_bytes", "26214400", "without sharding FSDP reduces a unit at a time; 25 MiB as DDP"},
    {"fsdp", 2024, "", "runtime.recompute_early_stop", "true", "non-reentrant torch.utils.checkpoint stops when nothing more is needed"},
    {"fsdp", 2026, "hopper", "runtime.attention_kernel", "\"cudnn\"",
     "PyTorch of 2026 prefers cuDNN's kernels on Hopper, with cuDNN 9.15 (check_prefer_cudnn_attention in sdp_utils.cpp; 2.9 does not)"},
    {"fsdp2", 0, "", "strategy.context_parallel_kind", "\"allgather\"",
     "PyTorch's context_parallel: the default rotation is the all-gather of keys and values"},
    {"fsdp2", 0, "", "strategy.zero_stage", "3", "fully_shard with reshard_after_forward"},
    {"fsdp2", 0, "", "runtime.loss", "\"whole\"",
     "Transformers' tensor-parallel plans and torch's tutorial gather the output layer's logits (colwise_rep, Replicate)"},
    {"fsdp2", 2026, "hopper", "runtime.attention_kernel", "\"cudnn\"",
     "PyTorch of 2026 prefers cuDNN's kernels on Hopper, with cuDNN 9.15 (check_prefer_cudnn_attention in sdp_utils.cpp; 2.9 does not)"},
    {"fsdp2", 0, "", "strategy.overlap.param_gather", "true", "fully_shard prefetches the next unit implicitly"},
    {"fsdp2", 0, "", "training.gradient_dtype", "\"fp32\"", "MixedPrecisionPolicy as torchtitan sets it: reduce_dtype = float32"},
    {"fsdp2", 0, "", "strategy.bucket_bytes", "26214400", "without sharding a unit at a time; 25 MiB as DDP"},
    {"fsdp2", 2024, "", "runtime.recompute_early_stop", "true", "non-reentrant torch.utils.checkpoint stops when nothing more is needed"},
    {"fsdp2", 2025, "", "runtime.fused_optimizer", "true", "torchtitan 2025: fused AdamW by default"},
    {"torchtitan", 0, "", "strategy.context_parallel_kind", "\"allgather\"",
     "PyTorch's context_parallel: the default rotation is the all-gather of keys and values"},
    {"torchtitan", 0, "", "strategy.fused", "true",
     "assumed: torchtitan compiles each transformer block where it is told to (compile.enable), as its published runs do; its own default "
     "is eager"},
    {"torchtitan", 0, "", "strategy.sequence_parallel", "true", "its plans have SequenceParallel for every norm (apply_tp)"},
    {"torchtitan", 0, "", "strategy.zero_stage", "3", "data_parallel_shard_degree = -1: fully_shard over all"},
    {"torchtitan", 2025, "blackwell", "runtime.attention_kernel", "\"cudnn\"",
     "cuDNN's kernels first on B200 since May 2025 (torchtitan's pull request 1196)"},
    {"torchtitan", 2026, "", "runtime.attention_kernel", "\"flex\"",
     "FlexAttention in all language models since June 2026 (torchtitan's pull request 3571); before, "
     "scaled_dot_product_attention with cuDNN's kernels first"},
    {"torchtitan", 2026, "", "runtime.loss", "\"chunked\"",
     "ChunkedCELoss of April 2026 (torchtitan's pull request 2937), in its configurations"},
    {"torchtitan", 0, "", "strategy.recompute", "\"selective\"", "activation_checkpoint.mode = selective, by op (torchtitan's job_config)"},
    {"torchtitan", 0, "", "strategy.overlap.param_gather", "true", "fully_shard prefetches the next unit implicitly"},
    {"torchtitan", 0, "", "training.gradient_dtype", "\"fp32\"", "mixed_precision_reduce = float32"},
    {"torchtitan", 0, "", "strategy.bucket_bytes", "26214400", "without sharding a unit at a time; 25 MiB as DDP"},
    {"torchtitan", 0, "", "runtime.recompute_early_stop", "true", "non-reentrant torch.utils.checkpoint stops when nothing more is needed"},
    {"torchtitan", 2025, "", "runtime.fused_optimizer", "true", "optimizer.implementation = fused"},
    {"torchtitan", 2025, "", "runtime.fused_loss", "true",
     "the loss is compiled in 2025 (it was for two months of 2024, and off again from December: torchtitan's pull requests 642 and 755)"},
    {"torchtitan", 2025, "", "runtime.allocator", "\"expandable\"", "run_train.sh sets expandable_segments:True"},
    {"torchtitan", 2026, "", "runtime.allocator", "\"caching\"",
     "run_train.sh sets PYTORCH_ALLOC_CONF, which PyTorch 2.9 and 2.10 do not read"},
    {"composer", 0, "", "strategy.zero_stage", "3", "fsdp_config: sharding_strategy FULL_SHARD in LLM Foundry's examples"},
    {"composer", 0, "", "runtime.loss", "\"whole\"", "one loss function over the model's logits"},
    {"composer", 0, "", "strategy.overlap.param_gather", "true", "FSDP's backward prefetch"},
    {"composer", 0, "", "training.gradient_dtype", "\"bf16\"",
     "mixed_precision: PURE in LLM Foundry's pretraining files (scripts/train/yamls/pretrain): reduce_dtype is that of the parameters; "
     "Composer's own DEFAULT reduces in fp32"},
    {"composer", 0, "", "strategy.bucket_bytes", "26214400", "without sharding a unit at a time; 25 MiB as DDP"},
    {"composer", 0, "", "runtime.fused_loss", "true", "LLM Foundry's loss_fn fused_crossentropy"},
    {"composer", 2022, "", "strategy.flash_attention", "true", "LLM Foundry's attn_impl: triton, 2022"},

    // DeepSpeed.
    {"deepspeed", 2020, "", "strategy.fused", "true", "Megatron-DeepSpeed keeps Megatron's fused kernels"},
    {"deepspeed", 0, "", "strategy.context_parallel_kind", "\"ulysses\"", "DeepSpeed's sequence parallelism is Ulysses"},
    {"deepspeed", 0, "", "runtime.batch_us", "1000.0",
     "Megatron's get_batch, on the first and the last stage alone: what the pipeline engine loads"},
    {"deepspeed", 2020, "", "runtime.fused_softmax", "true", "Megatron-DeepSpeed keeps Megatron's fused softmax"},
    {"deepspeed", 0, "", "runtime.fused_optimizer", "true", "DeepSpeed's FusedAdam"},
    {"deepspeed", 0, "", "strategy.zero_stage", "1", "assumed: Megatron-DeepSpeed's scripts train with ZeRO-1"},
    {"deepspeed", 2025, "", "runtime.loss", "\"whole\"", "AutoTP: the output layer's logits are whole on every rank"},
    {"deepspeed", 0, "", "strategy.overlap.grad_reduce", "false",
     "DeepSpeed's overlap_comm is off by default (DeepSpeed's configuration page), and off in its pipeline engine"},
    {"deepspeed", 0, "", "strategy.overlap.tensor_parallel", "false", "Megatron-DeepSpeed switches the asynchronous all-reduce off"},
    {"deepspeed", 2024, "hopper", "runtime.attention_kernel", "\"flash-2\"", "--use-flash-attn-v2"},

    // Horovod, Colossal-AI, JAX.
    {"horovod", 0, "", "strategy.bucket_bytes", "67108864", "HOROVOD_FUSION_THRESHOLD = 64 MiB"},
    {"horovod", 2021, "", "strategy.bucket_bytes", "134217728", "HOROVOD_FUSION_THRESHOLD = 128 MiB since 0.22"},
    {"horovod", 0, "", "training.gradient_dtype", "\"fp32\"", "fp32 parameters and gradients unless compression is asked for"},
    {"colossalai", 0, "", "strategy.fused", "false", "HybridParallelPlugin: enable_all_optimization is off by default"},
    {"colossalai", 0, "", "strategy.zero_stage", "0", "HybridParallelPlugin(zero_stage = 0)"},
    {"colossalai", 0, "", "training.gradient_dtype", "\"bf16\"", "LowLevelZeroOptimizer reduces in the parameters' 16 bits"},
    {"colossalai", 0, "", "runtime.fused_optimizer", "true", "HybridAdam / FusedAdam"},
    {"internlm", 0, "", "strategy.fused", "false", "residual adds and activations are kernels of their own"},
    {"internlm", 0, "", "strategy.zero_stage", "1", "HybridZeroOptimizer"},
    {"internlm", 0, "", "strategy.overlap.param_gather", "true", "overlap_sync_param: broadcast under the next forward pass"},
    {"internlm", 0, "", "training.gradient_dtype", "\"bf16\"", "HybridZeroOptimizer reduces in the parameters' 16 bits"},
    {"internlm", 0, "", "runtime.fused_loss", "true", "FlashAttention's cross-entropy"},
    {"nanotron", 0, "", "strategy.fused", "false", "residual adds and activations are kernels of their own"},
    {"nanotron", 0, "", "strategy.zero_stage", "0",
     "zero_stage: 0 in nanotron's examples (config_tiny_llama.yaml, config_llama3.2-3B.yaml); its code has no default"},
    {"nanotron", 0, "", "training.gradient_dtype", "\"fp32\"", "accumulate_grad_in_fp32: true in nanotron's examples"},
    {"nanotron", 0, "", "strategy.bucket_bytes", "26214400", "ddp_bucket_cap_mb: 25, nanotron's default"},
    {"nanotron", 0, "", "runtime.fused_norm", "true", "TritonRMSNorm, FlashAttention's kernel"},
    {"nanotron", 0, "", "runtime.fused_optimizer", "true", "torch_adam_is_fused: true in nanotron's examples"},
    {"jax", 0, "", "strategy.context_parallel_kind", "\"allgather\"", "MaxText: context_parallel_strategy is all_gather by default"},
    {"jax", 0, "", "strategy.zero_stage", "3", "MaxText's base.yml: ici_fsdp_parallelism: -1, weights and states sharded over all"},
    {"jax", 0, "", "strategy.recompute", "\"full\"", "MaxText's base.yml: remat_policy: 'full'"},
    {"jax", 0, "", "strategy.fused", "true", "XLA fuses element-wise operations"},
    {"jax", 0, "", "runtime.fused_softmax", "true", "XLA fuses softmax"},
    {"jax", 0, "", "runtime.fused_loss", "true", "XLA fuses the loss"},
    {"jax", 0, "", "runtime.fused_optimizer", "true", "XLA fuses the update"},
    {"jax", 0, "", "runtime.fused_weight_gradient_accumulation", "true", "XLA adds in the GEMM's epilogue"},
    {"jax", 0, "", "runtime.recompute_early_stop", "true", "XLA drops what no gradient needs: the last product of a rematerialised layer"},
    {"jax", 0, "", "strategy.overlap.param_gather", "true", "XLA's latency-hiding scheduler"},
    {"jax", 0, "ampere", "strategy.overlap.grad_reduce", "false",
     "XLA on GPUs: gradients' reductions are left on the critical path (openxla/xla issues 1539, 2023, and 14397, 2024)"},
    {"jax", 0, "hopper", "strategy.overlap.grad_reduce", "false",
     "XLA on GPUs: gradients' reductions are left on the critical path (openxla/xla issues 1539, 2023, and 14397, 2024)"},
    {"jax", 0, "cdna3", "strategy.overlap.grad_reduce", "false", "assumed: as on MI355X"},
    {"jax", 0, "cdna4", "strategy.overlap.grad_reduce", "false",
     "as on NVIDIA's before 2025: AMD's runs of MaxText on eight nodes of 2026 do not hide them (AMD-AGI/maxtext-slurm)"},
    {"jax", 2025, "ampere", "strategy.overlap.grad_reduce", "true", "assumed: pipelined collectives and latencies by profile"},
    {"jax", 2025, "hopper", "strategy.overlap.grad_reduce", "true", "assumed: pipelined collectives and latencies by profile"},
    {"jax", 0, "", "strategy.overlap.tensor_parallel", "true", "XLA's collective matmul (Wang et al., ASPLOS 2023)"},
    {"jax", 0, "", "training.gradient_dtype", "\"bf16\"", "gradients have the dtype of the computation (MaxText)"},
    {"jax", 0, "", "strategy.bucket_bytes", "31457280",
     "XLA's combiners join collectives up to 30 MiB; a fully sharded layer's larger weights go one by one"},
    {"jax", 0, "", "runtime.launch_us", "2.0", "assumed: XLA launches compiled executables without Python in the loop"},
    {"jax", 0, "", "runtime.allocator", "\"plan\"", "XLA assigns buffers at compile time"},
    {"jax", 2024, "hopper", "runtime.attention_kernel", "\"cudnn\"", "jax.nn.dot_product_attention with cuDNN"},
    {"jax", 2025, "blackwell", "runtime.attention_kernel", "\"cudnn\"", "jax.nn.dot_product_attention with cuDNN"},
};

} // namespace

std::span<const FrameworkInfo> frameworks() { return infos; }

std::span<const FrameworkDefault> framework_defaults() { return rows; }

std::vector<FrameworkDefault> defaults_of(Framework framework, int year, std::string_view architecture) {
    std::vector<FrameworkDefault> chosen;
    for (const std::string_view owner : {std::string_view("*"), std::string_view(name(framework))}) {
        for (const FrameworkDefault& row : rows) {
            if (owner != row.framework || row.year > year || (*row.architecture != 0 && architecture != row.architecture)) continue;
            const auto same = std::find_if(chosen.begin(), chosen.end(),
                                           [&](const FrameworkDefault& d) { return std::string_view(d.field) == row.field; });
            if (same == chosen.end())
                chosen.push_back(row);
            else
                *same = row;
        }
    }
    return chosen;
}

bool runs_on_tpus(Framework f) { return f == Framework::jax || f == Framework::fsdp || f == Framework::fsdp2 || f == Framework::ddp; }

bool megatron_core(Framework f) { return f == Framework::megatron || f == Framework::nemo; }

} // namespace orrery

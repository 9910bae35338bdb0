// The behaviour of a scenario's software where no field says otherwise, as traits: the one place that turns a framework's name
// and a year into behaviour. The model, the passes, the cost model and the memory model read these traits and see neither name nor year.
//
// A trait's comment says what it means and by which source it holds; practice.cpp says for whom.
#pragma once

#include "sim/scenario/scenario.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace orrery {

// How parameters, gradients and optimizer states lie on data-parallel ranks; strategy.zero_stage says which of them are sharded.
enum class Sharding : std::uint8_t {
    // Parts of gradient buckets, in place; reductions and gathers have a communicator each (Megatron-Core's distributed optimizer,
    // DeepSpeed's ZeRO optimizers, Colossal-AI, InternLM).
    buckets,
    // A unit's parameters are one flat parameter (PyTorch's FullyShardedDataParallel, arXiv:2304.11277): gathers write where the weights
    // are views, gradients are copied into a flat buffer of the dtype they are reduced in, one communicator serves both. It has two gathers
    // in flight at most (limit_all_gathers).
    flat_units,
    // A shard of each parameter (PyTorch's fully_shard): as flat units, but a gather is copied out into the parameters. Under a pipeline a
    // stage gathers once a step and reduces once: torchtitan turns reshard_after_forward off there ("to avoid per-microbatch all-gathers",
    // parallelize_llama.py), and torch's pipelining holds back resharding and reduction until a stage's last backward pass
    // (_PipelineStageBase.backward_maybe_with_nosync).
    per_parameter,
    // The compiler places collectives (XLA): its scheduler gathers a large weight where it is used, not where its unit begins.
    compiler,
};
constexpr bool fully_sharded(Sharding s) { return s == Sharding::flat_units || s == Sharding::per_parameter; }

// Stacks of software that run the same kernels and communicate in the same pattern: whose prediction errors are alike.
enum class Stack : std::uint8_t {
    modules, // Megatron-Core's and Transformer Engine's modules
    zero,    // DeepSpeed's engine around Megatron's layers
    eager,   // PyTorch's own kernels, units gathered or buckets reduced under them
    other,
};
template <> struct Spelling<Stack> { // as scenarios/calibration/validated has them
    static constexpr const char* all[] = {"modules", "zero", "eager", "other"};
};

// Releases of libraries whose kernels of attention or products have tables of their own in scenarios/calibration: "cudnn@cudnn-9.19" takes
// the place of "cudnn". A later one wins.
enum class KernelRelease : std::uint8_t {
    long_blocks, // the blocks of keys that MaxText's recipes of 2025 set on TPUs (sa_block_*)
    aiter,       // AMD's AITER of 2025: assembly kernels in the place of Composable Kernel's
    cudnn_9_19,  // cuDNN of 2026
    rocm_7,      // AMD's hipBLASLt of 2026
    // scaled_dot_product_attention on AMD's devices calls AOTriton's kernels in Triton, and since PyTorch 2.9 (October 2025, its
    // pull request 161754) AITER's in the backward pass.
    aotriton,
    aotriton_0_11,
};
template <> struct Spelling<KernelRelease> {
    static constexpr const char* all[] = {"long-blocks", "aiter", "cudnn-9.19", "rocm-7", "aotriton", "aotriton-0.11"};
};

// How rows come to a mixture's experts and back. kernels: the framework's own, or its dispatcher's, permute them. Else PyTorch's operators
// do, around torch._grouped_mm: rows are gathered by an index. padded (torchtitan's moe.py of 2025): they are gathered again into rows that
// are padded for the kernel, and out of them (rows that arrived from several ranks by the index that sorts them: _permute and _unpermute of
// distributed/expert_parallel.py); each token's rows are summed with their weights by a product in fp32, whose operand is kept.
// torch.compile takes the router, what the products' function holds and attention, and leaves these operators eager (apply_compile of
// models/llama4/infra/parallelize.py).
// added (torchtitan since April 2026: its pull requests 2774, 2775): rows of 16 bits are not padded; they are weighted in fp32 and added to
// their tokens by an index put that sorts (ops/scatter_add.py), whose adjoint gathers. gathered (grouped_mm_experts_forward of Transformers
// 5): weighted as they are, gathered into the order of their tokens and summed there.
enum class ExpertRows : std::uint8_t { kernels, padded, added, gathered };

struct Practice {
    Sharding sharding = Sharding::buckets;
    Stack stack = Stack::other;
    // PyTorch's FullyShardedDataParallel or fully_shard: the one answer to whether it is FSDP. Weights are gathered layer by layer at ZeRO
    // stage 2 as well.
    bool fully_sharded() const { return orrery::fully_sharded(sharding); }

    // Dtypes.

    // PyTorch's autocast chooses the dtypes: parameters are fp32, linears and attention compute in 16 bits, and embedding, norms and
    // residual adds give fp32 (autocast's operator lists; DistributedDataParallel, whose gradients are those of fp32 parameters). QLoRA
    // under it: what the base does not keep in 4 bits is fp32 (prepare_model_for_kbit_training of PEFT casts all 16-bit parameters), the
    // rows of the embedding with it, and 4-bit linears give what they were given (Linear4bit.forward of bitsandbytes).
    bool autocast = false;
    // A norm reads a copy in fp32 of a residual stream in 16 bits (InternLM: norm(residual.float())).
    bool wide_norms = false;
    // The loss is PyTorch's own on 16-bit logits: its log-softmax, nll_loss's gradient and that of the logits have 16 bits too.
    bool narrow_loss = false;

    // Layers.

    // Layers after Megatron's: gate and up are the columns of one linear, the loss makes its softmax in the place of its fp32 copy of the
    // logits, and the gradient in the softmax.
    bool megatrons_layers = false;
    // The bias of the queries, keys and values is added in a kernel of its own: Megatron's own layers, in Megatron-LM and
    // Megatron-DeepSpeed until Transformer Engine's took their place (2024).
    bool bias_apart = false;
    // Attention copies keys and values for every head and keeps the copies for the backward pass, where each head has its own as well:
    // Megatron-LM of 2023, which took up grouped queries that summer (repeat_interleave in ParallelAttention.forward of its
    // megatron/model/transformer.py, ahead of its own attention and of FlashAttention's).
    bool repeats_heads = false;
    // Gated activations are PyTorch's operators whatever else is fused: torch.chunk, then silu of one half times the other, so that the
    // silu is kept beside the halves (swiglu in ParallelMLP of Megatron-LM and Megatron-DeepSpeed, glu in Megatron-Core's mlp.py, until
    // core/fusions/fused_bias_swiglu.py came with Megatron-Core 0.5 of January 2024; Megatron-DeepSpeed has no such kernel).
    bool plain_gates = false;
    // There are more tensor-parallel ranks than key heads, several to a head: each has its part of the columns of the linear that makes
    // queries, keys and values, whatever heads these are of. Its results are gathered along the columns, and a rank takes its queries and
    // the key head of these; gradients, which each rank has of its own columns, are summed and scattered (Megatron-Core of 2025,
    // core/transformer/attention.py: num_query_groups < world_size, with all_gather_last_dim_from_tensor_parallel_region; before, and in
    // other software, the ranks must divide the key heads).
    bool gathers_heads = false;
    // Fused attention reads keys and values that were repeated for every head, and keeps them so (torchtitan's repeat_kv, until its pull
    // request 2259 of January 2026). Where a layer is made again its copies are too, and live as long as the attention's adjoint runs.
    bool repeats_heads_for_fused = false;
    // The fused rotations know a factor of the cosines and sines (YaRN). Transformer Engine's, which Megatron-Core calls, do not: with a
    // factor it rotates in PyTorch's own operators.
    bool fused_rope_scales = true;
    // The rotation of a slice of each head of latent attention is one kernel with the join of the slices where elementwise kernels are
    // fused. Megatron-Core joins them in PyTorch's own operators; its fused kernels (2025, for YaRN alone) are what recipes set from 2026.
    bool fused_latent_rope = true;
    // The clamp of a gated activation of experts is a sequence of kernels ahead of the fused activation (Megatron-Core's
    // weighted_bias_quick_geglu_impl clamps both halves and joins them again), unless experts' linears and activation are one kernel.
    // Elsewhere the clamp stands apart only in eager code.
    bool clamps_ahead = false;
    // Rows of the embedding table are padded to a multiple of this number for each tensor-parallel rank (Megatron's
    // --make-vocab-size-divisible-by); 1: only so that tensor parallelism divides them.
    int vocabulary_multiple = 1;
    // A linear keeps its gathered input for the weight gradient (nanotron until 2024, and PyTorch's DTensor: the gather is an op of
    // autograd's like any other). Megatron keeps the shard and gathers it again, and so does nanotron since (ParallelismArgs of
    // config/parallelism_config.py: tp_recompute_allgather = True).
    bool keeps_gathered = false;
    // Tensors are [batch, sequence, hidden], and collectives join or part ranks along the first dimension alone: what was gathered along
    // the sequence is copied together (torch.cat of torch.chunk in all_gather_tensor: torch/distributed/_functional_collectives.py, which
    // DTensor's Shard(1) calls). With one sequence in a microbatch it is a view since PyTorch 2.11 (2026, its pull request 169404:
    // _maybe_view_chunk_cat) ..
    bool turns_gathered = false;
    // .. and what is reduced and scattered along the sequence is copied apart first (reduce_scatter_tensor, with one sequence as well).
    // Neither where a compiler pipelines collectives with the products beside them.
    bool turns_scattered = false;
    // Rotary positions are spelt out over the halves of each head, negated and joined again (Transformers' rotate_half). Elsewhere eager
    // code multiplies complex numbers in fp32 (Llama's own, torchtitan's).
    bool rotates_halves = false;
    // The outputs of attention and MLP, which are added to the residual stream, live until their backward pass (nanotron, by its logs: in
    // 29 runs each layer holds 2.0 such rows for each token in flight more than its code explains).
    bool holds_branches = false;
    // Layers hold [sequence, batch, hidden] and attention [batch, sequence, heads]: a copy turns its result round (nanotron).
    bool turns_attention = false;

    // The loss.

    // A fused loss keeps the logits alone, in their own dtype: Transformer Engine's kernel, Megatron-Core's fused loss since 2025,
    // FlashAttention's cross-entropy (Composer, InternLM), whose backward pass reads them and a statistic a row.
    bool loss_in_place = false;
    // runtime.compiled_loss is there to choose: Megatron-Core's own fused loss, which writes what its eager one does in place to a second
    // copy (1.7B of 152K words on H100 holds 4 bytes a logit more than one copy explains: qwen3_h100).
    bool compiles_loss = false;
    // The gradient of a loss over a divided vocabulary is made out of four copies of the logits in fp32: what autograd kept, zeros with the
    // targets' entries, their sum with the exponentials, and its product with the loss's gradient (DTensor's loss_parallel,
    // torch/distributed/tensor/parallel/loss.py; torchtitan's own since 2026 is alike).
    bool wide_loss_gradient = false;
    // The loss makes its softmax in a second copy in fp32, when the 16-bit logits are gone (nanotron).
    bool copies_logits_twice = false;
    // The vocabulary-parallel loss subtracts the maximum of its fp32 copy of the logits into a second one, so that both are there for a
    // moment: _VocabParallelCrossEntropy of megatron/core/tensor_parallel/cross_entropy.py in 2023 and early 2024, and in
    // Megatron-DeepSpeed, which has that file, since. Megatron-LM of 2021 (vocab_parallel_logits.sub_) and Megatron-Core from 0.9 on
    // (October 2024: "In-place subtraction reduces memory pressure") do it in place; 2024 counts as its first releases.
    bool shifts_logits_apart = false;
    // The loss of an undivided vocabulary is PyTorch's cross_entropy, of fewer passes over the logits than Megatron's vocabulary-parallel
    // one (calibration: cross_entropy.whole).
    bool torch_loss = false;
    // The logits' copy in fp32 is handed out with the loss, which is taken of another, shifted copy: one of these is there beside what
    // autograd keeps (Transformers until 4.45, 2024).
    bool hands_logits_out = false;
    // The loss casts logits to fp32 by itself and lets the copy go: of fp32 copies autograd keeps the log-softmax alone, beside which its
    // backward pass makes two (Transformers' ForCausalLMLoss, from the end of 2024 on; counted in a step of its code: 3.0. torchtitan's
    // cross_entropy_loss casts inside too, and its train.py of 2025 lets the logits go ahead of the backward pass: "del pred").
    bool upcasts_in_loss = false;
    // The host reads each microbatch's loss before it goes on, unless graphs are replayed: Megatron-LM's loss_func asserts that it is a
    // number (2024).
    bool reads_loss = false;

    // Recomputation.

    // recompute = selective is a policy by op (torchtitan: attention and every second matmul of a layer are kept, all else made again);
    // elsewhere it is the core of attention (Korthikanti et al., arXiv:2205.05198).
    bool selective_by_op = false;
    // Among the ops that this policy keeps is the kernel of attention that runs. cuDNN's is since December 2025 (torchtitan's pull request
    // 2095; until then its lists name FlashAttention's, the memory-efficient one and FlexAttention, and cuDNN's is made again).
    bool keeps_attention_by_op = true;
    // In a layer that a list recomputes only what the policy names is kept (jax.checkpoint_policies.save_only_these_names); other
    // software keeps what a checkpointed function returned as well.
    bool keeps_named_alone = false;

    // Pipelines and tensor parallelism.

    // Pipeline stages are cut by their layers' cost, embedding and head among them (nanotron), where others give each as many layers.
    bool stages_by_cost = false;
    // Pipeline transfers are awaited one after another, activations first (nanotron's p2p.py), where others batch those of a moment.
    bool transfers_one_by_one = false;
    // Without sequence parallelism all tensor-parallel ranks of a stage hold the same value: each sends a part of it and the receivers
    // gather it (Megatron's scatter-gather, Narayanan et al., arXiv:2104.04473, section 4.1).
    bool scatters_transfers = false;
    // A forward pass gets its microbatch from Megatron's get_batch (runtime.batch_us) on the first and the last stage alone: what
    // DeepSpeed's pipeline engine loads. Elsewhere every stage calls it.
    bool batch_at_ends_only = false;
    // Operands of tensor-parallel linears travel in buffers that all ranks of a node see (Transformer Engine's user buffers:
    // runtime.tensor_parallel_buffers, Megatron's --tp-comm-overlap). Without them gathers and reductions of a linear's gradients still run
    // under its two products (_Linear.backward and _LayerNormLinear.backward in TransformerEngine's pytorch/module: asynchronous
    // collectives, waited for after dgrad and wgrad).
    bool user_buffers = false;
    bool may_have_user_buffers = false; // where runtime.tensor_parallel_buffers asks for them
    // The gather ahead of a linear travels round a ring a shard at a time while the shards that are there are multiplied (Transformer
    // Engine's user buffers; NeMo's runs of 24.09 and 24.11 take what bare gathers take, those of 25.02 and later less).
    bool pieced_gathers = false;
    // Where tensor parallelism overlaps, gathers and reductions of a linear's operands are issued by the linear's own call (Transformer
    // Engine's user buffers, as NeMo's recipes have them).
    bool issues_within_linears = false;

    // Data-parallel ranks that share a second copy of the weights (strategy.secondary_shard_size: ZeRO++'s hpZ); 0: there is none.
    int second_copy_ranks = 0;
    // Data-parallel ranks of a node, where whole numbers are exchanged inside nodes first, then between them; 0: all are one level.
    // ByteGrad; ZeRO++'s qgZ, whatever its hpZ says (DeepSpeed's all_to_all_quant_reduce divides the world by a node's device count:
    // deepspeed/runtime/comm/coalesced_collectives.py).
    int exchange_ranks = 0;
    // The ranks near each other, whose level of the mesh is apart; the two numbers above are equal where neither is 0.
    int near_ranks() const { return std::max(second_copy_ranks, exchange_ranks); }

    // Gradients, optimizer and sharding.

    // zero_grad() sets gradients to None (PyTorch 2.0, March 2023): autograd makes them anew. Not where buckets hold them.
    bool gradients_none = false;
    // Products of weight gradients add to the gradient as they are made (runtime.fused_weight_gradient_accumulation). Not under FSDP, which
    // reduces the gradients that autograd makes.
    bool adds_in_products = false;
    // A stage has whole parameters and whole gradients throughout a step: it gathers once and reduces once (Sharding::per_parameter).
    bool once_a_step(int stages) const { return sharding == Sharding::per_parameter && stages > 1; }
    // The shards of parameters are the fp32 ones that the optimizer steps on. What is gathered is a copy in 16 bits, cast on a stream of
    // its own for each gather and gone behind it (FSDPParam.all_gather_inputs and all_gather_copy_in_stream of fully_shard:
    // torch/distributed/fsdp/_fully_shard; FlatParamHandle._use_low_precision_shard, _free_low_precision_sharded_param and
    // _pre_unshard_stream of FullyShardedDataParallel: torch/distributed/fsdp/_flat_param.py, _runtime_utils.py).
    bool fp32_shards = false;
    // Parameters are fp32, those that are frozen too, the optimizer steps on them, and each pass casts those that it multiplies to 16 bits
    // (autocast). Where ranks share gradients too, workers meet or states leave the device, 16-bit parameters stay beside masters instead.
    bool fp32_parameters = false;
    // Embedding and output layer are one unit, the root, gathered as a pass begins and kept until its end (FullyShardedDataParallel;
    // fully_shard's root, whose post_forward_mesh_info is None: FSDPState._lazy_init). Elsewhere the output layer alone stays, which the
    // backward pass wants first, and the embedding is gathered for each pass as a layer is: torchtitan since 2026 (apply_fsdp in
    // models/llama3; its issue 1091 of April 2025 describes the one unit, and its pull request 1094, which parts it, came in August: that
    // whole year counts as its first seven months), DeepSpeed since 2022, which lets go of what is used again behind 1e9 other parameters
    // (stage3_max_reuse_distance, partitioned_param_coordinator.py).
    bool root_is_a_unit = true;
    // A unit's parameters of more elements than this are gathered and reduced each by itself, the others together; 0: all together.
    // DeepSpeed's ZeRO-3 before 2022 took every parameter by itself; those of up to a million elements it left whole. From 0.5.10 on it
    // joins a module's parameters (its pull request 1453). XLA's combiners join collectives up to a threshold (strategy.bucket_bytes).
    std::int64_t alone_beyond = 0;
    // Without prefetch a parameter is gathered wherever a submodule runs and let go again: in a checkpointed layer for the forward pass
    // made again, and once more for the backward pass (DeepSpeed's ZeRO-3 before 2022; from then on it recorded the order of uses and kept
    // what comes next).
    bool gathers_where_used = false;
    // Weights that a forward pass made again gathers stay until its backward pass: those of all units of a segment (fully_shard since
    // PyTorch 2.8, 2025: FSDPParamGroup.post_forward does not reshard inside a backward pass). Elsewhere each goes, and is gathered anew.
    bool keeps_regathered = false;
    // Collectives of a unit work on tensors laid side by side, and a copy goes with each way, on the collective's stream: gathered parts
    // are joined, parameter by parameter (torch.cat in AllGatherCoalescedHandle.wait: deepspeed/runtime/zero/partition_parameters.py);
    // gradients are copied into the bucket (__add_grad_to_ipg_bucket in stage3.py), joined part by part and divided
    // (reduce_scatter_coalesced in runtime/comm/coalesced_collectives.py). DeepSpeed's ZeRO-3 since 2022.
    bool copies_with_collectives = false;
    // A collective on a list of tensors makes a view and a copy for each member (DeepSpeed's ZeRO-3 before 2022; calibration:
    // list_copy_us).
    bool collectives_on_lists = false;
    // Small parameters (of at most 1e5 elements, stage3_param_persistence_threshold) are whole in all passes; they are cut up for the step
    // and gathered behind it, each by a collective of its own, for which the host waits (_partition_all_parameters and _post_step of
    // deepspeed/runtime/zero/stage3.py, _allgather_params_coalesced of partition_parameters.py).
    bool gathers_small_apart = false;
    // The host cuts each gradient into a view for each rank, in a loop in Python, and collects them in a list for torch.cat where a bucket
    // has several tensors (reduce_scatter_coalesced of deepspeed/runtime/comm/coalesced_collectives.py; calibration: hook slice_us).
    bool cuts_by_rank = false;
    // The optimizer's step goes over the parameters in Python: the norm of each gradient, its way into the flat one, the views of the flat
    // weights (get_grad_norm_direct, _prepare_fp32_grad_for_sub_group and _unflatten_partitioned_parameters of stage3.py, step of
    // stage_1_and_2.py; calibration: hook step_us).
    bool steps_by_parameter = false;
    // Buckets of gradients are all-reduced, and a rank keeps its part: DeepSpeed's ZeRO 1 and 2 since 0.12.5 (December 2023, its pull
    // request 4695: use_multi_rank_bucket_allreduce is true by default, and allreduce_and_scatter in stage_1_and_2.py calls all_reduce);
    // before, each part was reduced to its owner. Its BF16_Optimizer (ZeRO 1 with fp32 gradients, 2022) always did so (_bf16_reduce_grads
    // in runtime/engine.py: buffered_allreduce_fallback). PyTorch's ZeroRedundancyOptimizer knows nothing of DistributedDataParallel's
    // buckets, which are all-reduced as ever: a rank steps on the parameters that are its own and broadcasts them (step and _sync_params of
    // torch/distributed/optim/zero_redundancy_optimizer.py).
    bool reduces_whole = false;
    // Each larger tensor's optimizer states belong to one rank, which broadcasts what it has stepped (InternLM's HybridZeroOptimizer).
    bool tensors_have_owners = false;
    // The optimizer reads the gradient norm back: the host, else far ahead of the device, comes into step with it (Megatron's,
    // DeepSpeed's).
    bool reads_gradient_norm = false;
    // An optimizer on the host leaves the fp32 parameters on the device, too: only moments are saved there, and fp32 comes back, to be cast
    // (Megatron-Core's HybridDeviceOptimizer inside its DistributedOptimizer).
    bool keeps_master_on_device = false;
    // An update on the host has fp32 both ways: 16-bit gradients are cast on the device before they go (a sum that is not whole yet waits
    // on the host in 16 bits), and masters come back to be cast there. DeepSpeed's ZeRO 1 and 2 (stage_1_and_2.py:
    // async_inplace_copy_grad_to_fp32_buffer_from_gpu, async_accumulate_grad_in_cpu_via_gpu, step). Its ZeRO 3 has 16 bits both ways
    // (stage3.py, where the processor casts).
    bool crosses_in_fp32 = false;
    // Parameters that live on the host are the fp32 ones that it steps on, without a 16-bit copy: they are copied so and cast on the device
    // on their way into the gather (all_gather_inputs of fully_shard, _use_low_precision_shard of FullyShardedDataParallel).
    bool fp32_homes = false;
    // The host adds a gradient to the sum that lives there, while the thread that launches kernels waits (foreach_reduce of fully_shard).
    // Elsewhere the sum comes to the device, is added to and goes back.
    bool adds_on_host = false;
    // While it steps, Adam holds 16-bit moments in fp32 copies: of all that one of Megatron's optimizers holds, and experts have one of
    // their own (Transformer Engine's FusedAdam under Megatron-Core).
    bool widens_moments = false;
    // Under ZeRO 1 each matrix that Muon makes orthogonal belongs whole to one rank, which does it alone and sends the parameters
    // (LayerWiseDistributedOptimizer of Megatron-Core, core/optimizer/layer_wise_optimizer.py, --optimizer dist_muon; PyTorch's
    // ZeroRedundancyOptimizer). Elsewhere shards are cut without regard to matrices: what a step is made of is gathered in bf16, and each
    // rank makes all of it orthogonal and keeps its part (Distributed Muon: Liu et al., arXiv:2502.16982, algorithm 1).
    bool owns_matrices = false;
    // fp16 gradients become fp32 ones, are unscaled and checked, and the weights fp16 again, in kernels around the step (Megatron-LM's
    // Float16Optimizer; calibration: optimizer.apart).
    bool copies_half_gradients = false;

    // Kernels and the host.

    // Modules are issued one by one from Python, each call longer for the host than its launches: Transformer Engine's and Megatron-Core's
    // since 2024 (calibration: calls).
    bool module_calls = false;
    // Queries, keys and values are a linear each, and so are gate and up (Transformers, torchtitan).
    bool separate_linears = false;
    // LoRA's adapters are scaled by a kernel of their own ahead of the sum (PEFT's Linear.forward, torchtune's LoRALinear.forward,
    // ParallelLinearAdapter.forward of NeMo and Megatron-Bridge); a compiler makes one of both.
    bool scales_adapters_apart = false;
    // Adapters are fp32 beside weights of 16 bits, and each of them casts its rows to fp32, and autocast casts them back (PEFT's
    // _cast_input_dtype, with autocast_adapter_dtype since 0.12 of July 2024). Not under FSDP and DeepSpeed, where the weights that a
    // forward pass sees have 16 bits all (MixedPrecision.param_dtype; the engine's module.bfloat16()).
    bool casts_adapters_rows = false;
    // Under tensor parallelism each of these linears gathers its input and reduces its gradient for itself: torch's ColwiseParallel of
    // plans without a prepared input, Transformers' plans (a profile of KempnerForge counts 12 gathers and 8 reductions a layer that is
    // made again). torchtitan prepares the input of a whole module (PrepareModuleInput). The copy of the input that each keeps where
    // nothing is made again is counted once.
    bool linears_meet_apart = false;
    // Each module, also one without parameters, has hooks before and after its forward and its backward pass that look up, ask for, wait
    // for and let go of its parameters, in Python (DeepSpeed's ZeRO-3 since 2022, parameter_offload.py; calibration: hooks).
    bool module_hooks = false;
    // The autograd functions of these hooks have a setup_context of their own, and PyTorch takes a longer way to call such ones (DeepSpeed
    // 0.19 of 2026; 0.18.3 has none).
    bool hook_contexts = false;
    ExpertRows expert_rows = ExpertRows::kernels;
    // Norms are Transformer Engine's kernels (Megatron-Core since 2024; calibration: head_norms).
    bool engine_norms = false;
    // Casts to 8 bits are Transformer Engine's of before 2025 under Megatron, slower with the recipes that calibration lists
    // (quantize.earlier). Only where the scenario states the year: unstated, the kernels that are known best count.
    bool early_casts = false;
    // On AMD's devices casts to 8 bits are kernels that were ported, not written for them (ROCm/TransformerEngine before its pull request
    // 519 of April 2026; calibration: quantize.ported).
    bool ported_casts = false;
    // Before 2025 these were CUDA's own, translated (hipified) and not yet tuned (its pull requests 83, 89 and 105, of October 2024 to
    // January 2025; calibration: quantize.translated).
    bool translated_casts = false;
    // Maxima of delayed scaling are reduced over tensor-, context- and data-parallel ranks behind the layers of each forward and of each
    // backward pass of a chunk, and the device waits (reduce_and_update_fp8_tensors, async_op = False: transformer_engine/pytorch/fp8.py
    // since 2024; earlier ones reduced beside the next pass. The group: Megatron-Core's get_amax_reduction_group in core/fp8_utils.py; the
    // context around all layers: use_outer_fp8_context in core/transformer/transformer_block.py). Some releases reduce once more for each
    // layer that is made again, over all ranks: left out.
    bool reduces_maxima = false;
    // No low copy of the weights is kept for the step: they are cast where they are used, each time (torchao, XLA).
    bool casts_weights_at_use = false;
    // What PyTorch itself casts or adds runs in its elementwise kernels, which look the types of operands up for each element where they
    // are unlike (LoadWithCast in aten/src/ATen/native/cuda/MemoryAccess.cuh; calibration: unlike_types).
    bool looks_types_up = false;
    // Casts to 16 bits have a kernel of their own where calibration says so (PyTorch 2.6, January 2025: its pull request 137053).
    bool narrows_apart = false;
    // Casts to 32 bits and sums of unlike operands have kernels of their own where calibration says so (AMD's devices: pytorch/pytorch's
    // pull requests 143269, 149738 and 163869, the last of September 2025).
    bool vectors_unlike = false;
    // A compiler (torch.compile around torchao's linears, XLA) sees the casts where strategy.fused is on: it finds maxima inside the
    // kernels that make a tensor, but casts in kernels of their own, in both layouts.
    bool compiler_sees_casts = false;
    // .. and keeps, of each weight that it casts with one scale, the turned copy in 8 bits for the backward pass, of whole weights under
    // FSDP too, unless the layer is made again (its partitioner, until it took parameters as free to keep: pull request 148922 of
    // pytorch/pytorch, its issue 141881, pull request 936 of pytorch/ao; PyTorch 2.8 of August 2025: that whole year counts as its first
    // seven months).
    bool keeps_cast_weights = false;
    // Linears in 8 bits keep their inputs as they are, and cast them again for the weight gradient (torchao's Float8Linear, not compiled:
    // matmul_with_hp_or_float8_args saves input_hp for its backward pass).
    bool keeps_wide_inputs = false;
    // torch.compile makes the gradient of the loss in fp32 and casts it in a kernel of its own: 13 bytes a logit (pytorch/torchtitan 4514,
    // 2026). Runs of 2025 held 8 (torchtitan's float8 rows: 51.5 GB, where 13 would be 62).
    bool compiled_loss_casts_apart = false;
    // Experts' rows are copied to and from a layout where each expert's count is a multiple that the low type's products take, where an
    // all-to-all brings them (Transformer Engine's Fp8Padding).
    bool pads_expert_rows = false;
    // A loop in Python goes over the experts: each picks its rows, multiplies them and adds them to the sum, in kernels of its own
    // (Transformers' mixtures before version 5, 2026; calibration: expert_loop). The host waits for the device twice an expert in a forward
    // pass, for the expert's number and for how many rows it has (self.experts[expert_idx] and torch.where:
    // Qwen3MoeSparseMoeBlock.forward).
    bool loops_over_experts = false;
    // An expert's gate and up are products of their own, whose two gradients of the rows are added up (torchtitan's
    // _run_experts_grouped_mm: torch._grouped_mm for w1 and for w3; an expert of that loop is a module with a linear for each).
    // Transformers 5 has gate_up_proj. (Not of models whose module holds both in one parameter: MoeSpec::stacked_weights.)
    bool separate_experts = false;
    // A mixture's router multiplies in fp32 what it casts from 16 bits, in all three products (torchtitan from February 2026 on:
    // autocast(dtype=torch.float32) around self.gate in TokenChoiceTopKRouter.forward, its pull request 2389; TF32 is off. Its pull request
    // 4484 of that August brings 16-bit operands back: the year counts as what most of it had).
    bool wide_gate = false;
    // Tokens are sent to experts' slots and fetched back by products with one-hot masks, where experts have a capacity (GShard,
    // arXiv:2006.16668; MaxText's dense_matmul with a capacity factor).
    bool masked_dispatch = false;
    // All shapes are fixed when the program is compiled: the host reads no counts of experts' rows (XLA).
    bool static_shapes = false;
    // Rows that come from other ranks, without a capacity, have room for the most that could come: of each token of the group as many as
    // the rank has experts, or a token chooses. These buffers are zeroed, sorted, unsorted, activated and differentiated whole; products
    // alone pass over what no row fills (MaxText's sparse_matmul: buffer_size ahead of ragged_all_to_all in src/maxtext/layers/moe.py, 2025
    // and 2026; its ragged_buffer_factor is off by default). Gradients through gate and up, products of their own, are added up in a
    // kernel, which is counted as a copy here.
    bool worst_case_rows = false;
    // These masks are of all tokens of a rank (elsewhere of those of a sequence), and PyTorch's operators make them: weights in fp32, which
    // of them are not 0, and a cast of either to the activations' dtype. The casts are kept, as the experts' results are, for the gradient
    // of the weights (DeepSpeed's deepspeed/moe/sharded_moe.py of 2021 to 2025: top1gating, top2gating, topkgating, MOELayer.forward; not
    // with Tutel's kernels, which are runtime.permute_fusion).
    bool keeps_masks = false;
    // NCCL's tuner of 2020 and 2021 (2.7, 2.8) expects of a tree between two nodes no more than inside one: large reductions are rings.
    bool rings_between_two_nodes = false;
    std::vector<KernelRelease> releases; // of libraries, in the order of the enum

    // Memory beside the plan's buffers (figures: calibration, memory/reserve.json).

    // Kernels are loaded when they are first launched (CUDA 11.7; PyTorch's builds of 2023), not all with the context.
    bool lazy_loading = false;
    // The scores of unfused attention come out of a global buffer that is never freed (Megatron-LM's CoreAttention, 2022 on).
    bool keeps_scores = false;
    // Weights of products in 8 bits or fewer are parameters of 16 bits, cast once a step into copies that are kept, in each layout that
    // products read (Transformer Engine's get_weight_workspace, cached where Megatron-Core's layers say which microbatch is the first:
    // TELinear.forward in core/extensions/transformer_engine.py). What has 4 bits is kept so whatever the scenario says: Megatron Bridge
    // refuses fp4_param_gather (training/mixed_precision.py, 2026).
    bool keeps_low_weights = false;
    // Fused attention takes operands of 8 bits: queries, keys and values are cast ahead of it and saved so, its result's gradient is cast
    // ahead of its backward kernel (Transformer Engine's FusedAttnFunc, pytorch/attention/dot_product_attention/backends.py, with fp8_dpa
    // and without fp8_mha: cuDNN's kernels alone). By delayed scaling the kernels write 8 bits too, which are saved and cast back.
    bool low_attention = false;
    // Such weights are parameters of 8 bits (runtime.fp8_parameters: --fp8-param-gather, fp8_model_init) ..
    bool low_parameters = false;
    bool may_have_low_parameters = false; // where runtime.fp8_parameters asks for them
    // .. and so gathered after the optimizer's step. Not those of MXFP8, whose scales run along rows and columns: they are gathered in 16
    // bits in the gradients' buffer and cast into both layouts (reuse_grad_buf_for_mxfp8_param_ag, core/distributed/
    // param_and_grad_buffer.py; Bridge's MixedPrecisionConfig.finalize asks for it).
    bool gathers_low_parameters = false;
    // Captured graphs allocate from pools of their own, which eager code cannot use while graphs rest (Megatron-Core's CudaGraphManager,
    // core/transformer/cuda_graphs.py) ..
    bool graph_pools = false;
    // .. and with a pipeline each microbatch in flight has one for its forward graphs, all backward graphs another (fwd_mempools,
    // bwd_mempool: until 2025; cuda_graph_use_single_mempool is off by default). From 2026 on all share one.
    bool graph_pool_a_microbatch = false;
    // Gradients are copied into the buckets that are reduced, and back, so that each is there twice (DistributedDataParallel:
    // gradient_as_bucket_view is off).
    bool copies_to_buckets = false;
    // DeepSpeed's own activation checkpoints on the host (cpu_checkpointing): computation's stream copies them, to and from memory that is
    // not pinned. Hugging Face's Trainer makes its checkpoints by PyTorch.
    bool computation_copies_checkpoints = false;
    // Experts' products run on streams with a workspace each (Transformer Engine's get_multi_stream_cublas_workspace).
    bool grouped_workspaces = false;
    // Where the gradient was added to the main gradient, autograd is handed a tensor made once for each shape of weight and kept
    // (Transformer Engine's get_dummy_wgrad, 2025).
    bool gradient_placeholders = false;
    // A step makes fp32 gradients out of narrower ones, of all that it steps (_copy_model_grads_to_main_grads of Megatron's
    // Float16OptimizerWithFloat16Params and DistributedOptimizer: 20 bytes a parameter with 16-bit gradients, 4 + 16 / d over d replicas,
    // by Megatron-Core's page on the distributed optimizer) ..
    bool widens_gradients = false;
    // .. and keeps them until the next one has made its own (zero_grad of Megatron-LM until 2021; since then it lets go of them).
    bool keeps_wide_gradients = false;
    // Process groups have a communicator each where the plan has one for the same ranks: that of all ranks, in which programs meet at a
    // barrier (initialize_megatron of Megatron-LM) ..
    bool world_communicator = false;
    // .. that of tensor- and pipeline-parallel ranks, in which the gradient norm is summed where states are not sharded
    // (get_model_parallel_group of megatron/core/parallel_state.py) ..
    bool norm_communicator = false;
    // .. and that of replicas without context parallelism, in which losses are averaged, beside the one of gradients, which has it
    // (get_data_parallel_group with and without with_context_parallel, of 2024).
    bool loss_communicator = false;
    // An eager optimizer's step takes the root of all second moments at once, a tensor of their size (torch.optim's foreach Adam: the
    // default since PyTorch 2.0).
    bool foreach_temporaries = false;
    // The step flattens the gradients it owns in their own dtype, and again in the masters' (step of DeepSpeedZeroOptimizer:
    // deepspeed/runtime/zero/stage_1_and_2.py; FP16_Optimizer likewise) ..
    bool flat_step_gradients = false;
    // .. under ZeRO 3 those of a sub-group at a time, as it steps: parameters up to this many elements of a rank's shards (sub_group_size,
    // 1e9 unless its configuration says otherwise; _create_fp16_sub_groups and _prepare_fp32_grad_for_sub_group of
    // deepspeed/runtime/zero/stage3.py). 0: all at once.
    std::int64_t step_group = 0;
    // Beside fp32 main gradients the 16-bit ones are kept (DeepSpeed's BF16_Optimizer, 2022).
    bool keeps_narrow_gradients = false;
    // Buffers of strategy.bucket_bytes that gradients are copied into on their way: those of DeepSpeedZeroOptimizer's backward, two where
    // reductions run beside it (ipg_buffer; with a pipeline reduce_gradients makes one), and one under ZeRO 3, which it has from the start
    // (__ipg_bucket_flat_buffer). They have the size that is asked for, however small the model is. BF16_Optimizer flattens a bucket.
    int reduce_buffers = 0;
    // Reduced gradients of a rank's part are copied once more into a buffer of their size (ZeRO 1: copy_grads_in_partition).
    bool copies_own_gradients = false;
    // The caching allocator keeps more than its replay shows (DeepSpeed's jobs and PyTorch of 2021 to 2023, measured then; calibration:
    // early_allocator).
    bool early_allocator = false;
    // The last stage keeps what the model gave for every microbatch, its logits, until the step ends (torch.distributed.pipelining:
    // forward_one_chunk appends to output_chunks; from 2026 on torchtitan asks for none, return_outputs=False).
    bool keeps_outputs = false;
};
Practice practice_of(const Scenario& scenario);

// Whether tensor-parallel ranks have a part of each token's logits in the loss.
bool divides_vocabulary(const Scenario& scenario);

// For the head of a report: "megatron, software of 2024 (assumed: runtime.year sets it)".
std::string software_text(const Scenario& scenario);

} // namespace orrery

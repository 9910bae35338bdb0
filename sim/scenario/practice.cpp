// For whom each trait holds. The meaning of each trait and its source: practice.hpp.
#include "sim/scenario/practice.hpp"

#include "sim/scenario/frameworks.hpp"
#include "sim/scenario/stage3.hpp"

#include <algorithm>
#include <initializer_list>

namespace orrery {
namespace {

using F = Framework;

// Which software it is, and of when.
struct Software {
    Framework name;
    int year;
    bool is(std::initializer_list<Framework> any) const { return std::find(any.begin(), any.end(), name) != any.end(); }
};

bool in_sixteen_bits(const Scenario& s) { return s.training.precision == DType::bf16 || s.training.precision == DType::fp16; }

// DeepSpeed without pipeline, tensor parallelism or fused kernels trains Transformers' models, else Megatron's. (Their Trainer calls it
// since January 2021; before, DeepSpeed's own examples had the layers of Megatron-LM of 2019, which fused nothing.)
bool transformers_under_deepspeed(const Scenario& s, const Software& w) {
    return w.is({F::deepspeed}) && w.year >= 2021 && !s.strategy.fused && s.strategy.tensor_parallel == 1 &&
           s.strategy.pipeline_parallel == 1;
}

void resolve_layers(Practice& p, const Scenario& s, const Software& w) {
    const bool core = megatron_core(w.name), nanotron = w.is({F::nanotron}), transformers = transformers_under_deepspeed(s, w);
    // (Parameters that have 16 bits themselves need no cast.)
    const bool adapters_alone = s.model.trainable.lora && s.model.trainable.base_dtype != BaseDType::nf4;
    p.autocast = in_sixteen_bits(s) && w.is({F::ddp, F::horovod}) && s.strategy.tensor_parallel == 1 && s.model.mtp_layers == 0 &&
                 s.training.master_weights && !adapters_alone;
    p.wide_norms = w.is({F::internlm}) && in_sixteen_bits(s);
    p.megatrons_layers = core || nanotron || (w.is({F::deepspeed}) && !transformers);
    p.bias_apart = w.is({F::megatron, F::deepspeed}) && w.year < 2024;
    p.repeats_heads = w.is({F::megatron}) && w.year == 2023;
    p.repeats_heads_for_fused =
        ((w.is({F::torchtitan}) && w.year < 2026) || p.repeats_heads) && s.model.attention.kind == AttentionSpec::Kind::full;
    p.plain_gates = (w.is({F::megatron}) && w.year < 2024) || (w.is({F::deepspeed}) && !transformers);
    const int ranks = s.strategy.tensor_parallel, keys = s.model.kv_heads;
    p.gathers_heads =
        core && w.year >= 2025 && s.model.attention.kind == AttentionSpec::Kind::full && keys > 0 && ranks > keys && ranks % keys == 0;
    p.fused_rope_scales = !core;
    p.fused_latent_rope = !core || w.year >= 2026;
    p.clamps_ahead = core;
    p.vocabulary_multiple = core || (w.is({F::deepspeed}) && !transformers) ? 128 : 1;
    p.holds_branches = p.turns_attention = nanotron;
    p.rotates_halves = w.is({F::ddp, F::horovod, F::fsdp}) || transformers;
    p.keeps_gathered = (nanotron && w.year < 2025) || w.is({F::fsdp2, F::torchtitan});
    p.turns_scattered = w.is({F::fsdp2, F::torchtitan}) && s.strategy.sequence_parallel && !s.strategy.overlap.tensor_parallel;
    p.turns_gathered = p.turns_scattered && !(w.year >= 2026 && s.training.micro_batch_size == 1);
    p.selective_by_op = w.is({F::fsdp2, F::torchtitan});
    p.keeps_attention_by_op = w.year >= 2026 || s.runtime.attention_kernel != AttentionKernel::cudnn;
    p.keeps_named_alone = w.is({F::jax});
    p.separate_linears = w.is({F::ddp, F::fsdp, F::fsdp2, F::torchtitan}) || transformers;
    p.linears_meet_apart = w.is({F::ddp, F::fsdp2}) && !s.strategy.overlap.tensor_parallel;
}

void resolve_loss(Practice& p, const Scenario& s, const Software& w) {
    p.narrow_loss =
        !s.runtime.loss_upcast && !is_wide(s.training.precision) && !p.autocast && !divides_vocabulary(s) && !p.megatrons_layers;
    p.loss_in_place = (megatron_core(w.name) && w.year >= 2025) || w.is({F::composer, F::internlm});
    p.compiles_loss = megatron_core(w.name);
    p.compiled_loss_casts_apart = w.year >= 2026 && w.is({F::fsdp2, F::torchtitan}) && s.strategy.fused;
    p.wide_loss_gradient = w.is({F::fsdp2, F::torchtitan}) && divides_vocabulary(s) && !s.runtime.fused_loss;
    p.copies_logits_twice = w.is({F::nanotron});
    const bool transformers = transformers_under_deepspeed(s, w);
    p.shifts_logits_apart = s.runtime.loss == LossKind::vocabulary_parallel && w.year >= 2023 &&
                            ((megatron_core(w.name) && w.year < 2025) || (w.is({F::deepspeed}) && !transformers));
    p.torch_loss = w.is({F::ddp, F::horovod}) || (p.fully_sharded() && !w.is({F::te})) || transformers;
    p.hands_logits_out = w.year < 2025 && (w.is({F::ddp, F::fsdp}) || transformers);
    // (Logits of a chunk live until its backward pass; a divided loss has copies of its own.)
    const bool fully_shards = w.is({F::fsdp2, F::torchtitan}) && !divides_vocabulary(s) && s.runtime.loss != LossKind::chunked;
    p.upcasts_in_loss = w.year >= 2025 && (w.is({F::fsdp}) || transformers || fully_shards);
    p.reads_loss = w.is({F::megatron}) && w.year >= 2024;
}

// They are mapped into the devices of one NVLink domain, of several nodes too (Transformer Engine's userbuffers-host.cpp:
// has_mnnvl_fabric), and only what is split along the sequence travels in them.
bool may_have_user_buffers(const Scenario& s) {
    const Strategy& t = s.strategy;
    const int domain = s.cluster.devices_per_node * std::max(1, s.cluster.intra.domain_nodes);
    return t.overlap.tensor_parallel && t.sequence_parallel && t.tensor_parallel > 1 && t.tensor_parallel <= domain;
}

void resolve_parallelism(Practice& p, const Scenario& s, const Software& w) {
    p.stages_by_cost = p.transfers_one_by_one = w.is({F::nanotron});
    p.scatters_transfers = megatron_core(w.name) || w.is({F::deepspeed});
    p.batch_at_ends_only = w.is({F::deepspeed});
    // (torch.compile's asynchronous tensor parallelism pipelines gathers and reductions with the products beside them, where it is asked
    // for.)
    p.may_have_user_buffers = megatron_core(w.name) && may_have_user_buffers(s);
    p.user_buffers = p.may_have_user_buffers && s.runtime.tensor_parallel_buffers;
    p.pieced_gathers = (p.user_buffers && w.year >= 2025) || (w.is({F::torchtitan, F::fsdp2}) && s.strategy.overlap.tensor_parallel);
    p.issues_within_linears = megatron_core(w.name) && s.runtime.tensor_parallel_buffers;
    const Strategy& st = s.strategy;
    const int sharing = st.replicas_of_worker();
    const auto level = [&](int ranks) { return ranks > 1 && ranks < sharing && sharing % ranks == 0 ? ranks : 0; };
    p.second_copy_ranks = level(st.secondary_shard_size);
    if (st.quantized_gradients != QuantizedGradients::none || st.compression.hierarchical)
        p.exchange_ranks = level(s.cluster.devices_per_node / st.tensor_parallel);
}

void resolve_step(Practice& p, const Scenario& s, const Software& w) {
    const bool core = megatron_core(w.name), deepspeed = w.is({F::deepspeed});
    p.gradients_none = w.year >= 2023 && (w.is({F::ddp}) || p.fully_sharded());
    p.adds_in_products = s.runtime.fused_weight_gradient_accumulation && !p.fully_sharded();
    const Strategy& t = s.strategy;
    p.fp32_parameters = p.autocast && t.zero_stage <= 1 && !t.workers() && t.offload.optimizer == Tier::none &&
                        t.offload.gradients == Tier::none && t.offload.parameters == Tier::none;
    p.fp32_shards = p.fully_sharded() && s.training.master_weights && !s.training.master_remainders && !is_wide(s.training.precision);
    p.root_is_a_unit = !(w.is({F::torchtitan}) && w.year >= 2026) && !(deepspeed && w.year >= 2022);
    if (s.strategy.zero_stage >= 3)
        p.alone_beyond = deepspeed && w.year < 2022         ? 1'000'000
                         : p.sharding == Sharding::compiler ? std::max<std::int64_t>(1, s.strategy.bucket_bytes.count / 2)
                                                            : 0;
    p.gathers_where_used = deepspeed && w.year < 2022;
    p.keeps_regathered = p.sharding == Sharding::per_parameter && w.year >= 2025;
    p.collectives_on_lists = deepspeed && w.year < 2022;
    p.copies_with_collectives = deepspeed && w.year >= 2022 && s.strategy.zero_stage == 3;
    p.gathers_small_apart = p.copies_with_collectives;
    p.cuts_by_rank = p.steps_by_parameter = p.copies_with_collectives;
    const bool in_fp32 = s.training.precision == DType::bf16 && s.training.gradient_dtype == DType::fp32;
    p.reduces_whole = deepspeed && (s.strategy.zero_stage == 1 || s.strategy.zero_stage == 2) &&
                      (w.year >= 2024 || (in_fp32 && s.strategy.zero_stage == 1 && w.year >= 2022));
    p.tensors_have_owners = w.is({F::internlm});
    // (Megatron-Core's takes gradients that were reduced whole until 2026, when buckets came whose shards hold whole tensors.)
    // (DeepSpeed's ranks make those orthogonal that lie in their partition, of gradients that are whole, before they take their part:
    // get_flat_partition in deepspeed/runtime/zero/stage_1_and_2.py. One that two partitions share is made twice, which is not counted.)
    p.owns_matrices = s.training.optimizer == Optimizer::muon && s.strategy.zero_stage == 1 && (core || w.is({F::ddp, F::deepspeed}));
    p.reduces_whole = p.reduces_whole || (p.owns_matrices && core && w.year < 2026) || (w.is({F::ddp}) && t.zero_stage == 1);
    p.reads_gradient_norm = core || deepspeed;
    p.keeps_master_on_device = core;
    p.widens_moments = core;
    p.copies_half_gradients = w.is({F::megatron});
}

void resolve_offload(Practice& p, const Scenario& s, const Software& w) {
    const Offload& o = s.strategy.offload;
    // In DeepSpeed, parameters on the host and all on NVMe are ZeRO 3's, and so are updates in the backward pass (SuperOffload).
    p.crosses_in_fp32 = w.is({F::deepspeed}) && s.strategy.zero_stage < 3 && o.optimizer == Tier::cpu && o.parameters == Tier::none &&
                        o.gradients != Tier::nvme && s.training.master_weights && !s.training.optimizer_in_backward;
    p.fp32_homes = p.fully_sharded() && o.parameters != Tier::none && s.training.master_weights;
    p.adds_on_host = p.sharding == Sharding::per_parameter && o.gradients != Tier::none;
}

// (Transformers' mixtures have no capacity.)
bool keeps_masks(const Scenario& s, const Software& w) {
    return w.is({F::deepspeed}) && s.model.moe && s.model.moe->capacity_factor > 0 && !s.runtime.permute_fusion &&
           !s.runtime.fused_experts && s.runtime.token_dispatcher == TokenDispatcher::alltoall;
}

void resolve_adapters(Practice& p, const Scenario& s, const Software& w) {
    const bool compiled = w.is({F::jax}) || (s.strategy.fused && w.is({F::ddp, F::fsdp, F::fsdp2, F::torchtitan}));
    p.scales_adapters_apart = s.model.trainable.lora && !compiled;
    p.casts_adapters_rows = s.model.trainable.lora && !compiled && w.is({F::ddp}) && w.year >= 2024 && in_sixteen_bits(s) &&
                            s.training.master_weights && !p.autocast;
}

ExpertRows expert_rows_of(const Scenario& s, const Software& w) {
    if (s.runtime.permute_fusion || s.runtime.fused_experts || s.runtime.token_dispatcher != TokenDispatcher::alltoall)
        return ExpertRows::kernels;
    if (w.is({F::fsdp2, F::torchtitan}) && w.year >= 2025) return w.year >= 2026 ? ExpertRows::added : ExpertRows::padded;
    const bool transformers = w.is({F::ddp, F::fsdp}) || transformers_under_deepspeed(s, w);
    return transformers && w.year >= 2026 ? ExpertRows::gathered : ExpertRows::kernels;
}

// Transformer Engine calls AITER (JAX too, through it); scaled_dot_product_attention AOTriton; FlashAttention's package on AMD's devices
// is Composable Kernel's.
std::vector<KernelRelease> releases_of(const Scenario& s, const Software& w) {
    std::vector<KernelRelease> out;
    const bool torch_attention = w.is({F::ddp, F::horovod, F::fsdp, F::fsdp2, F::torchtitan}) || transformers_under_deepspeed(s, w);
    if (w.year >= 2025) out.push_back(KernelRelease::long_blocks);
    if (w.year >= 2025 && (megatron_core(w.name) || w.is({F::te, F::jax}))) out.push_back(KernelRelease::aiter);
    if (w.year >= 2026) out.insert(out.end(), {KernelRelease::cudnn_9_19, KernelRelease::rocm_7});
    if (w.year >= 2025 && torch_attention) out.push_back(KernelRelease::aotriton);
    if (w.year >= 2026 && torch_attention) out.push_back(KernelRelease::aotriton_0_11);
    return out;
}

void resolve_kernels(Practice& p, const Scenario& s, const Software& w) {
    const bool core = megatron_core(w.name), modules = core || w.is({F::te, F::nanotron});
    const bool interpreted = !s.runtime.plan_allocator; // simexec's own runtime has no modules that call kernels
    p.module_calls = modules && w.year >= 2024 && interpreted;
    p.engine_norms = core && w.year >= 2024;
    p.early_casts = core && w.year < 2025 && !s.defaults.contains("/runtime/year");
    p.ported_casts = (core || w.is({F::te})) && w.year < 2026;
    p.translated_casts = p.ported_casts && w.year < 2025;
    p.reduces_maxima =
        (core || w.is({F::te})) && w.year >= 2024 && s.training.precision == DType::fp8 && s.runtime.fp8_recipe == ScalingRecipe::delayed;
    p.casts_weights_at_use = !s.runtime.fp8_all_gather && (w.is({F::ddp, F::jax}) || (p.fully_sharded() && !modules));
    p.looks_types_up = w.is({F::ddp, F::horovod}) || (p.fully_sharded() && !modules);
    p.narrows_apart = w.year >= 2025;
    p.vectors_unlike = w.year >= 2026;
    p.keeps_wide_inputs = w.is({F::fsdp2, F::torchtitan}) && !s.strategy.fused;
    p.compiler_sees_casts = w.is({F::fsdp2, F::torchtitan, F::jax});
    const ScalingRecipe recipe = s.runtime.fp8_recipe;
    p.keeps_cast_weights = w.is({F::fsdp2, F::torchtitan}) && w.year < 2026 && s.strategy.fused && s.training.precision == DType::fp8 &&
                           (recipe == ScalingRecipe::delayed || recipe == ScalingRecipe::current);
    p.module_hooks = w.is({F::deepspeed}) && s.strategy.zero_stage == 3 && w.year >= 2022 && interpreted;
    p.hook_contexts = p.module_hooks && w.year >= 2026;
    p.pads_expert_rows = modules;
    p.keeps_masks = keeps_masks(s, w);
    p.expert_rows = p.keeps_masks ? ExpertRows::kernels : expert_rows_of(s, w);
    p.loops_over_experts = w.year < 2026 && !p.keeps_masks && s.strategy.expert_parallel == 1 && !s.runtime.fused_experts &&
                           !s.runtime.permute_fusion && (w.is({F::ddp, F::fsdp}) || transformers_under_deepspeed(s, w));
    p.separate_experts = p.expert_rows == ExpertRows::padded || p.expert_rows == ExpertRows::added || p.loops_over_experts;
    p.wide_gate = w.is({F::torchtitan}) && w.year >= 2026 && !is_wide(s.training.precision);
    p.masked_dispatch = w.is({F::jax}) || p.keeps_masks;
    p.static_shapes = w.is({F::jax});
    p.worst_case_rows = p.static_shapes && s.strategy.expert_parallel > 1 && s.model.moe && s.model.moe->capacity_factor <= 0;
    p.rings_between_two_nodes = w.year < 2022;
    p.releases = releases_of(s, w);
}

// (Parameters of 8 bits are not modelled under Megatron-FSDP, or on the host.)
void resolve_low_weights(Practice& p, const Scenario& s, const Software& w) {
    const DType t = s.training.precision;
    const Offload& o = s.strategy.offload;
    const bool low = is_low(t), here = o.optimizer == Tier::none && o.parameters == Tier::none && o.gradients == Tier::none,
               whole = s.strategy.zero_stage < 3 && p.sharding == Sharding::buckets, core = megatron_core(w.name);
    const bool by_rows_and_columns = t == DType::mxfp8 || s.runtime.fp8_recipe == ScalingRecipe::mxfp8;
    p.may_have_low_parameters = (core || w.is({F::te})) && whole && here && low && t != DType::nvfp4 && !s.model.trainable.partial();
    p.low_parameters = p.may_have_low_parameters && s.runtime.fp8_parameters;
    p.gathers_low_parameters = p.low_parameters && !by_rows_and_columns;
    p.keeps_low_weights = core && whole && low && !p.low_parameters;
}

// (Not with context parallelism: its exchanges are not modelled in 8 bits.)
void resolve_low_attention(Practice& p, const Scenario& s, const Software& w) {
    p.low_attention = s.runtime.attention_dtype == AttentionPrecision::fp8 && is_low(s.training.precision) &&
                      (megatron_core(w.name) || w.is({F::te})) && s.runtime.attention_kernel == AttentionKernel::cudnn &&
                      s.strategy.context_parallel == 1;
}

// What DeepSpeed's optimizers hold beside gradients and states. (States on the host have buffers of their own: passes/offload_optimizer.)
void resolve_zero_memory(Practice& p, const Scenario& s, const Software& w) {
    if (!w.is({F::deepspeed})) return;
    const Training& t = s.training;
    const int stage = s.strategy.zero_stage;
    // BF16_Optimizer: without ZeRO, or in stage 1 on the device (DeepSpeedEngine::_do_optimizer_sanity_check).
    p.keeps_narrow_gradients =
        t.precision == DType::bf16 && t.gradient_dtype == DType::fp32 && stage <= 1 && s.strategy.offload.optimizer == Tier::none;
    p.flat_step_gradients =
        !p.keeps_narrow_gradients && (stage >= 1 || t.precision == DType::fp16) && !s.strategy.sends_signs() && !t.optimizer_in_backward;
    p.step_group = stage == 3 ? s.strategy.offload.sub_group_size : 0;
    const bool twice = stage < 3 && s.strategy.overlap.grad_reduce && s.strategy.pipeline_parallel == 1;
    const bool alone = s.strategy.data_parallel * s.strategy.context_parallel == 1;
    p.reduce_buffers = p.keeps_narrow_gradients ? !alone : stage == 0 ? 0 : twice ? 2 : 1;
    p.copies_own_gradients =
        stage == 1 && p.flat_step_gradients && bytes_per_element(t.gradient_dtype) == 2 && s.strategy.offload.optimizer == Tier::none;
}

// (Megatron-Core's precision-aware optimizer, which keeps moments of 16 bits or what masters have beyond the parameters, reads gradients as
// they are.)
void resolve_step_memory(Practice& p, const Scenario& s, const Software& w) {
    const Training& t = s.training;
    const bool here = s.strategy.offload.optimizer == Tier::none && s.strategy.offload.gradients == Tier::none;
    p.widens_gradients = megatron_core(w.name) && here && t.master_weights && !t.master_remainders && t.moment_dtype == DType::fp32 &&
                         bytes_per_element(t.gradient_dtype) == 2 && !t.optimizer_in_backward && s.strategy.zero_stage < 3 &&
                         p.sharding == Sharding::buckets && !s.strategy.workers();
    p.keeps_wide_gradients = p.widens_gradients && w.year < 2022 && s.strategy.zero_stage == 0;
}

// (NCCL connects since its release 2.22, of 2024, what a communicator uses: one that only carries numbers takes little. 2024 counts as what
// came before.)
void resolve_communicators(Practice& p, const Scenario& s, const Software& w) {
    const bool whole = megatron_core(w.name) && w.year < 2025;
    p.world_communicator = whole;
    p.norm_communicator = whole && s.strategy.zero_stage == 0;
    p.loss_communicator = whole && w.year == 2024;
}

void resolve_memory(Practice& p, const Scenario& s, const Software& w) {
    const bool core = megatron_core(w.name);
    p.lazy_loading = w.year >= 2023;
    resolve_low_weights(p, s, w);
    resolve_low_attention(p, s, w);
    p.graph_pools = core && s.runtime.cuda_graphs && !s.runtime.fused_experts; // with fused experts one graph has the whole step
    p.graph_pool_a_microbatch = p.graph_pools && w.year < 2026 && s.strategy.pipeline_parallel > 1;
    p.copies_to_buckets = w.is({F::ddp}) && s.strategy.zero_stage <= 1 && s.strategy.data_parallel * s.strategy.context_parallel > 1;
    p.computation_copies_checkpoints = w.is({F::deepspeed}) && s.strategy.recompute != RecomputeKind::none &&
                                       s.strategy.offload.activations == Tier::cpu && !trainer_under_deepspeed(s);
    p.keeps_scores = core && w.year >= 2022;
    p.grouped_workspaces = core;
    p.gradient_placeholders = core && w.year >= 2025;
    resolve_step_memory(p, s, w);
    resolve_communicators(p, s, w);
    resolve_zero_memory(p, s, w);
    p.keeps_outputs = s.strategy.pipeline_parallel > 1 && w.year < 2026 && w.is({F::ddp, F::fsdp, F::fsdp2, F::torchtitan}) &&
                      !s.runtime.plan_allocator && s.runtime.loss != LossKind::chunked;
    p.early_allocator = w.is({F::deepspeed}) && w.year < 2024;
    p.foreach_temporaries = w.year >= 2023 && !s.runtime.fused_optimizer && w.is({F::ddp, F::fsdp, F::fsdp2, F::torchtitan, F::composer});
}

// torchtitan calls fully_shard; Composer (LLM Foundry) FullyShardedDataParallel, and so do loops of one's own around Transformer Engine's
// layers where they shard (its examples/pytorch/fsdp).
Sharding sharding_of(const Scenario& s, const Software& w) {
    if (w.is({F::fsdp2, F::torchtitan})) return Sharding::per_parameter;
    if (w.is({F::fsdp, F::composer}) || (w.is({F::te}) && s.strategy.zero_stage >= 2)) return Sharding::flat_units;
    return w.is({F::jax}) ? Sharding::compiler : Sharding::buckets;
}

Stack stack_of(const Practice& p, const Software& w) {
    if (megatron_core(w.name) || w.is({F::te})) return Stack::modules;
    if (w.is({F::deepspeed})) return Stack::zero;
    return p.fully_sharded() || w.is({F::nanotron}) ? Stack::eager : Stack::other;
}

} // namespace

bool divides_vocabulary(const Scenario& s) { return s.strategy.tensor_parallel > 1 && s.runtime.loss != LossKind::whole; }

Practice practice_of(const Scenario& scenario) {
    const Software software{scenario.strategy.framework, scenario.runtime.year};
    Practice p;
    p.sharding = sharding_of(scenario, software);
    p.stack = stack_of(p, software);
    resolve_layers(p, scenario, software);
    resolve_loss(p, scenario, software);
    resolve_parallelism(p, scenario, software);
    resolve_step(p, scenario, software);
    resolve_offload(p, scenario, software);
    resolve_kernels(p, scenario, software);
    resolve_adapters(p, scenario, software);
    resolve_memory(p, scenario, software);
    return p;
}

std::string software_text(const Scenario& s) {
    return std::string(name(s.strategy.framework)) + ", software of " + std::to_string(s.runtime.year) +
           (s.defaults.contains("/runtime/year") ? " (assumed: runtime.year sets it)" : "");
}

} // namespace orrery

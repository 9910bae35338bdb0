#include "sim/scenario/abilities.hpp"

#include <string>

namespace orrery {

namespace {

using F = Framework;

struct Row {
    Framework framework;
    const char *schedules, *dispatchers, *contexts, *homes, *compressions, *stages, *piped_stages;
};

// Sources: Megatron-LM's arguments.py (pipelines follow from --num-virtual-stages-per-pipeline-rank; --moe-token-dispatcher-type, with
// --moe-flex-dispatcher-backend deepep or hybridep; --cp-comm-type p2p, all_gather, a2a; --optimizer-cpu-offload); torchtitan's
// --parallelism.pipeline_parallel_schedule and its context parallelism (torch.distributed.tensor.experimental.context_parallel: rings and
// gathers) and training.enable_cpu_offload; DeepSpeed's pipeline engine, Ulysses, MoE layer and offload_optimizer; nanotron's pp_engine
// (1f1b, afab); Colossal-AI's pp_style and sequence_parallelism_mode; InternEvo's parallel.pipeline.mode and parallel.tensor.mode;
// MaxText's pipelines, which are differentiated as a whole, and context_parallel_strategy. The others have no pipeline of their own.
// Homes: Megatron-Core's --optimizer-cpu-offload and --fine-grained-activation-offloading; CPUOffload and CPUOffloadPolicy of PyTorch's
// FSDP (torchtitan's training.enable_cpu_offload), which take parameters, gradients and optimizer states together; DeepSpeed's
// offload_optimizer and offload_param, to the host or to NVMe, and cpu_checkpointing; Colossal-AI's cpu_offload; MaxText's
// optimizer_memory_host_offload and remat_policy. Compressions: DDP's and FSDP's communication hooks, Horovod's Compression.fp16,
// DeepSpeed's communication_data_type and 1-bit optimizers.
// Stages: Megatron-Core's --use-distributed-optimizer and --data-parallel-sharding-strategy (optim, optim_grads, optim_grads_params);
// PyTorch's FSDP (NO_SHARD, SHARD_GRAD_OP, FULL_SHARD) and fully_shard (reshard_after_forward off and on; torchtitan's
// fsdp_reshard_after_forward), which shard optimizer states and gradients together, or replicate (data_parallel_replicate_degree); DDP's
// ZeroRedundancyOptimizer; DeepSpeed's pipeline engine, which asserts stages below 2; nanotron's zero_stage (0, 1); Colossal-AI's
// HybridParallelPlugin (0 to 2, with a pipeline 0 and 1) and its Gemini, which shards all; InternEvo's parallel.zero1, and its fsdp and
// weight, which shard all; MaxText's ici_data_parallelism, shard_optimizer_over_data and ici_fsdp_parallelism. A loop of one's own may
// have any.
constexpr Row rows[] = {
    {F::megatron, " none 1f1b interleaved-1f1b ", " alltoall allgather deepep hybridep ", " ring allgather ulysses ",
     " optimizer activations ", "", " 0 1 2 3 ", " 0 1 2 3 "},
    {F::nemo, " none 1f1b interleaved-1f1b ", " alltoall allgather deepep hybridep ", " ring allgather ulysses ", " optimizer activations ",
     "", " 0 1 2 3 ", " 0 1 2 3 "},
    {F::torchtitan, " none gpipe 1f1b interleaved-1f1b zb-v dualpipe-v ", " alltoall deepep ", " ring allgather ", " parameters ", "",
     " 0 2 3 ", " 0 2 3 "},
    {F::fsdp2, " none gpipe 1f1b interleaved-1f1b zb-v dualpipe-v ", " alltoall deepep ", " ring allgather ", " parameters ", "", " 0 2 3 ",
     " 0 2 3 "},
    {F::fsdp, " none ", " alltoall ", " ring allgather ", " parameters ", " fp16 bf16 ", " 0 2 3 ", " 0 2 3 "},
    {F::composer, " none ", " alltoall ", "", "", "", " 0 2 3 ", " 0 2 3 "},
    {F::ddp, " none ", " alltoall ", "", "", " fp16 bf16 powersgd ", " 0 1 ", " 0 1 "},
    {F::horovod, " none ", " alltoall ", "", "", " fp16 ", " 0 ", " 0 "},
    {F::te, " none ", " alltoall ", " ring allgather ulysses ", "", "", " 0 1 2 3 ", " 0 1 2 3 "},
    {F::deepspeed, " none 1f1b ", " alltoall ", " ulysses ", " optimizer gradients parameters activations disk ",
     " fp16 bf16 onebit-adam onebit-lamb zero-one-adam ", " 0 1 2 3 ", " 0 1 "},
    {F::nanotron, " none 1f1b gpipe ", " alltoall ", " ring ", "", "", " 0 1 ", " 0 1 "},
    {F::colossalai, " none 1f1b interleaved-1f1b zb-v ", " alltoall ", " ring ulysses ", " optimizer ", "", " 0 1 2 3 ", " 0 1 "},
    {F::internlm, " none 1f1b interleaved-1f1b zb-h1 zb-v ", " alltoall ", " ring ulysses ", "", "", " 0 1 3 ", " 0 1 3 "},
    {F::jax, " none gpipe ", " alltoall allgather ", " allgather ring ", " optimizer activations ", "", " 0 1 3 ", " 0 1 3 "},
};

} // namespace

bool Abilities::has(std::string_view list, std::string_view word) const {
    return all || list.find(" " + std::string(word) + " ") != std::string_view::npos;
}

Abilities abilities_of(const Scenario& s) {
    if (s.defaults.contains("/strategy/framework")) return {};
    for (const Row& row : rows)
        if (row.framework == s.strategy.framework)
            return {false, row.schedules, row.dispatchers, row.contexts, row.homes, row.compressions, row.stages, row.piped_stages};
    return {};
}

} // namespace orrery

#include "sim/scenario/abilities.hpp"

#include <string>

namespace orrery {

namespace {

using F = Framework;

struct Row {
    Framework framework;
    const char *schedules, *dispatchers, *contexts, *homes, *compressions;
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
constexpr Row rows[] = {
    {F::megatron, " none 1f1b interleaved-1f1b ", " alltoall allgather deepep hybridep ", " ring allgather ulysses ",
     " optimizer activations ", ""},
    {F::nemo, " none 1f1b interleaved-1f1b ", " alltoall allgather deepep hybridep ", " ring allgather ulysses ", " optimizer activations ",
     ""},
    {F::torchtitan, " none gpipe 1f1b interleaved-1f1b zb-v dualpipe-v ", " alltoall deepep ", " ring allgather ", " parameters ", ""},
    {F::fsdp2, " none gpipe 1f1b interleaved-1f1b zb-v dualpipe-v ", " alltoall deepep ", " ring allgather ", " parameters ", ""},
    {F::fsdp, " none ", " alltoall ", " ring allgather ", " parameters ", " fp16 bf16 "},
    {F::composer, " none ", " alltoall ", "", "", ""},
    {F::ddp, " none ", " alltoall ", "", "", " fp16 bf16 powersgd "},
    {F::horovod, " none ", " alltoall ", "", "", " fp16 "},
    {F::te, " none ", " alltoall ", " ring allgather ulysses ", "", ""},
    {F::deepspeed, " none 1f1b ", " alltoall ", " ulysses ", " optimizer gradients parameters activations disk ",
     " fp16 bf16 onebit-adam onebit-lamb zero-one-adam "},
    {F::nanotron, " none 1f1b gpipe ", " alltoall ", " ring ", "", ""},
    {F::colossalai, " none 1f1b interleaved-1f1b zb-v ", " alltoall ", " ring ulysses ", " optimizer ", ""},
    {F::internlm, " none 1f1b interleaved-1f1b zb-h1 zb-v ", " alltoall ", " ring ulysses ", "", ""},
    {F::jax, " none gpipe ", " alltoall allgather ", " allgather ring ", " optimizer activations ", ""},
};

} // namespace

bool Abilities::has(std::string_view list, std::string_view word) const {
    return all || list.find(" " + std::string(word) + " ") != std::string_view::npos;
}

Abilities abilities_of(const Scenario& s) {
    if (s.defaults.contains("/strategy/framework")) return {};
    for (const Row& row : rows)
        if (row.framework == s.strategy.framework)
            return {false, row.schedules, row.dispatchers, row.contexts, row.homes, row.compressions};
    return {};
}

} // namespace orrery

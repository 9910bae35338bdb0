#include "sim/scenario/abilities.hpp"

#include <string>

namespace orrery {

namespace {

using F = Framework;

struct Row {
    Framework framework;
    const char *schedules, *dispatchers, *contexts;
    bool optimizer_on_host;
};

// Sources: Megatron-LM's arguments.py (pipelines follow from --num-virtual-stages-per-pipeline-rank; --moe-token-dispatcher-type, with
// --moe-flex-dispatcher-backend deepep or hybridep; --cp-comm-type p2p, all_gather, a2a; --optimizer-cpu-offload); torchtitan's
// --parallelism.pipeline_parallel_schedule and its context parallelism (torch.distributed.tensor.experimental.context_parallel: rings and
// gathers) and training.enable_cpu_offload; DeepSpeed's pipeline engine, Ulysses, MoE layer and offload_optimizer; nanotron's pp_engine
// (1f1b, afab); Colossal-AI's pp_style and sequence_parallelism_mode; InternEvo's parallel.pipeline.mode and parallel.tensor.mode;
// MaxText's pipelines, which are differentiated as a whole, and context_parallel_strategy. The others have no pipeline of their own.
constexpr Row rows[] = {
    {F::megatron, " none 1f1b interleaved-1f1b ", " alltoall allgather deepep hybridep ", " ring allgather ulysses ", true},
    {F::nemo, " none 1f1b interleaved-1f1b ", " alltoall allgather deepep hybridep ", " ring allgather ulysses ", true},
    {F::torchtitan, " none gpipe 1f1b interleaved-1f1b zb-v dualpipe-v ", " alltoall deepep ", " ring allgather ", true},
    {F::fsdp2, " none gpipe 1f1b interleaved-1f1b zb-v dualpipe-v ", " alltoall deepep ", " ring allgather ", true},
    {F::fsdp, " none ", " alltoall ", " ring allgather ", true},
    {F::composer, " none ", " alltoall ", "", true},
    {F::ddp, " none ", " alltoall ", "", false},
    {F::horovod, " none ", " alltoall ", "", false},
    {F::te, " none ", " alltoall ", " ring allgather ulysses ", false},
    {F::deepspeed, " none 1f1b ", " alltoall ", " ulysses ", true},
    {F::nanotron, " none 1f1b gpipe ", " alltoall ", " ring ", false},
    {F::colossalai, " none 1f1b interleaved-1f1b zb-v ", " alltoall ", " ring ulysses ", true},
    {F::internlm, " none 1f1b interleaved-1f1b zb-h1 zb-v ", " alltoall ", " ring ulysses ", false},
    {F::jax, " none gpipe ", " alltoall allgather ", " allgather ring ", true},
};

} // namespace

bool Abilities::has(std::string_view list, std::string_view word) const {
    return all || list.find(" " + std::string(word) + " ") != std::string_view::npos;
}

Abilities abilities_of(const Scenario& s) {
    if (s.defaults.contains("/strategy/framework")) return {};
    for (const Row& row : rows)
        if (row.framework == s.strategy.framework) return {false, row.schedules, row.dispatchers, row.contexts, row.optimizer_on_host};
    return {};
}

} // namespace orrery

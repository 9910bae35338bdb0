#include "sim/scenario/abilities.hpp"

#include "sim/scenario/frameworks.hpp"
#include "sim/schedules/schedule.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <string>
#include <vector>

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
// Stages: Megatron-Core's --use-distributed-optimizer and, of Megatron-FSDP alone, --data-parallel-sharding-strategy (optim_grads,
// optim_grads_params), which goes with tensor, expert and context parallelism, not with a pipeline (Megatron-LM of 2026:
// docs/user-guide/features/custom_fsdp.md lists TP, EP and CP; NeMo's Automodel raises "megatron_fsdp does not support pipeline
// parallelism", and the FSDP of NeMo 1 asserts that there is none: nemo/collections/nlp/parts/nlp_overrides.py);
// PyTorch's FSDP (NO_SHARD, SHARD_GRAD_OP, FULL_SHARD) and fully_shard (reshard_after_forward off and on; torchtitan's
// fsdp_reshard_after_forward), which shard optimizer states and gradients together, or replicate (data_parallel_replicate_degree); DDP's
// ZeroRedundancyOptimizer; DeepSpeed's pipeline engine, which asserts stages below 2; nanotron's zero_stage (0, 1); Colossal-AI's
// HybridParallelPlugin (0 to 2, with a pipeline 0 and 1) and its Gemini, which shards all; InternEvo's parallel.zero1, and its fsdp and
// weight, which shard all: fsdp without a pipeline (wrap_FSDP_model asserts so), weight with one too (ISPCommunicatorSchedulerHook of
// internlm/core/parallel/comm/isp.py follows the chunks of a virtual pipeline); MaxText's ici_data_parallelism, shard_optimizer_over_data
// and ici_fsdp_parallelism. A loop of one's own may have any.
constexpr Row rows[] = {
    {F::megatron, " none 1f1b interleaved-1f1b ", " alltoall allgather deepep hybridep ", " ring allgather ulysses ",
     " optimizer activations ", "", " 0 1 2 3 ", " 0 1 "},
    {F::nemo, " none 1f1b interleaved-1f1b ", " alltoall allgather deepep hybridep ", " ring allgather ulysses ", " optimizer activations ",
     "", " 0 1 2 3 ", " 0 1 "},
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

std::vector<std::string> Abilities::all_schedules() const {
    std::vector<std::string> known = schedule_names();
    std::erase_if(known, [&](const std::string& name) { return !has_schedule(name) || find_schedule(name)->asynchronous; });
    return known;
}

std::vector<GradientCompression> Abilities::all_compressions() const {
    std::vector<GradientCompression> known;
    for (const GradientCompression kind : values<GradientCompression>())
        if (kind != GradientCompression::none && has(kind)) known.push_back(kind);
    return known;
}

Abilities abilities_of(const Scenario& s) {
    if (s.defaults.contains("/strategy/framework")) return {};
    // Megatron-LM had neither Megatron-FSDP nor torch FSDP2 before 2025 (Megatron-Core 0.10 and 0.11). A year that nobody states hides
    // nothing that the software has today.
    const bool whole_gradients = s.strategy.framework == F::megatron && s.runtime.year < 2025 && !s.defaults.contains("/runtime/year");
    for (const Row& row : rows)
        if (row.framework == s.strategy.framework)
            return {false,
                    row.schedules,
                    row.dispatchers,
                    row.contexts,
                    row.homes,
                    row.compressions,
                    whole_gradients ? row.piped_stages : row.stages,
                    row.piped_stages};
    return {};
}

bool may_dispatch(const Scenario& s, TokenDispatcher kind) {
    const Abilities can = abilities_of(s);
    if (!can.has(kind)) return false;
    const Device& device = s.cluster.device;
    const bool of_racks = device.name.starts_with("gb200") || device.name.starts_with("gb300");
    const bool no_deepep = of_racks && megatron_core(s.strategy.framework) && !can.all;
    if (kind == TokenDispatcher::deepep) return !no_deepep;
    return kind != TokenDispatcher::hybridep || no_deepep || s.cluster.intra.domain_nodes > 1;
}

bool may_overlap_tensor_parallel(const Scenario& s) { return s.strategy.framework != Framework::torchtitan || s.strategy.fused; }

std::string schedules_beside_own(const std::string& text) {
    const nlohmann::json j = nlohmann::json::parse(text, nullptr, false);
    const auto word = [&](const char* field) {
        const nlohmann::json::json_pointer at(std::string("/strategy/") + field);
        return j.is_object() && j.contains(at) && j[at].is_string() ? j[at].get<std::string>() : std::string();
    };
    const std::string own = word("schedule");
    if (own.empty() || find_schedule(own) == nullptr) return {};
    Abilities can;
    if (const auto framework = named<Framework>(word("framework"))) {
        Scenario stated;
        stated.strategy.framework = *framework;
        can = abilities_of(stated);
    }
    std::vector<std::string> schedules = can.all_schedules();
    if (std::ranges::find(schedules, own) != schedules.end()) return {};
    schedules.push_back(own);
    return nlohmann::json{{"/strategy/schedule", schedules}}.dump();
}

} // namespace orrery

// Offload: what may live on the host or on NVMe, and with what.
#include "sim/scenario/practice.hpp"
#include "sim/scenario/resolve.hpp"

namespace orrery {
namespace {

// Why no software has parameters or gradients of a pipeline's stages there; empty: PyTorch's fully_shard does, once a step.
std::string not_in_pipelines(const Scenario& sc, Tier tier) {
    const Strategy& s = sc.strategy;
    if (practice_of(sc).sharding != Sharding::per_parameter)
        return std::string(" and framework = ") + name(s.framework) +
               " is what no software does: set framework = torchtitan, whose stages gather once a step, or pipeline_parallel = 1";
    if (s.data_parallel * s.context_parallel == 1)
        return " is what torchtitan does where ranks share a stage's parameters alone: set data_parallel to at least 2";
    if (tier == Tier::nvme)
        return " is what no software does (ZeRO-Infinity alone has NVMe, and DeepSpeed's pipelines take no ZeRO stage above 1): set it to "
               "cpu, or pipeline_parallel = 1";
    return {};
}

// Parameters and gradients that live on the host are updated there, and come and go a unit at a time.
void check_homes(Reading& reading) {
    const Scenario& sc = reading.scenario;
    const Strategy& s = sc.strategy;
    const bool one = s.data_parallel * s.context_parallel == 1, fsdp = practice_of(sc).fully_sharded();
    const auto check = [&](const char* key, Tier tier, bool comes_and_goes, const char* stage) {
        if (tier == Tier::none) return;
        const std::string pointer = std::string("/strategy/offload/") + key, field = dotted(pointer) + " = " + name(tier);
        if (s.offload.optimizer == Tier::none || s.offload.optimizer_fraction < 1)
            reading.problem(pointer, field + " needs the whole update there: set offload.optimizer = cpu and optimizer_fraction = 1");
        if (!comes_and_goes)
            reading.problem(pointer, field + " with strategy.zero_stage = " + std::to_string(s.zero_stage) +
                                         " is not modelled: set zero_stage = " + stage);
        if (const std::string why = not_in_pipelines(sc, tier); s.pipeline_parallel > 1 && !why.empty())
            reading.problem(pointer, field + " with strategy.pipeline_parallel = " + std::to_string(s.pipeline_parallel) + why);
        if (sc.model.moe && s.shard_group_size > 0)
            reading.problem(pointer, field + " is not modelled with strategy.shard_group_size and a mixture of experts (model.moe), whose "
                                             "copies may be whole: leave one of the two out");
    };
    check("parameters", s.offload.parameters, one || s.zero_stage == 3 || (s.zero_stage == 2 && fsdp), "3");
    check("gradients", s.offload.gradients, one || s.zero_stage >= 2, "2 or 3");
}

// One step behind: all parameters are on the device, their updates on the host.
void check_delayed_update(Reading& reading) {
    const Scenario& sc = reading.scenario;
    const Offload& o = sc.strategy.offload;
    if (!o.delayed_update) return;
    const auto refuse = [&](bool broken, const std::string& what) {
        if (broken) reading.problem("/strategy/offload/delayed_update", "strategy.offload.delayed_update " + what);
    };
    refuse(o.optimizer == Tier::none, "needs an update on the host: set offload.optimizer = cpu");
    refuse(o.optimizer != Tier::none && o.optimizer_fraction < 1,
           "needs the whole update on the host, or parameters would be of two ages: set optimizer_fraction = 1");
    refuse(o.parameters != Tier::none, std::string("is not modelled with offload.parameters = ") + name(o.parameters) +
                                           ", where the host's parameters are read while they are updated: set it to none");
    refuse(o.gradients == Tier::nvme, "is not modelled with offload.gradients = nvme: set it to cpu or none");
    refuse(sc.strategy.post_validation, "is not modelled with strategy.optimizer_sync = post-validation: use global");
}

// Workers meet with what the optimizer steps on: its fp32 copies come from the host for that and go back, whole and once a round.
void check_states_of_workers(Reading& reading, const std::string& host) {
    const Strategy& s = reading.scenario.strategy;
    if (!s.workers()) return;
    const auto refuse = [&](bool broken, const char* pointer, const std::string& what) {
        if (broken) reading.problem(pointer, what);
    };
    const std::string kind = std::string("strategy.synchronization.kind = ") + name(s.synchronization.kind);
    refuse(s.loose(), "/strategy/synchronization/kind",
           kind + " is not modelled with " + host + (s.served() ? ": servers have the states of the optimizer" : "") +
               ": set kind = local_sgd or diloco, or keep states on devices");
    refuse(s.streaming(), "/strategy/synchronization/kind",
           kind + " is not modelled with " + host +
               ", whose step is of all fragments at once: set kind = diloco, or keep states on devices");
    if (s.loose() || s.streaming()) return;
    refuse(s.offload.optimizer == Tier::nvme, "/strategy/offload/optimizer",
           host + " is not modelled with " + kind + ", whose workers would meet with what lies on NVMe: set it to cpu");
    refuse(s.offload.optimizer_fraction < 1, "/strategy/offload/optimizer_fraction",
           "strategy.offload.optimizer_fraction below 1 is not modelled with " + kind + ": set it to 1, or keep states on devices");
    refuse(s.offload.parameters != Tier::none, "/strategy/offload/parameters",
           std::string("strategy.offload.parameters = ") + name(s.offload.parameters) + " is not modelled with " + kind +
               ", whose workers meet with parameters on the device: set it to none");
    refuse(s.offload.gradients != Tier::none, "/strategy/offload/gradients",
           std::string("strategy.offload.gradients = ") + name(s.offload.gradients) + " is not modelled with " + kind + ": set it to none");
    refuse(s.offload.delayed_update, "/strategy/offload/delayed_update",
           "strategy.offload.delayed_update is not modelled with " + kind +
               ": the last update would come after the meeting: set it to false");
}

} // namespace

// The host's optimizer steps on whole parameters, in fp32 or in what all of the training has.
void check_offload(Reading& reading) {
    if (!sound(reading, {"/strategy", "/training", "/model"})) return;
    const Scenario& sc = reading.scenario;
    check_homes(reading);
    check_delayed_update(reading);
    if (sc.strategy.offload.optimizer == Tier::none) return;
    const auto refuse = [&](bool broken, const char* pointer, const std::string& what) {
        if (broken) reading.problem(pointer, what);
    };
    const std::string host = std::string("strategy.offload.optimizer = ") + name(sc.strategy.offload.optimizer);
    const Training& t = sc.training;
    refuse(t.optimizer == Optimizer::lamb || t.optimizer == Optimizer::lars, "/training/optimizer",
           std::string("training.optimizer = ") + name(t.optimizer) + " needs norms of whole tensors, which is not modelled with " + host +
               ": try adamw, or offload.optimizer = none");
    // FSDP's CPUOffloadPolicy leaves the step to torch.optim, whose moments are like the parameters (torchtune's recipes in bf16).
    const bool like_parameters =
        !t.master_weights && t.moment_dtype == t.precision && bytes_per_element(t.moment_dtype) == 2 && practice_of(sc).fully_sharded();
    refuse(t.moment_dtype != DType::fp32 && !like_parameters, "/training/moment_dtype",
           std::string("training.moment_dtype = ") + (t.moment_dtype == DType::uint8 ? "int8" : name(t.moment_dtype)) +
               " is not modelled with " + host + ": set it to fp32");
    refuse(t.master_remainders, "/training/master_remainders",
           "training.master_remainders is not modelled with " + host + ", which steps on whole masters: set it to false");
    check_states_of_workers(reading, host);
}

} // namespace orrery

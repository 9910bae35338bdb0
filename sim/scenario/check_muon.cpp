// Muon (training.optimizer): its step needs whole matrices, so what divides or delays an update goes with it in some places only.
#include "sim/scenario/frameworks.hpp"
#include "sim/scenario/resolve.hpp"
#include "sim/schedules/schedule.hpp"

#include <fmt/format.h>

namespace orrery {

void resolve_muon(Reading& reading) {
    Scenario& sc = reading.scenario;
    if (sc.training.optimizer != Optimizer::muon || reading.has("/training/muon_matrices")) return;
    const bool core = megatron_core(sc.strategy.framework);
    sc.training.muon_matrices = core ? MuonMatrices::blockwise : MuonMatrices::duplicated;
    if (sc.strategy.tensor_parallel == 1 && sc.strategy.expert_tensor_parallel == 1) return;
    note_default(reading, "/training/muon_matrices", name(sc.training.muon_matrices),
                 core ? "Megatron-Core's muon_tp_mode" : "an update of the whole matrix, as Muon defines it");
}

void check_muon(Reading& reading) {
    const Scenario& sc = reading.scenario;
    const Strategy& s = sc.strategy;
    if (sc.training.optimizer != Optimizer::muon || !sound(reading, {"/strategy", "/training", "/model"})) return;
    const auto refuse = [&](bool broken, const char* pointer, const std::string& what) {
        if (broken) reading.problem(pointer, what);
    };
    const char* with = "training.optimizer = muon";
    refuse(s.zero_stage >= 2, "/strategy/zero_stage",
           fmt::format("strategy.zero_stage = {}{} with {} is not modelled: a step needs whole matrices, and software gathers them from "
                       "shards of gradients in ways of its own: set zero_stage to 1, where matrices have owners or are gathered, or to 0",
                       s.zero_stage, reading.has("/strategy/zero_stage") ? "" : " (the framework's default)", with));
    refuse(s.offload.optimizer != Tier::none, "/strategy/offload/optimizer",
           fmt::format("strategy.offload.optimizer = {} with {} is not modelled: its products belong on a device: set it to none, or the "
                       "optimizer to adamw",
                       name(s.offload.optimizer), with));
    refuse(sc.training.optimizer_in_backward, "/training/optimizer_in_backward",
           fmt::format("training.optimizer_in_backward with {} is not modelled: set it to false", with));
    refuse(asynchronous_schedule(s), "/strategy/schedule",
           fmt::format("strategy.schedule = {} with {} is not modelled: use 1f1b", s.schedule, with));
    const ScheduleInfo* schedule = find_schedule(s.schedule);
    refuse(schedule && schedule->directions > 1 && s.zero_stage > 0, "/strategy/schedule",
           fmt::format("strategy.schedule = {} with {} and zero_stage = {} is not modelled: shards lie on two stages: set zero_stage to 0, "
                       "or use another schedule",
                       s.schedule, with, s.zero_stage));
    refuse(s.synchronization.kind != Synchronization::Kind::synchronous, "/strategy/synchronization/kind",
           fmt::format("strategy.synchronization.kind = {} with {} is not modelled: set kind = synchronous, or the optimizer to adamw",
                       name(s.synchronization.kind), with));
    refuse(sc.federated.has_value(), "/federated", fmt::format("federated with {} is not modelled: set the optimizer to adamw", with));
}

} // namespace orrery

// Schedules whose steps flow into each other: nothing may wait for all stages at the end of a step.
#include "sim/scenario/resolve.hpp"
#include "sim/schedules/schedule.hpp"

#include <fmt/format.h>

namespace orrery {

bool asynchronous_schedule(const Strategy& s) {
    const ScheduleInfo* schedule = find_schedule(s.schedule);
    return schedule && schedule->asynchronous;
}

// Clipping to the norm of all gradients is a barrier. Filling and draining once a round of `flush_every` steps takes about p - 1
// microbatches' time: by default a hundredth of it.
void resolve_asynchronous(Reading& reading) {
    Scenario& sc = reading.scenario;
    Strategy& s = sc.strategy;
    if (!asynchronous_schedule(s)) return;
    if (!reading.has("/training/gradient_clipping") && s.pipeline_parallel > 1) {
        sc.training.gradient_clipping = 0;
        note_default(reading, "/training/gradient_clipping", "0", "the norm over all stages is a barrier");
    }
    if (s.pipeline_parallel == 1) s.flush_every = 1; // nothing flows from one step into the next: notes.cpp says so
    if (s.pipeline_parallel == 1 || reading.has("/strategy/flush_every")) return;
    const std::int64_t samples = static_cast<std::int64_t>(s.data_parallel) * sc.training.micro_batch_size;
    const std::int64_t m = samples > 0 ? std::max<std::int64_t>(1, sc.training.global_batch_size / samples) : 1;
    s.flush_every = static_cast<int>(std::max<std::int64_t>(2, (100 * (std::int64_t{s.pipeline_parallel} - 1) + m - 1) / m));
    note_default(reading, "/strategy/flush_every", std::to_string(s.flush_every), "filling and draining is a hundredth of a round");
}

void check_asynchronous(Reading& reading) {
    const Scenario& sc = reading.scenario;
    const Strategy& s = sc.strategy;
    if (!sound(reading, {"/strategy", "/model", "/training", "/cluster"}) || !asynchronous_schedule(s)) return;
    const std::string is = "strategy.schedule = " + s.schedule;
    const auto refuse = [&](bool broken, const char* pointer, const std::string& what) {
        if (broken) reading.problem(pointer, what);
    };
    const bool stages = s.pipeline_parallel > 1;
    refuse(s.zero_stage > 0, "/strategy/zero_stage",
           fmt::format("strategy.zero_stage = {} gathers one version of the weights for all, which is not modelled with {}: try 0",
                       s.zero_stage, is));
    refuse(stages && sc.training.gradient_clipping > 0, "/training/gradient_clipping",
           fmt::format("training.gradient_clipping = {:g} waits for the gradients of all stages, and with {} they update by themselves: "
                       "set it to 0",
                       sc.training.gradient_clipping, is));
    refuse(stages && (sc.model.tied_embeddings || sc.model.mtp_layers > 0), "/model/tied_embeddings",
           is + " updates the first and the last stage at different times, and a shared embedding would drift apart: set "
                "model.tied_embeddings = false, and mtp_layers = 0");
    refuse(s.synchronization.kind != Synchronization::Kind::synchronous && s.workers(), "/strategy/synchronization/kind",
           std::string("strategy.synchronization.kind = ") + name(s.synchronization.kind) + " is not modelled with " + is +
               ": set kind = synchronous");
    const Offload& o = s.offload;
    refuse(o.optimizer != Tier::none || o.parameters != Tier::none || o.gradients != Tier::none, "/strategy/offload",
           "strategy.offload of optimizer, parameters or gradients is not modelled with " + is + ": offload activations alone");
    refuse(sc.model.moe.has_value(), "/strategy/schedule", is + " is not modelled with a mixture of experts (model.moe): try 1f1b");
    refuse(s.post_validation, "/strategy/optimizer_sync",
           "strategy.optimizer_sync = post-validation undoes a step of all stages, which " + is + " never takes: use global");
    const std::int64_t m = sc.microbatches();
    refuse(s.weight_versions == WeightVersions::two && m < s.pipeline_parallel, "/strategy/weight_versions",
           fmt::format("strategy.weight_versions = 2bw needs as many microbatches a step as stages, {} are fewer than {}: raise "
                       "training.global_batch_size to {}, or use stash",
                       m, s.pipeline_parallel, std::int64_t{s.pipeline_parallel} * s.data_parallel * sc.training.micro_batch_size));
}

} // namespace orrery

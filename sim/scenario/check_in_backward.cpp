// Updates in the backward pass: a bucket's parameters change when its gradients are complete, so nothing may wait for the others'.
#include "sim/scenario/practice.hpp"
#include "sim/scenario/resolve.hpp"

#include <fmt/format.h>

namespace orrery {

void resolve_in_backward(Reading& reading) {
    Training& t = reading.scenario.training;
    if (!t.optimizer_in_backward || reading.scenario.strategy.post_validation || reading.has("/training/gradient_clipping")) return;
    t.gradient_clipping = 0;
    note_default(reading, "/training/gradient_clipping", "0", "the norm of all gradients is known after the last update");
}

namespace {

void check_homes(Reading& reading, const char* with) {
    const auto refuse = [&](bool broken, const char* pointer, const std::string& what) {
        if (broken) reading.problem(pointer, what);
    };
    const Offload& o = reading.scenario.strategy.offload;
    refuse(o.parameters != Tier::none || o.gradients != Tier::none || o.optimizer == Tier::nvme, "/strategy/offload",
           fmt::format("strategy.offload of parameters or gradients, or of the optimizer to nvme, is not modelled with {}: set "
                       "offload.optimizer = cpu, or offload activations alone",
                       with));
    refuse(o.optimizer == Tier::cpu && o.optimizer_fraction < 1, "/strategy/offload/optimizer_fraction",
           fmt::format("strategy.offload.optimizer_fraction = {:g} would divide every bucket, which is not modelled with {}: set it to 1",
                       o.optimizer_fraction, with));
    refuse(o.delayed_update, "/strategy/offload/delayed_update",
           fmt::format("strategy.offload.delayed_update updates in the next step, and {} in this one's backward pass: choose one", with));
}

} // namespace

void check_in_backward(Reading& reading) {
    const Scenario& sc = reading.scenario;
    const Strategy& s = sc.strategy;
    const Training& t = sc.training;
    if (!t.optimizer_in_backward || !sound(reading, {"/strategy", "/model", "/training", "/cluster"})) return;
    const auto refuse = [&](bool broken, const char* pointer, const std::string& what) {
        if (broken) reading.problem(pointer, what);
    };
    const char* with = "training.optimizer_in_backward";
    const bool checks_later = s.post_validation && s.offload.optimizer == Tier::cpu;
    refuse(t.gradient_clipping > 0 && !checks_later, "/training/gradient_clipping",
           fmt::format("training.gradient_clipping = {:g} needs the norm of all gradients before the first update, which {} does not wait "
                       "for: set it to 0, or, with strategy.offload.optimizer = cpu, set strategy.optimizer_sync = post-validation "
                       "(SuperOffload checks the norm afterwards)",
                       t.gradient_clipping, with));
    refuse(sc.microbatches() > 1, "/training/global_batch_size",
           fmt::format("{} updates after the first microbatch, and a step has {}: set training.global_batch_size = {} (data_parallel x "
                       "micro_batch_size), or leave optimizer_in_backward out",
                       with, sc.microbatches(), std::int64_t{s.data_parallel} * t.micro_batch_size));
    refuse(t.optimizer == Optimizer::lamb || t.optimizer == Optimizer::lars, "/training/optimizer",
           fmt::format("training.optimizer = {} sums norms of whole tensors over ranks before it updates, which is not modelled with {}: "
                       "try adamw",
                       name(t.optimizer), with));
    refuse(s.pipeline_parallel > 1, "/strategy/pipeline_parallel",
           fmt::format("{} is not modelled with pipelines, whose stages add the gradients of several microbatches: set pipeline_parallel "
                       "= 1",
                       with));
    refuse(s.pipeline_parallel == 1 && s.virtual_pipeline > 1, "/strategy/schedule",
           fmt::format("strategy.schedule = {} goes through {} chunks of the model, which may share parameters, and {} updates them after "
                       "the first: set schedule = none",
                       s.schedule, s.virtual_pipeline, with));
    refuse(s.expert_parallel > 1, "/strategy/expert_parallel",
           fmt::format("{} is not modelled with expert parallelism: set expert_parallel = 1", with));
    refuse(s.tensor_parallel > 1 && s.sequence_parallel, "/strategy/sequence_parallel",
           fmt::format("strategy.sequence_parallel sums the gradients of norms over tensor-parallel ranks after the backward pass, where "
                       "{} has used them: set it to false",
                       with));
    refuse(s.tensor_parallel > 1 && sc.model.attention.qk_norm, "/strategy/tensor_parallel",
           fmt::format("model.attention.qk_norm has weights whose gradients are summed over tensor-parallel ranks after the backward pass, "
                       "where {} has used them: set tensor_parallel = 1",
                       with));
    refuse(asynchronous_schedule(s), "/strategy/schedule",
           fmt::format("strategy.schedule = {} keeps gradients from one step to the next, and {} lets them go: set schedule = none",
                       s.schedule, with));
    const bool alone = s.data_parallel * s.context_parallel == 1;
    refuse(!alone && !(practice_of(sc).fully_sharded() && s.zero_stage >= 2), "/strategy/zero_stage",
           fmt::format("{} frees gradients only where each rank has them alone: on one device, or under FSDP (zero_stage 2 or 3 of "
                       "torch-native software); the buckets of others stay allocated",
                       with));
    check_homes(reading, with);
    refuse(s.synchronization.kind != Synchronization::Kind::synchronous && s.workers(), "/strategy/synchronization/kind",
           fmt::format("strategy.synchronization.kind = {} is not modelled with {}: set kind = synchronous", name(s.synchronization.kind),
                       with));
}

} // namespace orrery

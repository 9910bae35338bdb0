// Fields the user gave that change nothing here: the report names them, so that nobody reads a result into them.
#include "sim/scenario/resolve.hpp"

#include "sim/scenario/practice.hpp"
#include "sim/schedules/schedule.hpp"

#include <algorithm>

namespace orrery {

void note_without_effect(Reading& reading) {
    Scenario& sc = reading.scenario;
    const Strategy& s = sc.strategy;
    const auto note = [&](const char* pointer, bool idle, const char* why) {
        if (idle && reading.has(pointer)) sc.notes.push_back(dotted(pointer) + " has no effect: " + why);
    };
    note("/training/learning_rate", true, "time and memory do not depend on it");
    note("/training/warmup_steps", true, "time and memory do not depend on it");
    note("/strategy/sequence_parallel", s.sequence_parallel && s.tensor_parallel == 1, "tensor_parallel is 1");
    note("/strategy/overlap/tensor_parallel", s.overlap.tensor_parallel && s.tensor_parallel == 1, "tensor_parallel is 1");
    note("/strategy/overlap/pipeline", s.overlap.pipeline && s.pipeline_parallel == 1, "pipeline_parallel is 1");
    note("/strategy/overlap/grad_reduce", s.overlap.grad_reduce && s.data_parallel * s.context_parallel == 1,
         "there is one data-parallel rank");
    note("/strategy/overlap/param_gather", s.overlap.param_gather && (s.zero_stage == 0 || s.data_parallel * s.context_parallel == 1),
         "no parameters are gathered");
    const ScheduleInfo* schedule = find_schedule(s.schedule);
    note("/strategy/overlap/expert_parallel",
         s.overlap.expert_parallel && s.expert_parallel == 1 && !(schedule && schedule->joins_without_experts), "expert_parallel is 1");
    note("/strategy/overlap/offload",
         s.overlap.offload && s.offload.optimizer == Tier::none && s.offload.parameters == Tier::none &&
             s.offload.gradients == Tier::none && s.offload.activations == Tier::none,
         "nothing is offloaded");
    note("/strategy/context_parallel_kind", s.context_parallel == 1 && s.context_parallel_kind != ContextKind::ring,
         "context_parallel is 1");
    note("/strategy/expert_tensor_parallel", !sc.model.moe && s.expert_tensor_parallel > 1, "the model has no experts");
    note("/strategy/shard_group_size", s.shard_group_size > 0 && s.zero_stage == 0, "zero_stage is 0, nothing is sharded");
    note("/strategy/recompute_layers", s.recompute == RecomputeKind::none, "recompute is none");
    if (s.recompute == RecomputeKind::list && sc.model.position != PositionKind::rope &&
        std::count(s.recompute_ops.begin(), s.recompute_ops.end(), RecomputeOp::rope) > 0)
        sc.notes.push_back("strategy.recompute: \"rope\" has no effect: the model has no rotary positions");
    if (s.framework == Framework::deepspeed && s.zero_stage == 0 && s.data_parallel > 1 && sc.training.precision == DType::bf16)
        sc.notes.push_back("strategy.zero_stage = 0: DeepSpeed's BF16_Optimizer divides its states among the data-parallel ranks without "
                           "ZeRO too; 1 says so");
    note("/strategy/bucket_bytes", s.data_parallel * s.context_parallel == 1, "there is one data-parallel rank");
    note("/runtime/fp8_recipe",
         sc.training.precision != DType::fp8 && sc.training.precision != DType::mxfp8 && sc.training.precision != DType::nvfp4,
         "precision has 16 bits or more");
    const bool low = sc.training.precision == DType::fp8 || sc.training.precision == DType::mxfp8 || sc.training.precision == DType::nvfp4;
    note("/runtime/fp8_dispatch", sc.runtime.fp8_dispatch && (!low || !sc.model.moe),
         low ? "the model has no experts" : "precision has 16 bits or more");
    note("/runtime/fp8_activation_input", sc.runtime.fp8_activation_input && s.recompute == RecomputeKind::full, "the input is recomputed");
    note("/runtime/token_dispatcher", !sc.model.moe, "the model has no experts");
    note("/runtime/permute_fusion", !sc.model.moe, "the model has no experts");
    note("/model/activation_clamp", !sc.model.moe || !sc.model.gated(), "it is of experts with a gated activation");
    note("/model/rope_scale", sc.model.position != PositionKind::rope, "the model has no rotary positions");
    note("/runtime/loss_upcast", !sc.runtime.loss_upcast && !practice_of(sc).narrow_loss,
         "it is of PyTorch's own loss, unfused, of an undivided vocabulary and 16-bit logits");
    note("/runtime/fused_softmax", s.flash_attention, "attention is fused as a whole");
    note("/runtime/recompute_early_stop", sc.runtime.recompute_early_stop && s.recompute != RecomputeKind::full, "recompute is not full");
    note("/training/master_weights", sc.training.precision == DType::fp32 || sc.training.precision == DType::tf32,
         "parameters are fp32 themselves");
    note("/training/master_remainders",
         sc.training.master_remainders && (!sc.training.master_weights || sc.training.precision == DType::fp16),
         sc.training.master_weights ? "fp16 parameters are no part of an fp32 number" : "there is no fp32 copy");
    if (sc.model.mtp_layers > 0) sc.notes.push_back("model.mtp_layers: multi-token-prediction layers are not counted among the parameters");
    if (sc.training.gradient_clipping > 0 && s.post_validation)
        sc.notes.push_back("strategy.optimizer_sync = post-validation: the gradient norm is checked behind the step, as in the zero-bubble "
                           "paper; simulated only");
}

} // namespace orrery

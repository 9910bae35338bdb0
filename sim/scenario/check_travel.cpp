// Travel in blocks of whole numbers, second copies, and segments of recomputation: combinations that cannot be, beside
// check.cpp's.
#include "sim/scenario/resolve.hpp"

#include "sim/scenario/fields.hpp"
#include "sim/scenario/layers.hpp"
#include "sim/scenario/practice.hpp"
#include "sim/scenario/suggest.hpp"
#include "sim/schedules/schedule.hpp"

#include <algorithm>

namespace orrery {
namespace {

constexpr const char* rounds_apart = "a block's scale is of all in it, so that ranks would round apart what all of them hold";

// "data_parallel = 16", or of workers "data_parallel / workers = 8": the replicas that share every step.
std::string sharing_replicas(const Strategy& s) {
    return eq(s.worker_count() > 1 ? "data_parallel / workers" : "data_parallel", s.replicas_of_worker());
}

// Signs of a momentum: what the optimizer and the replicas must be.
void check_signs(Reading& reading, const std::string& kind) {
    const Scenario& sc = reading.scenario;
    const Strategy& s = sc.strategy;
    const char* const at = "/strategy/gradient_compression";
    const auto refuse = [&](bool broken, const char* pointer, const std::string& why) {
        if (broken) reading.problem(pointer, kind + why);
    };
    const bool layers = s.gradient_compression == GradientCompression::onebit_lamb,
               adam = sc.training.optimizer == Optimizer::adam || sc.training.optimizer == Optimizer::adamw;
    refuse(layers ? sc.training.optimizer != Optimizer::lamb : !adam, "/training/optimizer",
           std::string(" is an optimizer of its own, and training.optimizer = ") + name(sc.training.optimizer) +
               " is not the one it begins as: set it to " + (layers ? "lamb" : "adam or adamw"));
    refuse(sc.training.gradient_clipping > 0, "/training/gradient_clipping",
           " never sums gradients, so that training.gradient_clipping has no norm to go by: set it to 0");
    refuse(sc.training.moment_dtype != DType::fp32, "/training/moment_dtype",
           std::string(" sends the momentum, which is modelled in fp32 only: set training.moment_dtype = fp32, not ") +
               name(sc.training.moment_dtype));
    refuse(sc.training.master_remainders, "/training/master_remainders",
           " is not modelled with training.master_remainders: set it to false");
    refuse(sc.model.moe.has_value(), at, " is not modelled with a mixture of experts (model.moe): try powersgd or int8");
    refuse(sc.model.trainable.partial(), at,
           " is not modelled with a part of the parameters trained (model.trainable): try powersgd or int8");
    refuse(sc.model.tied_embeddings && s.pipeline_parallel > 1, at,
           " with tied embeddings on two stages is not modelled: each would round the embedding apart: set model.tied_embeddings = false");
    const ScheduleInfo* schedule = find_schedule(s.schedule);
    refuse(schedule && schedule->directions > 1, "/strategy/schedule",
           " is not modelled with strategy.schedule = " + s.schedule + ", whose copies of the model lie on two stages: try 1f1b or zb-v");
    refuse(s.gradient_compression == GradientCompression::zero_one_adam && asynchronous_schedule(s), "/strategy/schedule",
           " takes local steps in rounds, which is not modelled with strategy.schedule = " + s.schedule + ": try 1f1b, or onebit-adam");
    refuse(s.offload.optimizer != Tier::none, at, " works on the device's momentum: set offload.optimizer = none");
    refuse(s.synchronization.kind != Synchronization::Kind::synchronous, at,
           std::string(" is not modelled with strategy.synchronization.kind = ") + name(s.synchronization.kind) +
               ": leave one of the two out");
    refuse(s.gradient_compression == GradientCompression::zero_one_adam && s.context_parallel > 1, at,
           " is not modelled with " + eq("context_parallel", s.context_parallel) + ": try onebit-adam");
}

// Gradients whose sums end as shards, and that travel as other than casts of them.
void check_compressed_shards(Reading& reading, const std::string& kind) {
    const Scenario& sc = reading.scenario;
    const Strategy& s = sc.strategy;
    const GradientCompression c = s.gradient_compression;
    if (s.zero_stage == 0 || is_cast(c) || of_signs(c)) return;
    const auto refuse = [&](bool broken, const std::string& why) {
        if (broken) reading.problem("/strategy/gradient_compression", kind + why);
    };
    refuse(s.shard_group_size > 0,
           " with " + eq("shard_group_size", s.shard_group_size) + " and " + eq("zero_stage", s.zero_stage) +
               " is not modelled: copies of a group would be summed whole: try bf16, or leave shard_group_size out");
    const bool of_tensors = c == GradientCompression::powersgd || c == GradientCompression::top_k;
    refuse(of_tensors && s.zero_stage >= 2 && practice_of(sc).fully_sharded(),
           std::string(" with framework = ") + name(s.framework) +
               " is not modelled: its units' gradients travel as one flat vector: try int8, or zero_stage = 1 with framework = ddp");
}

// Gradients that travel as something smaller.
void check_compression(Reading& reading) {
    const Scenario& sc = reading.scenario;
    const Strategy& s = sc.strategy;
    const GradientCompression c = s.gradient_compression;
    if (c == GradientCompression::none && s.compression.hierarchical)
        reading.problem("/strategy/gradient_compression/hierarchical",
                        "strategy.gradient_compression.hierarchical = true says where gradients are compressed, and kind = none compresses "
                        "none: set gradient_compression.kind = int8 or int4, or leave hierarchical out");
    if (c == GradientCompression::none || !sound(reading, {"/strategy", "/model", "/training", "/cluster"})) return;
    const std::string kind = std::string("strategy.gradient_compression = ") + name(c);
    const auto refuse = [&](bool broken, const char* field, const std::string& why) {
        if (broken) reading.problem(std::string("/strategy/gradient_compression") + field, kind + why);
    };
    const bool blocks = c == GradientCompression::int8 || c == GradientCompression::int4, signs = of_signs(c);
    refuse((blocks || signs) && s.tensor_parallel > 1, "",
           " with tensor_parallel = " + std::to_string(s.tensor_parallel) + " is not modelled: " + rounds_apart +
               ": try bf16, or tensor_parallel = 1");
    refuse(c == GradientCompression::top_k && s.tensor_parallel > 1, "",
           " with tensor_parallel = " + std::to_string(s.tensor_parallel) +
               " is not modelled: ranks would choose other elements of what all of them hold: try powersgd, or tensor_parallel = 1");
    if (signs) check_signs(reading, kind);
    check_compressed_shards(reading, kind);
    refuse(s.quantized_gradients != QuantizedGradients::none, "",
           std::string(" is not modelled with strategy.quantized_gradients = ") + name(s.quantized_gradients) +
               ", which is another way to send them: leave one of the two out");
    const Compression& how = s.compression;
    if (!how.hierarchical) return;
    const int near = std::max(1, sc.cluster.devices_per_node / s.tensor_parallel);
    refuse(!blocks, "/hierarchical", " is not modelled with hierarchical: int8 and int4 are");
    refuse(s.secondary_shard_size > 1, "/hierarchical",
           " is not modelled with hierarchical and " + eq("secondary_shard_size", s.secondary_shard_size) + ": leave one of the two out");
    refuse(s.context_parallel > 1, "/hierarchical",
           " is not modelled with hierarchical and context_parallel = " + std::to_string(s.context_parallel) + ": set it to 1");
    refuse(sc.model.moe.has_value(), "/hierarchical",
           " is not modelled with hierarchical and a mixture of experts (model.moe): leave it out");
    refuse(near < s.replicas_of_worker() && s.replicas_of_worker() % near != 0, "/hierarchical",
           " is summed inside nodes first, and " + sharing_replicas(s) + " is no multiple of a node's " + std::to_string(near) +
               ": change data_parallel, or leave hierarchical out");
}

// Gradients in whole numbers are exchanged inside nodes first: the one division of the data-parallel ranks that a plan has.
void check_exchange(Reading& reading, const std::string& is) {
    const Strategy& s = reading.scenario.strategy;
    const int node = std::max(1, reading.scenario.cluster.devices_per_node / s.tensor_parallel), second = s.secondary_shard_size;
    const int sharing = s.replicas_of_worker();
    if (node >= sharing) return;
    if (sharing % node != 0)
        reading.problem("/strategy/quantized_gradients", is + " is exchanged inside nodes first, and " + sharing_replicas(s) +
                                                             " is no multiple of a node's " + std::to_string(node) +
                                                             ": change data_parallel, or leave it out");
    if (node > 1 && second > 1 && second < sharing && second != node)
        reading.problem("/strategy/secondary_shard_size", eq("strategy.secondary_shard_size", second) + " with " + is +
                                                              " is not modelled: gradients are exchanged inside nodes of " +
                                                              std::to_string(node) + " first, and ranks are divided one way: set it to " +
                                                              std::to_string(node) + ", or leave one of the two out");
}

// ZeRO++: what of it is asked for, and what it stands on.
void check_quantized_sharding(Reading& reading) {
    const Scenario& sc = reading.scenario;
    const Strategy& s = sc.strategy;
    if (!sound(reading, {"/strategy", "/cluster", "/model"})) return;
    const struct {
        bool asked;
        const char* pointer;
        std::string is;
    } fields[] = {
        {s.quantized_weights != QuantizedWeights::none, "/strategy/quantized_weights",
         std::string("strategy.quantized_weights = ") + name(s.quantized_weights)},
        {s.quantized_gradients != QuantizedGradients::none, "/strategy/quantized_gradients",
         std::string("strategy.quantized_gradients = ") + name(s.quantized_gradients)},
        {s.secondary_shard_size > 1, "/strategy/secondary_shard_size", eq("strategy.secondary_shard_size", s.secondary_shard_size)},
    };
    for (const auto& f : fields) {
        if (!f.asked) continue;
        const auto refuse = [&](bool broken, const std::string& why) {
            if (broken) reading.problem(f.pointer, f.is + why);
        };
        refuse(s.framework != Framework::deepspeed, " is ZeRO++, which DeepSpeed has: set framework = deepspeed, or leave it out");
        refuse(s.zero_stage != 3, " needs sharded parameters: set zero_stage = 3");
        refuse(s.shard_group_size > 0,
               " with shard_group_size = " + std::to_string(s.shard_group_size) + " is not modelled: leave one of the two out");
        refuse(s.context_parallel > 1, " is not modelled with context_parallel = " + std::to_string(s.context_parallel) + ": set it to 1");
        refuse(sc.model.moe.has_value(), " is not modelled with a mixture of experts (model.moe): leave it out");
        refuse(s.offload.parameters != Tier::none || s.offload.gradients != Tier::none,
               " is not modelled with offloaded parameters or gradients: keep them on the devices");
        refuse(is_low(sc.training.precision),
               std::string(" is not modelled with training.precision = ") + name(sc.training.precision) + ": try bf16");
    }
    if (const int sharing = s.replicas_of_worker(); s.secondary_shard_size > 1 && sharing % s.secondary_shard_size != 0)
        reading.problem("/strategy/secondary_shard_size",
                        fields[2].is + " must divide " + sharing_replicas(s) + ": try " + join(common_divisors(sharing, 0)));
    for (const auto& f : fields)
        if (f.asked && f.pointer != fields[2].pointer && s.tensor_parallel > 1)
            reading.problem(f.pointer, f.is + " with tensor_parallel = " + std::to_string(s.tensor_parallel) +
                                           " is not modelled: " + rounds_apart + ": set tensor_parallel = 1");
    if (fields[1].asked) check_exchange(reading, fields[1].is);
}

// Segments are stretches of a chunk's layers.
void check_segments(Reading& reading) {
    const Strategy& s = reading.scenario.strategy;
    if (!s.recomputes_segments() || !sound(reading, {"/strategy", "/model"})) return;
    const bool counted = s.recompute_segment_layers > 0;
    const auto refuse = [&](bool broken, const std::string& why) {
        if (broken)
            reading.problem("/strategy/recompute", std::string("strategy.recompute = {") + (counted ? "segment_layers: " : "segments: ") +
                                                       (counted                    ? std::to_string(s.recompute_segment_layers)
                                                        : s.recompute_segments < 0 ? "auto"
                                                                                   : std::to_string(s.recompute_segments)) +
                                                       "} " + why);
    };
    int most = 0;
    for (int n : s.layers_per_chunk) most = std::max(most, n);
    refuse(most > 0 && std::max(s.recompute_segments, s.recompute_segment_layers) > most,
           "is more than the " + std::to_string(most) + " layers of a chunk: try " + std::to_string(most) + ", or full, a layer at a time");
    refuse(s.recompute_segments < 0 && (!s.recompute_layers.empty() || s.recompute_per_chunk > 0),
           "chooses the layers: leave strategy.recompute_layers out");
    refuse(s.recompute_every > 0, "is of layers that follow one another: leave strategy.recompute_layers.every out");
}

// The payload of DiLoCo's workers.
void check_payload(Reading& reading) {
    const Scenario& sc = reading.scenario;
    const Strategy& s = sc.strategy;
    const DType payload = s.synchronization.payload_dtype;
    if (!s.diloco() || (payload != DType::int8 && payload != DType::int4 && payload != DType::fp4) ||
        !sound(reading, {"/strategy", "/model"}))
        return;
    const bool tied = sc.model.tied_embeddings && s.pipeline_parallel > 1;
    // Sharded, each replica of a worker has parameters of its own alone; whole, it sends those that all have beside its own experts.
    const bool own_experts = sc.model.moe && s.expert_parallel * s.expert_tensor_parallel > 1 && s.zero_stage == 0;
    if (s.tensor_parallel > 1 || tied || own_experts)
        reading.problem("/strategy/synchronization/payload_dtype", std::string("strategy.synchronization.payload_dtype = ") +
                                                                       name(payload) + " with " +
                                                                       (s.tensor_parallel > 1 ? eq("tensor_parallel", s.tensor_parallel)
                                                                        : tied                ? "tied embeddings on two stages"
                                                                                              : "divided experts and zero_stage = 0") +
                                                                       " is not modelled: " + rounds_apart + ": try bf16");
}

} // namespace

void check_travel(Reading& reading) {
    check_quantized_sharding(reading);
    check_compression(reading);
    check_payload(reading);
    check_segments(reading);
}

} // namespace orrery

// Which layers each pipeline chunk holds, and what else follows from the stages.
#pragma once

#include "sim/scenario/scenario.hpp"
#include "sim/schedules/schedule.hpp"

#include <vector>

namespace orrery {

struct Reading;

// Fields of "strategy" that belong to a number of pipeline stages: with another number of stages they are left out.
inline constexpr const char* fields_of_stages[] = {"virtual_pipeline", "schedule", "layer_split", "mtp_chunk", "microbatch_group_size"};

// A strategy's counts of stages, chunks and grouped microbatches; how many microbatches there are is the caller's to say.
ScheduleShape shape_of(const Strategy& strategy);

// Layers over `parts`, as even as can be: where they do not divide, one less in the first part, then in the last, then in the second, ..
std::vector<int> even_split(int layers, int parts);

// A stage's layers over its chunks: what is short is the first chunks where `first_stage`, else the last ones.
std::vector<int> split_stage(int layers, int chunks, bool first_stage);

// Layers of each chunk where the scenario does not say: even, or as its framework has it. Needs p, v and the model.
std::vector<int> usual_split(const Scenario& scenario);

// Of a step's microbatches, those whose weight gradients of the output layer wait for the last stage's drain; 0 where the strategy has no
// such wait: a single stage, a schedule that moves weight gradients itself or flows on, a loss that makes them with its logits.
std::int64_t deferred_output_gradients(const Scenario& scenario);

// Fills strategy.layers_per_chunk from layer_split (or evenly) and makes recompute_layers one count a stage. Needs p, v, layers and
// schedule.
void resolve_layers(Reading& reading);

} // namespace orrery

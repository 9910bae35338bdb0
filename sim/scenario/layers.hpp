// Which layers each pipeline chunk holds. Private to this room.
#pragma once

#include "sim/scenario/fields.hpp"

#include <vector>

namespace orrery {

// Layers over `parts`, as even as can be: where they do not divide, one less in the first part, then in the last, then in the second, ..
std::vector<int> even_split(int layers, int parts);

// A stage's layers over its chunks: what is short is the first chunks where `first_stage`, else the last ones.
std::vector<int> split_stage(int layers, int chunks, bool first_stage);

// Fills strategy.layers_per_chunk from layer_split (or evenly) and makes recompute_layers one count a stage. Needs p, v, layers and
// schedule.
void resolve_layers(Reading& reading);

} // namespace orrery

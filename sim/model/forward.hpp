// The model as graphs: one forward graph per pipeline chunk, whole shapes (no parallelism but the batch's), before any pass.
#pragma once

#include "sim/graph/graph.hpp"
#include "sim/scenario/scenario.hpp"

#include <vector>

namespace orrery {

// Chunk c holds layers_per_chunk[c] layers; the first also the embedding, the last also the final norm, the head and the loss. What
// predicts further tokens is in the last, or in mtp_chunk: then its states come to the last beside the layers'.
// Stage of each chunk is left 0. Values of the residual stream are [tokens, hidden], tokens = micro batch x sequence.
std::vector<Graph> forward_graphs(const Scenario& scenario);

// Rows of the embedding table as laid out: padded so that tensor parallelism divides them (Practice::vocabulary_multiple).
std::int64_t padded_vocabulary(const Scenario& scenario);

} // namespace orrery

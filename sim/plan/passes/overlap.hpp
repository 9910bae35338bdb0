// Blocks that run as one: a forward and a backward of different chunks or microbatches, or the two halves of a backward step. Used by
// arrange.cpp, where the schedule says so.
#pragma once

#include "sim/plan/lowering.hpp"

#include <vector>

namespace orrery {

// One block of all ops of `parts`, each on its part's port. Parts of one port are an input-gradient block and the weight-gradient block of
// the same chunk; at most two ports. After it: every op stands after those of its part it depends on, and where one port waits for its
// communication the other's computation is issued.
std::int32_t make_overlapped_block(Lowering& l, const std::vector<BlockPart>& parts);

} // namespace orrery

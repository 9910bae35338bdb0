// Gradients that a backward pass makes anew.
#pragma once

#include "sim/plan/lowering.hpp"

#include <vector>

namespace orrery {

// In the blocks of a chunk, after its buckets' own are made: for each gradient of a bucket that is `made_anew`.
void make_gradients_anew(Lowering& l, int chunk, const std::vector<Bucket>& buckets);

} // namespace orrery

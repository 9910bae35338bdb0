// How context parallelism lays a sequence on its ranks (passes/context_parallel.cpp): what an interpreter must know to place tokens.
#pragma once

#include "sim/scenario/scenario.hpp"

namespace orrery {

// Whether a rank holds `local` consecutive tokens of each sequence, as a ring whose window lets it skip blocks does. Else the sequence is
// cut into 2c chunks of which rank r has r and 2c-1-r (where they divide it).
bool context_is_contiguous(int window, std::int64_t local, int ranks, ContextKind kind);

} // namespace orrery

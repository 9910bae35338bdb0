// Directions: where a schedule sends microbatches through the ranks in several directions (DualPipe), each has a copy of the model.
//
// After it: chunks of all directions, one direction after the other; a rank holds the parameters of each copy's chunk it runs.
#include "sim/plan/passes/passes.hpp"

namespace orrery {

void copy_directions(Lowering& l) {
    l.plan.directions = l.schedule->directions;
    const std::size_t length = l.graphs.size();
    for (int direction = 1; direction < l.schedule->directions; ++direction)
        for (std::size_t c = 0; c < length; ++c) {
            Graph copy = l.graphs[c];
            copy.chunk += direction * static_cast<int>(length);
            copy.stage = l.schedule->stage_of(copy.chunk, l.plan.stages);
            l.graphs.push_back(std::move(copy));
        }
    l.chunks.resize(l.graphs.size());
    l.plan.chunks_per_stage *= l.schedule->directions;
}

} // namespace orrery

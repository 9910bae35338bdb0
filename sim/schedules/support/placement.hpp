// Shared by several schedules: where chunks live, the order of 1F1B, and the checks of shapes that all of them need.
#pragma once

#include "sim/schedules/schedule.hpp"

#include <cstddef>

namespace orrery {

// Chunk c on stage c mod p: plain stages, or Megatron's round-robin of virtual stages.
int stage_in_rounds(int chunk, int stages);

// Chunk c < p on stage c, the rest on the way back: c on stage 2p - 1 - c. The first and the last chunk share stage 0.
int stage_in_v(int chunk, int stages);

inline ScheduleStep step(StepKind kind, int chunk, std::int64_t microbatch) {
    return {kind, static_cast<std::int16_t>(chunk), static_cast<std::int32_t>(microbatch)};
}

// Faults of the counts themselves (nothing to run, or more chunks or microbatches than a step can name); empty: nothing.
std::vector<ShapeProblem> check_counts(const std::string& name, const ScheduleShape& shape);

// Why `name`, which has `chunks` chunks a stage, cannot have this shape; empty: it can.
std::vector<ShapeProblem> check_chunks(const std::string& name, int chunks, const ScheduleShape& shape);

// A schedule's name as a template argument: lets a plain function pointer know which schedule it speaks for.
template <std::size_t N> struct ScheduleName {
    char text[N];
    consteval ScheduleName(const char (&from)[N]) {
        for (std::size_t i = 0; i < N; ++i) text[i] = from[i];
    }
};

template <ScheduleName name> std::vector<ShapeProblem> check_one_chunk(const ScheduleShape& shape) {
    return check_chunks(name.text, 1, shape);
}

// After p - rank - 1 forwards a rank alternates one forward and one backward. One chunk a stage.
Schedule one_forward_one_backward(const ScheduleShape& shape);

} // namespace orrery

#include "sim/schedules/support/placement.hpp"

#include <algorithm>

#include <limits>

namespace orrery {

int stage_in_rounds(int chunk, int stages) { return chunk % stages; }

int stage_in_v(int chunk, int stages) { return chunk < stages ? chunk : 2 * stages - 1 - chunk; }

std::vector<ShapeProblem> check_counts(const std::string& name, const ScheduleShape& shape) {
    std::vector<ShapeProblem> problems;
    const auto limit = [&](ShapeCount count, const char* field, std::int64_t value, std::int64_t most) {
        if (value >= 1 && value <= most) return;
        problems.push_back({count, name + " needs " + field + " from 1 to " + std::to_string(most) + ", not " + std::to_string(value)});
    };
    const std::int64_t most_chunks = std::numeric_limits<std::int16_t>::max();
    limit(ShapeCount::stages, "pipeline_parallel", shape.stages, most_chunks);
    if (!problems.empty()) return problems;
    limit(ShapeCount::chunks_per_stage, "virtual_pipeline", shape.chunks_per_stage, most_chunks / shape.stages);
    limit(ShapeCount::microbatches, "microbatches", shape.microbatches, std::numeric_limits<std::int32_t>::max());
    return problems;
}

std::vector<ShapeProblem> check_chunks(const std::string& name, int chunks, const ScheduleShape& shape) {
    std::vector<ShapeProblem> problems = check_counts(name, shape);
    if (shape.chunks_per_stage == chunks) return problems;
    std::string why = name + " needs virtual_pipeline = " + std::to_string(chunks) + ", not " + std::to_string(shape.chunks_per_stage);
    if (chunks == 1 && shape.stages > 1) why += ": leave it out, or use schedule interleaved-1f1b";
    if (chunks == 1 && shape.stages == 1) why += ": leave it out, one stage has nothing to interleave";
    problems.push_back({ShapeCount::chunks_per_stage, std::move(why)});
    return problems;
}

Schedule one_forward_one_backward(const ScheduleShape& shape) {
    Schedule schedule;
    for (int rank = 0; rank < shape.stages; ++rank) {
        auto& steps = schedule.ranks.emplace_back();
        steps.reserve(2 * shape.microbatches);
        const std::int64_t warmup = std::min<std::int64_t>(shape.microbatches, shape.stages - rank - 1);
        for (std::int64_t k = 0; k < shape.microbatches + warmup; ++k) {
            if (k < shape.microbatches) steps.push_back(step(StepKind::forward, rank, k));
            if (k >= warmup) steps.push_back(step(StepKind::backward, rank, k - warmup));
        }
    }
    return schedule;
}

} // namespace orrery

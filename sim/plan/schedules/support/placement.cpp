#include "sim/plan/schedules/support/placement.hpp"

#include <limits>

namespace orrery {

int stage_in_rounds(int chunk, int stages) { return chunk % stages; }

int stage_in_v(int chunk, int stages) { return chunk < stages ? chunk : 2 * stages - 1 - chunk; }

std::string check_counts(const std::string& name, const ScheduleShape& shape) {
    const auto bad = [&](const char* field, std::int64_t value, std::int64_t most) -> std::string {
        if (value >= 1 && value <= most) return "";
        return name + " needs " + field + " from 1 to " + std::to_string(most) + ", not " + std::to_string(value);
    };
    const std::int64_t most_chunks = std::numeric_limits<std::int16_t>::max();
    if (auto why = bad("pipeline_parallel", shape.stages, most_chunks); !why.empty()) return why;
    if (auto why = bad("virtual_pipeline", shape.chunks_per_stage, most_chunks / shape.stages); !why.empty()) return why;
    return bad("microbatches", shape.microbatches, std::numeric_limits<std::int32_t>::max());
}

std::string check_chunks(const std::string& name, int chunks, const ScheduleShape& shape) {
    if (shape.chunks_per_stage != chunks) {
        std::string why = name + " needs virtual_pipeline = " + std::to_string(chunks) + ", not " + std::to_string(shape.chunks_per_stage);
        if (chunks == 1) why += ": leave it out, or use schedule interleaved-1f1b";
        return why;
    }
    return check_counts(name, shape);
}

} // namespace orrery

// Memories outside the devices over time: what the ranks of the fullest node have in its memory, and on its NVMe.
#pragma once

#include "sim/memory/memory.hpp"
#include "sim/trace/trace.hpp"

#include <cstdint>
#include <vector>

namespace orrery {

struct TierCurve {
    int node = -1;                     // the fullest, whose peaks are in MemoryReport; -1: nothing lies there, or servers alone have it
    std::vector<MemorySample> samples; // by MemoryKind, without a reserve; empty: nothing lies there
};

// At the times of a simulated trace of `plan`. lane_of_rank: as Simulation has it. MemoryReport adds the ranks' peaks up: where they come
// at unlike times the curve stays below. What servers keep is the same all the time.
TierCurve tier_curve(const Trace& trace, const Plan& plan, const MemoryReport& memory, const std::vector<std::int32_t>& lane_of_rank,
                     int devices_per_node, Space space);

// One stage in one memory: StageMemory's peak, kinds and timeline.
StageMemory walk(const Plan& plan, const Program& program, Space space);

// The node whose ranks have the most there, their peaks added up; the first of equals.
int fullest_node(const Plan& plan, const std::vector<StageMemory>& stages, TierMemory StageMemory::*tier, int devices_per_node);

} // namespace orrery

// Memory of every stage over the step, from the plan's own buffers: walked in issue order, as an allocator sees it, plus the
// runtime's reserve (context, communicator buffers, workspaces, allocator rounding), each a named, sourced figure.
#pragma once

#include "sim/cost/cost.hpp"
#include "sim/plan/plan.hpp"

#include <array>
#include <string>
#include <vector>

namespace orrery {

struct ReserveItem { std::string name; Bytes bytes; std::string source; };   // "CUDA context", "NCCL buffers", ...

struct LiveBuffer { std::string name; Bytes bytes; std::int32_t count; };    // count: instances alive (microbatches)

struct StageMemory {
    int stage = 0;
    Bytes peak;                                          // allocated peak + reserve
    Bytes allocated_peak;                                // the plan's buffers alone
    std::array<Bytes, memory_kind_count> by_kind{};      // at the peak, by MemoryKind
    std::vector<ReserveItem> reserve;
    Bytes reserved;                                      // their sum
    int peak_action = -1, peak_op = -1;                  // where in the stage's program
    std::string peak_op_name;                            // "l17.fc1.dgrad (microbatch 3)"
    std::vector<LiveBuffer> largest;                     // largest groups alive at the peak
    // After each action of one steady step, by kind (same index as Program::actions); for the memory timeline.
    std::vector<std::array<std::int64_t, memory_kind_count>> timeline;
};

struct MemoryReport { std::vector<StageMemory> stages; Bytes capacity; bool fits = true; };

MemoryReport memory(const Plan& plan, const Scenario& scenario);

} // namespace orrery

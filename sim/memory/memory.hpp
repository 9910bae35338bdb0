// Memory of every stage over the step, from the plan's own buffers: walked in issue order, as an allocator sees it, plus the
// runtime's reserve (context, communicator buffers, workspaces, allocator rounding), each a named, sourced figure.
#pragma once

#include "sim/cost/cost.hpp"
#include "sim/plan/plan.hpp"
#include "topology/indexed.hpp"

#include <array>
#include <string>
#include <vector>

namespace orrery {

// The memory that a published figure counts: allocated (torch.cuda.max_memory_allocated), reserved (the caching allocator's segments), or
// all the device holds (nvidia-smi). Each holds what the one before it holds. resident: what is allocated between two steps
// (torch.cuda.memory_allocated, not its peak), less than each of them.
enum class MemoryMeasure : std::uint8_t { allocated, reserved, device, resident };

// "CUDA context", "NCCL buffers", ...; level: the first measure that counts it.
struct ReserveItem {
    std::string name;
    Bytes bytes;
    std::string source;
    MemoryMeasure level = MemoryMeasure::device;
    bool kept = false; // the allocator's cache, which it gives up before memory runs out: measures count it, the need does not
};

// Buffers alike, layers and chunks as '*' ("c*.l*.qkv"): their bytes together, and how many are alive (layers x microbatches).
struct LiveBuffer {
    std::string name;
    Bytes bytes;
    std::int32_t count;
};

// Bytes in a memory outside the device: the plan's buffers there, at their peak.
struct TierMemory {
    Bytes peak;
    ByEnum<MemoryKind, Bytes, memory_kind_count> by_kind{};
};

struct StageMemory {
    int stage = 0;
    Bytes peak;                                             // allocated peak + reserve
    Bytes allocated_peak;                                   // the plan's buffers alone
    ByEnum<MemoryKind, Bytes, memory_kind_count> by_kind{}; // at the peak, by MemoryKind
    std::vector<ReserveItem> reserve;
    Bytes reserved;                     // their sum
    int peak_action = -1, peak_op = -1; // where in the stage's program
    std::string peak_op_name;           // "l17.fc1.dgrad (microbatch 3)"
    std::vector<LiveBuffer> largest;    // largest groups alive at the peak
    TierMemory host, disk;              // of one rank, in its node's memory and on its NVMe
    // After each action of one steady step, by kind (same index as Program::actions); for the memory timeline.
    std::vector<ByEnum<MemoryKind, std::int64_t, memory_kind_count>> timeline;
};

// The memory, or the NVMe, of the fullest node: what its ranks have there at their peaks, together.
struct NodeMemory {
    TierMemory used;
    Bytes capacity; // 0: the cluster does not say
    bool fits() const { return capacity.count == 0 || used.peak <= capacity; }
};

struct MemoryReport {
    std::vector<StageMemory> stages;
    Bytes capacity;
    bool fits = true; // devices and nodes
    NodeMemory host;  // zero where nothing is offloaded
    NodeMemory disk;  // NVMe
};

// Memory that comes and goes within a step, as a share of a stage's peak: neither parameters, gradients nor optimizer states.
double moving_share(const StageMemory& stage);
// A stage's peak as such a figure counts it.
Bytes peak_as(const StageMemory& stage, MemoryMeasure measure);
// The stage with the highest peak (the first of equals). stages must not be empty.
const StageMemory& fullest(const MemoryReport& report);

// The sum of the plan's own buffers, without a runtime's reserve: the same for all scenarios that have this plan.
struct PlanMemory {
    std::vector<StageMemory> stages; // peak and reserve still empty
};
PlanMemory walk(const Plan& plan);

// The stages for which the reserve of the caching allocator beside what is allocated is worked out (segments.hpp). That takes longer than
// the rest, and a job needs the same memory without.
enum class CacheOf : std::uint8_t { no_stage, fullest, all };
MemoryReport memory(const Plan& plan, const PlanMemory& walked, const Scenario& scenario, CacheOf cache = CacheOf::all);
MemoryReport memory(const Plan& plan, const Scenario& scenario, CacheOf cache = CacheOf::all); // both

} // namespace orrery

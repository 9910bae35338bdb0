// A stage's memory, planned once: where each buffer that comes and goes in a step lies, so that a step allocates nothing and no two queues
// ever meet in one place: a buffer lies where another was only if all who used that one have ended, by the plan's own order, before any
// who uses this one begins.
#pragma once

#include "exec/queues/dependencies.hpp"
#include "exec/runtime/storage.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace orrery {

// A buffer's storage from an Alloc to its Free. Storage that is there between steps is one that begins before the first issue (alloc -1)
// or never ends (free: past the last).
struct Lifetime {
    BufferId buffer = -1;   // whose storage
    std::int32_t slot = -1; // the instance's, in StorageMap
    std::int64_t bytes = 0;
    int space = 0;                     // 0: device, 1: host, 2: NVMe
    std::int32_t alloc = -1, free = 0; // issues
    std::int64_t offset = -1;          // in its space
    std::int64_t room = 0;             // bytes from there on that are its own, or of its bucket, which it begins
    std::vector<std::int32_t> users;   // issues, ascending
};

// The buffer that a collective copies through while it runs, in the device's space.
struct StagingPlace {
    std::int64_t bytes = 0, offset = -1;
};

struct MemoryLayout {
    std::vector<Lifetime> lifetimes;
    std::vector<StagingPlace> staging;  // by issue
    std::int64_t extent[memories] = {}; // bytes of each space
    // For each issue the lifetime of each operand, in the order: in, out (for an exchange: its transfers' buffers).
    std::vector<std::vector<std::int32_t>> operands;
};

// start: of each slot where its storage lies between steps, as offset in its space; -1: nowhere. fixed: how much of each space is taken by
// what lies there between steps, whatever it is. room: of each slot that begins a bucket the bucket's bytes; 0: no bucket begins there.
struct Standing {
    std::vector<std::int64_t> start, room;
    std::int64_t fixed[memories] = {};
};

// staging: bytes of each issue.
MemoryLayout plan_layout(const Plan& plan, const IssueOrder& order, const QueueOrder& queues, const StorageMap& map,
                         const Standing& standing, const std::vector<std::int64_t>& staging);

// Two lifetimes, or what collectives copy through, in one place that could meet; empty: none. plan_layout must leave none; the check is
// slow and for tests.
std::string overlap(const MemoryLayout& layout, const QueueOrder& queues);

} // namespace orrery

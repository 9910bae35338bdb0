// A search that packs blocks into little more than the most that is alive at a time, where orders for first fit leave gaps. Internal.
#pragma once

#include "exec/queues/packing.hpp"

#include <cstdint>
#include <vector>

namespace orrery {

using Meets = std::vector<std::vector<bool>>; // of each two blocks whether they may be in use at a time

// Highest ends: the search stops at `enough`; above `bearable` it takes four times as long.
struct Goals {
    std::int64_t enough, bearable;
};

// From a packing whose highest end is `best` to a better one, as near to goals.enough as a number of steps allows, seen_at_most blocks
// looked at; the same for the same blocks.
void squeeze(const std::vector<PackedBlock>& blocks, const Meets& meets, std::int64_t alignment, const Goals& goals,
             std::int64_t seen_at_most, std::int64_t& best, std::vector<std::int64_t>& offsets);

} // namespace orrery

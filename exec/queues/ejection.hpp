// A search that packs blocks into little more than the most that is alive at a time, where orders for first fit leave gaps. Internal.
#pragma once

#include "exec/queues/packing.hpp"

#include <cstdint>
#include <vector>

namespace orrery {

using Meets = std::vector<std::vector<bool>>; // of each two blocks whether they may be in use at a time

// From a packing whose highest end is `best` to a better one, as near to `enough` as a fixed number of steps allows; the same for the same
// blocks.
void squeeze(const std::vector<PackedBlock>& blocks, const Meets& meets, std::int64_t alignment, std::int64_t enough, std::int64_t& best,
             std::vector<std::int64_t>& offsets);

} // namespace orrery

// Places blocks that come and go in one range of addresses, all of them known beforehand: dynamic storage allocation offline. Blocks whose
// users are ordered may share bytes, others may not.
#pragma once

#include <cstdint>
#include <vector>

namespace orrery {

// A block of memory, from issue `begin` to issue `end`. follows: by queue, the last issue that has certainly ended before any of its users
// begins; last: by queue, its last user (-1: none). Blocks are in the order of their begins.
struct PackedBlock {
    std::int64_t bytes = 0;
    std::int32_t begin = 0, end = 0;
    std::vector<std::int32_t> last, follows;
    std::int64_t offset = -1; // >= 0: it lies there already
    std::int64_t kind = -1;   // that of a buffer's instances, which come again and again; < 0: like no other
};

// Whether all users of `a` have ended when the first of `b` begins.
bool before(const PackedBlock& a, const PackedBlock& b);

// Gives every block an offset, a multiple of `alignment`, and returns the end of the highest. Largest first (first fit); where the blocks
// take more than the most that is alive at a time, in issue order, by more than one part in 80, other orders are tried, one of them with
// those first that are there when the most is alive, and blocks that stick out are placed earlier; those that stick out often, earliest.
// Where that is not enough, and there are 8 MiB or more, searches of some seconds follow (ejection.hpp), four times as long where they
// leave more than one part in 52: of the places that the instances of a buffer take in turn, then of all blocks.
std::int64_t pack(std::vector<PackedBlock>& blocks, std::int32_t issues, std::int64_t alignment);

} // namespace orrery

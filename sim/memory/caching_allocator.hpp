// PyTorch's caching allocator, as c10/cuda/CUDACachingAllocator.cpp has it without options: what it asks of the device for a sequence of
// allocations and frees. Segments are never joined, so that free memory in pieces too small for what comes next stays reserved. Expandable
// segments (PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True): each pool has one, which grows at its end, by what its last piece lacks if
// that is free; holes stay reserved until memory runs out.
#pragma once

#include "topology/units.hpp"

#include <array>
#include <cstdint>
#include <vector>

namespace orrery {

class CachingAllocator {
  public:
    using Block = std::int32_t;

    // Memory of one stream is never used for another. `limit`: what the device has for segments; when it is reached, segments that are
    // wholly free are given back, all of them.
    CachingAllocator(int streams, Bytes limit, bool expandable = false);

    Block allocate(Bytes size, int stream); // any size >= 0
    void free(Block block);                 // once for each allocate()

    Bytes reserved() const { return Bytes{reserved_}; }
    Bytes peak() const { return Bytes{peak_}; } // of reserved()
    int retries() const { return retries_; }    // how often the limit was reached

  private:
    struct Piece {                          // of a segment
        std::int64_t size = 0, address = 0; // addresses of segments ascend
        Block before = -1, after = -1;      // neighbours in its segment
        int pool = 0;
        bool used = false;
    };
    // Free pieces of one size, the highest address first: the lowest is taken first, and that is the last.
    struct Free {
        std::int64_t address;
        Block block;
    };
    struct OfSize {
        std::int64_t size;
        std::vector<Free> pieces;
    };
    using Pool = std::vector<OfSize>; // ascending; none is empty

    Piece& at(Block b) { return pieces_[b]; }
    Pool& pool(int p) { return pools_[p]; }
    void list(Block b);     // in its pool
    bool take_off(Block b); // false: it is in no list
    Block new_piece(Piece piece);
    Block best_fit(int pool, std::int64_t size);
    Block new_segment(int pool, std::int64_t size);
    Block grow(int pool, std::int64_t size);
    void give_back();
    void join(Block into, Block other);

    std::vector<Piece> pieces_;
    std::vector<Block> unused_; // places in pieces_
    std::vector<Pool> pools_;   // of each stream the small pieces, then the large ones
    std::vector<Block> last_;   // by pool: the last piece of its expandable segment; empty: there are none
    std::int64_t reserved_ = 0, peak_ = 0, next_address_ = 0, limit_;
    int retries_ = 0;
};

} // namespace orrery

// Blocks cut in pieces, between which data parallelism gathers, releases and reduces: one a unit or, where large weights are buckets of
// their own, one for each of these.
#pragma once

#include "sim/plan/lowering.hpp"

#include <map>
#include <vector>

namespace orrery {

// Ops [first, last) of a block, and the buckets they touch: whose weights they want gathered, and whose gradients they make.
struct BlockPiece {
    std::int32_t first, last;
    int unit;
    std::vector<const Bucket*> weights, gradients;
    bool again = false;  // of the unit of the piece before, whose parameters are released and gathered anew between the two
    bool remade = false; // only recomputation, of a layer whose backward pass comes later (a segment of several): as again, until then
};

bool among(const std::vector<const Bucket*>& list, const Bucket* b);
bool once(std::vector<const Bucket*>& list, const Bucket* b); // adds it; false: it is there already

class BlockPieces {
  public:
    BlockPieces(const Lowering& l, int stage);

    // In the block's own order (backward blocks run their units last to first).
    const std::vector<BlockPiece>& of(std::int32_t block, int chunk);
    // The buckets a chunk's backward steps add to: its own, and those its blocks touch (tied embeddings belong to a bucket of one chunk and
    // are used by another).
    std::vector<const Bucket*> added_to(int chunk);
    // The buckets whose weights a chunk's backward pass reads and its forward pass does not: an output layer whose loss is made in the
    // backward pass, where no norm stands ahead of it.
    const std::vector<const Bucket*>& read_late(int chunk);

  private:
    // Calls f with each bucket whose weights or gradients the op touches, and the buffer.
    template <class F> void each_bucket(const Op& op, F&& f) const {
        for (const auto* list : {&op.in, &op.out})
            for (BufferId id : *list)
                if (id < bucket_of_.next_id() && bucket_of_[id]) f(bucket_of_[id], id);
    }
    void cut_by_weight(const Block& block, const BlockPiece& unit, std::vector<BlockPiece>& pieces) const;

    const Lowering& l_;
    Indexed<BufferId, const Bucket*> bucket_of_; // of parameters and gradients; nullptr: none
    std::map<std::int32_t, std::vector<BlockPiece>> of_block_;
    std::map<int, std::vector<const Bucket*>> late_; // by chunk
};

} // namespace orrery

#include "sim/memory/caching_allocator.hpp"

#include <algorithm>

namespace orrery {
namespace {

// The constants of CUDACachingAllocator.cpp, by its names.
constexpr std::int64_t min_block_size = 512, small_size = 1 << 20, small_buffer = 2 << 20, large_buffer = 20 << 20,
                       min_large_alloc = 10 << 20, round_large = 2 << 20;

constexpr std::int64_t round_up(std::int64_t value, std::int64_t unit) { return (value + unit - 1) / unit * unit; }

std::int64_t segment_size(std::int64_t size) {
    if (size <= small_size) return small_buffer;
    return size < min_large_alloc ? large_buffer : round_up(size, round_large);
}

} // namespace

CachingAllocator::CachingAllocator(int streams, Bytes limit) : pools_(static_cast<std::size_t>(2 * streams)), limit_(limit.count) {}

CachingAllocator::Block CachingAllocator::new_piece(Piece piece) {
    if (unused_.empty()) {
        pieces_.push_back(piece);
        return static_cast<Block>(pieces_.size() - 1);
    }
    const Block place = unused_.back();
    unused_.pop_back();
    at(place) = piece;
    return place;
}

CachingAllocator::Block CachingAllocator::best_fit(int pool, std::int64_t size) {
    auto& free = free_of(pool);
    const auto found = free.lower_bound({size, -1, -1});
    if (found == free.end()) return -1;
    const Block block = found->block;
    free.erase(found);
    return block;
}

CachingAllocator::Block CachingAllocator::new_segment(int pool, std::int64_t size) {
    const std::int64_t wanted = segment_size(size);
    if (reserved_ + wanted > limit_) {
        ++retries_;
        give_back();
    }
    reserved_ += wanted;
    peak_ = std::max(peak_, reserved_);
    next_address_ += wanted;
    return new_piece({wanted, next_address_ - wanted, -1, -1, pool, false});
}

void CachingAllocator::give_back() {
    for (auto& free : pools_)
        for (auto i = free.begin(); i != free.end();) {
            const Piece& p = at(i->block);
            if (p.before >= 0 || p.after >= 0) {
                ++i;
                continue;
            }
            reserved_ -= p.size;
            unused_.push_back(i->block);
            i = free.erase(i);
        }
}

CachingAllocator::Block CachingAllocator::allocate(Bytes bytes, int stream) {
    const std::int64_t size = std::max(min_block_size, round_up(bytes.count, min_block_size));
    const bool small = size <= small_size;
    const int pool = 2 * stream + (small ? 0 : 1);
    Block block = best_fit(pool, size);
    if (block < 0) block = new_segment(pool, size);
    const std::int64_t rest = at(block).size - size;
    if (small ? rest >= min_block_size : rest > small_size) {
        const Block after = at(block).after;
        const Block cut = new_piece({rest, at(block).address + size, block, after, pool, false});
        if (after >= 0) at(after).before = cut;
        at(block).after = cut;
        at(block).size = size;
        free_of(pool).insert(listed(cut));
    }
    at(block).used = true;
    return block;
}

// `other` lies after `into`; both are free, and in no pool's list.
void CachingAllocator::join(Block into, Block other) {
    at(into).size += at(other).size;
    at(into).after = at(other).after;
    if (at(other).after >= 0) at(at(other).after).before = into;
    unused_.push_back(other);
}

void CachingAllocator::free(Block block) {
    at(block).used = false;
    auto& free = free_of(at(block).pool);
    const auto take = [&](Block b) { return b >= 0 && !at(b).used && free.erase(listed(b)) > 0; };
    const Block before = at(block).before, after = at(block).after;
    if (take(after)) join(block, after);
    if (take(before)) {
        join(before, block);
        block = before;
    }
    free.insert(listed(block));
}

} // namespace orrery

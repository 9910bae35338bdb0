#include "sim/memory/caching_allocator.hpp"

#include <algorithm>
#include <functional>

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

CachingAllocator::CachingAllocator(int streams, Bytes limit, bool expandable)
    : pools_(static_cast<std::size_t>(2 * streams)), last_(expandable ? pools_.size() : 0, -1), limit_(limit.count) {}

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

CachingAllocator::Block CachingAllocator::best_fit(int p, std::int64_t size) {
    const auto found = std::ranges::lower_bound(pool(p), size, {}, &OfSize::size);
    if (found == pool(p).end()) return -1;
    const Block block = found->pieces.back().block;
    found->pieces.pop_back();
    if (found->pieces.empty()) pool(p).erase(found);
    return block;
}

void CachingAllocator::list(Block b) {
    const Piece& piece = at(b);
    Pool& sizes = pool(piece.pool);
    auto found = std::ranges::lower_bound(sizes, piece.size, {}, &OfSize::size);
    if (found == sizes.end() || found->size != piece.size) found = sizes.insert(found, {piece.size, {}});
    std::vector<Free>& pieces = found->pieces;
    pieces.insert(std::ranges::lower_bound(pieces, piece.address, std::greater{}, &Free::address), {piece.address, b});
}

bool CachingAllocator::take_off(Block b) {
    const Piece& piece = at(b);
    Pool& sizes = pool(piece.pool);
    const auto found = std::ranges::lower_bound(sizes, piece.size, {}, &OfSize::size);
    if (found == sizes.end() || found->size != piece.size) return false;
    const auto one = std::ranges::lower_bound(found->pieces, piece.address, std::greater{}, &Free::address);
    if (one == found->pieces.end() || one->block != b) return false;
    found->pieces.erase(one);
    if (found->pieces.empty()) sizes.erase(found);
    return true;
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

// Pages that are mapped at the end of an expandable segment. Where memory runs out pages of holes take their place.
CachingAllocator::Block CachingAllocator::grow(int p, std::int64_t size) {
    Block& last = last_[static_cast<std::size_t>(p)];
    const bool joins = last >= 0 && !at(last).used && take_off(last);
    const std::int64_t lacks = size - (joins ? at(last).size : 0), pages = round_up(lacks, p % 2 == 0 ? small_buffer : large_buffer);
    if (reserved_ + pages > limit_) ++retries_;
    reserved_ = std::max(reserved_, std::min(limit_, reserved_ + pages));
    peak_ = std::max(peak_, reserved_);
    next_address_ += pages;
    if (joins) {
        at(last).size += pages;
        return last;
    }
    const Block before = last;
    last = new_piece({pages, next_address_ - pages, before, -1, p, false});
    if (before >= 0) at(before).after = last;
    return last;
}

void CachingAllocator::give_back() {
    const auto whole = [&](const Free& one) {
        const Piece& p = at(one.block);
        if (p.before >= 0 || p.after >= 0) return false;
        reserved_ -= p.size;
        unused_.push_back(one.block);
        return true;
    };
    for (Pool& sizes : pools_) {
        for (OfSize& of : sizes) std::erase_if(of.pieces, whole);
        std::erase_if(sizes, [](const OfSize& of) { return of.pieces.empty(); });
    }
}

CachingAllocator::Block CachingAllocator::allocate(Bytes bytes, int stream) {
    const std::int64_t size = std::max(min_block_size, round_up(bytes.count, min_block_size));
    const bool small = size <= small_size;
    const int own = 2 * stream + (small ? 0 : 1);
    Block block = best_fit(own, size);
    if (block < 0) block = last_.empty() ? new_segment(own, size) : grow(own, size);
    const std::int64_t rest = at(block).size - size;
    if (small ? rest >= min_block_size : rest > small_size) {
        const Block after = at(block).after;
        const Block cut = new_piece({rest, at(block).address + size, block, after, own, false});
        if (after >= 0) at(after).before = cut;
        at(block).after = cut;
        at(block).size = size;
        if (!last_.empty() && last_[static_cast<std::size_t>(own)] == block) last_[static_cast<std::size_t>(own)] = cut;
        list(cut);
    }
    at(block).used = true;
    return block;
}

// `other` lies after `into`; both are free, and in no pool's list.
void CachingAllocator::join(Block into, Block other) {
    at(into).size += at(other).size;
    at(into).after = at(other).after;
    if (const auto p = static_cast<std::size_t>(at(into).pool); !last_.empty() && last_[p] == other) last_[p] = into;
    if (at(other).after >= 0) at(at(other).after).before = into;
    unused_.push_back(other);
}

void CachingAllocator::free(Block block) {
    at(block).used = false;
    const auto take = [&](Block b) { return b >= 0 && !at(b).used && take_off(b); };
    const Block before = at(block).before, after = at(block).after;
    if (take(after)) join(block, after);
    if (take(before)) {
        join(before, block);
        block = before;
    }
    list(block);
}

} // namespace orrery

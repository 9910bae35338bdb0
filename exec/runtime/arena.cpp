#include "exec/runtime/arena.hpp"

#include "topology/check.hpp"

#include <algorithm>
#include <utility>

namespace orrery {
namespace {

constexpr std::int64_t alignment = 64;

std::int64_t rounded(std::int64_t bytes) { return std::max<std::int64_t>(1, (bytes + alignment - 1) / alignment) * alignment; }

} // namespace

Arena::Arena(std::int64_t reserve, const Backend& machine)
    : memory_(machine.reserve(rounded(reserve))), base_(memory_.get()), reserve_(rounded(reserve)) {
    gaps_[0] = reserve_;
}

Arena::Arena(Arena&& other) noexcept
    : memory_(std::move(other.memory_)), base_(std::exchange(other.base_, nullptr)), reserve_(other.reserve_), live_(other.live_),
      highest_(other.highest_), extent_(other.extent_), gaps_(std::move(other.gaps_)), blocks_(std::move(other.blocks_)) {}

std::byte* Arena::allocate(std::int64_t bytes) {
    const std::int64_t size = rounded(bytes);
    const auto gap = std::find_if(gaps_.begin(), gaps_.end(), [&](const auto& g) { return g.second >= size; });
    if (gap == gaps_.end()) return nullptr;
    const std::int64_t offset = gap->first, left = gap->second - size;
    gaps_.erase(gap);
    if (left > 0) gaps_[offset + size] = left;
    blocks_[offset] = size;
    live_ += size;
    highest_ = std::max(highest_, live_);
    extent_ = std::max(extent_, offset + size);
    return base_ + offset;
}

void Arena::release(std::byte* block) {
    const auto it = blocks_.find(block - base_);
    require(it != blocks_.end(), "an arena was given back what is not its own");
    std::int64_t offset = it->first, size = it->second;
    blocks_.erase(it);
    live_ -= size;
    auto behind = gaps_.lower_bound(offset);
    if (behind != gaps_.end() && behind->first == offset + size) {
        size += behind->second;
        behind = gaps_.erase(behind);
    }
    if (behind != gaps_.begin()) {
        const auto before = std::prev(behind);
        if (before->first + before->second == offset) {
            before->second += size;
            return;
        }
    }
    gaps_[offset] = size;
}

std::int64_t Arena::bytes(std::byte* block) const {
    const auto it = blocks_.find(block - base_);
    require(it != blocks_.end(), "an arena was asked about what is not its own");
    return it->second;
}

} // namespace orrery

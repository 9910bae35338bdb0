// The memory of one rank in one space: blocks in a single reservation, placed first-fit in the order they come. Live blocks are counted
// twice: as the plan counts it (a buffer's bytes, as its allocator would hold them), and as it really lies here.
#pragma once

#include "exec/kernels/machine.hpp"

#include <cstddef>
#include <cstdint>
#include <map>

namespace orrery {

class Arena {
  public:
    // Address space for `reserve` bytes of the machine's memory. Throws std::bad_alloc.
    explicit Arena(std::int64_t reserve, const Backend& machine = cpu_machine());
    Arena(Arena&& other) noexcept;
    Arena(const Arena&) = delete;
    Arena& operator=(const Arena&) = delete;
    Arena& operator=(Arena&&) = delete;

    std::byte* allocate(std::int64_t bytes); // aligned to 64; nullptr where no gap is large enough
    void release(std::byte* block);          // must be one of its blocks
    std::int64_t bytes(std::byte* block) const;

    std::byte* base() const { return base_; }
    std::int64_t reserved() const { return reserve_; }
    std::int64_t live() const { return live_; }       // of blocks as they lie here, alignment included
    std::int64_t highest() const { return highest_; } // the most that was ever live
    std::int64_t extent() const { return extent_; }   // one past the highest byte that was ever part of a block

  private:
    std::shared_ptr<std::byte> memory_;
    std::byte* base_ = nullptr;
    std::int64_t reserve_ = 0, live_ = 0, highest_ = 0, extent_ = 0;
    std::map<std::int64_t, std::int64_t> gaps_, blocks_; // offset -> length
};

} // namespace orrery

// Where the buffers of a stage lie in a rank's memory: which share storage, how many instances there are at a time, which are adjacent
// (a bucket whose shards are views of it), which are a rank's part of another.
#pragma once

#include "exec/kernels/buckets.hpp"
#include "exec/kernels/kernel.hpp"
#include "exec/runtime/arena.hpp"
#include "sim/plan/issue_order.hpp"
#include "sim/plan/plan.hpp"
#include "topology/indexed.hpp"

#include <array>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace orrery {

// A file without a name in the folder for temporary files ($TMPDIR), mapped: memory that the system keeps on disk. Throws
// std::runtime_error where there is none to be had.
std::shared_ptr<std::byte> reserve_on_disk(std::int64_t bytes);

// Memories of a rank, by number: 0: the device's, 1: the host's, 2: NVMe.
constexpr int memories = 3;
inline std::uint8_t arena_of(const Buffer& b) { return b.space == Space::device ? 0 : b.space == Space::host ? 1 : 2; }

struct BufferPlace {
    BufferId root = -1;          // whose storage it is
    std::int32_t slot = -1;      // of its root: where its instances' addresses begin; -1: not of this stage
    bool per_microbatch = false; // an instance a microbatch; else one
    std::int64_t stored = 0;     // bytes of an instance as the kernels hold it
    CommId part_of = -1;         // >= 0: a part of its storage, of as many bytes as `part`, the one of the rank's index there
    std::int64_t part = 0;
    std::int32_t batch_rows = 0; // token ids of all microbatches, concatenated: rows of each
};

struct StorageMap {
    std::vector<BufferPlace> places; // by buffer
    struct Bucket {
        std::vector<BufferId> tensors;
        std::int64_t stored;
    }; // contiguous, padding included
    std::vector<Bucket> buckets;
    std::vector<BufferId> resident; // storage that is there when a step begins, buckets' tensors aside
    std::int32_t slots = 0;
    std::int64_t planned[3] = {0, 0, 0}; // device, host, NVMe: bytes stored at most while a program is walked in issue order
};

StorageMap storage_map(const Plan& plan, const IssueOrder& order, const BucketLayouts& buckets, DType real);

// No gap of the arena holds a buffer: what was asked for, and what is alive.
struct OutOfMemory : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// As the plan counts: in issue order, a buffer's bytes from its Alloc to its Free.
struct MemoryCount {
    std::int64_t live = 0, highest = 0;
    ByEnum<MemoryKind, std::int64_t, memory_kind_count> by_kind{}, at_highest{};
};

class RankMemory {
  public:
    // part_index: of the rank, by communicator; -1 where it is not a member.
    RankMemory(const Plan& plan, const StorageMap& map, std::vector<int> part_index, const Backend& machine = cpu_machine());

    std::byte* at(BufferId b, std::int32_t microbatch) const;
    Operand operand(BufferId b, std::int32_t microbatch) const { return {at(b, microbatch), &plan_->buffers[b], b}; }
    std::byte* block(BufferId b, std::int32_t microbatch) const;                    // the storage's own address
    std::byte* within(BufferId b, std::int32_t microbatch, std::byte* block) const; // at(), where its storage lies at `block`
    std::byte* of_slot(std::int32_t slot) const { return addresses_[slot]; }        // null: not allocated
    const Arena& arena(int space) const { return arenas_[space]; }                  // 0: device, 1: host, 2: NVMe

    void allocate(BufferId b, std::int32_t microbatch);
    void release(BufferId b, std::int32_t microbatch);
    // Queued work still uses these blocks: released blocks stay until it is done.
    void hold(std::byte* block);
    void let_go(std::byte* block);

    void count(const Buffer& b, int sign); // for whoever places buffers itself: 1 allocated, -1 released
    const MemoryCount& device() const { return count_; }
    std::int64_t bytes_in_arenas() const { return arenas_[0].highest() + arenas_[1].highest() + arenas_[2].highest(); }
    std::int64_t part_index(CommId c) const { return part_index_[c]; }
    const StorageMap& map() const { return *map_; }
    bool poisons() const { return poison_; }
    // Limit of the device's memory, as the plan counts it; 0: no limit. Throws OutOfMemory where it holds more already.
    void limit(std::int64_t bytes, std::string named = {}); // named: behind it in errors
    void poison(bool on) { poison_ = on; }                  // new blocks are filled with NaN: whoever reads what nobody wrote shows

  private:
    std::byte*& address(const BufferPlace& root, std::int32_t microbatch);
    std::byte*& take(BufferId b, std::int32_t microbatch); // without filling it
    [[noreturn]] void out_of_memory(const Buffer& wanted) const;

    const Plan* plan_;
    const StorageMap* map_;
    std::vector<int> part_index_;
    std::vector<std::byte*> addresses_;
    Arena arenas_[memories];
    MemoryCount count_;
    struct Held {
        std::byte* block;
        int users;
        bool released;
        std::uint8_t arena;
    };
    std::vector<Held> held_;
    bool poison_ = false;
    std::int64_t limit_ = 0;
    std::string limit_named_;
};

} // namespace orrery

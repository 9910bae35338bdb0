#include "exec/runtime/storage.hpp"

#include "exec/checkpoint/checkpoint.hpp"
#include "topology/check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace orrery {
namespace {

const Buffer& buffer(const Plan& plan, BufferId b) { return plan.buffers[b]; }

Arena disk(std::int64_t planned) {
    if (planned == 0) return Arena(0);
    Backend machine = cpu_machine();
    machine.reserve = reserve_on_disk;
    return Arena(planned + (std::int64_t{1} << 20), machine);
}

// One instance a microbatch; parameters and gradients that come and go are still the rank's only ones.
bool per_microbatch(const Buffer& b) {
    return (b.scope == Scope::microbatch || b.scope == Scope::action) && b.kind != MemoryKind::parameters &&
           b.kind != MemoryKind::gradients;
}

// Alignment costs up to 64 bytes a block, and what is freed while still in use takes room beside what comes next.
std::int64_t reserve_for(std::int64_t planned, double room) {
    return static_cast<std::int64_t>(room * static_cast<double>(planned)) + (std::int64_t{16} << 20);
}

struct Walk {
    const Plan& plan;
    StorageMap& map;
    std::vector<char> met, resident;
    std::vector<std::int32_t> again; // the issue that allocates it in the step; 0: none

    std::int64_t stored(BufferId b) const { return map.places[b].stored; }

    // A buffer that is freed before it is allocated existed when the step began.
    void find_resident(const IssueOrder& order) {
        for (std::size_t at = 0; at < order.issues.size(); ++at) {
            const Issue& i = order.issues[at];
            if (const auto* a = std::get_if<Alloc>(&i.op->work)) met[a->buffer] = 1, again[a->buffer] = static_cast<std::int32_t>(at);
            if (const auto* f = std::get_if<Free>(&i.op->work); f && !met[f->buffer]) met[f->buffer] = resident[f->buffer] = 1;
        }
        for (std::size_t b = 0; b < plan.buffers.size(); ++b) {
            const Buffer& x = plan.buffers[b];
            const bool whole_step = x.scope == Scope::run || x.scope == Scope::step;
            if (x.stage == order.stage && x.storage < 0 && whole_step && !met[b]) resident[b] = 1;
        }
    }

    void plan_sizes(const IssueOrder& order) {
        std::int64_t live[3] = {0, 0, 0};
        const auto add = [&](BufferId b, std::int64_t bytes) {
            const std::size_t space = arena_of(buffer(plan, b));
            live[space] += bytes;
            map.planned[space] = std::max(map.planned[space], live[space]);
        };
        for (const StorageMap::Bucket& g : map.buckets) add(g.tensors[0], g.stored);
        for (BufferId b : map.resident) add(b, stored(b) + 64);
        for (const Issue& i : order.issues) {
            if (const auto* a = std::get_if<Alloc>(&i.op->work)) add(a->buffer, stored(a->buffer) + 64);
            if (const auto* f = std::get_if<Free>(&i.op->work)) add(f->buffer, -stored(f->buffer) - 64);
        }
    }
};

void find_parts(const Plan& plan, const IssueOrder& order, const BucketLayouts& layouts, DType real, StorageMap& map,
                std::vector<char>& grouped) {
    for (std::size_t b = 0; b < plan.buffers.size(); ++b) {
        const Buffer& x = plan.buffers[b];
        const BucketLayout* layout = layouts.find(static_cast<BufferId>(b));
        if (x.stage != order.stage || x.storage < 0 || !layout || layout->shard == 0) continue;
        const std::int64_t size = static_cast<std::int64_t>(stored_bytes(x.dtype, real));
        map.places[b].part_of = layout->comm;
        map.places[b].part = layout->shard * size;
        if (grouped[layout->segments[0].tensor]) continue; // several views of one bucket
        StorageMap::Bucket g;
        g.stored = layout->shard * orrery::size(plan, layout->comm) * size;
        for (const BucketSegment& s : layout->segments) {
            g.tensors.push_back(s.tensor);
            grouped[s.tensor] = 1;
        }
        map.buckets.push_back(std::move(g));
    }
    // Values that are sent in parts, one by each tensor-parallel rank.
    for (const Issue& i : order.issues) {
        const auto* x = std::get_if<Exchange>(&i.op->work);
        if (!x) continue;
        for (const Transfer& t : x->transfers) {
            const Buffer& part = buffer(plan, t.buffer);
            BufferPlace& place = map.places[t.buffer];
            if (!t.send || part.part_of < 0) continue;
            place.part_of = part.part_of;
            place.part = place.stored;
        }
    }
}

} // namespace

std::shared_ptr<std::byte> reserve_on_disk(std::int64_t bytes) {
    std::string name = (std::filesystem::temp_directory_path() / "orrery-nvme-XXXXXX").string();
    const int file = mkstemp(name.data());
    if (file < 0) throw std::runtime_error(fmt::format("no file can be made beside {}: {}", name, std::strerror(errno)));
    unlink(name.c_str()); // it lives as long as it is mapped
    const auto size = static_cast<std::size_t>(bytes);
    const int refused = posix_fallocate(file, 0, bytes);
    void* at = refused == 0 ? mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) : MAP_FAILED;
    close(file);
    if (at == MAP_FAILED)
        throw Unwritten(fmt::format("{}: no room for {} bytes of what lies on NVMe ({}): set TMPDIR to a folder on a disk that has it",
                                    name, bytes, std::strerror(refused != 0 ? refused : errno)));
    return {static_cast<std::byte*>(at), [size](std::byte* p) { munmap(p, size); }};
}

StorageMap storage_map(const Plan& plan, const IssueOrder& order, const BucketLayouts& layouts, DType real) {
    StorageMap map;
    map.places.resize(plan.buffers.size());
    for (std::size_t b = 0; b < plan.buffers.size(); ++b) {
        const Buffer& x = plan.buffers[b];
        BufferPlace& p = map.places[b];
        p.root = storage(plan, static_cast<BufferId>(b));
        const Buffer& root = buffer(plan, p.root);
        p.per_microbatch = per_microbatch(root);
        p.stored = elements(x) * static_cast<std::int64_t>(stored_bytes(x.dtype, real));
        if (x.role == Role::batch) {
            p.batch_rows = static_cast<std::int32_t>(elements(x));
            p.stored *= plan.microbatches;
        }
        if (x.stage != order.stage || x.storage >= 0) continue;
        p.slot = map.slots;
        map.slots += p.per_microbatch ? static_cast<std::int32_t>(plan.microbatches) : 1;
    }
    std::vector<char> grouped(plan.buffers.size(), 0);
    find_parts(plan, order, layouts, real, map, grouped);
    Walk walk{plan, map, std::vector<char>(plan.buffers.size(), 0), std::vector<char>(plan.buffers.size(), 0),
              std::vector<std::int32_t>(plan.buffers.size(), 0)};
    walk.find_resident(order);
    for (std::size_t b = 0; b < plan.buffers.size(); ++b)
        if (walk.resident[b] && !grouped[b]) map.resident.push_back(static_cast<BufferId>(b));
    // Buffers that are away for a part of the step (gradients) lie behind all that stay, in the order they come back: the room that they
    // leave is one piece.
    std::ranges::stable_sort(map.resident, {}, [&](BufferId b) { return walk.again[b]; });
    walk.plan_sizes(order);
    return map;
}

RankMemory::RankMemory(const Plan& plan, const StorageMap& map, std::vector<int> part_index, const Backend& machine)
    : plan_(&plan), map_(&map), part_index_(std::move(part_index)),
      addresses_(static_cast<std::size_t>(map.slots), nullptr), arenas_{Arena(reserve_for(map.planned[0], machine.room), machine),
                                                                        Arena(reserve_for(map.planned[1], machine.room), machine),
                                                                        disk(map.planned[2])} {
    // What stays begins as zero (moments are never written before they are read); no page is touched where it is so already.
    const auto clear = [&](std::byte* at, std::int64_t bytes) {
        if (!machine.zeroed) std::memset(at, 0, static_cast<std::size_t>(bytes));
    };
    for (const StorageMap::Bucket& g : map.buckets) {
        std::byte* at = arenas_[0].allocate(g.stored);
        if (!at) out_of_memory(buffer(plan, g.tensors[0]));
        clear(at, g.stored);
        for (BufferId t : g.tensors) {
            const BufferPlace& place = map.places[t];
            address(place, 0) = at;
            at += place.stored;
            count(buffer(plan, t), 1);
        }
    }
    for (BufferId b : map.resident) clear(take(b, 0), map.places[b].stored);
}

std::byte*& RankMemory::address(const BufferPlace& p, std::int32_t microbatch) {
    const BufferPlace& root = map_->places[p.root];
    require(root.slot >= 0, "a rank touches a buffer of another stage");
    return addresses_[root.slot + (root.per_microbatch && microbatch >= 0 ? microbatch : 0)];
}

std::byte* RankMemory::block(BufferId b, std::int32_t microbatch) const {
    const BufferPlace& root = map_->places[map_->places[b].root];
    return addresses_[root.slot + (root.per_microbatch && microbatch >= 0 ? microbatch : 0)];
}

std::byte* RankMemory::at(BufferId b, std::int32_t microbatch) const { return within(b, microbatch, block(b, microbatch)); }

std::byte* RankMemory::within(BufferId b, std::int32_t microbatch, std::byte* base) const {
    const BufferPlace& p = map_->places[b];
    if (!base) broken(fmt::format("{} (microbatch {}) is not allocated", buffer(*plan_, b).name, microbatch));
    if (p.part_of >= 0) base += p.part * part_index_[p.part_of];
    if (p.batch_rows > 0 && microbatch >= 0) base += std::int64_t{8} * p.batch_rows * microbatch;
    return base;
}

void RankMemory::count(const Buffer& b, int sign) {
    if (b.space != Space::device) return;
    if (limit_ > 0 && sign > 0 && count_.live + b.bytes.count > limit_) out_of_memory(b);
    count_.live += sign * b.bytes.count;
    count_.by_kind[b.kind] += sign * b.bytes.count;
    if (count_.live <= count_.highest) return;
    count_.highest = count_.live;
    count_.at_highest = count_.by_kind;
}

void RankMemory::limit(std::int64_t bytes, std::string named) {
    limit_ = bytes;
    limit_named_ = std::move(named);
    if (bytes > 0 && count_.live > bytes)
        throw OutOfMemory(fmt::format("out of memory: parameters, gradients and states need {} bytes, and the device has {}{}", count_.live,
                                      bytes, limit_named_));
}

void RankMemory::out_of_memory(const Buffer& wanted) const {
    std::string text = fmt::format("out of memory: {} ({}) needs {} bytes; {} of {}{} are in use; alive are", wanted.name,
                                   name(wanted.kind), wanted.bytes.count, limit_ > 0 ? count_.live : arenas_[0].live(),
                                   limit_ > 0 ? limit_ : arenas_[0].reserved(), limit_named_);
    std::vector<std::pair<std::int64_t, std::string>> alive;
    for (std::size_t b = 0; b < map_->places.size(); ++b) {
        const BufferPlace& p = map_->places[b];
        if (p.slot < 0) continue;
        const std::int64_t n = p.per_microbatch ? plan_->microbatches : 1;
        const auto count =
            std::count_if(addresses_.begin() + p.slot, addresses_.begin() + p.slot + n, [](const std::byte* a) { return a != nullptr; });
        if (count > 0) alive.emplace_back(count * p.stored, plan_->buffers[b].name);
    }
    std::sort(alive.rbegin(), alive.rend());
    for (std::size_t i = 0; i < std::min<std::size_t>(5, alive.size()); ++i)
        text += fmt::format("{} {} ({} bytes)", i == 0 ? "" : ",", alive[i].second, alive[i].first);
    throw OutOfMemory(text);
}

std::byte*& RankMemory::take(BufferId b, std::int32_t microbatch) {
    const Buffer& x = buffer(*plan_, b);
    const BufferPlace& p = map_->places[b];
    std::byte*& slot = address(p, microbatch);
    if (slot) broken(fmt::format("{} (microbatch {}) is allocated twice", x.name, microbatch));
    slot = arenas_[arena_of(x)].allocate(p.stored);
    if (!slot) out_of_memory(x);
    count(x, 1);
    return slot;
}

void RankMemory::allocate(BufferId b, std::int32_t microbatch) {
    const Buffer& x = buffer(*plan_, b);
    const BufferPlace& p = map_->places[b];
    std::byte* const slot = take(b, microbatch);
    // Gradients that come and go are added to from nothing (autograd sets where there is none, which costs no kernel).
    if (x.kind == MemoryKind::gradients)
        std::memset(slot, 0, static_cast<std::size_t>(p.stored));
    else if (poison_)
        std::memset(slot, 0xff, static_cast<std::size_t>(p.stored));
}

void RankMemory::release(BufferId b, std::int32_t microbatch) {
    const Buffer& x = buffer(*plan_, b);
    std::byte*& slot = address(map_->places[b], microbatch);
    if (!slot) broken(fmt::format("{} (microbatch {}) is freed but not allocated", x.name, microbatch));
    const std::uint8_t arena = arena_of(x);
    const auto held = std::find_if(held_.begin(), held_.end(), [&](const Held& h) { return h.block == slot; });
    if (held != held_.end()) {
        held->released = true;
        held->arena = arena;
    } else {
        arenas_[arena].release(slot);
    }
    slot = nullptr;
    count(x, -1);
}

void RankMemory::hold(std::byte* block) {
    const auto held = std::find_if(held_.begin(), held_.end(), [&](const Held& h) { return h.block == block; });
    if (held != held_.end())
        ++held->users;
    else
        held_.push_back({block, 1, false, 0});
}

void RankMemory::let_go(std::byte* block) {
    const auto held = std::find_if(held_.begin(), held_.end(), [&](const Held& h) { return h.block == block; });
    require(held != held_.end(), "a block was let go that nobody held");
    if (--held->users > 0) return;
    if (held->released) arenas_[held->arena].release(block);
    *held = held_.back();
    held_.pop_back();
}

} // namespace orrery

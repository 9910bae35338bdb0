#include "sim/memory/segments.hpp"

#include <algorithm>
#include <unordered_map>

namespace orrery {
namespace {

// Allocations that are looked at, of all stages together and at least of each.
constexpr std::int64_t together = 120'000, at_least = 10'000;

// Whether the op that the memory ops from here on stand before is a sum that writes the buffer: of a residual stream, as a rule.
bool is_sum_into(const Block& block, std::int32_t i, BufferId buffer) {
    while (i < static_cast<std::int32_t>(block.ops.size()) && is_memory_op(block.ops[i].work)) ++i;
    if (i == static_cast<std::int32_t>(block.ops.size())) return false;
    const Op& op = block.ops[i];
    const auto* sum = std::get_if<Pointwise>(&op.work);
    return sum && sum->direction == Direction::forward &&
           (sum->kind == PointwiseKind::add || sum->kind == PointwiseKind::bias_dropout_add) && !op.out.empty() && op.out[0] == buffer;
}

class Replay {
  public:
    // spare: each sum has one more temporary of its size, as its steps have where they are kernels of their own.
    Replay(const Plan& plan, const Program& program, bool streams, Bytes limit, bool spare)
        : plan_(plan), program_(program), streams_(streams), spare_(spare), allocator_(streams ? 3 : 1, limit) {}

    Bytes run() {
        hold();
        std::int64_t left = std::max<std::int64_t>(at_least, together / static_cast<std::int64_t>(plan_.programs.size()));
        for (int step = 0; step < 2; ++step)
            for (const Action& a : program_.actions) {
                if (left <= 0) return allocator_.peak(); // no other step can follow half of one
                left -= play(a);
            }
        return allocator_.peak();
    }

  private:
    static std::uint64_t key(BufferId b, std::int32_t microbatch) {
        return static_cast<std::uint64_t>(b) << 32 | static_cast<std::uint32_t>(microbatch + 1);
    }
    const Buffer& buffer(BufferId b) const { return plan_.buffers[b]; }
    int stream(const Buffer& b) const { return streams_ ? allocation_stream(b) : 0; }

    // Buffers that are there all the time.
    void hold() {
        std::vector<char> met(plan_.buffers.size());
        std::vector<char> seen(plan_.blocks.size());
        for (const Action& a : program_.actions) {
            if (seen[static_cast<std::size_t>(a.block)]++) continue;
            for (const Op& op : plan_.blocks[a.block].ops) {
                if (const auto* alloc = std::get_if<Alloc>(&op.work)) met[static_cast<std::size_t>(alloc->buffer)] = 1;
                if (const auto* free = std::get_if<Free>(&op.work)) met[static_cast<std::size_t>(free->buffer)] = 1;
            }
        }
        for (BufferId id = 0; id < static_cast<BufferId>(plan_.buffers.size()); ++id) {
            const Buffer& b = buffer(id);
            if (lasts(b, program_, Space::device) && !met[static_cast<std::size_t>(id)]) allocator_.allocate(b.bytes, stream(b));
        }
    }

    // How many allocations.
    std::int64_t play(const Action& a) {
        std::int64_t count = 0;
        const Block& block = plan_.blocks[a.block];
        for (std::int32_t i = a.first; i < a.last; ++i) {
            const Op& op = block.ops[i];
            const auto* alloc = std::get_if<Alloc>(&op.work);
            const auto* free = std::get_if<Free>(&op.work);
            if (!alloc && !free) continue;
            const BufferId id = alloc ? alloc->buffer : free->buffer;
            const Buffer& b = buffer(id);
            if (b.space != Space::device) continue;
            const bool own = b.scope == Scope::microbatch || b.scope == Scope::action;
            const std::uint64_t k = key(id, own ? a.microbatch[op.port] : -1);
            if (alloc) {
                const CachingAllocator::Block beside = spare_ && is_sum_into(block, i, id) ? allocator_.allocate(b.bytes, stream(b)) : -1;
                live_[k] = allocator_.allocate(b.bytes, stream(b));
                if (beside >= 0) allocator_.free(beside);
                ++count;
            } else if (const auto found = live_.find(k); found != live_.end()) {
                allocator_.free(found->second);
                live_.erase(found);
            }
        }
        return count;
    }

    const Plan& plan_;
    const Program& program_;
    bool streams_, spare_;
    CachingAllocator allocator_;
    std::unordered_map<std::uint64_t, CachingAllocator::Block> live_; // by buffer and microbatch
};

} // namespace

int allocation_stream(const Buffer& b) {
    return b.role == Role::gathered_parameters ? 1 : b.role == Role::flat_gradients || b.role == Role::gradient_part ? 2 : 0;
}

bool lasts(const Buffer& b, const Program& program, Space space) {
    // A view's bytes are those of its storage: a rank's part of a bucket that is whole on every rank is no memory of its own.
    return b.stage == program.stage && b.space == space && (b.scope == Scope::run || b.scope == Scope::step) && b.storage < 0;
}

Bytes reserved_peak(const Plan& plan, const Program& program, bool streams, Bytes limit) {
    return std::min(Replay(plan, program, streams, limit, false).run(), Replay(plan, program, streams, limit, true).run());
}

} // namespace orrery

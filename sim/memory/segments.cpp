#include "sim/memory/segments.hpp"

#include "sim/plan/hazards.hpp"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

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

// An Alloc or a Free on the device.
struct Change {
    std::int32_t op, place; // place: of its buffer among those that come and go
    Bytes size;
    std::int16_t stream;
    std::uint8_t port;
    bool allocates, own, sum; // own: a microbatch has one of its own; sum: the op behind it adds into it
};

// The input of both replays of a stage's program: the changes of each block, and what is there all the time.
class Changes {
  public:
    Changes(const Plan& plan, const Program& program, AllocatorUse use)
        : plan_(plan), sharding_(use.sharding), of_block_(plan.blocks.size()), place_(plan.buffers.size(), -1) {
        std::vector<char> seen(plan.blocks.size(), 0);
        for (const Action& a : program.actions)
            if (!std::exchange(seen[a.block], 1)) read(a.block);
        for (BufferId id = 0; id < static_cast<BufferId>(plan.buffers.size()); ++id) {
            const Buffer& b = plan.buffers[id];
            if (!lasts(b, program, Space::device) || place_[id] >= 0) continue;
            const bool moment = b.role == Role::first_moment || b.role == Role::second_moment;
            if (use.late_moments && moment)
                add_late(b);
            else
                held_.push_back({b.bytes, stream(b)});
        }
    }
    struct Held {
        Bytes size;
        int stream;
    };
    const std::vector<Held>& held() const { return held_; }
    const std::vector<Held>& late() const { return late_; }
    std::size_t places() const { return static_cast<std::size_t>(places_); }
    bool has_sums() const { return sums_; }
    // Those of ops [first, last) of the action's block.
    std::span<const Change> of(const Action& a) const {
        const std::vector<Change>& all = of_block_[a.block];
        const auto at = [&](std::int32_t op) { return std::ranges::lower_bound(all, op, {}, &Change::op); };
        return {at(a.first), at(a.last)};
    }

  private:
    // A parameter's moments are a block each.
    void add_late(const Buffer& b) {
        if (b.bucket < 0) return late_.push_back({b.bytes, stream(b)});
        const TensorBucket& bucket = plan_.buckets[b.bucket];
        const std::int64_t whole = bucket.tensors.back().end;
        for (const auto& t : bucket.tensors)
            late_.push_back({Bytes{static_cast<std::int64_t>(static_cast<double>(b.bytes.count) * static_cast<double>(t.end - t.begin) /
                                                             static_cast<double>(whole))},
                             stream(b)});
    }
    int stream(const Buffer& b) const { return allocation_stream(plan_, b, sharding_); }
    void read(std::int32_t id) {
        const Block& block = plan_.blocks[id];
        std::vector<Change>& changes = of_block_[id];
        for (std::int32_t i = 0; i < static_cast<std::int32_t>(block.ops.size()); ++i) {
            const Op& op = block.ops[i];
            const auto* alloc = std::get_if<Alloc>(&op.work);
            const auto* free = std::get_if<Free>(&op.work);
            if (!alloc && !free) continue;
            const BufferId b = alloc ? alloc->buffer : free->buffer;
            const Buffer& buffer = plan_.buffers[b];
            std::int32_t& place = place_[b];
            if (place < 0) place = places_++;
            if (buffer.space != Space::device) continue;
            const bool own = per_microbatch(buffer), sum = alloc && is_sum_into(block, i, b);
            sums_ = sums_ || sum;
            changes.push_back({i, place, buffer.bytes, static_cast<std::int16_t>(stream(buffer)), op.port, alloc != nullptr, own, sum});
        }
    }

    const Plan& plan_;
    Sharding sharding_;
    bool sums_ = false;
    std::vector<std::vector<Change>> of_block_;
    std::vector<std::int32_t> place_; // by buffer
    std::int32_t places_ = 0;
    std::vector<Held> held_, late_;
};

// The most that is reserved. spare: each sum has one more temporary of its size, as its steps have where they are kernels of their own.
class Replay {
  public:
    Replay(const Changes& changes, AllocatorUse use, Bytes limit, bool spare)
        : changes_(changes), spare_(spare), allocator_(fully_sharded(use.sharding) ? 4 : 1, limit, use.expandable),
          live_(changes.places()) {}

    Bytes run(const Program& program, std::int64_t left) {
        for (const Changes::Held& h : changes_.held()) allocator_.allocate(h.size, h.stream);
        for (int step = 0; step < 2; ++step) {
            auto a = program.actions.begin();
            for (std::int64_t rest = left / 2; a != program.actions.end() && rest > 0; ++a) rest -= play(*a);
            if (a != program.actions.end()) end(program, a);
            if (step == 0)
                for (const Changes::Held& h : changes_.late()) allocator_.allocate(h.size, h.stream);
        }
        return allocator_.peak();
    }

  private:
    struct Live {
        std::int32_t microbatch;
        CachingAllocator::Block block;
    };

    // The end of a step that is followed up to `next` alone: microbatches have left what they cached, and what updates parameters comes on
    // top.
    void end(const Program& program, std::vector<Action>::const_iterator next) {
        for (std::vector<Live>& live : live_)
            std::erase_if(live, [&](const Live& l) {
                if (l.microbatch >= 0) allocator_.free(l.block);
                return l.microbatch >= 0;
            });
        const auto last =
            std::ranges::find_if(program.actions.rbegin(), program.actions.rend(), [](const Action& a) { return a.microbatch[0] >= 0; });
        for (auto a = std::max(next, last.base()); a != program.actions.end(); ++a) play(*a);
    }

    // How many allocations.
    std::int64_t play(const Action& a) {
        std::int64_t count = 0;
        for (const Change& c : changes_.of(a)) {
            const std::int32_t microbatch = c.own ? a.microbatch[c.port] : -1;
            std::vector<Live>& live = live_[c.place];
            const auto found = std::ranges::find(live, microbatch, &Live::microbatch);
            if (c.allocates) {
                const CachingAllocator::Block beside = spare_ && c.sum ? allocator_.allocate(c.size, c.stream) : -1;
                const CachingAllocator::Block block = allocator_.allocate(c.size, c.stream);
                if (found != live.end()) { // its end was not followed
                    allocator_.free(found->block);
                    found->block = block;
                } else
                    live.push_back({microbatch, block});
                if (beside >= 0) allocator_.free(beside);
                ++count;
            } else if (found != live.end()) {
                allocator_.free(found->block);
                *found = live.back();
                live.pop_back();
            }
        }
        return count;
    }

    const Changes& changes_;
    bool spare_;
    CachingAllocator allocator_;
    std::vector<std::vector<Live>> live_; // by place: of the microbatches under way, few
};

} // namespace

int allocation_stream(const Plan& plan, const Buffer& b, Sharding sharding) {
    if (!fully_sharded(sharding) || b.bucket < 0) return 0;
    const bool flat = sharding == Sharding::flat_units, passing = b.scope == Scope::action;
    switch (b.role) {
    case Role::gathered_parameters:
        return 1;
    case Role::parameter: // a part of the flat parameter, or copied out of what was gathered
        return flat && passing ? 1 : 0;
    case Role::parameter_shard:
        return !passing ? 0 : flat ? 3 : 1;
    case Role::gradient_shard:
    case Role::gradient_part:
        return 2;
    case Role::flat_gradients: { // autograd joins the parts of a flat parameter's gradient, and only a cast makes another
        const BufferId made = plan.buckets[b.bucket].tensors.front().gradient;
        return flat && plan.buffers[made].dtype != b.dtype ? 2 : 0;
    }
    default:
        return 0;
    }
}

bool lasts(const Buffer& b, const Program& program, Space space) {
    // A view's bytes are those of its storage: a rank's part of a bucket that is whole on every rank is no memory of its own.
    return b.stage == program.stage && b.space == space && (b.scope == Scope::run || b.scope == Scope::step) && b.storage < 0;
}

Bytes reserved_peak(const Plan& plan, const Program& program, AllocatorUse use, Bytes limit) {
    const Changes changes(plan, program, use);
    const auto reserved = [&](bool spare) {
        const std::int64_t followed = std::max<std::int64_t>(at_least, together / static_cast<std::int64_t>(plan.programs.size()));
        return Replay(changes, use, limit, spare).run(program, followed);
    };
    const Bytes plain = reserved(false);
    return changes.has_sums() ? std::min(plain, reserved(true)) : plain;
}

} // namespace orrery

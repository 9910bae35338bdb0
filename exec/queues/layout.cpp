#include "exec/queues/layout.hpp"

#include "exec/queues/packing.hpp"
#include "topology/check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <optional>

namespace orrery {
namespace {

constexpr std::int64_t alignment = 256; // what cudaMalloc gives, and vector loads like

class Walk {
  public:
    Walk(const Plan& plan, const IssueOrder& order, const StorageMap& map, const Standing& standing)
        : plan_(plan), order_(order), map_(map), standing_(standing), now_(static_cast<std::size_t>(map.slots), -1) {}

    MemoryLayout lifetimes() {
        for (std::size_t b = 0; b < plan_.buffers.size(); ++b) {
            const BufferPlace& p = map_.places[b];
            if (p.slot < 0) continue;
            for (std::int32_t m = 0; m < (p.per_microbatch ? plan_.microbatches : 1); ++m)
                if (standing_.start[p.slot + m] >= 0) begin(static_cast<BufferId>(b), p.slot + m, -1);
        }
        layout_.operands.resize(order_.issues.size());
        for (std::size_t i = 0; i < order_.issues.size(); ++i) take(static_cast<std::int32_t>(i));
        place_those_that_stay();
        return std::move(layout_);
    }

  private:
    std::int32_t slot_of(BufferId b, std::int32_t microbatch) const {
        const BufferPlace& root = map_.places[map_.places[b].root];
        require(root.slot >= 0, "a rank touches a buffer of another stage");
        return root.slot + (root.per_microbatch && microbatch >= 0 ? microbatch : 0);
    }
    void begin(BufferId b, std::int32_t slot, std::int32_t issue) {
        const Buffer& x = plan_.buffers[b];
        Lifetime life;
        life.buffer = b;
        life.slot = slot;
        life.bytes = std::max<std::int64_t>(1, map_.places[b].stored);
        life.space = arena_of(x);
        life.alloc = issue;
        life.free = static_cast<std::int32_t>(order_.issues.size());
        if (issue < 0) life.offset = standing_.start[slot];
        auto& now = now_[slot];
        require(now < 0, "storage is allocated twice");
        now = static_cast<std::int32_t>(layout_.lifetimes.size());
        layout_.lifetimes.push_back(std::move(life));
    }
    std::int32_t touch(std::int32_t issue, BufferId b, std::int32_t microbatch) { // the lifetime whose storage b names
        const std::int32_t life = now_[slot_of(b, microbatch)];
        if (life < 0)
            broken(fmt::format("{} is not allocated where {} uses it", plan_.buffers[b].name, place(plan_, order_.issues[issue])));
        auto& users = layout_.lifetimes[life].users;
        if (users.empty() || users.back() != issue) users.push_back(issue);
        return life;
    }
    void use(std::int32_t issue, BufferId b, std::int32_t microbatch) {
        layout_.operands[issue].push_back(touch(issue, b, microbatch));
        each_further_storage(plan_, b, [&](BufferId other) { touch(issue, other, microbatch); });
    }
    void take(std::int32_t i) {
        const Issue& issue = order_.issues[i];
        if (const auto* a = std::get_if<Alloc>(&issue.op->work)) return begin(a->buffer, slot_of(a->buffer, issue.microbatch), i);
        if (const auto* f = std::get_if<Free>(&issue.op->work)) {
            auto& now = now_[slot_of(f->buffer, issue.microbatch)];
            require(now >= 0, "storage is freed but not allocated");
            layout_.lifetimes[now].free = i;
            now = -1;
            return;
        }
        if (is_host_only(*issue.op)) return;
        if (const auto* x = std::get_if<Exchange>(&issue.op->work)) {
            for (std::size_t k = 0; k < x->transfers.size(); ++k)
                use(i, x->transfers[k].buffer, order_.microbatches[static_cast<std::size_t>(issue.transfers_begin) + k]);
            return;
        }
        for (BufferId b : issue.op->in) use(i, b, issue.microbatch);
        for (BufferId b : issue.op->out) use(i, b, issue.microbatch);
    }
    // Buffers that stay allocated after a step keep their place for the next step.
    void place_those_that_stay() {
        for (std::size_t slot = 0; slot < now_.size(); ++slot) {
            const std::int64_t start = standing_.start[slot];
            if (now_[slot] < 0) {
                require(start < 0, "storage that is there when a step begins is not there when it ends");
                continue;
            }
            require(start >= 0, "storage that is there when a step ends was not there when it began");
            layout_.lifetimes[now_[slot]].offset = start;
        }
    }

    const Plan& plan_;
    const IssueOrder& order_;
    const StorageMap& map_;
    const Standing& standing_;
    std::vector<std::int32_t> now_; // by slot: its lifetime
    MemoryLayout layout_;
};

// Lifetimes that lie side by side: one, or the tensors of a bucket that come and go together, padding behind them. A group
// without lifetimes is what the collective of an issue copies through.
struct Group {
    std::vector<std::int32_t> lifetimes;
    std::int64_t bytes = 0;
    std::int32_t issue = -1;
};

// A bucket's parameters that one action allocates, or gradients that it allocates together: a collective then moves them as they lie.
class Groups {
  public:
    Groups(const Plan& plan, const IssueOrder& order, const StorageMap& map, const std::vector<Lifetime>& lifetimes)
        : plan_(plan), order_(order), map_(map), lifetimes_(lifetimes) {}

    std::vector<Group> of(int space) {
        std::vector<Group> groups;
        for (std::size_t l = 0; l < lifetimes_.size(); ++l) {
            const Lifetime& x = lifetimes_[l];
            if (x.space != space) continue;
            const auto bucket = bucket_of(x);
            if (!bucket) {
                groups.push_back({{static_cast<std::int32_t>(l)}, x.bytes});
                continue;
            }
            const auto [it, fresh] = open_.try_emplace(*bucket, groups.size());
            if (fresh) groups.emplace_back();
            groups[it->second].lifetimes.push_back(static_cast<std::int32_t>(l));
        }
        for (const auto& [key, group] : open_) close(groups[group], key);
        return groups;
    }

  private:
    std::optional<BucketRoom> bucket_of(const Lifetime& x) const {
        const bool passes = x.alloc >= 0 && x.offset < 0;
        return passes ? bucket_room(plan_, order_, x.alloc, x.buffer) : std::nullopt;
    }
    // In the bucket's order; as long as all its shards.
    void close(Group& group, const BucketRoom& key) const {
        const TensorBucket& bucket = plan_.buckets[key.bucket];
        const bool gradient = key.gradients;
        const auto place_in = [&](std::int32_t l) {
            const BufferId b = lifetimes_[l].buffer;
            return std::ranges::find(bucket.tensors, b, gradient ? &BucketTensor::gradient : &BucketTensor::parameter) -
                   bucket.tensors.begin();
        };
        std::ranges::sort(group.lifetimes, {}, place_in);
        for (std::int32_t l : group.lifetimes) group.bytes += lifetimes_[l].bytes;
        const CommId comm = gradient ? bucket.reduce : bucket.gather;
        if (bucket.shard == 0 || comm < 0 || group.lifetimes.size() != bucket.tensors.size()) return;
        const BucketTensor& first = bucket.tensors[0];
        const std::int64_t element = map_.places[gradient ? first.gradient : first.parameter].stored / (first.end - first.begin);
        group.bytes = std::max(group.bytes, bucket.shard * size(plan_, comm) * element);
    }

    const Plan& plan_;
    const IssueOrder& order_;
    const StorageMap& map_;
    const std::vector<Lifetime>& lifetimes_;
    std::map<BucketRoom, std::size_t> open_;
};

PackedBlock block_of(const Group& group, const std::vector<Lifetime>& lifetimes, const QueueClocks& clocks) {
    PackedBlock block{group.bytes, group.issue, group.issue + 1, std::vector<std::int32_t>(clocks.width(), -1),
                      std::vector<std::int32_t>(clocks.width(), std::numeric_limits<std::int32_t>::max())};
    const auto used_by = [&](std::int32_t u) {
        if (const std::int32_t home = clocks.home(u); home >= 0) {
            auto& last = block.last[home];
            last = std::max(last, u);
        }
        const auto ended = clocks.ended_before(u);
        for (std::size_t q = 0; q < ended.size(); ++q) block.follows[q] = std::min(block.follows[q], ended[q]);
    };
    if (group.lifetimes.empty()) {
        used_by(group.issue);
        return block;
    }
    const Lifetime& first = lifetimes[group.lifetimes[0]];
    block.begin = first.alloc, block.end = first.free, block.offset = first.offset, block.kind = first.buffer;
    for (std::int32_t l : group.lifetimes) {
        const Lifetime& x = lifetimes[l];
        block.begin = std::min(block.begin, x.alloc);
        block.end = std::max(block.end, x.free);
        for (std::int32_t u : x.users) used_by(u);
    }
    return block;
}

// Bytes of [0, fixed) between steps that belong to no lifetime: padding.
void keep_padding(std::vector<PackedBlock>& blocks, std::int64_t fixed, std::int32_t issues, std::size_t width) {
    std::vector<std::pair<std::int64_t, std::int64_t>> taken;
    for (const PackedBlock& b : blocks)
        if (b.offset >= 0) taken.emplace_back(b.offset, b.offset + b.bytes);
    std::ranges::sort(taken);
    std::vector<PackedBlock> gaps;
    const auto gap = [&](std::int64_t from, std::int64_t to) {
        if (from < to)
            gaps.push_back({to - from, -1, issues + 1, std::vector<std::int32_t>(width, -1), std::vector<std::int32_t>(width, -1), from});
    };
    std::int64_t at = 0;
    for (const auto& [begin, end] : taken) {
        gap(at, std::min(begin, fixed));
        at = std::max(at, end);
    }
    gap(at, fixed);
    blocks.insert(blocks.begin(), gaps.begin(), gaps.end());
}

// Where the blocks of groups lie.
void place(MemoryLayout& layout, const std::vector<Group>& groups, const PackedBlock* blocks, const Standing& standing) {
    for (const Group& group : groups) {
        std::int64_t at = (blocks++)->offset;
        const std::int64_t end = at + group.bytes;
        if (group.lifetimes.empty()) layout.staging[group.issue].offset = at;
        for (std::int32_t l : group.lifetimes) {
            Lifetime& x = layout.lifetimes[l];
            x.offset = at;
            x.room = std::max(end - at, x.slot >= 0 && x.alloc < 0 ? standing.room[x.slot] : 0);
            at += x.bytes;
        }
    }
}

} // namespace

MemoryLayout plan_layout(const Plan& plan, const IssueOrder& order, const QueueOrder& queues, const StorageMap& map,
                         const Standing& standing, const std::vector<std::int64_t>& staging) {
    MemoryLayout layout = Walk(plan, order, map, standing).lifetimes();
    for (std::int64_t bytes : staging) layout.staging.push_back({bytes});
    const auto issues = static_cast<std::int32_t>(order.issues.size());
    for (int space = 0; space < memories; ++space) {
        std::vector<Group> groups = Groups(plan, order, map, layout.lifetimes).of(space);
        for (std::int32_t i = 0; space == 0 && i < issues; ++i)
            if (staging[i] > 0) groups.push_back({{}, staging[i], i});
        std::ranges::stable_sort(groups, {},
                                 [&](const Group& g) { return g.lifetimes.empty() ? g.issue : layout.lifetimes[g.lifetimes[0]].alloc; });
        std::vector<PackedBlock> blocks;
        std::map<const Op*, std::int64_t> staged; // what an op copies through is a kind behind all buffers
        for (const Group& g : groups) {
            blocks.push_back(block_of(g, layout.lifetimes, queues.clocks()));
            if (g.lifetimes.empty())
                blocks.back().kind = static_cast<std::int64_t>(plan.buffers.size()) +
                                     staged.try_emplace(order.issues[g.issue].op, static_cast<std::int64_t>(staged.size())).first->second;
        }
        keep_padding(blocks, standing.fixed[space], issues, queues.clocks().width());
        layout.extent[space] = std::max(standing.fixed[space], pack(blocks, issues, alignment));
        place(layout, groups, blocks.data() + (blocks.size() - groups.size()), standing);
    }
    return layout;
}

namespace {

struct Taken {
    int space;
    std::int64_t begin, end;
    std::vector<std::int32_t> users;
    std::string name;
};

std::vector<Taken> all_taken(const MemoryLayout& layout) {
    std::vector<Taken> all;
    for (std::size_t l = 0; l < layout.lifetimes.size(); ++l) {
        const Lifetime& x = layout.lifetimes[l];
        all.push_back({x.space, x.offset, x.offset + x.bytes, x.users, fmt::format("lifetime {}", l)});
    }
    for (std::size_t i = 0; i < layout.staging.size(); ++i)
        if (const StagingPlace& s = layout.staging[i]; s.bytes > 0)
            all.push_back(
                {0, s.offset, s.offset + s.bytes, {static_cast<std::int32_t>(i)}, fmt::format("what issue {} copies through", i)});
    return all;
}

} // namespace

std::string overlap(const MemoryLayout& layout, const QueueOrder& queues) {
    const std::vector<Taken> all = all_taken(layout);
    const auto ordered = [&](const Taken& first, const Taken& second) {
        for (std::int32_t u : first.users)
            for (std::int32_t v : second.users)
                if (!queues.before(u, v)) return false;
        return true;
    };
    for (std::size_t a = 0; a < all.size(); ++a)
        for (std::size_t b = a + 1; b < all.size(); ++b) {
            const Taken &x = all[a], &y = all[b];
            if (x.space != y.space || x.end <= y.begin || y.end <= x.begin) continue;
            if (!ordered(x, y) && !ordered(y, x))
                return fmt::format("{} and {} may meet at {}", x.name, y.name, std::max(x.begin, y.begin));
        }
    return {};
}

} // namespace orrery

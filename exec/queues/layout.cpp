#include "exec/queues/layout.hpp"

#include "topology/check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>

namespace orrery {
namespace {

constexpr std::int64_t alignment = 256; // what cudaMalloc gives, and vector loads like

std::int64_t rounded(std::int64_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }

// For a lifetime, by queue: its last user, and the last issue that has ended before its first user.
struct Reach {
    std::vector<std::int32_t> last, ended;
};

Reach reach_of(const Lifetime& x, const QueueOrder& queues) {
    const auto width = static_cast<std::size_t>(queues.queues());
    Reach r{std::vector<std::int32_t>(width, -1), std::vector<std::int32_t>(width, std::numeric_limits<std::int32_t>::max())};
    for (std::int32_t u : x.users) {
        const QueuedIssue& issue = queues[static_cast<std::size_t>(u)];
        if (!issue.queues.empty()) r.last[static_cast<std::size_t>(issue.queues[0])] = u;
        const auto ended = queues.ended_before(u);
        for (std::size_t q = 0; q < width; ++q) r.ended[q] = std::min(r.ended[q], ended[q]);
    }
    return r;
}

bool before(const Lifetime& a, const Reach& of_a, const Lifetime& b, const Reach& of_b) {
    if (a.free > b.alloc) return false;
    for (std::size_t q = 0; q < of_a.last.size(); ++q)
        if (of_a.last[q] > of_b.ended[q]) return false;
    return true;
}

class Walk {
  public:
    Walk(const Plan& plan, const IssueOrder& order, const StorageMap& map, const Standing& standing)
        : plan_(plan), order_(order), map_(map), standing_(standing), now_(static_cast<std::size_t>(map.slots), -1) {}

    MemoryLayout lifetimes() {
        for (std::size_t b = 0; b < plan_.buffers.size(); ++b) {
            const BufferPlace& p = map_.places[b];
            if (p.slot < 0) continue;
            for (std::int32_t m = 0; m < (p.per_microbatch ? plan_.microbatches : 1); ++m)
                if (standing_.start[static_cast<std::size_t>(p.slot + m)] >= 0) begin(static_cast<BufferId>(b), p.slot + m, -1);
        }
        layout_.operands.resize(order_.issues.size());
        for (std::size_t i = 0; i < order_.issues.size(); ++i) take(static_cast<std::int32_t>(i));
        place_those_that_stay();
        return std::move(layout_);
    }

  private:
    std::int32_t slot_of(BufferId b, std::int32_t microbatch) const {
        const BufferPlace& root = map_.places[static_cast<std::size_t>(map_.places[static_cast<std::size_t>(b)].root)];
        require(root.slot >= 0, "a rank touches a buffer of another stage");
        return root.slot + (root.per_microbatch && microbatch >= 0 ? microbatch : 0);
    }
    void begin(BufferId b, std::int32_t slot, std::int32_t issue) {
        const Buffer& x = plan_.buffers[static_cast<std::size_t>(b)];
        Lifetime life;
        life.buffer = b;
        life.slot = slot;
        life.bytes = std::max<std::int64_t>(1, map_.places[static_cast<std::size_t>(b)].stored);
        life.space = x.space == Space::device ? 0 : 1;
        life.alloc = issue;
        life.free = static_cast<std::int32_t>(order_.issues.size());
        if (issue < 0) life.offset = standing_.start[static_cast<std::size_t>(slot)];
        auto& now = now_[static_cast<std::size_t>(slot)];
        require(now < 0, "storage is allocated twice");
        now = static_cast<std::int32_t>(layout_.lifetimes.size());
        layout_.lifetimes.push_back(std::move(life));
    }
    void use(std::int32_t issue, BufferId b, std::int32_t microbatch) {
        const std::int32_t life = now_[static_cast<std::size_t>(slot_of(b, microbatch))];
        if (life < 0)
            broken(fmt::format("{} is not allocated where {} uses it", plan_.buffers[static_cast<std::size_t>(b)].name,
                               place(plan_, order_.issues[static_cast<std::size_t>(issue)])));
        layout_.operands[static_cast<std::size_t>(issue)].push_back(life);
        auto& users = layout_.lifetimes[static_cast<std::size_t>(life)].users;
        if (users.empty() || users.back() != issue) users.push_back(issue);
    }
    void take(std::int32_t i) {
        const Issue& issue = order_.issues[static_cast<std::size_t>(i)];
        if (const auto* a = std::get_if<Alloc>(&issue.op->work)) return begin(a->buffer, slot_of(a->buffer, issue.microbatch), i);
        if (const auto* f = std::get_if<Free>(&issue.op->work)) {
            auto& now = now_[static_cast<std::size_t>(slot_of(f->buffer, issue.microbatch))];
            require(now >= 0, "storage is freed but not allocated");
            layout_.lifetimes[static_cast<std::size_t>(now)].free = i;
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
            layout_.lifetimes[static_cast<std::size_t>(now_[slot])].offset = start;
        }
    }

    const Plan& plan_;
    const IssueOrder& order_;
    const StorageMap& map_;
    const Standing& standing_;
    std::vector<std::int32_t> now_; // by slot: its lifetime
    MemoryLayout layout_;
};

// The bytes of one space: cut into runs, each with the lifetime that had it last (-1: nobody; who comes next must come after it).
class Ground {
  public:
    Ground(MemoryLayout& layout, const std::vector<Reach>& reaches, int space, std::int64_t fixed)
        : layout_(layout), reaches_(reaches), space_(space) {
        if (fixed > 0) runs_[0] = {fixed, taken};
        end_ = fixed;
        for (std::size_t l = 0; l < layout.lifetimes.size(); ++l) {
            const Lifetime& x = layout.lifetimes[l];
            if (x.space != space || x.offset < 0) continue;
            if (x.alloc < 0)
                occupy(static_cast<std::int32_t>(l));
            else
                returning_.push_back(static_cast<std::int32_t>(l));
        }
    }

    void place(std::int32_t life) {
        Lifetime& x = layout_.lifetimes[static_cast<std::size_t>(life)];
        if (x.offset < 0)
            x.offset = lowest(life);
        else
            std::erase(returning_, life);
        occupy(life);
    }
    std::int64_t end() const { return end_; }

  private:
    static constexpr std::int32_t taken = -2; // for ever
    struct Run {
        std::int64_t size;
        std::int32_t life;
    };

    bool follows(std::int32_t first, std::int32_t second) const {
        if (first == taken) return false;
        const auto a = static_cast<std::size_t>(first), b = static_cast<std::size_t>(second);
        return first < 0 || before(layout_.lifetimes[a], reaches_[a], layout_.lifetimes[b], reaches_[b]);
    }
    // First fit among what the last owners have certainly left, and what nobody comes back to meanwhile.
    std::int64_t lowest(std::int32_t life) const {
        std::vector<std::pair<std::int64_t, std::int64_t>> blocked;
        for (const auto& [at, run] : runs_)
            if (!follows(run.life, life)) blocked.emplace_back(at, at + run.size);
        for (std::int32_t r : returning_)
            if (!follows(life, r))
                blocked.emplace_back(layout_.lifetimes[static_cast<std::size_t>(r)].offset,
                                     layout_.lifetimes[static_cast<std::size_t>(r)].offset +
                                         layout_.lifetimes[static_cast<std::size_t>(r)].bytes);
        std::ranges::sort(blocked);
        std::int64_t at = 0;
        for (const auto& [begin, end] : blocked) {
            if (begin - at >= layout_.lifetimes[static_cast<std::size_t>(life)].bytes) break;
            at = std::max(at, rounded(end));
        }
        return at;
    }
    // Cuts a run in two at `at`, where one lies across.
    void cut(std::int64_t at) {
        auto it = runs_.lower_bound(at);
        if ((it != runs_.end() && it->first == at) || it == runs_.begin()) return;
        --it;
        const std::int64_t left = at - it->first;
        if (left >= it->second.size) return;
        runs_[at] = {it->second.size - left, it->second.life};
        it->second.size = left;
    }
    void occupy(std::int32_t life) {
        const Lifetime& x = layout_.lifetimes[static_cast<std::size_t>(life)];
        if (x.offset + x.bytes > end_) {
            runs_[end_] = {x.offset + x.bytes - end_, -1};
            end_ = x.offset + x.bytes;
        }
        cut(x.offset);
        cut(x.offset + x.bytes);
        runs_.erase(runs_.lower_bound(x.offset), runs_.lower_bound(x.offset + x.bytes));
        runs_[x.offset] = {x.bytes, life};
    }

    MemoryLayout& layout_;
    const std::vector<Reach>& reaches_;
    int space_;
    std::map<std::int64_t, Run> runs_;    // by offset, without gaps
    std::vector<std::int32_t> returning_; // lifetimes yet to come whose place is given
    std::int64_t end_ = 0;
};

} // namespace

MemoryLayout plan_layout(const Plan& plan, const IssueOrder& order, const QueueOrder& queues, const StorageMap& map,
                         const Standing& standing) {
    MemoryLayout layout = Walk(plan, order, map, standing).lifetimes();
    std::vector<Reach> reaches;
    for (const Lifetime& x : layout.lifetimes) reaches.push_back(reach_of(x, queues));
    for (int space = 0; space < 2; ++space) {
        Ground ground(layout, reaches, space, standing.fixed[space]);
        for (std::size_t l = 0; l < layout.lifetimes.size(); ++l) // in the order of their Allocs
            if (layout.lifetimes[l].space == space && layout.lifetimes[l].alloc >= 0) ground.place(static_cast<std::int32_t>(l));
        layout.extent[space] = ground.end();
    }
    return layout;
}

std::string overlap(const MemoryLayout& layout, const QueueOrder& queues) {
    for (std::size_t a = 0; a < layout.lifetimes.size(); ++a)
        for (std::size_t b = a + 1; b < layout.lifetimes.size(); ++b) {
            const Lifetime &x = layout.lifetimes[a], &y = layout.lifetimes[b];
            if (x.space != y.space || x.offset + x.bytes <= y.offset || y.offset + y.bytes <= x.offset) continue;
            const auto ordered = [&](const Lifetime& first, const Lifetime& second) {
                for (std::int32_t u : first.users)
                    for (std::int32_t v : second.users)
                        if (!queues.before(u, v)) return false;
                return true;
            };
            if (!ordered(x, y) && !ordered(y, x))
                return fmt::format("lifetimes {} and {} may meet at {}", a, b, std::max(x.offset, y.offset));
        }
    return {};
}

} // namespace orrery

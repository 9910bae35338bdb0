// Overlapping accesses from different queues in different actions are ordered by the queues' own order and the dependencies between
// actions, from one step to the next too.
//
// First quickly: storages with the same touches in every range form a family; a touch is safe if its queue has already waited for the
// other queue at least as far as the family's last access there. That is enough for what bind.cpp makes. Where it does not say so, the
// stage is followed op by op with vector clocks, which is exact.
#include "sim/plan/verify_parts.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <unordered_map>

namespace orrery::verification {
namespace {

struct Spot {
    std::int32_t action = -1, op = -1;   // action: over two steps
    bool reaches(const Spot& other) const { return action != other.action ? action > other.action : op >= other.op; }
};

std::uint64_t mix(std::uint64_t x) {
    x += 0x9e3779b97f4a7c15ull;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

// The access of a family in a range.
struct FamilyTouch { std::int32_t family, first, last; QueueMask queues, waited; std::uint8_t port; bool write; };

struct Access { QueueMask queues = 0; Spot spot; bool write = false; };
constexpr int most_accesses = 6;
struct History { std::array<Access, most_accesses> list; std::int32_t count = 0; };

class QuickOrder {
  public:
    QuickOrder(const Plan& plan, const Facts& facts, const Stage& stage) : plan_(plan), facts_(facts), stage_(stage) {}

    bool sure() {
        find_families();
        const std::size_t queues = at(stage_.queues);
        waited_.assign(queues * queues, {});
        const std::size_t instances = at(plan_.microbatches);
        history_.resize(history_size_);
        (void)instances;
        return walk(0) && walk(1);
    }

  private:
    void find_families();
    bool walk(std::int32_t step);
    void wait(const Block& block, const ActionDep& d, std::int32_t self_step);
    bool ordered(const FamilyTouch& t, const Access& earlier) const;
    History& history(const FamilyTouch& t, const Action& a) { return history_[at(start_[at(t.family)]) + (per_microbatch_[at(t.family)] ? at(std::max(0, a.microbatch[t.port])) : 0)]; }

    const Plan& plan_;
    const Facts& facts_;
    const Stage& stage_;
    std::vector<std::vector<FamilyTouch>> touches_;   // by range, in the order of `first`
    std::vector<char> per_microbatch_;                // by family
    std::vector<std::int64_t> start_;                 // by family: where its instances begin in history_
    std::size_t history_size_ = 0;
    std::vector<History> history_;
    std::vector<Spot> waited_;                        // [to][from]
};

void QuickOrder::find_families() {
    std::unordered_map<std::int32_t, std::uint64_t> signature;
    for (std::size_t r = 0; r < stage_.ranges.size(); ++r)
        for (const Touch& t : stage_.ranges[r].touches) signature[t.storage] += mix(mix((r << 8) ^ (static_cast<std::uint64_t>(t.port) << 1) ^ (t.write ? 1u : 0u)) ^ t.queues);
    std::unordered_map<std::uint64_t, std::int32_t> known;
    for (const Range& range : stage_.ranges) {
        auto& list = touches_.emplace_back();
        for (const Touch& t : range.touches) {
            const bool many = facts_.per_microbatch[at(t.storage)] != 0;
            const auto [it, fresh] = known.try_emplace(signature[t.storage] ^ (many ? 1u : 0u), static_cast<std::int32_t>(per_microbatch_.size()));
            if (fresh) {
                per_microbatch_.push_back(many);
                start_.push_back(static_cast<std::int64_t>(history_size_));
                history_size_ += many ? at(plan_.microbatches) : 1;
            }
            list.push_back({it->second, t.first, t.last, t.queues, t.waited, t.port, t.write});
        }
        const auto key = [](const FamilyTouch& t) { return std::tuple(t.family, t.port, t.queues, t.write); };
        std::sort(list.begin(), list.end(), [&](const FamilyTouch& a, const FamilyTouch& b) { return key(a) < key(b); });
        std::size_t kept = 0;
        for (std::size_t k = 0; k < list.size(); ++k) {
            if (kept > 0 && key(list[kept - 1]) == key(list[k])) {
                FamilyTouch& into = list[kept - 1];
                into.first = std::min(into.first, list[k].first);
                into.last = std::max(into.last, list[k].last);
                into.waited &= list[k].waited;
            } else {
                list[kept++] = list[k];
            }
        }
        list.resize(kept);
        std::stable_sort(list.begin(), list.end(), [](const FamilyTouch& a, const FamilyTouch& b) { return a.first < b.first; });
    }
}

void QuickOrder::wait(const Block& block, const ActionDep& d, std::int32_t self_step) {
    const std::int32_t count = static_cast<std::int32_t>(stage_.program->actions.size());
    const std::int32_t on = d.on_action < 0 ? (self_step - 1) * count + count + d.on_action : self_step * count + d.on_action;
    if (on < 0) return;
    const Action& other = stage_.program->actions[at(on % count)];
    const Spot spot{on, d.on_op};
    const QueueMask to = queues_of(stage_, block.ops[at(d.op)]), from = queues_of(stage_, plan_.blocks[at(other.block)].ops[at(d.on_op)]);
    for (QueueMask q = to; q != 0; q &= q - 1)
        for (QueueMask p = from; p != 0; p &= p - 1) {
            Spot& have = waited_[at(__builtin_ctzll(q)) * at(stage_.queues) + at(__builtin_ctzll(p))];
            if (spot.reaches(have)) have = spot;
        }
}

bool QuickOrder::ordered(const FamilyTouch& t, const Access& earlier) const {
    if ((t.queues | t.waited) & earlier.queues) return true;
    for (QueueMask q = t.queues; q != 0; q &= q - 1)
        for (QueueMask p = earlier.queues; p != 0; p &= p - 1)
            if (waited_[at(__builtin_ctzll(q)) * at(stage_.queues) + at(__builtin_ctzll(p))].reaches(earlier.spot)) return true;
    return false;
}

bool QuickOrder::walk(std::int32_t step) {
    const Program& program = *stage_.program;
    const std::int32_t count = static_cast<std::int32_t>(program.actions.size());
    for (std::int32_t index = 0; index < count; ++index) {
        const Action& a = program.actions[at(index)];
        const Block& block = plan_.blocks[at(a.block)];
        const std::int32_t self = step * count + index;
        const auto& touches = touches_[at(stage_.range_of[at(index)])];
        std::int32_t d = a.deps_begin;
        for (const FamilyTouch& t : touches) {
            if (step == 1 && per_microbatch_[at(t.family)]) continue;
            for (; d < a.deps_end && program.deps[at(d)].op <= t.first; ++d) wait(block, program.deps[at(d)], step);
            const History& h = history(t, a);
            for (std::int32_t k = 0; k < h.count; ++k)
                if (const Access& e = h.list[at(k)]; e.spot.action != self && (t.write || e.write) && !ordered(t, e)) return false;
        }
        for (; d < a.deps_end; ++d) wait(block, program.deps[at(d)], step);
        for (const FamilyTouch& t : touches) {   // a write supersedes what was there before this action
            if (!t.write || (step == 1 && per_microbatch_[at(t.family)])) continue;
            History& h = history(t, a);
            h.count = static_cast<std::int32_t>(std::remove_if(h.list.begin(), h.list.begin() + h.count, [&](const Access& e) { return e.spot.action != self; }) - h.list.begin());
        }
        for (const FamilyTouch& t : touches) {
            if (step == 1 && per_microbatch_[at(t.family)]) continue;
            History& h = history(t, a);
            std::int32_t k = 0;
            while (k < h.count && !(h.list[at(k)].queues == t.queues && h.list[at(k)].write == t.write)) ++k;
            if (k == most_accesses) return false;
            if (k == h.count) ++h.count;
            h.list[at(k)] = {t.queues, {self, t.last}, t.write};
        }
    }
    return true;
}

// Exact: every op of two steps, with the clock it starts at.
class ExactOrder {
  public:
    ExactOrder(const Plan& plan, const Facts& facts, const Stage& stage, Findings& findings) : plan_(plan), facts_(facts), stage_(stage), findings_(findings), width_(at(stage.queues)) {}

    void run() {
        const auto& actions = stage_.program->actions;
        std::int64_t n = 0;
        for (int step = 0; step < 2; ++step)
            for (const Action& a : actions) {
                base_.push_back(n);
                n += a.last - a.first;
            }
        clock_.assign(at(n) * width_, 0);
        last_.assign(width_, -1);
        for (const Range& r : stage_.ranges)
            for (const Touch& t : r.touches) tracked_.emplace(t.storage, static_cast<std::int32_t>(tracked_.size()));
        for (std::int32_t step = 0; step < 2; ++step) {
            // A microbatch's buffers are new ones in the next step.
            for (auto& [key, state] : states_)
                if (facts_.per_microbatch[at(key / plan_.microbatches)]) state = {};
            for (std::int32_t i = 0; i < static_cast<std::int32_t>(actions.size()); ++i) action(step, i);
        }
    }

  private:
    struct Past { std::int64_t op; QueueMask queues; std::int32_t action; };
    struct StorageState { Past writer{-1, 0, -1}; std::vector<Past> readers; };

    void action(std::int32_t step, std::int32_t index);
    void touch(const Op& op, std::int32_t step, std::int32_t index, std::int32_t i, BufferId b, int port, bool write, QueueMask queues);
    bool ended(const Past& p, QueueMask queues) const {
        if (p.queues & queues) return true;
        for (std::size_t q = 0; q < width_; ++q)
            if ((p.queues >> q & 1) && row_[q] > p.op) return true;
        return false;
    }

    const Plan& plan_;
    const Facts& facts_;
    const Stage& stage_;
    Findings& findings_;
    std::size_t width_;
    std::vector<std::int64_t> base_;                  // by action over two steps: number of its first op
    std::vector<std::int64_t> clock_, row_, last_;
    std::unordered_map<std::int32_t, std::int32_t> tracked_;
    std::unordered_map<std::int64_t, StorageState> states_;   // by storage and instance
};

void ExactOrder::action(std::int32_t step, std::int32_t index) {
    const Program& program = *stage_.program;
    const std::int32_t count = static_cast<std::int32_t>(program.actions.size());
    const Action& a = program.actions[at(index)];
    const Block& block = plan_.blocks[at(a.block)];
    const std::int64_t base = base_[at(step * count + index)];
    for (std::int32_t i = a.first; i < a.last; ++i) {
        const Op& op = block.ops[at(i)];
        if (is_memory_op(op.work)) continue;
        const std::int64_t self = base + i - a.first;
        row_.assign(width_, 0);
        const auto join = [&](std::int64_t earlier) {
            for (std::size_t q = 0; q < width_; ++q) row_[q] = std::max(row_[q], clock_[at(earlier) * width_ + q]);
        };
        const QueueMask queues = queues_of(stage_, op);
        for (std::size_t q = 0; q < width_; ++q)
            if ((queues >> q & 1) && last_[q] >= 0) join(last_[q]);
        for (std::int32_t d : op.deps)
            if (d >= a.first && !is_memory_op(block.ops[at(d)].work)) join(base + d - a.first);
        for (std::int32_t d = a.deps_begin; d < a.deps_end; ++d) {
            const ActionDep& dep = program.deps[at(d)];
            if (dep.op != i) continue;
            const std::int32_t on = dep.on_action < 0 ? step * count + dep.on_action : step * count + dep.on_action;
            const std::int32_t absolute = dep.on_action < 0 ? on : on;
            if (absolute < 0) continue;
            const Action& other = program.actions[at(absolute % count)];
            join(base_[at(absolute)] + dep.on_op - other.first);
        }
        each_access(plan_, op, [&](BufferId b, int port, bool write) { touch(op, step, index, i, b, port, write, queues); });
        for (std::size_t q = 0; q < width_; ++q) {
            if (queues >> q & 1) row_[q] = self + 1, last_[q] = self;
            clock_[at(self) * width_ + q] = row_[q];
        }
    }
}

void ExactOrder::touch(const Op&, std::int32_t step, std::int32_t index, std::int32_t i, BufferId b, int port, bool write, QueueMask queues) {
    const BufferId root = facts_.root[at(b)];
    if (!tracked_.contains(root)) return;
    const Program& program = *stage_.program;
    const std::int32_t count = static_cast<std::int32_t>(program.actions.size());
    const std::int64_t mb = facts_.per_microbatch[at(root)] ? std::max(0, program.actions[at(index)].microbatch[at(port)]) : 0;
    StorageState& s = states_[root * plan_.microbatches + mb];
    const std::int32_t action = step * count + index;
    const Past self{base_[at(action)] + i - program.actions[at(index)].first, queues, action};
    const auto check = [&](const Past& p, const char* verb) {
        if (p.op < 0 || p.action == action || ended(p, queues)) return;
        findings_.add("unordered", place(plan_, program, index, i),
                      fmt::format("{} is {} while {}{} may still {} it", plan_.buffers[at(b)].name, write ? "written" : "read", place(plan_, program, p.action % count), p.action < count && step == 1 ? " of the step before" : "", verb));
    };
    check(s.writer, "write");
    if (!write) { s.readers.push_back(self); return; }
    for (const Past& r : s.readers) check(r, "read");
    s.readers.clear();
    s.writer = self;
}

} // namespace

void check_order(const Plan& plan, const Facts& facts, const Stage& stage, Findings& findings) {
    if (!QuickOrder(plan, facts, stage).sure()) ExactOrder(plan, facts, stage, findings).run();
}

} // namespace orrery::verification

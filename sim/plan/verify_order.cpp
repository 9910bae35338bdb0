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
    std::int32_t action = -1, op = -1; // action: over two steps
    bool reaches(const Spot& other) const { return action != other.action ? action > other.action : op >= other.op; }
};

// The accesses of a family in a range: the earliest op of its entries or the latest of its exits.
struct FamilyTouch {
    std::int32_t family, op;
    QueueMask queues, waited;
    std::uint8_t port;
    bool write;
};

struct Access {
    QueueMask queues = 0;
    Spot spot;
    bool write = false;
};
constexpr int most_accesses = 6;
struct History {
    std::array<Access, most_accesses> list;
    std::int32_t count = 0;
};

class QuickOrder {
  public:
    QuickOrder(const Plan& plan, const Facts& facts, const Stage& stage) : plan_(plan), facts_(facts), stage_(stage) {}

    bool sure() {
        find_families();
        const std::size_t queues = at(stage_.queues);
        waited_.assign(queues * queues, {});
        history_.resize(history_size_);
        return walk(0) && walk(1);
    }

  private:
    void find_families();
    bool walk(std::int32_t step);
    void wait(std::int32_t block, const ActionDep& d, std::int32_t step);
    bool ordered(const FamilyTouch& t, const Access& earlier) const;
    History& history(const FamilyTouch& t, const Action& a) {
        return history_[at(start_[at(t.family)]) + (per_microbatch_[at(t.family)] ? at(std::max(0, a.microbatch[t.port])) : 0)];
    }

    const Plan& plan_;
    const Facts& facts_;
    const Stage& stage_;
    std::vector<std::vector<FamilyTouch>> entries_, exits_; // by range; entries in the order of their ops
    std::vector<char> per_microbatch_;                      // by family
    std::vector<std::int64_t> start_;                       // by family: where its instances begin in history_
    std::size_t history_size_ = 0;
    std::vector<History> history_;
    std::vector<Spot> waited_; // [to][from]
};

std::vector<FamilyTouch> merged(std::vector<FamilyTouch> list, bool earliest) {
    const auto key = [](const FamilyTouch& t) { return std::tuple(t.family, t.port, t.queues, t.write); };
    std::sort(list.begin(), list.end(), [&](const FamilyTouch& a, const FamilyTouch& b) { return key(a) < key(b); });
    std::size_t kept = 0;
    for (const FamilyTouch& t : list) {
        if (kept == 0 || key(list[kept - 1]) != key(t)) {
            list[kept++] = t;
            continue;
        }
        FamilyTouch& into = list[kept - 1];
        into.op = earliest ? std::min(into.op, t.op) : std::max(into.op, t.op);
        into.waited &= t.waited;
    }
    list.resize(kept);
    if (earliest) std::stable_sort(list.begin(), list.end(), [](const FamilyTouch& a, const FamilyTouch& b) { return a.op < b.op; });
    return list;
}

void QuickOrder::find_families() {
    std::vector<std::uint64_t> signature(plan_.buffers.size(), 0);
    const auto sign = [&](std::size_t range, const Touch& t, bool exit) {
        signature[at(t.storage)] +=
            mix(mix((range << 8) ^ (static_cast<std::uint64_t>(t.port) << 2) ^ (exit ? 2u : 0u) ^ (t.write ? 1u : 0u)) ^ t.queues);
    };
    for (std::size_t r = 0; r < stage_.ranges.size(); ++r) {
        for (const Touch& t : stage_.ranges[r].entries) sign(r, t, false);
        for (const Touch& t : stage_.ranges[r].exits) sign(r, t, true);
    }
    std::unordered_map<std::uint64_t, std::int32_t> known;
    std::vector<std::int32_t> family_of(plan_.buffers.size(), -1);
    const auto family = [&](BufferId b) {
        if (family_of[at(b)] >= 0) return family_of[at(b)];
        const bool many = facts_.per_microbatch[at(b)] != 0;
        const auto [it, fresh] =
            known.try_emplace(mix(signature[at(b)] ^ (many ? 1u : 0u)), static_cast<std::int32_t>(per_microbatch_.size()));
        if (fresh) {
            per_microbatch_.push_back(many);
            start_.push_back(static_cast<std::int64_t>(history_size_));
            history_size_ += many ? at(plan_.microbatches) : 1;
        }
        return family_of[at(b)] = it->second;
    };
    const auto of_family = [&](const std::vector<Touch>& touches) {
        std::vector<FamilyTouch> list;
        for (const Touch& t : touches) list.push_back({family(t.storage), t.op, t.queues, t.waited, t.port, t.write});
        return list;
    };
    for (const Range& range : stage_.ranges) {
        entries_.push_back(merged(of_family(range.entries), true));
        exits_.push_back(merged(of_family(range.exits), false));
    }
}

void QuickOrder::wait(std::int32_t block, const ActionDep& d, std::int32_t step) {
    const std::int32_t count = static_cast<std::int32_t>(stage_.program->actions.size());
    const std::int32_t on = step * count + d.on_action; // negative in the first step: before it all
    if (on < 0) return;
    const Action& other = stage_.program->actions[at(on % count)];
    const Spot spot{on, d.on_op};
    const QueueMask to = stage_.queues_of_op[at(block)][at(d.op)], from = stage_.queues_of_op[at(other.block)][at(d.on_op)];
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
        const std::int32_t self = step * count + index;
        const std::size_t range = at(stage_.range_of[at(index)]);
        std::int32_t d = a.deps_begin;
        for (const FamilyTouch& t : entries_[range]) {
            if (step == 1 && per_microbatch_[at(t.family)]) continue; // new ones each step
            for (; d < a.deps_end && program.deps[at(d)].op <= t.op; ++d) wait(a.block, program.deps[at(d)], step);
            const History& h = history(t, a);
            for (std::int32_t k = 0; k < h.count; ++k)
                if (const Access& e = h.list[at(k)]; (t.write || e.write) && !ordered(t, e)) return false;
        }
        for (; d < a.deps_end; ++d) wait(a.block, program.deps[at(d)], step);
        for (const Wait& w : stage_.ranges[range].waits) waited_[at(w.to) * at(stage_.queues) + at(w.from)] = {self, w.op};
        for (const FamilyTouch& t : exits_[range])
            if (t.write && !(step == 1 && per_microbatch_[at(t.family)])) history(t, a).count = 0; // supersedes what was there before
        for (const FamilyTouch& t : exits_[range]) {
            if (step == 1 && per_microbatch_[at(t.family)]) continue;
            History& h = history(t, a);
            std::int32_t k = 0;
            while (k < h.count && !(h.list[at(k)].queues == t.queues && h.list[at(k)].write == t.write)) ++k;
            if (k == most_accesses) return false;
            if (k == h.count) ++h.count;
            h.list[at(k)] = {t.queues, {self, t.op}, t.write};
        }
    }
    return true;
}

// Exact: every op of two steps, with the clock it starts at.
class ExactOrder {
  public:
    ExactOrder(const Plan& plan, const Facts& facts, const Stage& stage, Findings& findings)
        : plan_(plan), facts_(facts), stage_(stage), findings_(findings), width_(at(stage.queues)) {}

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
        tracked_.assign(plan_.buffers.size(), 0);
        for (const Range& r : stage_.ranges)
            for (const Touch& t : r.entries) tracked_[at(t.storage)] = 1;
        for (std::int32_t step = 0; step < 2; ++step) {
            // A microbatch's buffers are new ones in the next step.
            for (auto& [key, state] : states_)
                if (facts_.per_microbatch[at(key / plan_.microbatches)]) state = {};
            for (std::int32_t i = 0; i < static_cast<std::int32_t>(actions.size()); ++i) action(step, i);
        }
    }

  private:
    struct Past {
        std::int64_t op;
        QueueMask queues;
        std::int32_t action;
    };
    struct StorageState {
        Past writer{-1, 0, -1};
        std::vector<Past> readers;
    };

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
    std::vector<std::int64_t> base_; // by action over two steps: number of its first op
    std::vector<std::int64_t> clock_, row_, last_;
    std::vector<char> tracked_;                             // by buffer: storages met on several queues
    std::unordered_map<std::int64_t, StorageState> states_; // by storage and instance
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
        const QueueMask queues = stage_.queues_of_op[at(a.block)][at(i)];
        for (std::size_t q = 0; q < width_; ++q)
            if ((queues >> q & 1) && last_[q] >= 0) join(last_[q]);
        for (std::int32_t d : op.deps)
            if (d >= a.first && !is_memory_op(block.ops[at(d)].work)) join(base + d - a.first);
        for (std::int32_t d = a.deps_begin; d < a.deps_end; ++d) {
            const ActionDep& dep = program.deps[at(d)];
            if (dep.op != i) continue;
            const std::int32_t on = step * count + dep.on_action; // negative in the first step: before it all
            if (on < 0) continue;
            join(base_[at(on)] + dep.on_op - program.actions[at(on % count)].first);
        }
        each_access(plan_, op, [&](BufferId b, int port, bool write) { touch(op, step, index, i, b, port, write, queues); });
        for (std::size_t q = 0; q < width_; ++q) {
            if (queues >> q & 1) row_[q] = self + 1, last_[q] = self;
            clock_[at(self) * width_ + q] = row_[q];
        }
    }
}

void ExactOrder::touch(const Op&, std::int32_t step, std::int32_t index, std::int32_t i, BufferId b, int port, bool write,
                       QueueMask queues) {
    const BufferId root = facts_.root[at(b)];
    if (!tracked_[at(root)]) return;
    const Program& program = *stage_.program;
    const std::int32_t count = static_cast<std::int32_t>(program.actions.size());
    const std::int64_t mb = facts_.per_microbatch[at(root)] ? std::max(0, program.actions[at(index)].microbatch[at(port)]) : 0;
    StorageState& s = states_[root * plan_.microbatches + mb];
    const std::int32_t action = step * count + index;
    const Past self{base_[at(action)] + i - program.actions[at(index)].first, queues, action};
    const auto check = [&](const Past& p, const char* verb) {
        if (p.op < 0 || p.action == action || ended(p, queues)) return;
        findings_.add("unordered", place(plan_, program, index, i),
                      fmt::format("{} is {} while {}{} may still {} it", plan_.buffers[at(b)].name, write ? "written" : "read",
                                  place(plan_, program, p.action % count), p.action < count && step == 1 ? " of the step before" : "",
                                  verb));
    };
    check(s.writer, "write");
    if (!write) {
        s.readers.push_back(self);
        return;
    }
    for (const Past& r : s.readers) check(r, "read");
    s.readers.clear();
    s.writer = self;
}

} // namespace

void check_order(const Plan& plan, const Facts& facts, const Stage& stage, Findings& findings) {
    if (!QuickOrder(plan, facts, stage).sure()) ExactOrder(plan, facts, stage, findings).run();
}

} // namespace orrery::verification

// Overlapping accesses from different queues in different actions are ordered by the queues' own order and the dependencies between
// actions, from one step to the next too.
//
// First quickly: storages with the same touches in every range form a family; a touch is safe if its queue has already waited for the
// other queue at least as far as the family's last access there. That is enough for what bind.cpp makes. Where it does not say so, the
// stage is followed op by op with vector clocks, which is exact.
#include "sim/plan/repeats.hpp"
#include "sim/plan/verify_parts.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <unordered_map>
#include <utility>

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

// Exact: every op of two steps, with the clock it starts at. Kept are the clocks that a later action asks for and the states of the
// microbatches under way: a step of a million ops takes little more memory than one of a thousand.
class ExactOrder {
  public:
    ExactOrder(const Plan& plan, const Facts& facts, const Stage& stage, Findings& findings)
        : plan_(plan), facts_(facts), stage_(stage), findings_(findings), width_(at(stage.queues)), last_use_(last_uses(*stage.program)) {}

    void run() {
        find_clocks();
        find_storages();
        const auto count = static_cast<std::int32_t>(stage_.program->actions.size());
        last_.assign(width_ * width_, 0);
        slot_of_.assign(at(plan_.microbatches), -1);
        for (std::int32_t step = 0; step < 2; ++step) {
            for (std::int32_t mb = 0; mb < plan_.microbatches; ++mb) release(mb); // new buffers in the next step
            for (std::int32_t i = 0; i < count; ++i) {
                action(step, i);
                for (const std::int32_t mb : stage_.program->actions[at(i)].microbatch)
                    if (mb > 0 && last_use_[at(mb)] == i) release(mb); // 0 serves what has no microbatch, too
            }
        }
    }

  private:
    struct Past {
        std::int64_t op = -1;
        QueueMask queues = 0;
        std::int32_t action = -1;
    };
    struct StorageState {
        Past writer;
        std::vector<Past> readers;
    };

    void find_clocks();
    void find_storages();
    void action(std::int32_t step, std::int32_t index);
    void start(std::int32_t step, std::int32_t index, std::int32_t i, QueueMask queues);
    void touch(std::int32_t step, std::int32_t index, std::int32_t i, BufferId b, int port, bool write, QueueMask queues);
    StorageState& state_of(BufferId root, std::int32_t microbatch);
    void release(std::int32_t microbatch);
    void join(const std::int64_t* clock) {
        for (std::size_t q = 0; q < width_; ++q) row_[q] = std::max(row_[q], clock[q]);
    }
    // The clock of an op that a later action waits for; null: none does.
    std::int64_t* kept_clock(std::int32_t step, std::int32_t index, std::int32_t op) {
        const auto first = awaited_.begin() + awaited_begin_[at(index)], end = awaited_.begin() + awaited_begin_[at(index) + 1];
        const auto found = std::lower_bound(first, end, op);
        if (found == end || *found != op) return nullptr;
        return &kept_[(at(step) * awaited_.size() + at(found - awaited_.begin())) * width_];
    }
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
    std::vector<std::int32_t> last_use_;           // by microbatch
    std::vector<std::int64_t> base_;               // by action over two steps: number of its first op
    std::vector<std::ptrdiff_t> awaited_begin_;    // by action: where in awaited_ its ops stand
    std::vector<std::int32_t> awaited_;            // ops that later actions wait for, in order
    std::vector<std::int64_t> kept_;               // their clocks, by step
    std::vector<std::int64_t> clock_;              // by op of the action at hand
    std::vector<std::int64_t> row_, last_;         // the op at hand; by queue its latest op
    std::vector<std::int32_t> number_;             // by buffer: which of the storages met on several queues it is; -1: of none
    std::vector<StorageState> lasting_;            // by number
    std::vector<std::vector<StorageState>> slots_; // of a microbatch under way, by number
    std::vector<std::int32_t> slot_of_, free_;
    std::size_t storages_ = 0;
};

void ExactOrder::find_clocks() {
    const Program& program = *stage_.program;
    const auto count = static_cast<std::int32_t>(program.actions.size());
    std::int64_t n = 0;
    for (int step = 0; step < 2; ++step)
        for (const Action& a : program.actions) {
            base_.push_back(n);
            n += a.last - a.first;
        }
    std::vector<std::pair<std::int32_t, std::int32_t>> asked;
    for (const Action& a : program.actions)
        for (std::int32_t d = a.deps_begin; d < a.deps_end; ++d) {
            const ActionDep& dep = program.deps[at(d)];
            asked.emplace_back((dep.on_action + count) % count, dep.on_op);
        }
    std::ranges::sort(asked);
    asked.erase(std::unique(asked.begin(), asked.end()), asked.end());
    awaited_begin_.assign(at(count) + 1, 0);
    for (const auto& [action, op] : asked) {
        ++awaited_begin_[at(action) + 1];
        awaited_.push_back(op);
    }
    for (std::size_t i = 1; i < awaited_begin_.size(); ++i) awaited_begin_[i] += awaited_begin_[i - 1];
    kept_.assign(2 * awaited_.size() * width_, 0);
}

void ExactOrder::find_storages() {
    number_.assign(plan_.buffers.size(), -1);
    for (const Range& r : stage_.ranges)
        for (const Touch& t : r.entries)
            if (std::int32_t& number = number_[at(t.storage)]; number < 0) number = static_cast<std::int32_t>(storages_++);
    lasting_.resize(storages_);
}

ExactOrder::StorageState& ExactOrder::state_of(BufferId root, std::int32_t microbatch) {
    const std::size_t number = at(number_[at(root)]);
    if (!facts_.per_microbatch[at(root)]) return lasting_[number];
    std::int32_t& slot = slot_of_[at(microbatch)];
    if (slot < 0 && !free_.empty()) {
        slot = free_.back();
        free_.pop_back();
    } else if (slot < 0) {
        slot = static_cast<std::int32_t>(slots_.size());
        slots_.emplace_back(storages_);
    }
    return slots_[at(slot)][number];
}

void ExactOrder::release(std::int32_t microbatch) {
    const std::int32_t slot = std::exchange(slot_of_[at(microbatch)], -1);
    if (slot < 0) return;
    for (StorageState& s : slots_[at(slot)]) {
        s.writer = {};
        s.readers.clear();
    }
    free_.push_back(slot);
}

// The clock at which an op starts: what its queues did before, and all that it waits for.
void ExactOrder::start(std::int32_t step, std::int32_t index, std::int32_t i, QueueMask queues) {
    const Program& program = *stage_.program;
    const auto count = static_cast<std::int32_t>(program.actions.size());
    const Action& a = program.actions[at(index)];
    const Block& block = plan_.blocks[at(a.block)];
    row_.assign(width_, 0);
    for (std::size_t q = 0; q < width_; ++q)
        if (queues >> q & 1) join(&last_[q * width_]);
    for (const std::int32_t d : block.ops[at(i)].deps)
        if (d >= a.first && !is_memory_op(block.ops[at(d)].work)) join(&clock_[at(d - a.first) * width_]);
    for (std::int32_t d = a.deps_begin; d < a.deps_end; ++d) {
        const ActionDep& dep = program.deps[at(d)];
        const std::int32_t on = step * count + dep.on_action; // negative in the first step: before it all
        if (dep.op == i && on >= 0) join(kept_clock(on / count, on % count, dep.on_op));
    }
}

void ExactOrder::action(std::int32_t step, std::int32_t index) {
    const Program& program = *stage_.program;
    const Action& a = program.actions[at(index)];
    const Block& block = plan_.blocks[at(a.block)];
    const std::int64_t base = base_[at(step) * program.actions.size() + at(index)];
    clock_.assign(at(a.last - a.first) * width_, 0);
    for (std::int32_t i = a.first; i < a.last; ++i) {
        const Op& op = block.ops[at(i)];
        if (is_memory_op(op.work)) continue;
        const QueueMask queues = stage_.queues_of_op[at(a.block)][at(i)];
        start(step, index, i, queues);
        each_access(plan_, op, [&](BufferId b, int port, bool write) { touch(step, index, i, b, port, write, queues); });
        for (std::size_t q = 0; q < width_; ++q)
            if (queues >> q & 1) row_[q] = base + i - a.first + 1;
        for (std::size_t q = 0; q < width_; ++q)
            if (queues >> q & 1) std::ranges::copy(row_, last_.begin() + static_cast<std::ptrdiff_t>(q * width_));
        std::ranges::copy(row_, clock_.begin() + static_cast<std::ptrdiff_t>(at(i - a.first) * width_));
        if (std::int64_t* const kept = kept_clock(step, index, i)) std::ranges::copy(row_, kept);
    }
}

void ExactOrder::touch(std::int32_t step, std::int32_t index, std::int32_t i, BufferId b, int port, bool write, QueueMask queues) {
    const BufferId root = facts_.root[at(b)];
    if (number_[at(root)] < 0) return;
    const Program& program = *stage_.program;
    const std::int32_t count = static_cast<std::int32_t>(program.actions.size());
    StorageState& s = state_of(root, std::max(0, program.actions[at(index)].microbatch[at(port)]));
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

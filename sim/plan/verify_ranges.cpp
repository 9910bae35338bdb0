// Each distinct range of a block, once: what it does in issue order, and whether its queues' order and dependencies keep every
// overlapping access in that order. Its summary is all the rules on whole programs need.
//
// An op is after another if they share a queue or a chain of dependencies says so: row(op)[q] is the last op of queue q that has
// ended when `op` ends (a vector clock, one entry a queue).
#include "sim/plan/verify_parts.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace orrery::verification {

namespace {

enum class State : std::uint8_t { unknown, yes, no };

// The known state of a buffer, on one port, at the current op of the range.
struct Cell {
    std::uint32_t stamp = 0;
    State alive = State::unknown, written = State::unknown;
    std::uint8_t bits = 0;
    bool tracked = false, entered = false;  // of a storage: it meets several queues; the range has written it
    std::int32_t writer = -1, readers = -1; // of a storage: its last timed write, and the reads since (a list in readers_)
};

struct Reader {
    std::int32_t op, next;
};

class RangeCheck {
  public:
    RangeCheck(const Plan& plan, const Facts& facts, Findings& findings)
        : plan_(plan), facts_(facts), findings_(findings), cells_(plan.buffers.size() * max_ports) {}

    void run(const Stage& stage, const std::vector<QueueMask>& met_on, Range& range);

  private:
    Cell& cell(BufferId id, int port) {
        const std::size_t i = at(id) * max_ports + at(port);
        Cell& c = cells_[i];
        if (c.stamp != stamp_) {
            c = Cell{};
            c.stamp = stamp_;
            touched_.push_back(static_cast<std::int32_t>(i));
        }
        return c;
    }
    template <class F> void each_name(BufferId root, F&& f) {
        for (std::int32_t k = facts_.ids_begin[at(root)]; k < facts_.ids_begin[at(root) + 1]; ++k) f(facts_.ids[at(k)]);
    }
    void report(const char* rule, BufferId b, const char* what) {
        findings_.add(rule, place(plan_, *block_, op_), fmt::format("{} {}", plan_.buffers[at(b)].name, what));
    }

    void begin_op(const Op& op, QueueMask mask);
    bool ended_before(std::int32_t earlier, QueueMask queues) const;
    void memory(BufferId b, int port, bool alloc);
    // A buffer that belongs to no microbatch is the same on every port.
    int instance(BufferId b, int port) const { return facts_.per_microbatch[at(b)] ? port : 0; }
    void alive(BufferId b, Cell& root);
    void access(const Op& op, BufferId b, int port, bool write, QueueMask queues, bool tracked);
    void summarise(Range& range);
    bool closed(BufferId b, int port) {
        const Cell& r = cell(facts_.root[at(b)], port);
        return (r.bits & needs_dead) && r.alive == State::no;
    }

    const Plan& plan_;
    const Facts& facts_;
    Findings& findings_;
    std::vector<Cell> cells_;
    std::uint32_t stamp_ = 0;
    std::vector<std::int32_t> touched_;
    std::vector<Reader> readers_;
    const Block* block_ = nullptr;
    std::int32_t op_ = 0, first_ = 0;
    int width_ = 0;
    std::vector<std::int32_t> rows_, row_, last_; // row_: of the op at hand; last_: by queue, its last op, -1
    std::vector<QueueMask> masks_;
    QueueMask waited_ = 0; // of the op at hand
    std::vector<Touch> entries_;
};

void RangeCheck::begin_op(const Op& op, QueueMask mask) {
    const std::size_t w = at(width_);
    row_.assign(w, 0);
    const auto join = [&](std::int32_t earlier) {
        const std::int32_t* from = &rows_[at(earlier - first_) * w];
        for (std::size_t q = 0; q < w; ++q) row_[q] = std::max(row_[q], from[q]);
    };
    for (std::size_t q = 0; q < w; ++q)
        if ((mask >> q & 1) && last_[q] >= 0) join(last_[q]);
    for (std::int32_t d : op.deps)
        if (d >= first_) join(d);
    std::int32_t* mine = &rows_[at(op_ - first_) * w];
    waited_ = 0;
    for (std::size_t q = 0; q < w; ++q) {
        if (row_[q] > 0) waited_ |= QueueMask{1} << q;
        mine[q] = row_[q];
        if (mask >> q & 1) mine[q] = op_ + 1, last_[q] = op_;
    }
    masks_[at(op_ - first_)] = mask;
}

bool RangeCheck::ended_before(std::int32_t earlier, QueueMask queues) const {
    const QueueMask theirs = masks_[at(earlier - first_)];
    if (theirs & queues) return true;
    for (std::size_t q = 0; q < at(width_); ++q)
        if ((theirs >> q & 1) && row_[q] > earlier) return true;
    return false;
}

void RangeCheck::memory(BufferId b, int port, bool alloc) {
    Cell& c = cell(b, port);
    if (c.alive == State::unknown)
        c.bits |= alloc ? needs_dead : needs_alive;
    else if (alloc && c.alive == State::yes)
        report("allocated-twice", b, "is alive already");
    else if (!alloc && c.alive == State::no)
        report("freed-twice", b, "is not alive");
    c.alive = alloc ? State::yes : State::no;
    c.bits = static_cast<std::uint8_t>((c.bits & ~(ends_alive | ends_dead)) | (alloc ? ends_alive : ends_dead));
    const bool zeroed = alloc && plan_.buffers[at(b)].kind == MemoryKind::gradients; // a gradient starts as a sum of nothing
    each_name(b, [&](BufferId id) {
        Cell& n = cell(id, port);
        n.written = zeroed && id == b ? State::yes : State::no;
        n.bits = static_cast<std::uint8_t>((n.bits & ~(ends_written | ends_unwritten)) |
                                           (n.written == State::yes ? ends_written : ends_unwritten));
    });
}

void RangeCheck::alive(BufferId b, Cell& root) {
    if (root.alive == State::unknown)
        root.bits |= needs_alive;
    else if (root.alive == State::no)
        report("not-alive", b, "is used before its allocation or after its end");
    root.alive = State::yes;
}

void RangeCheck::access(const Op& op, BufferId b, int port, bool write, QueueMask queues, bool tracked) {
    const BufferId root = facts_.root[at(b)];
    cell(b, port);
    Cell& r = cell(root, port);
    alive(b, r);
    const auto ordered = [&](std::int32_t earlier) {
        if (earlier == op_ || ended_before(earlier, queues)) return;
        report("unordered", b,
               fmt::format("is {} while op {} ({}) may still {} it", write ? "written" : "read", earlier, block_->ops[at(earlier)].name,
                           earlier == r.writer ? "write" : "read")
                   .c_str());
    };
    if (r.writer >= 0) ordered(r.writer);
    if (write) {
        for (std::int32_t k = r.readers; k >= 0; k = readers_[at(k)].next) ordered(readers_[at(k)].op);
        r.readers = -1;
        r.writer = op_;
        // One storage holds one of its values at a time; a shard that is gathered where it lies is a part of what is gathered.
        const auto* c = std::get_if<Collective>(&op.work);
        const bool gathered = c && c->kind == CollectiveKind::all_gather;
        each_name(root, [&](BufferId id) {
            const bool holds = id == b || (gathered && std::find(op.in.begin(), op.in.end(), id) != op.in.end());
            Cell& n = cell(id, port);
            n.written = holds ? State::yes : State::no;
            n.bits = static_cast<std::uint8_t>((n.bits & ~(ends_written | ends_unwritten)) | (holds ? ends_written : ends_unwritten));
        });
    } else {
        readers_.push_back({op_, r.readers});
        r.readers = static_cast<std::int32_t>(readers_.size()) - 1;
        Cell& c = cell(b, port);
        if (c.written == State::unknown)
            c.bits |= needs_written;
        else if (c.written == State::no)
            report("read-before-write", b, fmt::format("is read by {} and holds nothing written", op.name).c_str());
        c.written = State::yes;
    }
    if (!tracked) return;
    r.tracked = true;
    if (r.entered) return;
    r.entered = write;
    entries_.push_back({root, op_, queues, waited_, static_cast<std::uint8_t>(port), write});
}

void RangeCheck::summarise(Range& range) {
    for (std::size_t k = 0; k < touched_.size(); ++k) {
        const BufferId id = touched_[k] / max_ports;
        const int port = touched_[k] % max_ports;
        const Cell& c = cells_[at(touched_[k])];
        if (c.bits != 0 && !closed(id, port)) range.effects.push_back({id, static_cast<std::uint8_t>(port), c.bits});
    }
    for (const Touch& t : entries_)
        if (!closed(t.storage, t.port)) range.entries.push_back(t);
    for (std::int32_t i : touched_) {
        const BufferId id = i / max_ports;
        const int port = i % max_ports;
        const Cell& c = cells_[at(i)];
        if (!c.tracked || closed(id, port)) continue;
        const auto leave = [&](std::int32_t op, bool write) {
            range.exits.push_back({id, op, masks_[at(op - first_)], 0, static_cast<std::uint8_t>(port), write});
        };
        if (c.writer >= 0) leave(c.writer, true);
        for (std::int32_t k = c.readers; k >= 0; k = readers_[at(k)].next) leave(readers_[at(k)].op, false);
    }
    for (int to = 0; to < width_; ++to)
        for (int from = 0; from < width_ && last_[at(to)] >= 0; ++from) {
            const std::int32_t ended = rows_[at(last_[at(to)] - first_) * at(width_) + at(from)];
            if (from != to && ended > 0) range.waits.push_back({static_cast<std::int8_t>(to), static_cast<std::int8_t>(from), ended - 1});
        }
}

void RangeCheck::run(const Stage& stage, const std::vector<QueueMask>& met_on, Range& range) {
    block_ = &plan_.blocks[at(range.block)];
    first_ = range.first;
    width_ = stage.queues;
    ++stamp_;
    touched_.clear();
    readers_.clear();
    entries_.clear();
    last_.assign(at(width_), -1);
    rows_.resize(at(range.last - range.first) * at(width_));
    masks_.resize(at(range.last - range.first));
    const auto& queue_masks = stage.queues_of_op[at(range.block)];
    const bool accumulating = block_->kind == BlockKind::backward || block_->kind == BlockKind::weight;
    for (op_ = range.first; op_ < range.last; ++op_) {
        const Op& op = block_->ops[at(op_)];
        if (const auto* a = std::get_if<Alloc>(&op.work)) {
            memory(a->buffer, instance(a->buffer, op.port), true);
            continue;
        }
        if (const auto* f = std::get_if<Free>(&op.work)) {
            memory(f->buffer, instance(f->buffer, op.port), false);
            continue;
        }
        const QueueMask queues = queue_masks[at(op_)];
        begin_op(op, queues);
        each_access(plan_, op, [&](BufferId b, int port, bool write) {
            const QueueMask met = met_on[at(facts_.root[at(b)])];
            access(op, b, instance(b, port), write, queues, (met & (met - 1)) != 0);
            if (accumulating && write && plan_.buffers[at(b)].kind == MemoryKind::gradients) range.accumulations.push_back({b, op_});
        });
    }
    summarise(range);
}

constexpr int most_queues = 48; // of a stage: a mask of 64, and one exchange may bring several

Stage split(const Plan& plan, const Program& program) {
    Stage s;
    s.program = &program;
    std::vector<std::vector<std::int32_t>> of_block(plan.blocks.size());
    for (const Action& a : program.actions) {
        auto& known = of_block[at(a.block)];
        const auto it = std::find_if(known.begin(), known.end(),
                                     [&](std::int32_t r) { return s.ranges[at(r)].first == a.first && s.ranges[at(r)].last == a.last; });
        if (it != known.end()) {
            s.range_of.push_back(*it);
            continue;
        }
        known.push_back(static_cast<std::int32_t>(s.ranges.size()));
        s.range_of.push_back(known.back());
        s.ranges.push_back({a.block, a.first, a.last, {}, {}, {}, {}, {}});
    }
    s.queue_index.assign(at(first_comm_queue) + plan.communicators.size(), -1);
    s.queues_of_op.resize(plan.blocks.size());
    const auto bit = [&](QueueId q) {
        std::int8_t& index = s.queue_index[at(q)];
        if (index < 0) index = static_cast<std::int8_t>(s.queues++);
        return QueueMask{1} << index;
    };
    for (std::size_t b = 0; b < of_block.size(); ++b) {
        if (of_block[b].empty()) continue;
        auto& masks = s.queues_of_op[b];
        masks.reserve(plan.blocks[b].ops.size());
        for (const Op& op : plan.blocks[b].ops) {
            if (s.queues >= most_queues) return s;
            masks.push_back(0);
            if (is_memory_op(op.work)) continue;
            masks.back() = bit(op.queue);
            if (const auto* x = std::get_if<Exchange>(&op.work))
                for (const Transfer& t : x->transfers) masks.back() |= bit(queue_of(t.comm));
        }
    }
    return s;
}

// All uses of each buffer in the stage.
struct Use {
    bool allocated = false, written = false, read = false;
};

// Ops whose results nobody reads, and storage that is never written. A recomputed layer may make more than is needed, and the loss is
// what it is all for.
void check_use(const Plan& plan, const Facts& facts, const Stage& stage, const std::vector<std::int32_t>& used, Findings& findings) {
    std::vector<Use> use(plan.buffers.size());
    for (std::int32_t b : used)
        for (const Op& op : plan.blocks[at(b)].ops) {
            if (const auto* a = std::get_if<Alloc>(&op.work)) use[at(a->buffer)].allocated = true;
            each_access(plan, op, [&](BufferId id, int, bool write) {
                (write ? use[at(id)].written : use[at(id)].read) = true;
                if (write) use[at(facts.root[at(id)])].written = true;
            });
        }
    for (std::int32_t b : used) {
        const Block& block = plan.blocks[at(b)];
        for (std::size_t i = 0; i < block.ops.size(); ++i) {
            const Op& op = block.ops[i];
            const auto* loss = std::get_if<CrossEntropy>(&op.work);
            if (op.phase == Phase::recompute || op.out.empty() || (loss && loss->part == CrossEntropy::Part::loss)) continue;
            const bool needed = std::any_of(op.out.begin(), op.out.end(), [&](BufferId id) {
                const Buffer& x = plan.buffers[at(id)];
                return use[at(id)].read || x.scope == Scope::run || x.scope == Scope::step;
            });
            if (!needed)
                findings.add("never-read", place(plan, block, static_cast<std::int32_t>(i)),
                             fmt::format("{} is read by nobody", plan.buffers[at(op.out[0])].name));
        }
    }
    for (std::size_t id = 0; id < use.size(); ++id) {
        const Buffer& x = plan.buffers[id];
        const bool owed = use[id].allocated || (x.scope == Scope::step && x.stage == stage.program->stage && x.storage < 0);
        if (owed && !use[id].written)
            findings.add("never-written", fmt::format("stage {}", stage.program->stage), x.name + " is never written");
        const bool summand =
            x.stage == stage.program->stage && use[id].written && !use[id].read &&
            std::any_of(x.placement.kind.begin(), x.placement.kind.end(), [](PlacementKind k) { return k == PlacementKind::partial; });
        if (summand && x.scope == Scope::step && x.kind != MemoryKind::gradients)
            findings.add("never-read", fmt::format("stage {}", stage.program->stage), x.name + " is partial and never reduced");
    }
}

} // namespace

std::vector<Stage> check_ranges(const Plan& plan, const Facts& facts, Findings& findings) {
    std::vector<Stage> stages;
    RangeCheck check(plan, facts, findings);
    std::vector<QueueMask> met_on(plan.buffers.size());
    for (const Program& program : plan.programs) {
        Stage stage = split(plan, program);
        if (stage.queues >= most_queues) {
            findings.add("structure", fmt::format("stage {}", program.stage), "uses more queues than can be followed");
            continue;
        }
        std::vector<std::int32_t> used;
        for (const Range& r : stage.ranges) used.push_back(r.block);
        std::sort(used.begin(), used.end());
        used.erase(std::unique(used.begin(), used.end()), used.end());
        for (std::int32_t b : used)
            for (std::size_t i = 0; i < plan.blocks[at(b)].ops.size(); ++i)
                if (const QueueMask queues = stage.queues_of_op[at(b)][i]; queues != 0)
                    each_access(plan, plan.blocks[at(b)].ops[i], [&](BufferId id, int, bool) { met_on[at(facts.root[at(id)])] |= queues; });
        for (Range& r : stage.ranges) check.run(stage, met_on, r);
        check_use(plan, facts, stage, used, findings);
        stages.push_back(std::move(stage));
    }
    return stages;
}

} // namespace orrery::verification

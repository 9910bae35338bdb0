// Drafts become programs, with dependencies from the buffers ops share: reads wait for the write before them, writes for the reads and the
// write before them. Only across queues, since a queue runs in its own order, and only the latest op of each other queue.
//
// After it: Op::deps orders every hazard inside a block, Program::deps every one between actions, the previous step's included.
#include "sim/plan/passes/passes.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

namespace orrery {
namespace {

// A dependency no buffer implies: action `action` of a program has `dep`.
struct ExplicitDep {
    std::int32_t action;
    ActionDep dep;
};

struct Spot {
    std::int32_t action = -1, op = -1;
    QueueId queue = -1;
}; // action: absolute over two steps

bool before(const Spot& a, const Spot& b) { return a.action != b.action ? a.action < b.action : a.op < b.op; }

// The latest spot of each queue. Few queues meet in one place: there is one of these for every buffer of every microbatch, and none of them
// asks for memory.
class Latest {
  public:
    void merge(const Spot& s) {
        for (std::size_t i = 0; i < few_; ++i)
            if (first_[i].queue == s.queue) {
                if (before(first_[i], s)) first_[i] = s;
                return;
            }
        if (few_ < first_.size()) {
            first_[few_++] = s;
            return;
        }
        for (Spot& have : more_)
            if (have.queue == s.queue) {
                if (before(have, s)) have = s;
                return;
            }
        more_.push_back(s);
    }
    void clear() {
        few_ = 0;
        more_.clear();
    }
    template <class F> void each(F&& f) const {
        for (std::size_t i = 0; i < few_; ++i) f(first_[i]);
        for (const Spot& s : more_) f(s);
    }

  private:
    std::uint32_t few_ = 0;
    std::array<Spot, 2> first_;
    std::vector<Spot> more_;
};

struct History {
    Spot writer;
    Latest readers;
};

bool uses_queue(const Op& op, QueueId q) {
    if (op.queue == q) return true;
    if (const auto* x = std::get_if<Exchange>(&op.work))
        for (const Transfer& t : x->transfers)
            if (queue_of(t.comm) == q) return true;
    return false;
}

// A communication starts after the computation issued before it, as a framework's communication stream waits for the current one:
// its buffer may have been that computation's. Parameter gathers are prefetched on a stream that does not. An activation comes back from
// the host, or from NVMe to it, no earlier than there is room for it.
bool follows_computation(const Op& op) {
    if (op.queue == h2d_queue || op.queue == from_disk_queue) return op.layer >= 0;
    return op.queue >= first_comm_queue && op.phase != Phase::param_gather;
}

// The ops that an op must wait for, given the history of each storage it touches; updates the history.
template <class HistoryOf> void visit(const Plan& plan, const Op& op, const Spot& self, Latest& waits, HistoryOf&& history_of) {
    const auto read = [&](BufferId at) {
        History& h = history_of(at);
        if (h.writer.action >= 0 && !uses_queue(op, h.writer.queue)) waits.merge(h.writer);
        h.readers.merge(self);
    };
    const auto write = [&](BufferId at) {
        History& h = history_of(at);
        if (h.writer.action >= 0 && !uses_queue(op, h.writer.queue)) waits.merge(h.writer);
        h.readers.each([&](const Spot& r) {
            if (!uses_queue(op, r.queue) && (r.action != self.action || r.op != self.op)) waits.merge(r);
        });
        h.readers.clear();
        h.writer = self;
    };
    for (BufferId b : op.in) each_storage(plan, b, read);
    for (BufferId b : op.out) each_storage(plan, b, write);
}

// One instance per microbatch. Parameters and gradients that come and go are still the rank's only ones, whatever microbatch uses them.
bool per_microbatch(const Buffer& b) {
    return (b.scope == Scope::microbatch || b.scope == Scope::action) && b.kind != MemoryKind::parameters &&
           b.kind != MemoryKind::gradients;
}

// `history`: by buffer, and once more for the second port of blocks made of others, whose microbatch has buffers of its own.
void bind_block(const Plan& plan, Block& block, std::vector<History>& history) {
    std::vector<std::size_t> touched;
    Latest waits;
    std::int32_t last_compute = -1;
    for (std::size_t i = 0; i < block.ops.size(); ++i) {
        Op& op = block.ops[i];
        if (is_memory_op(op.work)) continue;
        waits.clear();
        visit(plan, op, {0, static_cast<std::int32_t>(i), op.queue}, waits, [&](BufferId at) -> History& {
            std::size_t instance = static_cast<std::size_t>(at);
            if (!block.parts.empty() && op.port > 0 && per_microbatch(plan.buffers[instance])) instance += plan.buffers.size();
            touched.push_back(instance);
            return history[instance];
        });
        if (follows_computation(op) && last_compute >= 0) waits.merge({0, last_compute, compute_queue});
        if (op.queue == compute_queue) last_compute = static_cast<std::int32_t>(i);
        waits.each([&](const Spot& w) {
            if (std::find(op.deps.begin(), op.deps.end(), w.op) == op.deps.end()) op.deps.push_back(w.op);
        });
        std::sort(op.deps.begin(), op.deps.end());
    }
    for (std::size_t instance : touched) history[instance] = {};
}

// several: the op is on other queues than `queue`, too. The parts of an op that the walk over all actions needs lie here, side by side.
struct Touch {
    std::int32_t op, tracked;
    QueueId queue;
    bool write, several;
    std::uint8_t port;
};

// The port whose microbatch an access is of: an exchange has one for each transfer.
std::uint8_t port_of(const Op& op, BufferId b, bool write) {
    if (const auto* x = std::get_if<Exchange>(&op.work))
        for (const Transfer& t : x->transfers)
            if (t.buffer == b && t.send != write) return t.port;
    return op.port;
}

// Where a block computes, so that no action has to look through its ops. By op and one more for the end.
struct Computations {
    std::vector<std::int32_t> from, before; // the first at this op or behind it, the number of ops: none; the last before this op, -1: none
};

Computations computations_of(const Block& block) {
    const auto ops = static_cast<std::int32_t>(block.ops.size());
    Computations c{std::vector<std::int32_t>(block.ops.size() + 1, ops), std::vector<std::int32_t>(block.ops.size() + 1, -1)};
    const auto computes = [&](std::int32_t i) { return block.ops[i].queue == compute_queue; };
    for (std::int32_t i = 0; i < ops; ++i)
        c.before[static_cast<std::size_t>(i) + 1] = computes(i) ? i : c.before[static_cast<std::size_t>(i)];
    for (std::int32_t i = ops; i-- > 0;) c.from[static_cast<std::size_t>(i)] = computes(i) ? i : c.from[static_cast<std::size_t>(i) + 1];
    return c;
}

// One stage's buffers whose hazards can lie between actions: met on more than one queue, in more than one place.
struct StageTracker {
    std::vector<std::int32_t> tracked;       // by buffer: index, -1
    std::vector<char> many;                  // by index: an instance per microbatch
    std::vector<std::vector<Touch>> touches; // by block
    std::vector<Computations> computations;  // by block
};

StageTracker track(const Plan& plan, const Program& program) {
    StageTracker t;
    std::vector<char> used(plan.blocks.size(), 0);
    std::vector<std::set<std::int32_t>> cuts(plan.blocks.size()); // by block: where actions of it begin and end
    for (const Action& a : program.actions) {
        used[static_cast<std::size_t>(a.block)] = 1;
        cuts[static_cast<std::size_t>(a.block)].insert({a.first, a.last});
    }
    struct Seen {
        QueueId queue = -1;
        bool queues = false, places = false;
        std::int64_t place = -1;
    };
    std::vector<Seen> seen(plan.buffers.size());
    t.tracked.assign(plan.buffers.size(), -1);
    t.touches.resize(plan.blocks.size());
    t.computations.resize(plan.blocks.size());
    for (std::size_t b = 0; b < plan.blocks.size(); ++b)
        if (used[b]) t.computations[b] = computations_of(plan.blocks[b]);
    std::int64_t place = 0; // a number for each piece of a block
    const auto each = [&](auto&& f) {
        for (std::size_t b = 0; b < plan.blocks.size(); ++b) {
            if (!used[b]) continue;
            const Block& block = plan.blocks[b];
            ++place;
            auto cut = cuts[b].begin();
            for (std::size_t i = 0; i < block.ops.size(); ++i) {
                for (; cut != cuts[b].end() && *cut <= static_cast<std::int32_t>(i); ++cut) ++place;
                if (is_memory_op(block.ops[i].work)) continue;
                for (BufferId id : block.ops[i].in) each_storage(plan, id, [&](BufferId x) { f(b, i, id, x, false); });
                for (BufferId id : block.ops[i].out) each_storage(plan, id, [&](BufferId x) { f(b, i, id, x, true); });
            }
        }
    };
    each([&](std::size_t b, std::size_t i, BufferId, BufferId x, bool) {
        const Op& op = plan.blocks[b].ops[i];
        Seen& s = seen[static_cast<std::size_t>(x)];
        if (s.queue < 0) {
            s.queue = op.queue;
            s.place = place;
        }
        if (s.queue != op.queue) s.queues = true;
        if (s.place != place) s.places = true;
    });
    each([&](std::size_t b, std::size_t i, BufferId id, BufferId x, bool write) {
        const Seen& s = seen[static_cast<std::size_t>(x)];
        // A buffer that lives longer than a step meets itself in the next step.
        if (!s.queues || (!s.places && per_microbatch(plan.buffers[x]))) return;
        if (t.tracked[static_cast<std::size_t>(x)] < 0) {
            t.tracked[static_cast<std::size_t>(x)] = static_cast<std::int32_t>(t.many.size());
            t.many.push_back(per_microbatch(plan.buffers[x]));
        }
        const Op& op = plan.blocks[b].ops[i];
        t.touches[b].push_back({static_cast<std::int32_t>(i), t.tracked[static_cast<std::size_t>(x)], op.queue, write,
                                std::holds_alternative<Exchange>(op.work), port_of(op, id, write)});
    });
    return t;
}

struct ProgramBinder {
    const Plan& plan;
    const Program& program;
    StageTracker tracker;
    // Slot x tracked: what an action touches lies side by side. The first slot has what there is once; a microbatch has one from its first
    // action to its last, so that those under way are all there are.
    std::vector<History> history;
    std::vector<std::int32_t> slot_of, last_use; // by microbatch: -1 none; the last action that works on it
    std::vector<std::int32_t> free_slots;
    std::vector<std::vector<Spot>> waited;     // [to][from]: how far `to` has already waited for `from`
    std::vector<std::vector<ActionDep>> found; // by action, of the second step

    ProgramBinder(const Plan& p, const Program& prog) : plan(p), program(prog), tracker(track(p, prog)) {
        history.resize(tracker.many.size());
        slot_of.assign(static_cast<std::size_t>(p.microbatches), -1);
        last_use.assign(slot_of.size(), -1);
        for (std::size_t i = 0; i < program.actions.size(); ++i)
            for (std::int32_t mb : program.actions[i].microbatch)
                if (mb >= 0) last_use[static_cast<std::size_t>(mb)] = static_cast<std::int32_t>(i);
        const std::size_t queues = static_cast<std::size_t>(first_comm_queue) + plan.communicators.size();
        waited.assign(queues, std::vector<Spot>(queues));
        found.resize(program.actions.size());
    }

    void enter(const Action& a) {
        for (std::int32_t mb : a.microbatch) {
            if (mb < 0 || slot_of[static_cast<std::size_t>(mb)] >= 0) continue;
            if (free_slots.empty()) {
                free_slots.push_back(static_cast<std::int32_t>(history.size() / std::max<std::size_t>(1, tracker.many.size())));
                history.resize(history.size() + tracker.many.size());
            }
            slot_of[static_cast<std::size_t>(mb)] = free_slots.back();
            free_slots.pop_back();
        }
    }
    void leave(const Action& a, std::int32_t index) {
        for (std::int32_t mb : a.microbatch) {
            if (mb < 0 || last_use[static_cast<std::size_t>(mb)] != index || slot_of[static_cast<std::size_t>(mb)] < 0) continue;
            clear(static_cast<std::size_t>(slot_of[static_cast<std::size_t>(mb)]));
            free_slots.push_back(std::exchange(slot_of[static_cast<std::size_t>(mb)], -1));
        }
    }
    // The part of a slot that belongs to a microbatch.
    void clear(std::size_t slot) {
        for (std::size_t t = 0; t < tracker.many.size(); ++t)
            if (tracker.many[t]) history[slot * tracker.many.size() + t] = {};
    }
    History& at(const Touch& t, const Action& a) {
        const std::int32_t mb = a.microbatch[t.port];
        const auto tracked = static_cast<std::size_t>(t.tracked);
        const std::int32_t slot = tracker.many[tracked] && mb >= 0 ? slot_of[static_cast<std::size_t>(mb)] : 0;
        return history[static_cast<std::size_t>(slot) * tracker.many.size() + tracked];
    }

    void note(std::int32_t index, std::int32_t op_index, QueueId queue, const Spot& on, bool record) {
        Spot& mark = waited[static_cast<std::size_t>(queue)][static_cast<std::size_t>(on.queue)];
        if (mark.action >= 0 && !before(mark, on)) return; // implied by what this queue already waited for
        mark = on;
        if (record)
            found[static_cast<std::size_t>(index)].push_back(
                {op_index, on.action - static_cast<std::int32_t>(program.actions.size()), on.op});
    }

    // The first and the last computation of an action; -1: none.
    std::int32_t first_computation(const Action& a) const {
        const std::int32_t i = tracker.computations[static_cast<std::size_t>(a.block)].from[static_cast<std::size_t>(a.first)];
        return i < a.last ? i : -1;
    }
    std::int32_t first_computation(const Action& a, std::uint8_t port) const {
        const std::vector<std::int32_t>& from = tracker.computations[static_cast<std::size_t>(a.block)].from;
        std::int32_t i = from[static_cast<std::size_t>(a.first)];
        while (i < a.last && plan.blocks[a.block].ops[i].port != port) i = from[static_cast<std::size_t>(i) + 1];
        return i < a.last ? i : -1;
    }
    std::int32_t last_computation(const Action& a) const {
        const std::int32_t i = tracker.computations[static_cast<std::size_t>(a.block)].before[static_cast<std::size_t>(a.last)];
        return i >= a.first ? i : -1;
    }

    void meet_buffers(std::int32_t index, std::int32_t self, bool record);
    void walk(std::int32_t step, const std::vector<ExplicitDep>& explicit_deps);
};

// One step, action by action.
void ProgramBinder::walk(std::int32_t step, const std::vector<ExplicitDep>& explicit_deps) {
    const std::int32_t count = static_cast<std::int32_t>(program.actions.size());
    Spot blocking;
    Spot compute; // the last computation issued
    std::size_t next_explicit = 0;
    for (std::int32_t index = 0; index < count; ++index) {
        const Action& a = program.actions[index];
        const Block& block = plan.blocks[a.block];
        const std::int32_t self = step * count + index;
        enter(a);
        for (; next_explicit < explicit_deps.size() && explicit_deps[next_explicit].action == index; ++next_explicit) {
            const ActionDep& d = explicit_deps[next_explicit].dep;
            const Block& on = plan.blocks[program.actions[d.on_action].block];
            note(index, d.op, block.ops[d.op].queue, {step * count + d.on_action, d.on_op, on.ops[d.on_op].queue}, step == 1);
        }
        if (blocking.action >= 0)
            if (const std::int32_t i = first_computation(a); i >= 0) {
                note(index, i, compute_queue, blocking, step == 1);
                blocking = {};
            }
        for (std::int32_t i = a.first; i < a.last && compute.action >= 0; ++i) {
            const Op& op = block.ops[i];
            if (op.queue == compute_queue) break;
            if (follows_computation(op)) note(index, i, op.queue, compute, step == 1);
        }
        meet_buffers(index, self, step == 1);
        leave(a, index);
        if (const std::int32_t i = last_computation(a); i >= 0) compute = {self, i, compute_queue};
        if (block.blocking)
            if (const std::int32_t i = last_timed_op(block, a.first, a.last); i >= 0) blocking = {self, i, block.ops[i].queue};
    }
    clear(0); // a microbatch's buffers are new in the next step: only what lives all step carries over
}

// The waits that the buffers of an action imply.
void ProgramBinder::meet_buffers(std::int32_t index, std::int32_t self, bool record) {
    const Action& a = program.actions[index];
    const Block& block = plan.blocks[a.block];
    const auto& touches = tracker.touches[static_cast<std::size_t>(a.block)];
    auto touch = std::lower_bound(touches.begin(), touches.end(), a.first, [](const Touch& t, std::int32_t first) { return t.op < first; });
    Latest waits;
    while (touch != touches.end() && touch->op < a.last) {
        const std::int32_t i = touch->op;
        const QueueId queue = touch->queue;
        const Spot here{self, i, queue};
        const auto own = [&](const Touch& t, QueueId q) { return q == queue || (t.several && uses_queue(block.ops[i], q)); };
        waits.clear();
        for (; touch != touches.end() && touch->op == i; ++touch) {
            History& h = at(*touch, a);
            if (h.writer.action >= 0 && !own(*touch, h.writer.queue)) waits.merge(h.writer);
            if (!touch->write) {
                h.readers.merge(here);
                continue;
            }
            h.readers.each([&](const Spot& r) {
                if (!own(*touch, r.queue)) waits.merge(r);
            });
            h.readers.clear();
            h.writer = here;
        }
        // Backpropagation is called with the gradient: what a stage makes again waits for it too.
        const std::int32_t begins =
            queue == compute_queue && block.kind == BlockKind::backward ? first_computation(a, block.ops[i].port) : i;
        waits.each([&](const Spot& w) {
            if (w.action == self) return;
            const Action& on = program.actions[static_cast<std::size_t>(w.action) % program.actions.size()];
            note(index, plan.blocks[on.block].kind == BlockKind::exchange ? begins : i, queue, w, record);
        });
    }
}

Program program_of(const Draft& draft, int stage) {
    Program program;
    program.stage = static_cast<std::int16_t>(stage);
    program.actions.reserve(draft.actions.size());
    auto begin = draft.step_begins.begin();
    for (const DraftAction& action : draft.actions) {
        if (begin != draft.step_begins.end() && action.id == *begin) {
            program.step_begins.push_back(static_cast<std::int32_t>(program.actions.size()));
            ++begin;
        }
        program.actions.push_back(action.run);
    }
    return program;
}

// The draft's waits by place, in the order of the actions that wait.
std::vector<ExplicitDep> waits_of(const Plan& plan, const Draft& draft) {
    std::vector<std::int32_t> place(static_cast<std::size_t>(draft.ids), -1);
    for (std::size_t i = 0; i < draft.actions.size(); ++i)
        place[static_cast<std::size_t>(draft.actions[i].id)] = static_cast<std::int32_t>(i);
    std::vector<ExplicitDep> deps;
    for (std::size_t i = 0; i < draft.actions.size(); ++i)
        for (const DraftWait& wait : draft.actions[i].waits) {
            const std::int32_t on = place[static_cast<std::size_t>(wait.on)];
            const Action& a = draft.actions[static_cast<std::size_t>(on)].run;
            const std::int32_t op = last_timed_op(plan.blocks[a.block], a.first, a.last);
            if (op >= 0) deps.push_back({static_cast<std::int32_t>(i), {wait.op, on, op}});
        }
    return deps;
}

} // namespace

void bind(Lowering& l) {
    std::vector<History> history(2 * l.plan.buffers.size());
    for (Block& b : l.plan.blocks) bind_block(l.plan, b, history);
    for (const Draft& draft : l.drafts) {
        Program& program = l.plan.programs.emplace_back(program_of(draft, static_cast<int>(l.plan.programs.size())));
        const std::vector<ExplicitDep> explicit_deps = waits_of(l.plan, draft);
        ProgramBinder binder(l.plan, program);
        binder.walk(0, explicit_deps);
        binder.walk(1, explicit_deps);
        for (std::size_t i = 0; i < program.actions.size(); ++i) {
            program.actions[i].deps_begin = static_cast<std::int32_t>(program.deps.size());
            auto& found = binder.found[i];
            std::stable_sort(found.begin(), found.end(), [](const ActionDep& a, const ActionDep& b) { return a.op < b.op; });
            program.deps.insert(program.deps.end(), found.begin(), found.end());
            program.actions[i].deps_end = static_cast<std::int32_t>(program.deps.size());
        }
    }
}

} // namespace orrery

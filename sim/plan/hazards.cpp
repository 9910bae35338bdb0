#include "sim/plan/hazards.hpp"

#include "sim/plan/draft.hpp"
#include "sim/plan/repeats.hpp"
#include "sim/plan/rounds.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>

namespace orrery {

bool uses_queue(const Op& op, QueueId q) {
    if (op.queue == q) return true;
    if (const auto* x = std::get_if<Exchange>(&op.work))
        for (const Transfer& t : x->transfers)
            if (queue_of(t.comm) == q) return true;
    return false;
}

bool follows_computation(const Op& op) {
    if (op.queue == h2d_queue || op.queue == from_disk_queue) return op.layer >= 0;
    return op.queue >= first_comm_queue && op.phase != Phase::param_gather;
}

bool per_microbatch(const Buffer& b) {
    return (b.scope == Scope::microbatch || b.scope == Scope::action) && b.kind != MemoryKind::parameters &&
           b.kind != MemoryKind::gradients;
}

namespace {

// several: the op is on other queues than `queue`, too. The parts of an op that the walk over all actions needs lie here, side by side.
struct Touch {
    std::int32_t op, tracked; // tracked: number among those there are once, or among those of a microbatch
    QueueId queue;
    bool write, several, many;
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
    for (std::int32_t i = 0; i < ops; ++i) c.before[static_cast<std::size_t>(i) + 1] = computes(i) ? i : c.before[i];
    for (std::int32_t i = ops; i-- > 0;) c.from[i] = computes(i) ? i : c.from[static_cast<std::size_t>(i) + 1];
    return c;
}

// One stage's buffers whose hazards can lie between actions: met on more than one queue, in more than one place.
struct StageTracker {
    std::vector<std::int32_t> tracked;       // by buffer: index, -1
    std::size_t once = 0, many = 0;          // how many there are once, and how many have an instance per microbatch
    std::vector<std::vector<Touch>> touches; // by block
    // .. in two: what computation does to what there is once, parameters and gradients as a rule; and all else.
    std::vector<std::vector<Touch>> of_computation, others;
    std::vector<Computations> computations; // by block

    bool computes_on_one(const Touch& t) const { return t.queue == compute_queue && !t.several && !t.many; }
};

std::span<const Touch> within(const std::vector<Touch>& touches, std::int32_t first, std::int32_t last) {
    const auto by_op = [](const Touch& t, std::int32_t op) { return t.op < op; };
    const auto begin = std::lower_bound(touches.begin(), touches.end(), first, by_op);
    return {begin, std::lower_bound(begin, touches.end(), last, by_op)};
}

// The ops that actions run of a block, the same ones for many actions. Computation that meets what it met before, and that no other queue
// has touched since, waits for nothing more: of such actions the last alone counts, once another queue looks.
struct Piece {
    std::span<const Touch> all, of_computation, others;
    bool touched_elsewhere = false; // another queue is among those that touch what there is once
    std::int64_t seen = -1;         // ProgramBinder::touched when it was looked at
    std::int32_t self = -1;         // the last action that was not; -1: all were
};

StageTracker track(const Plan& plan, const Program& program) {
    StageTracker t;
    std::vector<char> used(plan.blocks.size(), 0);
    std::vector<std::set<std::int32_t>> cuts(plan.blocks.size()); // by block: where actions of it begin and end
    for (const Action& a : program.actions) {
        used[a.block] = 1;
        cuts[a.block].insert({a.first, a.last});
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
        Seen& s = seen[x];
        if (s.queue < 0) {
            s.queue = op.queue;
            s.place = place;
        }
        if (s.queue != op.queue) s.queues = true;
        if (s.place != place) s.places = true;
    });
    each([&](std::size_t b, std::size_t i, BufferId id, BufferId x, bool write) {
        const Seen& s = seen[x];
        // A buffer that lives longer than a step meets itself in the next step.
        if (!s.queues || (!s.places && per_microbatch(plan.buffers[x]))) return;
        const bool many = per_microbatch(plan.buffers[x]);
        if (t.tracked[x] < 0) t.tracked[x] = static_cast<std::int32_t>(many ? t.many++ : t.once++);
        const Op& op = plan.blocks[b].ops[i];
        t.touches[b].push_back({static_cast<std::int32_t>(i), t.tracked[x], op.queue, write, std::holds_alternative<Exchange>(op.work),
                                many, port_of(op, id, write)});
    });
    t.of_computation.resize(plan.blocks.size());
    t.others.resize(plan.blocks.size());
    for (std::size_t b = 0; b < plan.blocks.size(); ++b)
        for (const Touch& touch : t.touches[b]) (t.computes_on_one(touch) ? t.of_computation : t.others)[b].push_back(touch);
    return t;
}

// All that later waits depend on, before an action.
struct BinderState {
    std::vector<Spot> spots;                // of everything, always in the same order
    std::vector<std::size_t> sizes;         // how many there are of each reader list
    std::vector<std::int32_t> microbatches; // under way
};

struct ProgramBinder {
    const Plan& plan;
    const Program& program;
    const std::vector<ExplicitDep>& explicit_deps;
    RepeatedActions repeat{};
    StageTracker tracker;
    std::vector<History> once;
    // By slot and what is tracked, side by side. A microbatch has a slot from its first action to its last, so that those under way are all
    // there are; the first is of what is touched for none.
    std::vector<History> many;
    std::int32_t slot_count = 1;
    std::vector<std::int32_t> slot_of, last_use; // by microbatch: -1 none; the last action that works on it
    std::vector<std::int32_t> free_slots;
    std::vector<std::int32_t> entered; // by microbatch: the action that met it first
    struct Met {
        std::int32_t microbatch, action;
    };
    std::vector<Met> under_way = {}; // where states were looked at last
    std::vector<Piece> pieces;
    std::vector<std::int32_t> piece_of;        // by action
    std::vector<std::int32_t> unseen;          // pieces with actions that have not been looked at
    std::int64_t touched = 0;                  // how often queues of others have touched what there is once
    std::vector<std::size_t> queue_number;     // by QueueId, of those that ops of the program are on
    std::vector<std::vector<Spot>> waited;     // [to][from], by number: how far `to` has already waited for `from`
    std::vector<std::vector<ActionDep>> found; // by action, of the second step

    Spot blocking, compute;     // the last op that blocks all computation behind it; the last computation issued
    std::int32_t following = 0; // the op of the action from which on communication has still to wait for `compute`

    ProgramBinder(const Plan& p, const Program& prog, const std::vector<ExplicitDep>& deps)
        : plan(p), program(prog), explicit_deps(deps), tracker(track(p, prog)), last_use(last_uses(prog)) {
        once.resize(tracker.once);
        many.resize(tracker.many);
        slot_of.assign(last_use.size(), -1);
        entered.assign(last_use.size(), -1);
        number_queues();
        found.resize(program.actions.size());
        find_pieces();
    }

    // A stage knows few of the communicators of a long pipeline.
    void number_queues() {
        constexpr std::size_t none = std::numeric_limits<std::size_t>::max();
        queue_number.assign(static_cast<std::size_t>(first_comm_queue) + plan.communicators.size(), none);
        std::size_t queues = 0;
        const auto use = [&](QueueId q) {
            if (queue_number[static_cast<std::size_t>(q)] == none) queue_number[static_cast<std::size_t>(q)] = queues++;
        };
        std::vector<char> looked_at(plan.blocks.size(), 0);
        for (const Action& a : program.actions) {
            if (std::exchange(looked_at[static_cast<std::size_t>(a.block)], 1)) continue;
            for (const Op& op : plan.blocks[a.block].ops) use(op.queue);
        }
        waited.assign(queues, std::vector<Spot>(queues));
    }

    void find_pieces() {
        std::map<std::array<std::int32_t, 3>, std::int32_t> number;
        for (const Action& a : program.actions) {
            const auto [it, fresh] = number.try_emplace({a.block, a.first, a.last}, static_cast<std::int32_t>(pieces.size()));
            piece_of.push_back(it->second);
            if (!fresh) continue;
            const auto block = static_cast<std::size_t>(a.block);
            Piece& p =
                pieces.emplace_back(within(tracker.touches[block], a.first, a.last), within(tracker.of_computation[block], a.first, a.last),
                                    within(tracker.others[block], a.first, a.last));
            p.touched_elsewhere = std::any_of(p.others.begin(), p.others.end(), [](const Touch& t) { return !t.many; });
        }
    }
    // The histories as the actions that were passed over leave them: of each piece the last one counts, in their order.
    void look() {
        std::sort(unseen.begin(), unseen.end(), [&](std::int32_t a, std::int32_t b) { return pieces[a].self < pieces[b].self; });
        for (const std::int32_t i : unseen) {
            Piece& p = pieces[i];
            for (const Touch& t : p.of_computation) once[static_cast<std::size_t>(t.tracked)].touch(t.write, {p.self, t.op, compute_queue});
            p.self = -1;
        }
        unseen.clear();
    }
    // The touches of an action that may have to wait.
    std::span<const Touch> to_meet(std::int32_t index, std::int32_t self) {
        Piece& p = pieces[piece_of[index]];
        if (!p.touched_elsewhere && p.seen == touched) {
            if (p.self < 0) unseen.push_back(piece_of[index]);
            p.self = self;
            return p.others;
        }
        look();
        touched += p.touched_elsewhere;
        p.seen = touched;
        return p.all;
    }

    void enter(const Action& a, std::int32_t index) {
        for (std::int32_t mb : a.microbatch) {
            if (mb < 0 || slot_of[mb] >= 0) continue;
            entered[mb] = index;
            if (free_slots.empty()) {
                free_slots.push_back(slot_count++);
                many.resize(static_cast<std::size_t>(slot_count) * tracker.many);
            }
            slot_of[mb] = free_slots.back();
            free_slots.pop_back();
        }
    }
    void leave(const Action& a, std::int32_t index) {
        for (std::int32_t mb : a.microbatch) {
            if (mb < 0 || last_use[mb] != index || slot_of[mb] < 0) continue;
            clear(static_cast<std::size_t>(slot_of[static_cast<std::size_t>(mb)]));
            free_slots.push_back(std::exchange(slot_of[mb], -1));
        }
    }
    // The part of a slot that belongs to a microbatch.
    void clear(std::size_t slot) {
        for (std::size_t t = 0; t < tracker.many; ++t) many[slot * tracker.many + t] = {};
    }
    History& at(const Touch& t, const Action& a) {
        const std::int32_t mb = a.microbatch[t.port];
        if (!t.many) return once[static_cast<std::size_t>(t.tracked)];
        return many[static_cast<std::size_t>(mb >= 0 ? slot_of[mb] : 0) * tracker.many + static_cast<std::size_t>(t.tracked)];
    }

    void note(std::int32_t index, std::int32_t op_index, QueueId queue, const Spot& on, bool record) {
        Spot& mark = waited[queue_number[static_cast<std::size_t>(queue)]][queue_number[static_cast<std::size_t>(on.queue)]];
        if (mark.action >= 0 && !before(mark, on)) return; // implied by what this queue already waited for
        mark = on;
        if (record) found[index].push_back({op_index, on.action - static_cast<std::int32_t>(program.actions.size()), on.op});
    }

    // The first and the last computation of an action; -1: none.
    std::int32_t first_computation(const Action& a) const {
        const std::int32_t i = tracker.computations[a.block].from[a.first];
        return i < a.last ? i : -1;
    }
    std::int32_t first_computation(const Action& a, std::uint8_t port) const {
        const std::vector<std::int32_t>& from = tracker.computations[a.block].from;
        std::int32_t i = from[a.first];
        while (i < a.last && plan.blocks[a.block].ops[i].port != port) i = from[static_cast<std::size_t>(i) + 1];
        return i < a.last ? i : -1;
    }
    std::int32_t last_computation(const Action& a) const {
        const std::int32_t i = tracker.computations[a.block].before[a.last];
        return i >= a.first ? i : -1;
    }

    template <class F> void each_spot(F&& spot, std::vector<std::size_t>* sizes, std::vector<std::int32_t>* microbatches);
    BinderState state();
    bool may_repeat();
    std::int32_t skip(const BinderState& before, const BinderState& now, std::int32_t index, bool record);
    void follow(std::int32_t index, std::int32_t to, bool record);
    void meet_buffers(std::int32_t index, std::int32_t self, bool record);
    void walk(std::int32_t step);
};

// Microbatches under way in their order, each with its buffers.
template <class F> void ProgramBinder::each_spot(F&& spot, std::vector<std::size_t>* sizes, std::vector<std::int32_t>* microbatches) {
    spot(blocking);
    spot(compute);
    for (std::vector<Spot>& from : waited)
        for (Spot& s : from) spot(s);
    const auto all_of = [&](History& h) {
        spot(h.writer);
        h.readers.each(spot);
        if (sizes) sizes->push_back(h.readers.size());
    };
    const auto each_of = [&](std::size_t slot) {
        for (std::size_t t = 0; t < tracker.many; ++t) all_of(many[slot * tracker.many + t]);
    };
    for (History& h : once) all_of(h);
    each_of(0);
    for (std::size_t mb = 0; mb < slot_of.size(); ++mb) {
        if (slot_of[mb] < 0) continue;
        each_of(static_cast<std::size_t>(slot_of[mb]));
        if (microbatches) microbatches->push_back(static_cast<std::int32_t>(mb));
    }
}

// A state is worth a look where the microbatches under way are those of a period before, moved, and so are the actions that met them first:
// what those of the beginning left behind never moves.
bool ProgramBinder::may_repeat() {
    const std::vector<Met> before = std::exchange(under_way, {});
    for (std::size_t mb = 0; mb < slot_of.size(); ++mb)
        if (slot_of[mb] >= 0) under_way.push_back({static_cast<std::int32_t>(mb), entered[mb]});
    return std::ranges::equal(under_way, before, [&](const Met& is, const Met& was) {
        return is.microbatch == was.microbatch + repeat.microbatches &&
               is.action == was.action + (repeat.microbatches != 0 ? repeat.period : 0);
    });
}

BinderState ProgramBinder::state() {
    look();
    BinderState s;
    each_spot([&](const Spot& spot) { s.spots.push_back(spot); }, &s.sizes, &s.microbatches);
    return s;
}

// Where the state is the one a period before, moved by a period, all that follows is moved too while the actions repeat. Spots that do not
// move must lie behind all that do: which of two is the later one never changes then. Returns how many actions were passed by; 0: none.
std::int32_t ProgramBinder::skip(const BinderState& before, const BinderState& now, std::int32_t index, bool record) {
    const std::int32_t period = repeat.period, periods = (repeat.end - index) / period;
    if (periods < 1 || before.spots.size() != now.spots.size() || before.sizes != now.sizes ||
        before.microbatches.size() != now.microbatches.size())
        return 0;
    for (std::size_t i = 0; i < now.microbatches.size(); ++i)
        if (now.microbatches[i] != before.microbatches[i] + repeat.microbatches) return 0;
    std::int32_t last_still = -1, first_moved = std::numeric_limits<std::int32_t>::max();
    for (std::size_t i = 0; i < now.spots.size(); ++i) {
        const Spot &was = before.spots[i], &is = now.spots[i];
        if (was.op != is.op || was.queue != is.queue || (is.action != was.action && is.action != was.action + period)) return 0;
        if (is.action == was.action)
            last_still = std::max(last_still, is.action);
        else
            first_moved = std::min(first_moved, was.action);
    }
    if (last_still >= first_moved) return 0;
    const auto moved = [&](const ActionDep& d) { return ActionDep{d.op, d.on_action + period, d.on_op}; };
    if (record) {
        for (std::int32_t i = index - period; i < index; ++i) {
            const auto &is = found[i], &was = found[i - period];
            if (!std::equal(is.begin(), is.end(), was.begin(), was.end(), [&](const ActionDep& x, const ActionDep& y) {
                    return x.op == y.op && x.on_op == y.on_op && x.on_action == y.on_action + period;
                }))
                return 0;
        }
        for (std::int32_t i = index; i < index + periods * period; ++i)
            for (const ActionDep& d : found[i - period]) found[i].push_back(moved(d));
    }
    std::size_t at = 0;
    each_spot(
        [&](Spot& spot) {
            if (now.spots[at].action != before.spots[at].action) spot.action += periods * period;
            ++at;
        },
        nullptr, nullptr);
    std::vector<std::int32_t> slots;
    for (const std::int32_t mb : now.microbatches) slots.push_back(std::exchange(slot_of[mb], -1));
    for (std::size_t i = 0; i < slots.size(); ++i) slot_of[now.microbatches[i] + periods * repeat.microbatches] = slots[i];
    return periods * period;
}

// One step, action by action.
void ProgramBinder::walk(std::int32_t step) {
    constexpr int most_states = 32; // that are compared: some never repeat
    const std::int32_t count = static_cast<std::int32_t>(program.actions.size());
    compute = {}; // what blocks at a step's end blocks the next one's computation
    std::size_t next_explicit = 0;
    std::optional<BinderState> before;
    int states = 0;
    under_way.clear();
    for (std::int32_t index = 0; index < count; ++index) {
        if (repeat.period > 0 && index > repeat.begin && index < repeat.end && (index - repeat.begin) % repeat.period == 0 &&
            states < most_states) {
            std::optional<BinderState> now = may_repeat() ? std::optional(state()) : std::nullopt;
            states += now.has_value();
            if (const std::int32_t passed =
                    now && before && index >= repeat.begin + 2 * repeat.period ? skip(*before, *now, index, step == 1) : 0) {
                index += passed;
                states = most_states;
                while (next_explicit < explicit_deps.size() && explicit_deps[next_explicit].action < index) ++next_explicit;
            }
            before = std::move(now);
            if (index == count) break;
        }
        const Action& a = program.actions[index];
        const Block& block = plan.blocks[a.block];
        const std::int32_t self = step * count + index;
        enter(a, index);
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
        following = compute.action >= 0 ? a.first : a.last;
        meet_buffers(index, self, step == 1);
        follow(index, a.last, step == 1);
        leave(a, index);
        if (const std::int32_t i = last_computation(a); i >= 0) compute = {self, i, compute_queue};
        if (block.blocking)
            if (const std::int32_t i = last_timed_op(block, a.first, a.last); i >= 0) blocking = {self, i, block.ops[i].queue};
    }
    // Buffers of an action are new in the next step, where steps are apart; a round is unrolled into one program that has them once.
    if (!has_rounds(plan)) clear(0);
}

// Communication before an action's own first computation waits for the last one before it: ops before `to`. A queue's waits are noted in
// the order of its ops, as later ones imply no earlier ones.
void ProgramBinder::follow(std::int32_t index, std::int32_t to, bool record) {
    const Action& a = program.actions[index];
    for (; following < to; ++following) {
        const Op& op = plan.blocks[a.block].ops[following];
        if (op.queue == compute_queue) following = a.last;
        if (following < to && follows_computation(op)) note(index, following, op.queue, compute, record);
    }
}

// The waits that the buffers of an action imply.
void ProgramBinder::meet_buffers(std::int32_t index, std::int32_t self, bool record) {
    const Action& a = program.actions[index];
    const Block& block = plan.blocks[a.block];
    const std::span<const Touch> touches = to_meet(index, self);
    auto touch = touches.begin();
    Latest waits;
    while (touch != touches.end()) {
        const std::int32_t i = touch->op;
        const QueueId queue = touch->queue;
        const Spot here{self, i, queue};
        const auto own = [&](const Touch& t, QueueId q) { return q == queue || (t.several && uses_queue(block.ops[i], q)); };
        follow(index, i + 1, record);
        waits.clear();
        for (; touch != touches.end() && touch->op == i; ++touch) {
            History& h = at(*touch, a);
            if (h.writer.action >= 0 && !own(*touch, h.writer.queue)) waits.merge(h.writer);
            if (touch->write)
                h.readers.each([&](const Spot& r) {
                    if (!own(*touch, r.queue)) waits.merge(r);
                });
            h.touch(touch->write, here);
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

} // namespace

std::vector<std::vector<ActionDep>> waits_between_actions(const Plan& plan, const Program& program,
                                                          const std::vector<ExplicitDep>& explicit_deps, bool repeats) {
    ProgramBinder binder(plan, program, explicit_deps);
    if (repeats) binder.repeat = repeated_actions(program, explicit_deps);
    binder.walk(0);
    binder.walk(1);
    return std::move(binder.found);
}

} // namespace orrery

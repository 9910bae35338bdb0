// The event loop: queues in order, timed ops, and the settling of each instant.
#include "sim/engine/run.hpp"

#include "sim/engine/clock.hpp"
#include "sim/engine/course.hpp"
#include "sim/engine/fold.hpp"
#include "sim/engine/passage.hpp"
#include "sim/engine/record.hpp"
#include "sim/engine/replay.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace orrery {

namespace {

// A standard normal number that depends on its key alone (Box-Muller on two hashed uniforms).
double normal(std::uint64_t key) {
    double u = (static_cast<double>(mix(key) >> 11) + 0.5) * 0x1p-53, v = static_cast<double>(mix(key, 1) >> 11) * 0x1p-53;
    return std::sqrt(-2 * std::log(u)) * std::cos(2 * 3.14159265358979323846 * v);
}

std::int64_t stretched(std::int64_t ps, double factor) { return whole_ps(static_cast<double>(ps) * factor); }

// Noise has mean 1 and is the same in every step: it depends on the seed, the rank and the place in the program.
std::int64_t duration_of(const EventLoop& run, std::int32_t lane, const Slot& s) {
    const CompiledOp& op = run.m.ops[at(s.op)];
    const MachineLane& l = run.m.lanes[at(lane)];
    const std::int64_t own = l.kind == 0 ? op.duration : run.m.durations_of_kind[at(l.kind - 1)][at(s.op)];
    if (op.queue != 0) return own;
    double factor = l.slowness;
    if (run.m.jitter > 0) {
        std::uint64_t key = mix(mix(run.m.seed, static_cast<std::uint64_t>(l.rank)),
                                mix(static_cast<std::uint64_t>(s.action), static_cast<std::uint64_t>(op.source)));
        factor *= std::exp(run.m.jitter * normal(key) - run.m.jitter * run.m.jitter / 2);
    }
    return factor == 1 ? own : stretched(own, factor);
}

} // namespace

std::int64_t slots_of_lane(const Machine& machine) {
    return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(std::max<std::int64_t>(machine.window + 16, 1024))));
}

EventLoop::EventLoop(const Machine& machine, const SimulateOptions& how)
    : m(machine), options(how), lanes(machine.lanes.size()), ring_size(slots_of_lane(machine)), ring(machine.lanes.size() * at(ring_size)),
      queues(at(machine.queue_count())), bundles(machine.bundles.size()), completions(machine.bundle_costs.size(), 0),
      heap(queues.size() + bundles.size()), sharing(machine.shared_capacity), lane_fluids(machine.lanes.size()) {
    for (std::size_t l = 0; l < lanes.size(); ++l) {
        queue_lane.insert(queue_lane.end(), program(static_cast<std::int64_t>(l)).queues.size(), static_cast<std::int32_t>(l));
        if (!program(static_cast<std::int64_t>(l)).actions.empty())
            lanes[l].dep_cursor = program(static_cast<std::int64_t>(l)).actions[0].deps_begin;
        if (program(static_cast<std::int64_t>(l)).step_slots == 0) lanes[l].steps_done = INT32_MAX; // it does nothing
    }
    for (std::size_t l = lanes.size(); l-- > 0;)
        if (program(static_cast<std::int64_t>(l)).step_slots > 0) reference = static_cast<std::int32_t>(l);
    any_slows = std::any_of(m.bundle_costs.begin(), m.bundle_costs.end(), [](const BundleCost& cost) { return cost.slows > 0; });
    interferes = any_slows || m.interference.communication_slowdown > 0;
    stats.lanes = static_cast<int>(lanes.size());
    if (options.replay && !options.trace && m.jitter == 0) passages = std::make_unique<Passages>(m);
}

EventLoop::~EventLoop() = default;

// The op at the head of q has just got there.
void EventLoop::reach_head(std::int32_t lane, int q) {
    QueueState& Q = queue(lane, q);
    Slot& s = slot(lane, Q.head);
    const CompiledOp& op = m.ops[at(s.op)];
    if (op.kind == OpClass::shadow) {
        Q.phase = QueuePhase::held;
        std::int64_t main = Q.head - op.pattern;
        Slot& exchange = slot(lane, main);
        if (++exchange.heads == m.ops[at(exchange.op)].slots) make_ready(lane, m.ops[at(exchange.op)].queue);
        return;
    }
    if (op.kind == OpClass::exchange) {
        Q.phase = QueuePhase::held;
        if (++s.heads != op.slots) return;
    }
    make_ready(lane, q);
}

// Begins the head of q, or leaves word with what it waits for.
void EventLoop::make_ready(std::int32_t lane, int q) {
    QueueState& Q = queue(lane, q);
    bool wait = any_unmet(lane, Q.head, [&](std::int64_t on) {
        slot(lane, on).waiters |= 1u << q;
        return true;
    });
    if (wait) {
        Q.phase = QueuePhase::waiting;
        return;
    }
    if (slot(lane, Q.head).issue > now) {
        Q.phase = QueuePhase::launching;
        heap.set(queue_entity(lane, q), slot(lane, Q.head).issue);
        return;
    }
    begin(lane, q);
}

void EventLoop::begin(std::int32_t lane, int q) {
    QueueState& Q = queue(lane, q);
    const Slot& s = slot(lane, Q.head);
    const CompiledOp& op = m.ops[at(s.op)];
    Q.begin = now;
    mark(lane);
    if (passages && passages->keeps(lane)) passages->begins(lane, Q.head);
    if (op.kind == OpClass::collective || op.kind == OpClass::copy) {
        arrive(lane, q);
        return;
    }
    if (op.kind == OpClass::exchange) {
        post(lane, q);
        return;
    }
    if (q == 0 && lane == reference && s.action != anchor_action) {
        anchor = true;
        anchor_action = s.action;
    }
    if (q == 0 && passages && passages->enter(*this, lane)) return;
    Q.phase = QueuePhase::running;
    Q.last = now;
    Q.remaining = duration_of(*this, lane, s);
    Q.slow = q == 0 ? lanes[at(lane)].slows : 0;
    std::int64_t end = now + (Q.slow > 0 ? stretched(Q.remaining, 1 + Q.slow) : Q.remaining);
    heap.set(queue_entity(lane, q), end);
}

// The op at the head of q has ended: the queue goes on, and whoever waited for it.
void EventLoop::complete(std::int32_t lane, int q) {
    LaneState& l = lanes[at(lane)];
    QueueState& Q = queue(lane, q);
    std::int64_t index = Q.head;
    Slot& s = slot(lane, index);
    const CompiledOp& op = m.ops[at(s.op)];
    if (recorder) record_end(*recorder, *this, lane, q);
    ++stats.events;
    std::uint32_t waiters = s.waiters;
    int slots = op.slots;
    std::int32_t op_index = s.op;
    for (int k = 0; k < slots; ++k) {
        Slot& each = slot(lane, index + k);
        QueueState& own = queue(lane, m.ops[at(op_index + k)].queue);
        each.ended = true;
        own.head = each.next ? index + k + each.next : -1;
        own.phase = QueuePhase::empty;
    }
    l.ended_to = std::max(l.ended_to, index + slots);
    bool host = (waiters & host_bit) != 0;
    if (passages && passages->keeps(lane)) passages->ends(*this, lane, index);
    if (index == l.oldest) {
        do ++l.oldest;
        while (l.oldest < l.issued && slot(lane, l.oldest).ended);
        host = host || l.blocked == HostBlock::window;
    }
    mark(lane);
    for (std::uint32_t w = waiters & ~host_bit; w; w &= w - 1) make_ready(lane, std::countr_zero(w));
    for (int k = 0; k < slots; ++k) {
        int own = m.ops[at(op_index + k)].queue;
        if (queue(lane, own).head >= 0) reach_head(lane, own);
    }
    if (host) issue(lane);
}

void EventLoop::handle(std::int32_t entity) {
    if (at(entity) >= queues.size()) {
        bundle_event(entity - static_cast<std::int32_t>(queues.size()));
        return;
    }
    std::int32_t lane = queue_lane[at(entity)];
    int q = entity - m.lanes[at(lane)].queues;
    if (queues[at(entity)].phase == QueuePhase::launching)
        begin(lane, q);
    else if (q == 0 && lanes[at(lane)].inside.passage)
        passages->leave(*this, lane);
    else
        complete(lane, q);
}

void EventLoop::charge(std::int32_t lane) {
    LaneState& l = lanes[at(lane)];
    if (l.inside.passage) return Passages::charge(*this, lane);
    l.account[l.account_as] += now - l.since;
    l.since = now;
}

namespace {

// Compute under communication runs slower: the work left is re-timed when that begins or ends.
void retime_compute(EventLoop& run, std::int32_t lane, QueueState& Q) {
    const double slow = run.lanes[at(lane)].slows;
    if (slow == Q.slow) return;
    std::int64_t elapsed = run.now - Q.last;
    Q.remaining = std::max<std::int64_t>(0, Q.remaining - (Q.slow > 0 ? stretched(elapsed, 1 / (1 + Q.slow)) : elapsed));
    Q.last = run.now;
    Q.slow = slow;
    run.heap.set(run.queue_entity(lane, 0), run.now + (slow > 0 ? stretched(Q.remaining, 1 + slow) : Q.remaining));
}

// The category that the lane's time is charged to from now on.
void settle_account(EventLoop& run, std::int32_t lane) {
    LaneState& l = run.lanes[at(lane)];
    const QueueState& Q = run.queue(lane, 0);
    std::uint8_t as;
    Why why;
    if (Q.phase == QueuePhase::running) {
        as = run.m.ops[at(run.slot(lane, Q.head).op)].category;
        if (as == static_cast<std::uint8_t>(Category::other)) as = busy_other;
    } else {
        why = why_idle(run, lane);
        as = static_cast<std::uint8_t>(why.category);
    }
    if (run.passages && run.passages->keeps(lane)) run.passages->turns(run, lane, as);
    if (run.recorder) record_wait(*run.recorder, run, lane, Q.phase != QueuePhase::running, why);
    if (as == l.account_as) return;
    run.charge(lane);
    l.account_as = as;
}

} // namespace

// Once everything of this instant has happened: interference, rates, and what every lane touched now does.
void EventLoop::settle() {
    for (std::size_t i = 0; i < dirty_lanes.size(); ++i) {
        std::int32_t lane = dirty_lanes[i];
        LaneState& l = lanes[at(lane)];
        QueueState& Q = queue(lane, 0);
        bool busy = Q.phase == QueuePhase::running;
        if (interferes && !l.inside.passage) {
            if (busy != l.busy) compute_turned(lane, busy);
            if (busy && any_slows) retime_compute(*this, lane, Q);
        }
        l.busy = busy;
        while (!l.step_ends.empty() && l.oldest >= l.step_ends.front()) {
            l.step_ends.erase(l.step_ends.begin());
            ++l.steps_done;
            if (recorder) record_step_end(*recorder, *this, lane);
        }
        if (!l.inside.passage)
            settle_account(*this, lane);
        else
            passages->settles(*this, lane);
        l.dirty = false;
    }
    dirty_lanes.clear();
    settle_bundles();
}

bool EventLoop::done(std::int32_t steps, bool all) const {
    if (!all) return lanes[at(reference)].steps_done >= steps;
    return std::all_of(lanes.begin(), lanes.end(), [&](const LaneState& l) { return l.steps_done >= steps; });
}

bool EventLoop::run_steps(std::int32_t steps, Replay* replay, Course* course, bool all) {
    step_limit = steps;
    for (std::size_t l = 0; l < lanes.size(); ++l) {
        if (lanes[l].issued > 0 && lanes[l].blocked != HostBlock::far_ahead) continue;
        issue(static_cast<std::int32_t>(l));
        mark(static_cast<std::int32_t>(l));
    }
    for (;;) {
        stop_if(options.stop);
        settle();
        if (done(steps, all)) return true;
        if (anchor) {
            anchor = false;
            if (course && meets(*course, *this)) return true;
            if (replay) consider_skip(*replay, *this);
        }
        if (heap.empty()) return false;
        now = heap.top().time;
        if (now >= clock_end - skipped) refuse_endless(m);
        do {
            std::int32_t entity = heap.top().entity;
            heap.pop();
            handle(entity);
        } while (!heap.empty() && heap.top().time == now);
    }
}

} // namespace orrery

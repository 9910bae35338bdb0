// The cause of an idle compute queue. The next compute op's unmet dependencies are followed, through what stands before them on
// their queues, to a communication that moves data (exposed), a partner that has not come (of another stage: bubble; of the own one, whose
// ranks have the same program: straggler_wait) or a host that is late (other).
#include "sim/engine/run.hpp"

namespace orrery {

namespace {

Why category_of(const CompiledOp& op, WaitCause cause, std::int32_t peer) { return {static_cast<Category>(op.category), cause, peer}; }

// The partner that has not come; peer -1: none is later than the others.
Why partner_late(const EventLoop& run, std::int32_t lane, WaitCause cause, std::int32_t peer) {
    const bool own = peer >= 0 ? run.program(peer).stage == run.program(lane).stage : run.m.plan->stages == 1;
    return {own ? Category::straggler_wait : Category::bubble, cause, peer};
}

// A collective or a copy.
Why moves_data(const CompiledOp& op) {
    return category_of(op, op.kind == OpClass::copy ? WaitCause::dependency : WaitCause::collective, -1);
}

Why follow(const EventLoop& run, std::int32_t lane, std::int64_t index);

Why collective_wait(const EventLoop& run, std::int32_t lane, const CompiledOp& op) {
    std::int32_t id = run.m.lane_comms[at(run.queue_entity(lane, op.queue))].collective;
    const BundleClass& c = run.m.bundles[at(id)];
    for (std::int32_t i = c.members_begin; i < c.members_end; ++i) {
        const BundleMember& who = run.m.members[at(i)];
        if (who.queue < 0 || run.queue(who.lane, who.queue).phase != QueuePhase::posted)
            return partner_late(run, lane, WaitCause::collective, who.lane);
    }
    return partner_late(run, lane, WaitCause::collective, -1); // all have come, for different things
}

// A posted or started exchange: moving data, or the first partner that has not come.
Why exchange_wait(const EventLoop& run, std::int32_t lane, const CompiledOp& op) {
    std::int32_t late = -1;
    for (int k = op.transfers - 1; k >= 0; --k) {
        const CompiledTransfer& t = run.m.transfers[at(op.pattern + k)];
        const LaneComm& comm = run.m.lane_comms[at(run.queue_entity(lane, t.queue))];
        std::int32_t id = t.send ? comm.send : comm.receive;
        const BundleState& b = run.bundles[at(id)];
        if (b.phase != BundlePhase::idle) return category_of(op, WaitCause::receive, -1);
        int other = t.send ? 1 : 0;
        if (!b.started[other] && b.started[1 - other]) late = run.m.members[at(run.m.bundles[at(id)].members_begin + other)].lane;
    }
    return partner_late(run, lane, WaitCause::receive, late);
}

// Data of slot `index` is moving right now (or a copy, or host work, runs).
bool moving(const EventLoop& run, std::int32_t lane, std::int64_t index, Why& why) {
    const CompiledOp& op = run.m.ops[at(run.slot(lane, index).op)];
    if (op.kind == OpClass::sync) return false;
    const QueueState& Q = run.queue(lane, op.queue);
    if (Q.head != index) return false;
    if (Q.phase == QueuePhase::running) {
        why = category_of(op, WaitCause::dependency, -1);
        return true;
    }
    if (Q.phase != QueuePhase::moving) return false;
    why = op.kind == OpClass::exchange ? exchange_wait(run, lane, op) : moves_data(op);
    return why.category != Category::bubble && why.category != Category::straggler_wait;
}

// If several dependencies are unmet, one that moves data counts; else the first one's own reason.
Why dependency_wait(const EventLoop& run, std::int32_t lane, std::int64_t index) {
    Why why;
    std::int64_t first = -1;
    if (run.any_unmet(lane, index, [&](std::int64_t on) {
            if (first < 0) first = on;
            return moving(run, lane, on, why);
        }))
        return why;
    if (first < 0) return {Category::other, WaitCause::host, -1};
    return follow(run, lane, first);
}

// Why slot `index`, not ended, has not: goes back in issue order only, so it comes to an end.
Why follow(const EventLoop& run, std::int32_t lane, std::int64_t index) {
    for (;;) {
        const CompiledOp& op = run.m.ops[at(run.slot(lane, index).op)];
        if (op.kind == OpClass::sync) return dependency_wait(run, lane, index);
        const QueueState& Q = run.queue(lane, op.queue);
        if (Q.head != index) {
            index = Q.head;
            continue;
        }
        switch (Q.phase) {
        case QueuePhase::launching:
        case QueuePhase::empty:
            return {Category::other, WaitCause::host, -1};
        case QueuePhase::waiting:
            return dependency_wait(run, lane, index);
        case QueuePhase::running:
            return category_of(op, WaitCause::dependency, -1);
        case QueuePhase::posted:
        case QueuePhase::moving: {
            if (op.kind == OpClass::exchange) return exchange_wait(run, lane, op);
            return Q.phase == QueuePhase::moving ? moves_data(op) : collective_wait(run, lane, op);
        }
        case QueuePhase::held:
            break;
        }
        // An exchange that is not at the head of all its queues, or a shadow: go to what stands before one of its slots.
        std::int64_t main = op.kind == OpClass::shadow ? index - op.pattern : index;
        const CompiledOp& exchange = run.m.ops[at(run.slot(lane, main).op)];
        std::int64_t before = -1;
        for (int k = 0; k < exchange.slots && before < 0; ++k) {
            std::int64_t head = run.queue(lane, run.m.ops[at(run.slot(lane, main + k).op)].queue).head;
            if (head != main + k) before = head;
        }
        if (before < 0) { // at the head of all: the exchange's own queue says why
            if (index == main) return dependency_wait(run, lane, main);
            before = main;
        }
        index = before;
    }
}

} // namespace

Why why_idle(const EventLoop& run, std::int32_t lane) {
    const LaneState& l = run.lanes[at(lane)];
    if (std::int64_t head = run.queue(lane, 0).head; head >= 0) return follow(run, lane, head);
    if (l.blocked == HostBlock::sync) return dependency_wait(run, lane, l.issued);
    if (l.blocked == HostBlock::window && l.oldest < l.issued) return follow(run, lane, l.oldest);
    return {Category::other, WaitCause::host, -1};
}

} // namespace orrery

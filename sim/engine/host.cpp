// The host of each lane: issues ops in program order, ahead of the device by at most the window, a launch at a time.
#include "sim/engine/clock.hpp"
#include "sim/engine/run.hpp"

#include <algorithm>

namespace orrery {

namespace {

void next_action(const CompiledProgram& p, LaneState& l) {
    l.position = 0;
    if (static_cast<std::size_t>(++l.action) < p.actions.size()) {
        l.dep_cursor = p.actions[at(l.action)].deps_begin;
        return;
    }
    l.action = 0;
    l.dep_cursor = p.actions[0].deps_begin;
    ++l.step;
    l.step_ends.push_back(l.issued);
}

void put_on_queue(EventLoop& loop, std::int32_t lane, std::int64_t index) {
    const int q = loop.m.ops[at(loop.slot(lane, index).op)].queue;
    QueueState& Q = loop.queue(lane, q);
    if (Q.tail >= 0 && Q.head >= 0) loop.slot(lane, Q.tail).next = static_cast<std::int32_t>(index - Q.tail);
    Q.tail = index;
    if (Q.head >= 0) return;
    Q.head = index;
    loop.reach_head(lane, q);
}

// The host waits until all that the op depends on has ended; false: it has not.
bool synchronize(EventLoop& loop, std::int32_t lane, std::int64_t index) {
    LaneState& l = loop.lanes[at(lane)];
    const bool wait = loop.any_unmet(lane, index, [&](std::int64_t on) {
        loop.slot(lane, on).waiters |= host_bit;
        return true;
    });
    if (wait) {
        l.blocked = HostBlock::sync;
        return false;
    }
    loop.slot(lane, index).ended = true;
    l.ended_to = std::max(l.ended_to, index + 1);
    ++l.position, ++l.issued;
    l.unbroken = l.issued;
    if (l.oldest == index) l.oldest = l.issued;
    return true;
}

// Issues the rest of an action, as far as the window goes; false: the host waits.
bool issue_action(EventLoop& loop, std::int32_t lane, const CompiledAction& action) {
    LaneState& l = loop.lanes[at(lane)];
    const std::int32_t begin = loop.m.segments[at(action.segment)].begin, end = loop.m.segments[at(action.segment)].end - begin;
    while (l.position < end) {
        if (l.issued - l.oldest >= loop.m.window) {
            l.blocked = HostBlock::window;
            return false;
        }
        const CompiledOp& op = loop.m.ops[at(begin + l.position)];
        const std::int64_t index = l.issued;
        Slot& s = loop.slot(lane, index);
        s = {};
        s.op = begin + l.position;
        s.action = l.action;
        s.action_deps = l.dep_cursor;
        std::int32_t cursor = l.dep_cursor;
        while (cursor < action.deps_end && loop.m.action_deps[at(cursor)].position == l.position) ++cursor;
        s.action_deps_count = static_cast<std::int16_t>(cursor - l.dep_cursor);
        if (op.kind == OpClass::sync) {
            if (!synchronize(loop, lane, index)) return false;
            l.dep_cursor = cursor;
            continue;
        }
        l.host = at_most_clock(l.host + op.host);
        s.issue = l.host;
        ++l.position, ++l.issued, l.dep_cursor = cursor;
        for (int k = 1; op.kind != OpClass::shadow && k < op.slots; ++k) { // shadows go with their exchange
            Slot& shadow = loop.slot(lane, l.issued);
            shadow = {};
            shadow.op = s.op + k;
            shadow.action = s.action;
            shadow.issue = l.host;
            ++l.position, ++l.issued;
        }
        for (std::int64_t i = index; i < l.issued; ++i) put_on_queue(loop, lane, i);
    }
    return true;
}

} // namespace

// The host's clock may run ahead of now (it issues what it will issue) but never past an event it has to wait for.
void EventLoop::issue(std::int32_t lane, std::int64_t when) {
    LaneState& l = lanes[at(lane)];
    const CompiledProgram& p = program(lane);
    if (p.step_slots == 0) return;
    if ((l.blocked == HostBlock::window || l.blocked == HostBlock::sync) && l.host < when) {
        l.host = when;
        l.unbroken = l.issued;
    }
    l.blocked = HostBlock::none;
    while (issue_action(*this, lane, p.actions[at(l.action)])) {
        if (l.issued - l.oldest >= m.window) {
            l.blocked = HostBlock::window;
            return;
        }
        if (at(l.action) + 1 == p.actions.size() && l.step > step_limit + m.window / p.step_slots) {
            l.blocked = HostBlock::far_ahead;
            return;
        }
        next_action(p, l);
    }
}

} // namespace orrery

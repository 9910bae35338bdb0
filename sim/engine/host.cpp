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

} // namespace

// The host's clock may run ahead of now (it issues what it will issue) but never past an event it has to wait for.
void EventLoop::issue(std::int32_t lane, std::int64_t when) {
    LaneState& l = lanes[at(lane)];
    const CompiledProgram& p = program(lane);
    if (p.step_slots == 0) return;
    if (l.blocked == HostBlock::window || l.blocked == HostBlock::sync) l.host = std::max(l.host, when);
    l.blocked = HostBlock::none;
    while (true) {
        if (l.issued - l.oldest >= m.window) {
            l.blocked = HostBlock::window;
            return;
        }
        const Segment* segment = &m.segments[at(p.actions[at(l.action)].segment)];
        while (segment->begin + l.position == segment->end) {
            if (at(l.action) + 1 == p.actions.size() && l.step > step_limit + m.window / p.step_slots) {
                l.blocked = HostBlock::far_ahead;
                return;
            }
            next_action(p, l);
            segment = &m.segments[at(p.actions[at(l.action)].segment)];
        }
        const CompiledAction& action = p.actions[at(l.action)];
        const CompiledOp& op = m.ops[at(segment->begin + l.position)];
        std::int64_t index = l.issued;
        Slot& s = slot(lane, index);
        s = {};
        s.op = segment->begin + l.position;
        s.action = l.action;
        s.action_deps = l.dep_cursor;
        std::int32_t cursor = l.dep_cursor;
        while (cursor < action.deps_end && m.action_deps[at(cursor)].position == l.position) ++cursor;
        s.action_deps_count = static_cast<std::int16_t>(cursor - l.dep_cursor);
        if (op.kind == OpClass::sync) {
            bool wait = any_unmet(lane, index, [&](std::int64_t on) {
                slot(lane, on).waiters |= host_bit;
                return true;
            });
            if (wait) {
                l.blocked = HostBlock::sync;
                return;
            }
            s.ended = true;
            l.ended_to = std::max(l.ended_to, index + 1);
            ++l.position, ++l.issued, l.dep_cursor = cursor;
            if (l.oldest == index) l.oldest = l.issued;
            continue;
        }
        l.host = at_most_clock(l.host + op.host);
        s.issue = l.host;
        ++l.position, ++l.issued, l.dep_cursor = cursor;
        if (op.kind != OpClass::shadow)
            for (int k = 1; k < op.slots; ++k) { // shadows go with their exchange
                Slot& shadow = slot(lane, l.issued);
                shadow = {};
                shadow.op = s.op + k;
                shadow.action = s.action;
                shadow.issue = l.host;
                ++l.position, ++l.issued;
            }
        for (std::int64_t i = index; i < l.issued; ++i) {
            int q = m.ops[at(slot(lane, i).op)].queue;
            QueueState& Q = queue(lane, q);
            if (Q.tail >= 0 && Q.head >= 0) slot(lane, Q.tail).next = static_cast<std::int32_t>(i - Q.tail);
            Q.tail = i;
            if (Q.head < 0) {
                Q.head = i;
                reach_head(lane, q);
            }
        }
    }
}

} // namespace orrery

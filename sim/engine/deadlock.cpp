// The answer when nothing can happen any more: each blocked class, the op it stands at and what that waits for.
#include "sim/engine/run.hpp"

#include <string>

namespace orrery {

namespace {

std::string op_name(const EventLoop& run, std::int32_t lane, std::int64_t index) {
    const Slot& s = run.slot(lane, index);
    const CompiledAction& a = run.program(lane).actions[at(s.action)];
    const Block& block = run.m.plan->blocks[at(run.m.segments[at(a.segment)].block)];
    std::string text = block.ops[at(run.m.ops[at(s.op)].source)].name;
    if (text.empty()) text = "op " + std::to_string(run.m.ops[at(s.op)].source);
    return text + " of " + block.name + " (action " + std::to_string(s.action) + ")";
}

std::string rank_name(const EventLoop& run, std::int32_t lane) {
    const MachineLane& l = run.m.lanes[at(lane)];
    return "rank " + std::to_string(l.rank) + (l.ranks > 1 ? " and " + std::to_string(l.ranks - 1) + " like it" : "");
}

const std::string& comm_name(const EventLoop& run, std::int32_t bundle) {
    return run.m.plan->communicators[at(run.m.bundles[at(bundle)].comm)].name;
}

std::string where(const EventLoop& run, std::int32_t lane) {
    std::int64_t head = run.lanes[at(lane)].oldest;
    return head < run.lanes[at(lane)].issued ? " (which stands at " + op_name(run, lane, head) + ")" : "";
}

std::string partners(const EventLoop& run, std::int32_t lane, std::int64_t index) {
    const CompiledOp& op = run.m.ops[at(run.slot(lane, index).op)];
    if (op.kind == OpClass::collective) {
        std::int32_t id = run.m.lane_comms[at(run.queue_entity(lane, op.queue))].collective;
        const BundleClass& c = run.m.bundles[at(id)];
        if (run.bundles[at(id)].mismatch) return "the members of communicator " + comm_name(run, id) + " called different collectives";
        for (std::int32_t i = c.members_begin; i < c.members_end; ++i) {
            const BundleMember& who = run.m.members[at(i)];
            if (who.queue < 0 || run.queue(who.lane, who.queue).phase != QueuePhase::posted)
                return rank_name(run, who.lane) + " on communicator " + comm_name(run, id) + where(run, who.lane);
        }
    }
    for (int k = 0; op.kind == OpClass::exchange && k < op.transfers; ++k) {
        const CompiledTransfer& t = run.m.transfers[at(op.pattern + k)];
        const LaneComm& comm = run.m.lane_comms[at(run.queue_entity(lane, t.queue))];
        std::int32_t id = t.send ? comm.send : comm.receive;
        int other = t.send ? 1 : 0;
        if (run.bundles[at(id)].started[other] || !run.bundles[at(id)].started[1 - other]) continue; // under way, or done
        const BundleMember& who = run.m.members[at(run.m.bundles[at(id)].members_begin + other)];
        return std::string(t.send ? "the receive of " : "the send of ") + rank_name(run, who.lane) + " on communicator " +
               comm_name(run, id) + where(run, who.lane);
    }
    return "its partners";
}

// The blocked op nearest to the cause on this lane: one that waits for another rank if there is one.
bool describe(const EventLoop& run, std::int32_t lane, Blocked& out) {
    const LaneState& l = run.lanes[at(lane)];
    for (std::int64_t i = l.oldest; i < l.issued; ++i) {
        const CompiledOp& op = run.m.ops[at(run.slot(lane, i).op)];
        if (run.slot(lane, i).ended || op.kind == OpClass::sync) continue;
        const QueueState& Q = run.queue(lane, op.queue);
        if (Q.head != i || (Q.phase != QueuePhase::posted && Q.phase != QueuePhase::moving)) continue;
        out = {run.m.lanes[at(lane)].rank, op_name(run, lane, i), partners(run, lane, i)};
        return true;
    }
    if (l.oldest >= l.issued) return false;
    std::int64_t on = -1;
    run.any_unmet(lane, l.oldest, [&](std::int64_t d) {
        on = d;
        return true;
    });
    out = {run.m.lanes[at(lane)].rank, op_name(run, lane, l.oldest), on < 0 ? "its place in its queues" : op_name(run, lane, on)};
    return true;
}

} // namespace

Deadlock deadlock(const EventLoop& run) {
    Deadlock d;
    for (std::size_t lane = 0; lane < run.lanes.size(); ++lane)
        if (Blocked b; describe(run, static_cast<std::int32_t>(lane), b)) d.blocked.push_back(std::move(b));
    return d;
}

} // namespace orrery

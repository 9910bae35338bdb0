// Collectives and transfers: who has arrived, when a bundle starts, how fast its data moves.
#include "sim/engine/run.hpp"

#include "sim/engine/clock.hpp"
#include "sim/engine/passage.hpp"
#include "sim/engine/record.hpp"

#include <algorithm>
#include <cmath>

namespace orrery {

namespace {

std::int64_t time_for(double bytes, double rate) {
    const double ps = std::ceil(bytes / rate * 1e12 - 1e-6);
    return ps < static_cast<double>(clock_end) ? static_cast<std::int64_t>(ps) : clock_end;
}

// Members may disagree about a size (uneven shards): the larger counts. About what they do they must agree.
void propose(const EventLoop& run, BundleState& b, std::int32_t cost) {
    if (b.cost < 0) {
        b.cost = cost;
        return;
    }
    const BundleCost &have = run.m.bundle_costs[at(b.cost)], &offer = run.m.bundle_costs[at(cost)];
    if (have.kind != offer.kind)
        b.mismatch = true;
    else if (offer.payload > have.payload || (offer.payload == have.payload && cost < b.cost))
        b.cost = cost;
}

std::int32_t channel_of(const EventLoop& run, std::int32_t lane, const CompiledTransfer& t) {
    const LaneComm& comm = run.m.lane_comms[at(run.queue_entity(lane, t.queue))];
    return t.send ? comm.send : comm.receive;
}

// Kernels of communication and computation slow each other; copies have engines of their own.
bool interferes(const EventLoop& run, const BundleCost& cost) { return run.interferes && cost.payload > 0 && cost.kind != copy_kind; }

// Of communications that move data at the same time on one device the one that slows computation most counts: the constants are from runs
// in which several moved, too.
double most_slowed(const EventLoop& run, const std::vector<std::int32_t>& fluids) {
    double most = 0;
    for (const std::int32_t id : fluids) most = std::max(most, run.m.bundle_costs[at(run.bundles[at(id)].cost)].slows);
    return most;
}

bool simple(const EventLoop& run, const BundleCost& cost) {
    return cost.shared_begin == cost.shared_end && (!run.interferes || cost.kind == copy_kind);
}

} // namespace

void EventLoop::arrive(std::int32_t lane, int q) {
    queue(lane, q).phase = QueuePhase::posted;
    const Slot& s = slot(lane, queue(lane, q).head);
    std::int32_t id = m.lane_comms[at(queue_entity(lane, q))].collective;
    const BundleClass& c = m.bundles[at(id)];
    BundleState& b = bundles[at(id)];
    propose(*this, b, c.costs + m.ops[at(s.op)].pattern);
    if (++b.arrived == c.members_end - c.members_begin && !b.mismatch) start_bundle(id);
}

// The exchange at the head of all its queues posts its sides. As in an NCCL group each transfer moves as soon as its partner has
// posted too, whatever the others of the group wait for; the exchange ends with its last transfer.
void EventLoop::post(std::int32_t lane, int q) {
    QueueState& Q = queue(lane, q);
    const CompiledOp& op = m.ops[at(slot(lane, Q.head).op)];
    const CompiledTransfer* transfers = &m.transfers[at(op.pattern)];
    Q.phase = QueuePhase::posted;
    Q.open = op.transfers;
    mark(lane);
    for (int k = 0; k < op.transfers; ++k) {
        std::int32_t id = channel_of(*this, lane, transfers[k]);
        BundleState& b = bundles[at(id)];
        int side = transfers[k].send ? 0 : 1;
        b.started[side] = true;
        b.queue[side] = static_cast<std::int16_t>(q);
        if (transfers[k].send) b.cost = m.bundles[at(id)].costs + transfers[k].pattern;
        if (b.started[0] && b.started[1]) start_bundle(id);
    }
}

void EventLoop::start_bundle(std::int32_t id) {
    BundleState& b = bundles[at(id)];
    const BundleClass& c = m.bundles[at(id)];
    const BundleCost& cost = m.bundle_costs[at(b.cost)];
    for (std::int32_t i = c.members_begin; i < c.members_end; ++i) {
        mark(m.members[at(i)].lane);
        const int q = c.channel ? b.queue[i - c.members_begin] : m.members[at(i)].queue;
        queue(m.members[at(i)].lane, q).phase = QueuePhase::moving;
    }
    if (recorder) record_start(*recorder, *this, id);
    b.last = now;
    b.phase = BundlePhase::latency;
    std::int64_t after = cost.latency;
    if (simple(*this, cost)) { // nothing can change its rate: one event
        b.phase = BundlePhase::fluid;
        if (cost.payload > 0) after += time_for(cost.payload, cost.limit);
    }
    heap.set(bundle_entity(id), now + at_most_clock(after));
}

void EventLoop::bundle_event(std::int32_t id) {
    BundleState& b = bundles[at(id)];
    const BundleClass& c = m.bundles[at(id)];
    const BundleCost& cost = m.bundle_costs[at(b.cost)];
    if (b.phase == BundlePhase::fluid || cost.payload <= 0) {
        finish_bundle(id);
        return;
    }
    b.phase = BundlePhase::fluid;
    b.remaining = cost.payload;
    b.last = now;
    b.rate = b.cap = 0;
    b.busy = 0;
    if (orrery::interferes(*this, cost))
        for (std::int32_t i = c.members_begin; i < c.members_end; ++i) {
            std::int32_t lane = m.members[at(i)].lane;
            ++lanes[at(lane)].fluids;
            lanes[at(lane)].slows = std::max(lanes[at(lane)].slows, cost.slows);
            lane_fluids[at(lane)].push_back(id);
            b.busy += lanes[at(lane)].busy;
            mark(lane);
        }
    mark_bundle(id);
}

void EventLoop::finish_bundle(std::int32_t id) {
    BundleState& b = bundles[at(id)];
    const BundleClass& c = m.bundles[at(id)];
    ++completions[at(b.cost)];
    if (const BundleMember& one = m.members[at(c.members_begin)];
        passages && c.members_end - c.members_begin == 1 && passages->keeps(one.lane))
        passages->sends(*this, one.lane, one.queue, b.cost - c.costs);
    if (recorder) record_bundle_end(*recorder, *this, id);
    if (b.sharing >= 0) {
        sharing.remove(b.sharing);
        b.sharing = -1;
        sharing_changed = true;
    }
    if (const BundleCost& cost = m.bundle_costs[at(b.cost)]; orrery::interferes(*this, cost))
        for (std::int32_t i = c.members_begin; i < c.members_end; ++i) {
            const std::int32_t lane = m.members[at(i)].lane;
            LaneState& l = lanes[at(lane)];
            --l.fluids;
            auto& list = lane_fluids[at(lane)];
            list.erase(std::find(list.begin(), list.end(), id));
            if (cost.slows >= l.slows) l.slows = most_slowed(*this, list);
            mark(lane);
        }
    std::int16_t main_queue[2] = {b.queue[0], b.queue[1]};
    b.phase = BundlePhase::idle;
    b.started[0] = b.started[1] = false;
    b.arrived = 0;
    b.cost = -1;
    for (std::int32_t i = c.members_begin; i < c.members_end; ++i) {
        const BundleMember& who = m.members[at(i)];
        if (!c.channel) {
            complete(who.lane, who.queue);
            continue;
        }
        int q = main_queue[i - c.members_begin];
        mark(who.lane);
        if (--queue(who.lane, q).open == 0) complete(who.lane, q);
    }
}

void EventLoop::compute_turned(std::int32_t lane, bool on) {
    for (std::int32_t id : lane_fluids[at(lane)]) {
        BundleState& b = bundles[at(id)];
        int before = b.busy;
        b.busy += on ? 1 : -1;
        if ((before > 0) != (b.busy > 0)) mark_bundle(id);
    }
}

namespace {

void set_rate(EventLoop& run, std::int32_t id, double rate) {
    BundleState& b = run.bundles[at(id)];
    if (b.rate > 0) b.remaining = std::max(0.0, b.remaining - b.rate * (static_cast<double>(run.now - b.last) * 1e-12));
    b.last = run.now;
    b.rate = rate;
    if (rate <= 0) {
        run.heap.remove(run.bundle_entity(id));
        return;
    } // a failed link: it never ends
    run.heap.set(run.bundle_entity(id), run.now + time_for(b.remaining, rate));
}

} // namespace

// New rates for bundles that began, or whose cap or company changed.
void EventLoop::settle_bundles() {
    for (std::size_t i = 0; i < dirty_bundles.size(); ++i) {
        std::int32_t id = dirty_bundles[i];
        BundleState& b = bundles[at(id)];
        b.dirty = false;
        if (b.phase != BundlePhase::fluid) continue;
        const BundleCost& cost = m.bundle_costs[at(b.cost)];
        double cap = std::min(b.busy > 0 ? cost.cap / (1 + m.interference.communication_slowdown) : cost.cap, cost.limit);
        if (cap == b.cap) continue;
        b.cap = cap;
        if (cost.shared_begin == cost.shared_end) {
            set_rate(*this, id, cap);
            continue;
        }
        sharing_changed = true;
        if (b.sharing >= 0) {
            sharing.set_cap(b.sharing, cap);
            continue;
        }
        Sharing::Use uses[64];
        std::vector<Sharing::Use> many;
        std::size_t n = at(cost.shared_end - cost.shared_begin);
        if (n > 64) many.resize(n);
        Sharing::Use* use = n > 64 ? many.data() : uses;
        for (std::size_t u = 0; u < n; ++u) use[u] = {m.shared[at(cost.shared_begin) + u].link, m.shared[at(cost.shared_begin) + u].taken};
        b.sharing = sharing.add({use, n}, cap);
        if (at(b.sharing) >= bundle_of_sharing.size()) bundle_of_sharing.resize(at(b.sharing) + 1, -1);
        bundle_of_sharing[at(b.sharing)] = id;
    }
    dirty_bundles.clear();
    if (!sharing_changed) return;
    sharing_changed = false;
    for (std::int32_t s : sharing.update()) set_rate(*this, bundle_of_sharing[at(s)], sharing.rate(s));
}

} // namespace orrery

// The state of the whole run relative to now, as words. Two equal snapshots have equal futures for as long as the programs, from
// where each lane stands, agree: everything the loop reads later is here or derives from it.
#include "sim/engine/run.hpp"

#include "sim/engine/fold.hpp"

#include <algorithm>
#include <bit>

namespace orrery {

namespace {

constexpr std::uint64_t nothing = ~0ull;

std::uint64_t event_in(const EventLoop& run, std::int32_t entity) {
    return run.heap.contains(entity) ? static_cast<std::uint64_t>(run.heap.time_of(entity) - run.now) : nothing;
}

std::uint64_t lag(std::int64_t clock, std::int64_t now) { return static_cast<std::uint64_t>(std::max<std::int64_t>(clock - now, 0)); }

std::uint64_t queue_word(const QueueState& Q, const LaneState& l) {
    auto back = static_cast<std::uint64_t>(Q.head < 0 ? 0xffff : Q.head - l.oldest);
    return back | static_cast<std::uint64_t>(Q.phase) << 16 | static_cast<std::uint64_t>(Q.slow) << 24 |
           static_cast<std::uint64_t>(static_cast<std::uint16_t>(Q.open)) << 48;
}

void queue_state(const EventLoop& run, std::int32_t lane, int q, std::vector<std::uint64_t>& w) {
    const QueueState& Q = run.queue(lane, q);
    w.push_back(queue_word(Q, run.lanes[at(lane)]));
    if (Q.phase != QueuePhase::running && Q.phase != QueuePhase::launching) return;
    w.push_back(event_in(run, run.queue_entity(lane, q)));
    if (Q.phase == QueuePhase::running && q == 0 && run.interferes) {
        w.push_back(static_cast<std::uint64_t>(Q.remaining));
        w.push_back(static_cast<std::uint64_t>(run.now - Q.last));
    }
}

// The ops under way, each by its place in Machine::ops.
void slots_by_op(const EventLoop& run, std::int32_t lane, std::vector<std::uint64_t>& w) {
    const LaneState& l = run.lanes[at(lane)];
    for (std::int64_t i = l.oldest; i < l.issued; ++i) {
        const Slot& s = run.slot(lane, i);
        bool late = s.issue > run.now;
        w.push_back(static_cast<std::uint64_t>(s.op) | static_cast<std::uint64_t>(s.ended) << 32 | static_cast<std::uint64_t>(late) << 33 |
                    static_cast<std::uint64_t>(s.heads) << 40);
        if (late) w.push_back(lag(s.issue, run.now));
    }
}

// The same where the lane's place in its step, and so each op, is known: only of those that something has happened to, or that are late.
void slots_by_place(const EventLoop& run, std::int32_t lane, std::vector<std::uint64_t>& w) {
    const LaneState& l = run.lanes[at(lane)];
    const auto word = [&](std::int64_t i) {
        const Slot& s = run.slot(lane, i);
        bool late = s.issue > run.now;
        if (!late && !s.ended && s.heads == 0) return;
        w.push_back(static_cast<std::uint64_t>(i - l.oldest) | static_cast<std::uint64_t>(s.ended) << 32 |
                    static_cast<std::uint64_t>(late) << 33 | static_cast<std::uint64_t>(s.heads) << 40);
        if (late) w.push_back(lag(s.issue, run.now));
    };
    // Nothing has happened to what stands after the heads of all queues (of a queue that has served all it was given, after its tail);
    // and the host issues in order, so that the late ones are the last.
    std::int64_t behind = l.oldest;
    for (std::size_t q = 0; q < run.program(lane).queues.size(); ++q) {
        const QueueState& Q = run.queue(lane, static_cast<std::int64_t>(q));
        behind = std::max(behind, (Q.head >= 0 ? Q.head : Q.tail) + 1);
    }
    for (std::int64_t i = l.oldest; i < behind; ++i) word(i);
    for (std::int64_t i = l.issued - 1; i >= behind && run.slot(lane, i).issue > run.now; --i) word(i);
    w.push_back(nothing);
}

void lane_state(const EventLoop& run, std::int32_t lane, bool place_known, std::vector<std::uint64_t>& w) {
    const LaneState& l = run.lanes[at(lane)];
    w.push_back(static_cast<std::uint64_t>(l.issued - l.oldest));
    w.push_back(lag(l.host, run.now));
    w.push_back(static_cast<std::uint64_t>(l.position) << 8 | static_cast<std::uint64_t>(l.blocked));
    w.push_back(static_cast<std::uint64_t>(l.account_as));
    (place_known ? slots_by_place : slots_by_op)(run, lane, w);
    for (std::size_t q = 0; q < run.program(lane).queues.size(); ++q) queue_state(run, lane, static_cast<int>(q), w);
}

void bundle_state(const EventLoop& run, std::int32_t id, std::vector<std::uint64_t>& w) {
    const BundleState& b = run.bundles[at(id)];
    std::uint64_t flags = static_cast<std::uint64_t>(b.phase) | static_cast<std::uint64_t>(b.started[0]) << 10 |
                          static_cast<std::uint64_t>(b.started[1]) << 11;
    if (b.phase == BundlePhase::idle && !flags && !b.arrived) return;
    w.push_back(static_cast<std::uint64_t>(id) << 32 | flags);
    w.push_back(static_cast<std::uint64_t>(b.arrived) << 32 | static_cast<std::uint32_t>(b.cost));
    if (b.phase == BundlePhase::idle) return;
    w.push_back(event_in(run, run.bundle_entity(id)));
    if (b.phase != BundlePhase::fluid) return;
    w.push_back(std::bit_cast<std::uint64_t>(b.remaining));
    w.push_back(std::bit_cast<std::uint64_t>(b.rate));
    w.push_back(static_cast<std::uint64_t>(run.now - b.last));
    w.push_back(static_cast<std::uint64_t>(b.busy));
}

} // namespace

void snapshot(const EventLoop& run, std::vector<std::uint64_t>& words) {
    words.clear();
    for (std::size_t lane = 0; lane < run.lanes.size(); ++lane) lane_state(run, static_cast<std::int32_t>(lane), false, words);
    for (std::size_t b = 0; b < run.bundles.size(); ++b) bundle_state(run, static_cast<std::int32_t>(b), words);
}

void place_in_step(const EventLoop& run, std::int32_t step, std::vector<std::uint64_t>& words) {
    words.clear();
    for (std::size_t lane = 0; lane < run.lanes.size(); ++lane) {
        words.push_back(static_cast<std::uint64_t>(run.lanes[lane].step - step));
        words.push_back(static_cast<std::uint64_t>(run.lanes[lane].action));
        lane_state(run, static_cast<std::int32_t>(lane), true, words);
    }
    for (std::size_t b = 0; b < run.bundles.size(); ++b) bundle_state(run, static_cast<std::int32_t>(b), words);
}

std::uint64_t fingerprint(const EventLoop& run) {
    std::uint64_t h = 0;
    for (std::size_t lane = 0; lane < run.lanes.size(); ++lane) {
        const LaneState& l = run.lanes[lane];
        h = mix(h, static_cast<std::uint64_t>(l.issued - l.oldest) ^ lag(l.host, run.now) << 16);
        for (std::size_t q = 0; q < run.program(static_cast<std::int64_t>(lane)).queues.size(); ++q) {
            const QueueState& Q = run.queue(static_cast<std::int64_t>(lane), static_cast<std::int64_t>(q));
            std::uint64_t word = queue_word(Q, l);
            if (Q.head >= 0) word ^= mix(static_cast<std::uint64_t>(run.slot(static_cast<std::int64_t>(lane), Q.head).op));
            if (Q.phase == QueuePhase::running) word += event_in(run, run.m.lanes[lane].queues + static_cast<std::int32_t>(q)) << 20;
            h = mix(h, word);
        }
    }
    for (std::size_t b = 0; b < run.bundles.size(); ++b)
        if (run.bundles[b].phase != BundlePhase::idle) h = mix(h, event_in(run, run.bundle_entity(static_cast<std::int32_t>(b))) ^ b << 48);
    return h;
}

} // namespace orrery

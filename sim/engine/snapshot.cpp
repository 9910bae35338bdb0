// The state of the whole run relative to now, as words. Two equal snapshots have equal futures for as long as the programs, from
// where each lane stands, agree: everything the loop reads later is here or derives from it.
#include "sim/engine/run.hpp"

#include "sim/engine/fold.hpp"
#include "sim/engine/passage.hpp"

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
    return back | static_cast<std::uint64_t>(Q.phase) << 16 | static_cast<std::uint64_t>(Q.slow > 0) << 24 |
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

// The slots that something has happened to, or that are late at `base`: first those that may have ended, in order; then the heads of
// queues behind them; then the late ones, which are the last as the host issues in order.
void slots(const EventLoop& run, std::int32_t lane, std::int64_t base, std::vector<std::uint64_t>& w) {
    const LaneState& l = run.lanes[at(lane)];
    const auto word = [&](std::int64_t i) {
        const Slot& s = run.slot(lane, i);
        bool late = s.issue > base;
        if (!late && !s.ended && s.heads == 0) return;
        w.push_back(static_cast<std::uint64_t>(i - l.oldest) | static_cast<std::uint64_t>(s.ended) << 32 |
                    static_cast<std::uint64_t>(late) << 33 | static_cast<std::uint64_t>(s.heads) << 40);
        if (late) w.push_back(lag(s.issue, base));
    };
    const std::int64_t behind = std::clamp(l.ended_to, l.oldest, l.issued);
    for (std::int64_t i = l.oldest; i < behind; ++i) word(i);
    for (std::size_t q = 0; q < run.program(lane).queues.size(); ++q) {
        std::int64_t head = run.queue(lane, static_cast<std::int64_t>(q)).head;
        if (head < 0) continue;
        const CompiledOp& op = run.m.ops[at(run.slot(lane, head).op)];
        if (op.kind == OpClass::shadow) head -= op.pattern;
        if (head >= behind && run.slot(lane, head).heads > 0) word(head);
    }
    // Launches without a pause follow one another up to the host's clock: their number says when each of the late ones is.
    const std::int64_t unbroken = std::max(behind, l.unbroken);
    std::int64_t on_time = unbroken, late = l.issued;
    while (on_time < late)
        if (const std::int64_t mid = on_time + (late - on_time) / 2; run.slot(lane, mid).issue > base)
            late = mid;
        else
            on_time = mid + 1;
    w.push_back(static_cast<std::uint64_t>(l.issued - late));
    if (late == unbroken)
        for (std::int64_t i = unbroken - 1; i >= behind && run.slot(lane, i).issue > base; --i) word(i);
    w.push_back(nothing);
}

// The ops under way where the lane's place in its step is not known: the segments they are of, and where in the first they begin.
void segments_under_way(const EventLoop& run, std::int32_t lane, std::vector<std::uint64_t>& w) {
    const LaneState& l = run.lanes[at(lane)];
    if (l.oldest == l.issued) return;
    const auto& actions = run.program(lane).actions;
    const Slot& oldest = run.slot(lane, l.oldest);
    std::size_t action = at(oldest.action);
    const std::int32_t into = oldest.op - run.m.segments[at(actions[action].segment)].begin;
    w.push_back(static_cast<std::uint64_t>(into));
    for (std::int64_t n = -into; n < l.issued - l.oldest; ++action) {
        if (action == actions.size()) action = 0;
        const Segment& s = run.m.segments[at(actions[action].segment)];
        w.push_back(static_cast<std::uint64_t>(actions[action].segment));
        n += s.end - s.begin;
    }
}

// last_inside: the last slot of the stretch that the lane is in, whose ops a course tells of; -1: it is in none.
void lane_state(const EventLoop& run, std::int32_t lane, std::int64_t base, bool place_known, std::int64_t last_inside,
                std::vector<std::uint64_t>& w) {
    const bool inside = last_inside >= 0;
    const LaneState& l = run.lanes[at(lane)];
    w.push_back(static_cast<std::uint64_t>(l.issued - l.oldest));
    w.push_back(lag(l.host, base));
    w.push_back(static_cast<std::uint64_t>(l.position) << 8 | static_cast<std::uint64_t>(l.blocked));
    if (!inside) w.push_back(static_cast<std::uint64_t>(l.account_as));
    if (!place_known) segments_under_way(run, lane, w);
    slots(run, lane, base, w);
    for (std::size_t q = inside; q < run.program(lane).queues.size(); ++q)
        if (const std::int64_t head = run.queue(lane, static_cast<std::int64_t>(q)).head; head < 0 || head > last_inside)
            queue_state(run, lane, static_cast<int>(q), w);
}

bool keeps(const EventLoop& run, std::int32_t lane) { return run.passages && run.passages->keeps(lane); }

// A lane inside an action shows how far it has come and what it was at the beginning, whether it is run in one piece or op by op.
void any_lane(const EventLoop& run, std::int32_t lane, bool place_known, std::vector<std::uint64_t>& w) {
    const WithinAction& in = run.lanes[at(lane)].inside;
    const auto into = [&](std::int32_t op, std::int64_t since) {
        w.push_back(nothing - 1 - static_cast<std::uint64_t>(op));
        w.push_back(static_cast<std::uint64_t>(run.now - since));
    };
    if (keeps(run, lane)) {
        const Passages::Beginning& b = run.passages->beginning(lane);
        into(b.op, b.time);
        const auto& words = place_known ? b.by_place : b.by_op;
        w.insert(w.end(), words.begin(), words.end());
    } else if (in.passage) {
        into(in.op, in.since);
        lane_state(run, lane, in.since, place_known, Passages::last_of(in), w);
    } else
        lane_state(run, lane, run.now, place_known, -1, w);
}

void bundle_state(const EventLoop& run, std::int32_t id, std::vector<std::uint64_t>& w) {
    const BundleState& b = run.bundles[at(id)];
    const BundleClass& c = run.m.bundles[at(id)];
    if (c.members_end - c.members_begin == 1 && keeps(run, run.m.members[at(c.members_begin)].lane)) return; // part of the action
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
    for (std::size_t lane = 0; lane < run.lanes.size(); ++lane) any_lane(run, static_cast<std::int32_t>(lane), false, words);
    for (std::size_t b = 0; b < run.bundles.size(); ++b) bundle_state(run, static_cast<std::int32_t>(b), words);
}

void place_in_step(const EventLoop& run, std::int32_t step, std::vector<std::uint64_t>& words) {
    words.clear();
    for (std::size_t lane = 0; lane < run.lanes.size(); ++lane) {
        const bool kept = keeps(run, static_cast<std::int32_t>(lane));
        const Passages::Beginning* begun = kept ? &run.passages->beginning(static_cast<std::int32_t>(lane)) : nullptr;
        words.push_back(static_cast<std::uint64_t>((begun ? begun->step : run.lanes[lane].step) - step));
        words.push_back(static_cast<std::uint64_t>(begun ? begun->action : run.lanes[lane].action));
        any_lane(run, static_cast<std::int32_t>(lane), true, words);
    }
    for (std::size_t b = 0; b < run.bundles.size(); ++b) bundle_state(run, static_cast<std::int32_t>(b), words);
}

void state_at_beginning(const EventLoop& run, std::int32_t lane, std::int64_t last, bool place_known, std::vector<std::uint64_t>& words) {
    words.clear();
    lane_state(run, lane, run.now, place_known, last, words);
}

std::uint64_t fingerprint(const EventLoop& run) {
    std::uint64_t h = 0;
    for (std::size_t lane = 0; lane < run.lanes.size(); ++lane) {
        const LaneState& l = run.lanes[lane];
        const bool kept = keeps(run, static_cast<std::int32_t>(lane));
        if (kept || l.inside.passage) {
            const Passages::Beginning* b = kept ? &run.passages->beginning(static_cast<std::int32_t>(lane)) : nullptr;
            h = mix(h, static_cast<std::uint64_t>(run.now - (b ? b->time : l.inside.since)));
            h = mix(h, b ? b->by_op[0] ^ b->by_op[1] << 16
                         : static_cast<std::uint64_t>(l.issued - l.oldest) ^ lag(l.host, l.inside.since) << 16);
            continue;
        }
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
        if (const BundleClass& c = run.m.bundles[b];
            run.bundles[b].phase != BundlePhase::idle &&
            !(c.members_end - c.members_begin == 1 && keeps(run, run.m.members[at(c.members_begin)].lane)))
            h = mix(h, event_in(run, run.bundle_entity(static_cast<std::int32_t>(b))) ^ b << 48);
    return h;
}

} // namespace orrery

#include "sim/engine/replay.hpp"

#include "sim/engine/clock.hpp"

#include <algorithm>

namespace orrery {

namespace {

std::int64_t position(const EventLoop& run, std::size_t lane) {
    const LaneState& l = run.lanes[lane];
    return static_cast<std::int64_t>(l.step) * static_cast<std::int64_t>(run.program(static_cast<std::int64_t>(lane)).actions.size()) +
           l.action;
}

void keep(Replay& r, EventLoop& run, std::int64_t period) {
    r.target = r.anchors + period;
    r.time = run.now;
    snapshot(run, r.words);
    r.positions.clear();
    r.accounts.clear();
    for (std::size_t l = 0; l < run.lanes.size(); ++l) {
        run.charge(static_cast<std::int32_t>(l));
        r.positions.push_back(position(run, l));
        r.accounts.push_back(run.lanes[l].account);
    }
    r.completions = run.completions;
    r.ops = run.stats.events + run.stats.replayed_ops;
}

// How many more periods of `shift` actions lane's program goes on as it did, from the oldest op in flight, inside this step.
std::int64_t periods_left(const EventLoop& run, std::size_t lane, std::int64_t shift) {
    const LaneState& l = run.lanes[lane];
    const auto& actions = run.program(static_cast<std::int64_t>(lane)).actions;
    std::int64_t oldest = l.oldest < l.issued ? run.slot(static_cast<std::int64_t>(lane), l.oldest).action : l.action;
    if (!l.step_ends.empty()) return 0; // some of them are of a step before: one may be shorter than what the host runs ahead
    if (oldest > l.action || oldest < shift) return 0; // still in its first period
    std::int64_t a = oldest, end = static_cast<std::int64_t>(actions.size());
    while (a < end && actions[at(a)].signature == actions[at(a - shift)].signature) ++a;
    return a <= l.action ? 0 : (a - 1 - l.action) / shift;
}

void move_lane(EventLoop& run, std::size_t lane, std::int64_t actions, const std::array<std::int64_t, account_count>& before,
               std::int64_t periods) {
    LaneState& l = run.lanes[lane];
    const auto& list = run.program(static_cast<std::int64_t>(lane)).actions;
    std::int32_t into = l.dep_cursor - list[at(l.action)].deps_begin;
    for (std::int64_t i = l.oldest; i < l.issued; ++i)
        run.slot(static_cast<std::int64_t>(lane), i).action += static_cast<std::int32_t>(actions);
    l.action += static_cast<std::int32_t>(actions);
    l.dep_cursor = list[at(l.action)].deps_begin + into;
    for (std::size_t k = 0; k < account_count; ++k) l.account[k] += periods * (l.account[k] - before[k]);
}

// The state of the candidate has come again: adds as many periods as every lane's program has left.
bool skip(Replay& r, EventLoop& run) {
    std::vector<std::int64_t> shift(run.lanes.size());
    std::int64_t periods = INT64_MAX;
    for (std::size_t l = 0; l < run.lanes.size(); ++l) {
        shift[l] = position(run, l) - r.positions[l];
        if (shift[l] > 0) periods = std::min(periods, periods_left(run, l, shift[l]));
    }
    if (periods <= 0 || periods == INT64_MAX) return false;
    const double passed = static_cast<double>(run.skipped) + static_cast<double>(run.now);
    if (passed + static_cast<double>(periods) * static_cast<double>(run.now - r.time) >= static_cast<double>(clock_end))
        refuse_endless(run.m);
    for (std::size_t l = 0; l < run.lanes.size(); ++l) {
        run.charge(static_cast<std::int32_t>(l));
        move_lane(run, l, shift[l] * periods, r.accounts[l], periods);
    }
    const std::uint64_t ops = run.stats.events + run.stats.replayed_ops - r.ops;
    for (std::size_t c = 0; c < run.completions.size(); ++c) run.completions[c] += periods * (run.completions[c] - r.completions[c]);
    run.skipped += periods * (run.now - r.time);
    run.stats.replayed_ops += static_cast<std::uint64_t>(periods) * ops;
    run.anchor_action += static_cast<std::int32_t>(shift[at(run.reference)] * periods);
    return true;
}

} // namespace

void consider_skip(Replay& r, EventLoop& run) {
    ++r.anchors;
    if (r.target == r.anchors) {
        r.target = -1;
        snapshot(run, r.scratch);
        if (r.scratch == r.words && skip(r, run)) {
            r.seen.clear();
            return;
        }
        r.rest_until = r.anchors + 8; // a snapshot costs about as much as running to the next anchor or two
    }
    std::uint64_t print = fingerprint(run);
    auto [it, fresh] = r.seen.try_emplace(print, r.anchors);
    if (!fresh && r.target < 0 && r.anchors >= r.rest_until) keep(r, run, r.anchors - it->second);
    it->second = r.anchors;
}

} // namespace orrery

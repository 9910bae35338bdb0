// Skipping periods of the schedule: when the state at the start of an action of lane 0 is exactly one seen before, and every lane's
// program goes on as it did from there, whole periods are added up instead of run.
#pragma once

#include "sim/engine/run.hpp"

#include <cstdint>
#include <unordered_map>
#include <vector>

namespace orrery {

struct Replay {
    std::unordered_map<std::uint64_t, std::int64_t> seen; // fingerprint -> anchor
    std::int64_t anchors = 0;
    std::int64_t rest_until = 0; // anchors to let pass after a candidate that failed
    // The candidate: its state, to be met again at anchor `target`.
    std::int64_t target = -1, time = 0;
    std::uint64_t ops = 0; // executed and replayed until then
    std::vector<std::uint64_t> words, scratch;
    std::vector<std::int64_t> positions; // by lane: actions issued
    std::vector<std::array<std::int64_t, account_count>> accounts;
    std::vector<std::int64_t> completions;
};

void consider_skip(Replay& replay, EventLoop& run);

} // namespace orrery

// Steps that meet: once a step is in the very state that the step before was in at the same place, the rest of it is the rest of that one.
// It is added instead of run: time, accounts and what was sent, in whole picoseconds and counts.
#pragma once

#include "sim/engine/run.hpp"

#include <cstdint>
#include <vector>

namespace orrery {

// Totals at one instant, and the state then with the place of every lane in its step.
struct Waypoint {
    std::int32_t action = 0; // that the reference lane begins
    std::uint64_t print = 0; // cheap, of a part of the state
    std::int64_t time = 0;
    std::uint64_t ops = 0; // executed and replayed
    std::vector<std::array<std::int64_t, account_count>> accounts;
    std::vector<std::int64_t> completions;
    std::vector<std::uint64_t> state;
};

// `step` counts from 1; what lies in a state is relative to it.
Waypoint waypoint(EventLoop& run, std::int32_t step);

struct Course {
    std::int32_t step = 0;
    // The course of the step before, to be met; that of this one, to be met by the next, where the one before left none: nearly all second
    // steps meet the first.
    std::vector<Waypoint> before, here;
    std::int64_t last = -1;        // the latest part of the step that has a waypoint, or has been asked for one
    std::size_t words = 0;         // kept in `here`
    const Waypoint* met = nullptr; // of `before`: the state this step has come to
    Waypoint there;                // this step's totals at it
};

void begin_step(Course& course, std::int32_t step);
// At an anchor: keeps a waypoint where one is due; true once this step has met the one before.
bool meets(Course& course, EventLoop& run);
// The end of this step, which has met the one before, by that one's end. Counts what is not run as replayed.
Waypoint end_of(const Course& course, const Waypoint& end_before, EventLoop& run);

} // namespace orrery

// Random numbers, and what must hold of every accepted scenario.
#pragma once

#include "sim/engine/simulate.hpp"
#include "sim/memory/memory.hpp"
#include "sim/plan/lower.hpp"
#include "sim/plan/verify.hpp"
#include "sim/scenario/parse.hpp"
#include "sim/schedules/schedule.hpp"

#include <cmath>
#include <cstdlib>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <initializer_list>
#include <string>

namespace orrery::fuzz {

// splitmix64 (Steele et al., 2014): the same numbers everywhere, unlike the standard library's distributions.
struct Random {
    std::uint64_t state;
    std::uint64_t next() {
        std::uint64_t z = state += 0x9e3779b97f4a7c15ull;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
        return z ^ (z >> 31);
    }
    bool chance(int percent) { return next() % 100 < static_cast<std::uint64_t>(percent); }
    template <class T> T of(std::initializer_list<T> list) { return *(list.begin() + next() % list.size()); }
};

inline int setting(const char* name, int otherwise) {
    const char* text = std::getenv(name);
    return text ? std::atoi(text) : otherwise;
}

inline bool close(Time a, Time b) { return std::abs(a.seconds() - b.seconds()) <= 1e-9 * std::max(a.seconds(), b.seconds()); }

// The rules that must hold for every accepted scenario. `thorough` also runs it unfolded and without replay.
inline void check(const Scenario& s, bool thorough) {
    const Plan plan = lower(s);
    const auto violations = verify(plan);
    ASSERT_TRUE(violations.empty()) << to_text(violations);
    const Fabric fabric(s.cluster);
    const CostModel cost(s, fabric);
    const Simulation folded = simulate(plan, s, fabric, cost);
    ASSERT_FALSE(folded.deadlock) << to_text(*folded.deadlock);
    ASSERT_GT(folded.step_time.ps, 0);
    int ranks = 0;
    for (const LaneResult& lane : folded.lanes) {
        ranks += lane.ranks;
        Time sum;
        for (Time t : lane.breakdown) sum += t;
        ASSERT_EQ(sum.ps, folded.step_time.ps) << "rank " << lane.rank << ": the breakdown adds up to the step";
    }
    ASSERT_EQ(ranks, plan.mesh.ranks()) << "every rank is in one class";
    const MemoryReport report = memory(plan, s);
    for (const StageMemory& stage : report.stages) ASSERT_GT(stage.allocated_peak.count, 0);
    if (!thorough) return;
    EXPECT_EQ(to_text(plan), to_text(lower_action_by_action(s))) << "what repeats is bound as one by one";
    SimulateOptions options;
    options.fold = false;
    const Simulation unfolded = simulate(plan, s, fabric, cost, options);
    ASSERT_FALSE(unfolded.deadlock) << to_text(*unfolded.deadlock);
    EXPECT_TRUE(close(folded.step_time, unfolded.step_time)) << folded.step_time.ps << " folded, " << unfolded.step_time.ps << " unfolded";
    options = {};
    options.replay = false;
    const Simulation plain = simulate(plan, s, fabric, cost, options);
    EXPECT_EQ(folded.step_time.ps, plain.step_time.ps) << "replay changes nothing";
}

} // namespace orrery::fuzz

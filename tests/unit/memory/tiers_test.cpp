// Does the curve of a node's memory add up what its ranks have there, when they have it?
#include "sim/memory/tiers.hpp"
#include "tests/unit/memory/hand_made.hpp"

#include <gtest/gtest.h>

namespace orrery {
namespace {

using namespace hand_made;

// Two ranks that copy 40 bytes to the host in F and free them in B; 7 bytes lie there all the time.
struct OnTheHost {
    Plan plan = forward_backward();
    MemoryReport memory;
    Trace trace;
    OnTheHost() {
        plan.mesh.size[Axis::dp] = 2;
        const BufferId kept = buffer(plan, "h.states", 7, MemoryKind::optimizer_states, Scope::run);
        const BufferId away = buffer(plan, "h.c0", 40, MemoryKind::activations, Scope::microbatch);
        plan.buffers[kept].space = plan.buffers[away].space = Space::host;
        plan.blocks[0].ops.insert(plan.blocks[0].ops.begin(), op(Alloc{away}));
        plan.blocks[1].ops.push_back(op(Free{away}));
        for (int m : {0, 1}) add(plan, 0, m);
        for (int m : {0, 1}) add(plan, 1, m);
        add(plan, 0, 2), add(plan, 1, 2);
        memory.stages = walk(plan).stages;
        memory.host.used.peak = Bytes{2 * memory.stages[0].host.peak.count};
        trace.end = {100};
    }
    // The begins of its computations: two of each F, one of each B.
    void lane(int rank, int ranks, const std::vector<std::int64_t>& begins) {
        Lane l;
        l.rank = rank;
        l.ranks = ranks;
        for (std::int64_t t : begins) l.spans.push_back({{t}, {t + 1}, 0, 0, 0, SpanKind::op, WaitCause::none, -1});
        trace.lanes.push_back(l);
    }
    std::int64_t total(const MemorySample& s) const {
        std::int64_t sum = 0;
        for (std::int64_t b : s.bytes) sum += b;
        return sum;
    }
};

TEST(Tiers, ALaneCountsForAllRanksThatItStandsFor) {
    OnTheHost h;
    h.lane(0, 2, {10, 11, 20, 21, 30, 40, 50, 51, 60});
    const TierCurve c = tier_curve(h.trace, h.plan, h.memory, {0, 0}, 2, Space::host);
    EXPECT_EQ(c.node, 0);
    ASSERT_GE(c.samples.size(), 3u);
    EXPECT_EQ(c.samples[0].at, Time{10});
    EXPECT_EQ(h.total(c.samples[0]), 2 * 47);
    EXPECT_EQ(c.samples[1].at, Time{20});
    EXPECT_EQ(h.total(c.samples[1]), 2 * 87) << "the report's peak";
    EXPECT_EQ(h.total(c.samples[1]), h.memory.host.used.peak.count);
    EXPECT_EQ(c.samples[1].bytes[static_cast<std::size_t>(MemoryKind::optimizer_states)], 14);
    EXPECT_EQ(c.samples[2].at, Time{50});
    EXPECT_EQ(h.total(c.samples[2]), 2 * 47) << "the first two are freed before the third comes";
}

TEST(Tiers, UnlikeTimesStayBelowTheSumOfPeaks) {
    OnTheHost h;
    h.lane(0, 1, {10, 11, 20, 21, 30, 31, 40, 41, 45});
    h.lane(1, 1, {50, 51, 60, 61, 70, 71, 80, 81, 85});
    const TierCurve c = tier_curve(h.trace, h.plan, h.memory, {0, 1}, 2, Space::host);
    std::int64_t most = 0;
    for (const MemorySample& s : c.samples) most = std::max(most, h.total(s));
    EXPECT_LT(most, h.memory.host.used.peak.count);
    EXPECT_GT(most, h.memory.stages[0].host.peak.count);
    const TierCurve apart = tier_curve(h.trace, h.plan, h.memory, {0, 1}, 1, Space::host);
    most = 0;
    for (const MemorySample& s : apart.samples) most = std::max(most, h.total(s));
    EXPECT_EQ(most, h.memory.stages[0].host.peak.count) << "a node of one rank has that rank's curve";
}

TEST(Tiers, NothingThereHasNoCurve) {
    OnTheHost h;
    h.lane(0, 2, {10, 11, 20, 21, 30, 40, 50, 51, 60});
    EXPECT_TRUE(tier_curve(h.trace, h.plan, h.memory, {0, 0}, 2, Space::nvme).samples.empty());
}

TEST(Tiers, WhatServersKeepIsTheSameAllTheTime) {
    OnTheHost h;
    h.plan.served = true;
    h.memory.host.used.by_kind[MemoryKind::parameters] = Bytes{94};
    const TierCurve c = tier_curve(h.trace, h.plan, h.memory, {}, 1, Space::host);
    EXPECT_EQ(c.node, -1);
    ASSERT_EQ(c.samples.size(), 1u);
    EXPECT_EQ(c.samples[0].bytes[static_cast<std::size_t>(MemoryKind::parameters)], 94);
}

} // namespace
} // namespace orrery

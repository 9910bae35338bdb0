// Is the peak what an allocator would see, and is it named right?
#include "tests/unit/memory/hand_made.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <random>

namespace orrery {
namespace {

using namespace hand_made;

// The same computation done plainly: every op of every action in turn.
std::int64_t plain_peak(const Plan& p) {
    std::int64_t level = 0, peak = 0;
    for (const Buffer& b : p.buffers) level += b.scope == Scope::run || b.scope == Scope::step ? b.bytes.count : 0;
    peak = level;
    for (const Action& a : p.programs[0].actions) {
        for (int i = a.first; i < a.last; ++i) {
            const Op& o = p.blocks[a.block].ops[i];
            if (const auto* x = std::get_if<Alloc>(&o.work)) level += p.buffers[x->buffer].bytes.count;
            if (const auto* x = std::get_if<Free>(&o.work)) level -= p.buffers[x->buffer].bytes.count;
            peak = std::max(peak, level);
        }
    }
    return peak;
}

TEST(Memory, ActivationsOfEveryMicrobatchInFlightAreHeld) {
    Plan p = forward_backward();
    for (int m = 0; m < 3; ++m) add(p, 0, m);
    for (int m = 0; m < 3; ++m) add(p, 1, m);
    const MemoryReport r = memory(p, bare());
    ASSERT_EQ(r.stages.size(), 1u);
    const StageMemory& s = r.stages[0];
    EXPECT_EQ(s.allocated_peak.count, 1000 + 500 + 3 * 100 + 30);
    EXPECT_EQ(s.by_kind[MemoryKind::activations].count, 300);
    EXPECT_EQ(s.by_kind[MemoryKind::workspace].count, 30);
    EXPECT_EQ(s.peak_action, 2);
    EXPECT_EQ(s.peak_op_name, "l0.fc1.fwd (microbatch 2)");
    EXPECT_EQ(p.blocks[0].ops[s.peak_op].name, "l0.fc1.fwd");
}

TEST(Memory, OneForwardOneBackwardHoldsOneMicrobatch) {
    Plan p = forward_backward();
    for (int m = 0; m < 3; ++m) add(p, 0, m), add(p, 1, m);
    EXPECT_EQ(memory(p, bare()).stages[0].allocated_peak.count, 1000 + 500 + 100 + 30);
}

TEST(Memory, KindsAddUpToThePeak) {
    Plan p = forward_backward();
    for (int m = 0; m < 4; ++m) add(p, 0, m);
    for (int m = 0; m < 4; ++m) add(p, 1, m);
    const StageMemory s = memory(p, bare()).stages[0];
    std::int64_t sum = 0;
    for (Bytes b : s.by_kind) sum += b.count;
    EXPECT_EQ(sum, s.allocated_peak.count);
    // Between steps there are parameters and gradients alone, and what the allocator holds for libraries all the time.
    EXPECT_EQ(peak_as(s, MemoryMeasure::resident) + s.allocated_peak, Bytes{1000 + 500} + peak_as(s, MemoryMeasure::allocated));
    EXPECT_EQ(s.peak, s.allocated_peak + s.reserved);
}

TEST(Memory, TimelineFollowsTheActionsAndEndsWhereItBegan) {
    Plan p = forward_backward();
    add(p, 0, 0), add(p, 0, 1), add(p, 1, 0), add(p, 1, 1);
    const StageMemory s = memory(p, bare()).stages[0];
    std::vector<std::int64_t> activations;
    for (const auto& level : s.timeline) activations.push_back(level[MemoryKind::activations]);
    EXPECT_EQ(activations, (std::vector<std::int64_t>{100, 200, 100, 0}));
}

TEST(Memory, WhatIsFreedFirstWasAliveWhenTheStepBegan) {
    // A gathered parameter kept from the last step: released, then gathered again for the next.
    Plan p = forward_backward();
    const BufferId gathered = buffer(p, "full.l0", 700, MemoryKind::parameters, Scope::step);
    p.blocks.push_back(Block{"release", BlockKind::release, 0, 0, false, 0, {op(Free{gathered})}});
    p.blocks.push_back(Block{"gather", BlockKind::gather, 0, 0, false, 0, {op(Alloc{gathered})}});
    add(p, 2, -1), add(p, 0, 0), add(p, 1, 0), add(p, 3, -1);
    const StageMemory s = memory(p, bare()).stages[0];
    EXPECT_EQ(s.allocated_peak.count, 1000 + 500 + 700);
    EXPECT_EQ(s.timeline.front()[MemoryKind::parameters], 1000);
    EXPECT_EQ(s.timeline.back()[MemoryKind::parameters], 1700);
}

TEST(Memory, WhatIsAllocatedFirstWasNot) {
    Plan p = forward_backward();
    const BufferId gathered = buffer(p, "full.l0", 700, MemoryKind::parameters, Scope::step);
    p.blocks.push_back(Block{"gather", BlockKind::gather, 0, 0, false, 0, {op(Alloc{gathered})}});
    p.blocks.push_back(Block{"release", BlockKind::release, 0, 0, false, 0, {op(Free{gathered})}});
    add(p, 0, 0), add(p, 1, 0), add(p, 2, -1), add(p, 3, -1);
    EXPECT_EQ(memory(p, bare()).stages[0].allocated_peak.count, 1000 + 500 + 700);
}

TEST(Memory, HostBuffersAndOtherStagesAreNotOnThisDevice) {
    Plan p = forward_backward();
    buffer(p, "o.l0", 9000, MemoryKind::optimizer_states, Scope::run);
    p.buffers.back().space = Space::host;
    buffer(p, "w.l9", 9000, MemoryKind::parameters, Scope::run, 1);
    add(p, 0, 0), add(p, 1, 0);
    EXPECT_EQ(memory(p, bare()).stages[0].allocated_peak.count, 1630);
}

TEST(Memory, PartsOfABlockCountWhatThePartsDo) {
    Plan p = forward_backward();
    add(p, 0, 0, 0, 1), add(p, 0, 0, 1, 5), add(p, 1, 0, 0, 1), add(p, 1, 0, 1, 2);
    const StageMemory s = memory(p, bare()).stages[0];
    EXPECT_EQ(s.allocated_peak.count, 1630);
    EXPECT_EQ(s.timeline[0][MemoryKind::activations], 100);
    EXPECT_EQ(s.timeline[3][MemoryKind::activations], 0);
}

TEST(Memory, SaysWhetherItFits) {
    Plan p = forward_backward();
    add(p, 0, 0), add(p, 1, 0);
    EXPECT_TRUE(memory(p, bare(1630)).fits);
    EXPECT_FALSE(memory(p, bare(1629)).fits);
}

TEST(Memory, LargestGroupsPutLayersTogether) {
    Plan p = forward_backward();
    for (int l = 0; l < 4; ++l) buffer(p, "o.l" + std::to_string(l) + ".fc1", 600, MemoryKind::optimizer_states, Scope::run);
    add(p, 0, 0), add(p, 1, 0);
    const StageMemory s = memory(p, bare()).stages[0];
    ASSERT_FALSE(s.largest.empty());
    EXPECT_EQ(s.largest[0].name, "o.l*.fc1");
    EXPECT_EQ(s.largest[0].bytes.count, 2400);
    EXPECT_EQ(s.largest[0].count, 4);
    EXPECT_EQ(s.largest[1].name, "w.l*.fc1");
}

TEST(Memory, AgreesWithAPlainWalkOnRandomPrograms) {
    std::mt19937 random(7);
    for (int round = 0; round < 200; ++round) {
        Plan p = forward_backward({1000, 500, std::uniform_int_distribution<std::int64_t>(1, 200)(random),
                                   std::uniform_int_distribution<std::int64_t>(1, 400)(random)});
        std::vector<int> live;
        int next = 0;
        while (next < 20 || !live.empty()) {
            const bool forward = next < 20 && (live.empty() || random() % 2 == 0);
            if (forward) {
                add(p, 0, next), live.push_back(next++);
            } else {
                const std::size_t at = random() % live.size();
                add(p, 1, live[at]);
                live.erase(live.begin() + static_cast<std::ptrdiff_t>(at));
            }
        }
        const StageMemory s = memory(p, bare()).stages[0];
        ASSERT_EQ(s.allocated_peak.count, plain_peak(p)) << "round " << round;
        std::int64_t sum = 0;
        for (Bytes b : s.by_kind) sum += b.count;
        ASSERT_EQ(sum, s.allocated_peak.count) << "round " << round;
    }
}

TEST(Memory, IsQuickWithThousandsOfMicrobatches) {
    Plan p = forward_backward();
    for (int i = 0; i < 200; ++i) p.blocks[0].ops.push_back(op(compute(), "x"));
    for (int m = 0; m < 5000; ++m) add(p, 0, m), add(p, 1, m);
    const auto begin = std::chrono::steady_clock::now();
    const MemoryReport r = memory(p, bare());
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    EXPECT_EQ(r.stages[0].allocated_peak.count, 1630);
    EXPECT_LT(took.count(), 0.1) << "10,000 actions of 200 ops: the walk must not be per op";
}

} // namespace
} // namespace orrery

// Is a step that is longer than the clock refused, with its longest part, instead of wrapping round to a short one?
#include "build.hpp"

#include "sim/engine/clock.hpp"
#include "topology/input_error.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace orrery::engine_test {
namespace {

std::string refusal(const Plan& plan, const Network& net, SimulateOptions options = {}) {
    try {
        simulate(plan, net, options);
    } catch (const InputError& e) { return e.what(); }
    return {};
}

TEST(Clock, WholePicosecondsEndAtTheClocks) {
    EXPECT_EQ(whole_ps(1.6), 2);
    EXPECT_EQ(whole_ps(1e300), clock_end);
    EXPECT_EQ(whole_ps(std::numeric_limits<double>::infinity()), clock_end);
    EXPECT_EQ(whole_ps(std::numeric_limits<double>::quiet_NaN()), clock_end);
    EXPECT_GT(clock_end + clock_end, clock_end) << "two of them still have a sum";
}

TEST(Clock, AnOpLongerThanTheClockIsRefused) {
    Builder b(1, 1, 1);
    b.act((b.block(0, "F"), b.compute(INT64_MAX / 1000), 0));
    EXPECT_NE(refusal(b.plan, {}).find("the computation of F.0"), std::string::npos) << refusal(b.plan, {});
}

// Each op is short enough; together, by a slow rank, or over microbatches that are replayed, they are not.
TEST(Clock, WhatTakesTooLongTogetherIsRefused) {
    constexpr std::int64_t week = 7ll * 86400 * 1'000'000'000; // ns
    Builder b(1, 1, 1);
    b.act((b.block(0, "F"), b.compute(week), 0));
    EXPECT_EQ(refusal(b.plan, {}), "");
    const std::string slow = refusal(b.plan, {.slowness = {1e6}});
    EXPECT_NE(slow.find("a step would take more than the 46 days"), std::string::npos) << slow;
    for (const bool replay : {true, false}) {
        SimulateOptions how;
        how.replay = replay;
        const Plan many = pipeline({.microbatches = 1000, .bytes = 6'000'000'000'000}); // 6,000 s each way, 1,000 times
        const std::string moved = refusal(many, {.ranks = 2}, how);
        EXPECT_NE(moved.find("a communication on pp."), std::string::npos) << replay << ": " << moved;
    }
}

TEST(Clock, ALinkThatTakesForEverIsRefusedNotFree) {
    Builder b(2, 1, 1);
    const CommId tp = b.comm("tp", mask(Axis::tp));
    b.act((b.block(0, "F"), b.collective(tp, 1'000'000'000), 0));
    const std::string slow = refusal(b.plan, {.ranks = 2, .port = 1e-12});
    EXPECT_NE(slow.find("a communication on tp"), std::string::npos) << slow;
    for (const double interference : {0.0, 0.5}) {
        Network net{.ranks = 2, .port = 1e-3};
        net.compute_slowdown = net.communication_slowdown = interference;
        EXPECT_NE(refusal(b.plan, net), "") << "1e12 s, 31,000 years";
        net.port = 1e4;
        EXPECT_EQ(refusal(b.plan, net), "") << "1e5 s";
    }
}

TEST(Clock, AHostThatLaunchesForMonthsIsRefused) {
    Builder b(1, 1, 1);
    b.block(0, "F");
    for (int i = 0; i < 100; ++i) b.compute(1);
    b.act(0);
    const std::string slow = refusal(b.plan, {.launch_ns = 86400ll * 1'000'000'000});
    EXPECT_NE(slow.find("the host's launches of F."), std::string::npos) << slow;
}

} // namespace
} // namespace orrery::engine_test

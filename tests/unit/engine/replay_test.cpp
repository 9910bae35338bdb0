// Is a run that skips periods the run that does not, to the picosecond?
#include "build.hpp"
#include "tests/laws/simulations.hpp"

#include <gtest/gtest.h>

namespace orrery::engine_test {

namespace {

using laws::expect_identical;

std::vector<std::pair<PipelineShape, Network>> settings() {
    std::vector<std::pair<PipelineShape, Network>> list;
    PipelineShape s{.tp = 1, .dp = 1, .pp = 4, .microbatches = 900};
    list.push_back({s, {.ranks = 4}});
    s = {.tp = 2,
         .dp = 2,
         .pp = 4,
         .microbatches = 600,
         .forward = 1001,
         .backward = 2003,
         .bytes = 777,
         .tp_bytes = 501,
         .grad_bytes = 20000,
         .optimizer = 700};
    list.push_back({s, {.ranks = 16, .devices_per_node = 4, .nics = 4, .port = 2e10}});
    list.push_back({s, {.ranks = 16, .devices_per_node = 4, .nics = 4, .port = 2e10, .launch_ns = 90}});
    return list;
}

// Contention and interference pull stages past each other: their state may settle slowly or never.
std::vector<std::pair<PipelineShape, Network>> restless() {
    auto [shape, net] = settings()[1];
    std::vector<std::pair<PipelineShape, Network>> list;
    net.nics = 1;
    list.push_back({shape, net});
    net.nics = 4;
    net.compute_slowdown = 0.2;
    net.communication_slowdown = 0.15;
    list.push_back({shape, net});
    shape.overlap_grads = true;
    shape.grad_bytes = 900;
    list.push_back({shape, net});
    return list;
}

TEST(Replay, what_never_repeats_is_run_in_full) {
    for (const auto& [shape, net] : restless()) {
        Plan plan = pipeline(shape);
        expect_identical(simulate(plan, net), simulate(plan, net, {.replay = false}));
    }
}

TEST(Replay, skipping_periods_changes_nothing) {
    int which = 0;
    for (const auto& [shape, net] : settings()) {
        SCOPED_TRACE(which++);
        Plan plan = pipeline(shape);
        Simulation skipped = simulate(plan, net), full = simulate(plan, net, {.replay = false});
        expect_identical(skipped, full);
        EXPECT_GT(skipped.stats.replayed_ops, 0u);
        EXPECT_EQ(full.stats.replayed_ops, 0u);
    }
}

// Noise leaves no periods inside a step, but every step has the same: the second one soon runs as the first.
TEST(Replay, a_step_that_meets_the_one_before_ends_as_it_did) {
    int which = 0;
    for (auto [shape, net] : settings()) {
        SCOPED_TRACE(which++);
        shape.microbatches = 40;
        Plan plan = pipeline(shape);
        Wires wires = net.wires();
        wires.jitter = 0.1;
        const Machine machine = compile(plan, net.costs(), wires);
        Simulation met = run(machine, {}), full = run(machine, {.replay = false});
        expect_identical(met, full);
        EXPECT_GT(met.stats.replayed_ops, full.stats.events / 5);
    }
}

TEST(Replay, cost_does_not_grow_with_accumulation) {
    int which = 0;
    for (auto [shape, net] : settings()) {
        SCOPED_TRACE(which++);
        std::uint64_t before = simulate(pipeline(shape), net).stats.events;
        shape.microbatches *= 10;
        std::uint64_t after = simulate(pipeline(shape), net).stats.events;
        EXPECT_LT(after, before * 3 / 2);
    }
}

// The host is some steps ahead: ops in flight are of several, and a period may not be skipped in one of them alone.
TEST(Replay, steps_shorter_than_what_the_host_runs_ahead_stay_apart) {
    Builder b(2, 1, 1);
    const CommId tp = b.comm("tp", mask(Axis::tp));
    const std::int32_t block = b.block(0, "F");
    const std::int32_t first = b.compute(100), sum = b.collective(tp, 900, {first});
    b.compute(200, {sum});
    for (int i = 0; i < 20; ++i) b.act(block, {}, i);
    const Network net{.ranks = 2};
    expect_identical(simulate(b.plan, net), simulate(b.plan, net, {.replay = false}));
}

TEST(Replay, unfolded_runs_skip_too) {
    auto [shape, net] = settings()[1];
    Plan plan = pipeline(shape);
    Simulation skipped = simulate(plan, net, {.fold = false});
    expect_identical(skipped, simulate(plan, net, {.fold = false, .replay = false}));
    EXPECT_GT(skipped.stats.replayed_ops, 0u);
}

} // namespace

} // namespace orrery::engine_test

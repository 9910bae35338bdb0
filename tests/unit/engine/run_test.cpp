// Does time pass as the theory of tiny plans says?
#include "build.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace orrery::engine_test {

namespace {

std::int64_t at_category(const LaneResult& l, Category c) { return l.breakdown[c].ps; }
std::int64_t total(const LaneResult& l) {
    std::int64_t sum = 0;
    for (Time t : l.breakdown) sum += t.ps;
    return sum;
}

TEST(Run, ops_of_one_queue_follow_each_other) {
    Builder b(1, 1, 1);
    b.act((b.block(0, "F"), b.compute(100), b.compute(200), b.compute(300), 0));
    Simulation s = simulate(b.plan, {});
    ASSERT_FALSE(s.deadlock);
    EXPECT_EQ(s.step_time.ps, 600 * ns);
    EXPECT_EQ(at_category(s.lanes[0], Category::compute), 600 * ns);
}

TEST(Run, a_communication_behind_compute_is_hidden_one_before_it_is_exposed) {
    for (bool hidden : {true, false}) {
        Builder b(2, 1, 1);
        CommId tp = b.comm("tp", mask(Axis::tp));
        b.block(0, "F");
        std::int32_t first = b.compute(1000), c = b.collective(tp, 500, {first}); // 500 bytes at 1 GB/s: 500 ns
        if (hidden) {
            b.compute(800);
            b.compute(200, {c});
        } else {
            std::int32_t next = b.compute(800, {c});
            b.compute(200, {next});
        }
        b.act(0);
        Simulation s = simulate(b.plan, {.ranks = 2});
        EXPECT_EQ(s.step_time.ps, (hidden ? 2000 : 2500) * ns);
        ASSERT_EQ(s.lanes.size(), 1u);
        EXPECT_EQ(at_category(s.lanes[0], Category::exposed_tp), (hidden ? 0 : 500) * ns);
        EXPECT_EQ(total(s.lanes[0]), s.step_time.ps);
    }
}

TEST(Run, a_linear_in_pieces_starts_with_the_gather_in_pieces_it_reads) {
    for (std::int64_t gathered : {500, 1500}) // bytes at 1 GB/s: shorter than the linear, longer than it
        for (bool pieces : {true, false}) {
            Builder b(2, 1, 1);
            CommId tp = b.comm("tp", mask(Axis::tp));
            const std::int32_t block = b.block(0, "F");
            std::int32_t first = b.compute(1000), gather = b.collective(tp, gathered, {first}, Phase::forward, CollectiveKind::all_gather);
            std::int32_t linear = b.compute(800, {gather});
            b.compute(200, {linear});
            if (pieces)
                for (std::int32_t i : {gather, linear}) b.plan.blocks[block].ops[i].pieces = 2;
            b.act(0);
            Simulation s = simulate(b.plan, {.ranks = 2});
            const std::int64_t both = pieces ? std::max<std::int64_t>(800, gathered) : 800 + gathered;
            EXPECT_EQ(s.step_time.ps, (1000 + both + 200) * ns) << gathered << (pieces ? " in pieces" : " whole");
        }
}

TEST(Run, the_bubble_of_1f1b_is_p_minus_1_over_m_plus_p_minus_1) {
    for (int p : {2, 4, 8})
        for (std::int64_t m : {1, 4, 16}) {
            PipelineShape shape;
            shape.pp = p;
            shape.microbatches = m;
            shape.optimizer = 0;
            Simulation s = simulate(pipeline(shape), {.ranks = p});
            ASSERT_FALSE(s.deadlock) << to_text(*s.deadlock);
            // Without an optimizer's barrier steps may overlap; the first stage must still wait for its last gradient.
            EXPECT_EQ(s.step_time.ps, (m + p - 1) * 3000 * ns) << p << " " << m;
            for (const LaneResult& l : s.lanes) {
                EXPECT_EQ(at_category(l, Category::compute), m * 3000 * ns);
                EXPECT_EQ(at_category(l, Category::bubble), (p - 1) * 3000 * ns) << "stage " << l.stage;
                EXPECT_EQ(total(l), s.step_time.ps);
            }
        }
}

// Ranks of one stage have the same program: one that comes late to a collective is slower, whether there is a pipeline or not.
TEST(Run, a_wait_for_a_slower_rank_of_the_same_stage_is_no_bubble) {
    for (const int stages : {1, 2}) {
        const PipelineShape shape{.dp = 2, .pp = stages, .microbatches = 4, .grad_bytes = 2000, .optimizer = 100};
        Network net{.ranks = 2 * stages};
        const Simulation alike = simulate(pipeline(shape), net);
        net.slowness.assign(static_cast<std::size_t>(net.ranks), 1.0);
        net.slowness.back() = 1.5;
        const Simulation slow = simulate(pipeline(shape), net);
        std::int64_t waits = 0, bubble = 0;
        for (const LaneResult& l : alike.lanes) EXPECT_EQ(at_category(l, Category::straggler_wait), 0);
        for (const LaneResult& l : slow.lanes) {
            waits = std::max(waits, at_category(l, Category::straggler_wait));
            bubble += at_category(l, Category::bubble);
            EXPECT_EQ(total(l), slow.step_time.ps);
        }
        EXPECT_GT(waits, 1000 * ns) << stages;
        EXPECT_EQ(bubble > 0, stages > 1);
    }
}

TEST(Run, a_host_too_slow_sets_the_pace) {
    Builder b(1, 1, 1);
    b.block(0, "F");
    for (int i = 0; i < 100; ++i) b.compute(10);
    b.act(0);
    Simulation s = simulate(b.plan, {.launch_ns = 50});
    EXPECT_EQ(s.step_time.ps, 100 * 50 * ns);
    EXPECT_EQ(at_category(s.lanes[0], Category::compute), 1000 * ns);
    EXPECT_EQ(at_category(s.lanes[0], Category::other), 4000 * ns);
}

TEST(Run, launch_blocking_adds_launch_and_execution) {
    Builder b(1, 1, 1);
    b.block(0, "F");
    for (int i = 0; i < 100; ++i) b.compute(10);
    b.act(0);
    EXPECT_EQ(simulate(b.plan, {.launch_ns = 50}, {}, true).step_time.ps, 100 * 60 * ns);
}

TEST(Run, a_host_sync_stops_the_host_until_its_dependencies_end) {
    Builder b(1, 1, 1);
    b.block(0, "F");
    std::int32_t first = b.compute(1000);
    b.sync({first});
    b.compute(10);
    b.act(0);
    // Launch 50, run 1000, the host wakes, launches 50, runs 10; the next step's first launch hides behind that last op.
    EXPECT_EQ(simulate(b.plan, {.launch_ns = 50}).step_time.ps, (50 + 1000 + 50) * ns);
}

TEST(Run, interference_slows_both_by_its_factors) {
    Builder b(2, 1, 1);
    CommId tp = b.comm("tp", mask(Axis::tp));
    b.block(0, "F");
    std::int32_t c = b.collective(tp, 1000); // 1000 ns alone, 1250 beside compute
    std::int32_t x = b.compute(2000);        // 1250 of it at 1/1.25: 1000 done, 1000 left
    b.compute(0, {c, x});
    b.act(0, {{c, -1, 2}}); // not beside the next step's
    Simulation s = simulate(b.plan, {.ranks = 2, .compute_slowdown = 0.25, .communication_slowdown = 0.25});
    EXPECT_EQ(s.step_time.ps, 2250 * ns);
}

// Of two communications the one that takes more counts, and where copy engines move a gather in pieces, its bytes alone: 1000 ns beside the
// one, 1500 beside both, then at full speed.
TEST(Run, computation_slows_by_what_its_communication_takes) {
    const auto step = [](bool second, std::uint8_t pieces) {
        Builder b(2, 2, 1);
        const CommId tp = b.comm("tp", mask(Axis::tp)), dp = b.comm("dp", mask(Axis::dp));
        b.block(0, "F");
        const std::int32_t c = b.collective(tp, 1100, {}, Phase::forward, CollectiveKind::all_gather);
        b.plan.blocks.back().ops[c].pieces = pieces;
        std::vector<std::int32_t> ends{c};
        if (second) ends.push_back(b.collective(dp, 500));
        ends.push_back(b.compute(3000));
        b.compute(0, ends);
        b.act(0, {{c, -1, ends.back() + 1}}); // not beside the next step's
        const Network net{.ranks = 4};
        Costs costs = net.costs();
        costs.collective = [of = costs.collective](const Collective& work, std::span<const int> ranks) {
            CommCost cost = of(work, ranks);
            cost.slows = work.kind == CollectiveKind::all_gather ? 0.1 : 0.25;
            cost.slows_by_bytes = 0.02;
            return cost;
        };
        return run(compile(b.plan, costs, net.wires(), {}), {}).step_time.ps;
    };
    const std::int64_t alone = step(false, 1), both = step(true, 1), engines = step(false, 2);
    EXPECT_LT(engines, alone);
    EXPECT_LT(alone, both);
    EXPECT_GT(engines, 3000 * ns);
    EXPECT_LE(both, 3000 * ns * 5 / 4);
}

TEST(Run, transfers_that_share_a_nic_share_its_bandwidth) {
    // Two stages of two ranks on two nodes, one NIC each: both transfers cross it.
    PipelineShape shape;
    shape.dp = 2;
    shape.microbatches = 1;
    shape.bytes = 1000;
    shape.grad_bytes = 0;
    Plan plan = pipeline(shape);
    Simulation one = simulate(plan, {.ranks = 4, .devices_per_node = 2, .nics = 2});
    Simulation two = simulate(plan, {.ranks = 4, .devices_per_node = 2, .nics = 1});
    ASSERT_FALSE(one.deadlock);
    EXPECT_EQ(one.step_time.ps, (2 * 3000 + 2 * 1000) * ns);
    EXPECT_EQ(two.step_time.ps, (2 * 3000 + 2 * 2000) * ns);
    EXPECT_EQ(at_category(two.lanes[0], Category::exposed_pp) + at_category(two.lanes[1], Category::exposed_pp), 2 * 2000 * ns);
}

// 500 bytes at half of 1 GB/s take 1000 ns: twice as long where one uplink is half as fast, or where two rings share them. The links carry
// the bytes there are.
TEST(Run, what_a_protocol_does_not_reach_of_a_nic_nobody_has) {
    const auto step = [](int per_node, std::vector<std::pair<int, double>> degraded) {
        Builder b(per_node, 2, 1);
        CommId dp = b.comm("dp", mask(Axis::dp));
        b.act((b.block(0, "reduce"), b.collective(dp, 500), 0));
        const Network net{
            .ranks = 2 * per_node, .devices_per_node = per_node, .port = 1e12, .degraded = std::move(degraded), .nic_eta = 0.5};
        Simulation flat = simulate(b.plan, net, {.fold = false}), s = simulate(b.plan, net);
        EXPECT_EQ(flat.step_time.ps, s.step_time.ps);
        for (const LinkUse& l : s.links)
            if (l.link >= 2 * net.ranks) { EXPECT_NEAR(l.bytes, 500 * per_node, 1e-6); }
        return s.step_time.ps;
    };
    EXPECT_EQ(step(1, {}), 1000 * ns);
    EXPECT_EQ(step(1, {{4, 2}}), 2000 * ns) << "the first uplink";
    EXPECT_EQ(step(2, {}), 2000 * ns);
}

TEST(Run, a_ring_of_exchanges_moves_all_at_once) {
    Builder b(1, 4, 1);
    CommId ring = b.comm("ring", mask(Axis::dp));
    b.block(0, "F");
    std::int32_t x = -1;
    for (int i = 0; i < 3; ++i)
        x = b.exchange({{ring, true, 100}, {ring, false, 100}}, x < 0 ? std::vector<std::int32_t>{} : std::vector<std::int32_t>{x});
    b.compute(50, {x});
    b.act(0);
    b.plan.programs[0].actions[0].deps_end = 0;
    Simulation folded = simulate(b.plan, {.ranks = 4, .devices_per_node = 4});
    Simulation flat = simulate(b.plan, {.ranks = 4, .devices_per_node = 4}, {.fold = false});
    ASSERT_FALSE(folded.deadlock) << to_text(*folded.deadlock);
    EXPECT_EQ(folded.lanes.size(), 1u);
    EXPECT_EQ(flat.lanes.size(), 4u);
    EXPECT_EQ(folded.step_time, flat.step_time);
}

TEST(Run, crossed_collectives_are_a_deadlock_that_names_ranks_and_ops) {
    Builder b(1, 1, 2);
    CommId x = b.comm("x", mask(Axis::pp), {0, 1}), y = b.comm("y", mask(Axis::pp), {0, 1});
    b.block(0, "F");
    b.collective(y, 10, {b.collective(x, 10)});
    b.act(0);
    b.block(1, "G");
    b.collective(x, 10, {b.collective(y, 10)});
    b.act(1);
    Simulation s = simulate(b.plan, {.ranks = 2});
    ASSERT_TRUE(s.deadlock);
    EXPECT_EQ(to_text(*s.deadlock),
              "deadlock: nobody can go on\n"
              "  rank 0: F.0 of F (action 0) waits for rank 1 on communicator x (which stands at G.0 of G (action 0))\n"
              "  rank 1: G.0 of G (action 0) waits for rank 0 on communicator y (which stands at F.0 of F (action 0))\n");
}

TEST(Run, a_send_nobody_receives_is_a_deadlock) {
    Builder b(1, 1, 2);
    CommId up = b.comm("pp.up.0", mask(Axis::pp), {0, 1});
    b.block(0, "X");
    b.exchange({{up, true, 10}});
    b.act(0);
    b.block(1, "G");
    b.compute(10);
    b.act(1);
    Simulation s = simulate(b.plan, {.ranks = 2});
    ASSERT_TRUE(s.deadlock);
    EXPECT_NE(to_text(*s.deadlock).find("rank 0: X.0 of X (action 0) waits for the receive of rank 1 on communicator pp.up.0"),
              std::string::npos)
        << to_text(*s.deadlock);
}

} // namespace

} // namespace orrery::engine_test

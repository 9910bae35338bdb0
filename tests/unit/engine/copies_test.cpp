// Do copies to the host share a device's link with what else takes it, as one flow among several?
#include "build.hpp"

#include <gtest/gtest.h>

namespace orrery::engine_test {

namespace {

// A step of one block: a collective and a copy that begin together, then computation that waits for both.
Plan beside(std::int64_t collective, CopyKind kind, std::int64_t copied, int ranks = 2) {
    Builder b(ranks, 1, 1);
    const CommId tp = b.comm("tp", mask(Axis::tp));
    const std::int32_t block = b.block(0, "F");
    const std::int32_t first = b.compute(100), c = b.collective(tp, collective, {first}), copy = b.copy(kind, copied, {first});
    b.compute(100, {c, copy});
    b.act(block);
    return b.plan;
}

Network ports(int ranks) {
    Network net{.ranks = ranks};
    net.copies_by_port = true;
    return net;
}

TEST(Copies, take_turns_with_collectives_on_one_link) {
    // Both ways a port has 1 GB/s. Alone each takes 1000 ns; together each has half until both have ended.
    for (const CopyKind kind : {CopyKind::device_to_host, CopyKind::host_to_device}) {
        EXPECT_EQ(simulate(beside(1000, kind, 1000), ports(2)).step_time.ps, (100 + 2000 + 100) * ns);
        EXPECT_EQ(simulate(beside(1000, kind, 500), ports(2)).step_time.ps, (100 + 1500 + 100) * ns);
        EXPECT_EQ(simulate(beside(0, kind, 1000), ports(2)).step_time.ps, (100 + 1000 + 100) * ns);
    }
}

TEST(Copies, are_a_flow_like_others_whatever_a_payload_is) {
    // A port carries a part of each byte that a gather brings to all: half of the link is the copy's all the same.
    for (const double part : {0.125, 1.0, 8.0}) {
        const Network net = ports(2);
        Costs costs = net.costs();
        costs.loads = [net, part](const Collective&, const CommCost&, std::span<const int>) {
            return std::vector<LinkLoad>{{net.port_out(0), part}, {net.port_out(1), part}};
        };
        const Plan plan = beside(static_cast<std::int64_t>(4000 / part), CopyKind::device_to_host, 4000);
        EXPECT_NEAR(static_cast<double>(run(compile(plan, costs, net.wires()), {}).step_time.ps), (100 + 8000 + 100) * ns, 10) << part;
    }
}

TEST(Copies, that_are_slow_take_no_more_than_their_own_rate) {
    Network net = ports(2);
    net.copy_rate = 0.25e9; // leaves three quarters to the collective
    // 1200 of its bytes in the copy's 1600 ns, the others alone in 300.
    EXPECT_EQ(simulate(beside(1500, CopyKind::device_to_host, 400), net).step_time.ps, (100 + 1900 + 100) * ns);
}

TEST(Copies, to_the_host_do_not_meet_those_from_it) {
    Builder b(1, 1, 1);
    const std::int32_t block = b.block(0, "F");
    const std::int32_t first = b.compute(100), out = b.copy(CopyKind::device_to_host, 700, {first}),
                       in = b.copy(CopyKind::host_to_device, 1000, {first});
    b.compute(100, {out, in});
    b.act(block);
    const Simulation s = simulate(b.plan, ports(1));
    EXPECT_EQ(s.step_time.ps, (100 + 1000 + 100) * ns);
    EXPECT_EQ(s.lanes[0].breakdown[Category::offload].ps, 1000 * ns);
}

TEST(Copies, do_not_slow_computation_and_are_not_slowed_by_it) {
    for (const double slowdown : {0.0, 0.5}) {
        Builder b(1, 1, 1);
        const std::int32_t block = b.block(0, "F");
        const std::int32_t first = b.compute(100), copy = b.copy(CopyKind::device_to_host, 1000, {first});
        b.compute(600);
        b.compute(100, {copy});
        b.act(block);
        Network net = ports(1);
        net.compute_slowdown = net.communication_slowdown = slowdown;
        EXPECT_EQ(simulate(b.plan, net).step_time.ps, (100 + 1000 + 100) * ns);
    }
}

TEST(Copies, take_the_same_time_folded_unfolded_and_replayed) {
    Builder b(4, 2, 1);
    const CommId tp = b.comm("tp", mask(Axis::tp)), dp = b.comm("dp", mask(Axis::dp));
    const std::int32_t block = b.block(0, "F");
    const std::int32_t first = b.compute(100), gather = b.collective(dp, 900, {first}),
                       out = b.copy(CopyKind::device_to_host, 700, {first}), in = b.copy(CopyKind::host_to_device, 300, {first});
    const std::int32_t sum = b.collective(tp, 300, {gather, in});
    b.compute(200, {sum, out});
    for (int i = 0; i < 20; ++i) b.act(block, {}, i);
    Network net{.ranks = 8, .devices_per_node = 4, .nics = 2, .nic = 4e9};
    net.copies_by_port = true;
    net.copy_rate = 0.8e9;
    for (const bool straggler : {false, true}) {
        if (straggler) net.slowness = {1, 1, 1, 1, 1, 1.5, 1, 1};
        SimulateOptions flat, slow;
        flat.fold = false;
        slow.fold = slow.replay = false;
        const Simulation folded = simulate(b.plan, net), unfolded = simulate(b.plan, net, flat), replayed = simulate(b.plan, net, slow);
        EXPECT_NEAR(static_cast<double>(folded.step_time.ps), static_cast<double>(unfolded.step_time.ps),
                    1e-9 * static_cast<double>(unfolded.step_time.ps));
        EXPECT_EQ(unfolded.step_time.ps, replayed.step_time.ps);
        EXPECT_EQ(folded.lanes.size() < unfolded.lanes.size(), true);
        Network apart = net;
        apart.copies_by_port = false; // copies take no time
        EXPECT_GT(folded.step_time.ps, simulate(b.plan, apart).step_time.ps);
    }
}

} // namespace

} // namespace orrery::engine_test

// The processor's streams by themselves: do queues keep their order and events stand between them, do members meet, and is it seen when
// nothing can ever go on?
#include "exec/kernels/buckets.hpp"
#include "exec/queues/cpu_streams.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <thread>

namespace orrery {
namespace {

constexpr QueueId work = 0, comm_queue = 4, other_queue = 5;
constexpr Milliseconds slice{50};

std::unique_ptr<CpuFabric> fabric() {
    return std::make_unique<CpuFabric>([](const Op&, std::span<const Operand>, std::span<const Operand>, const KernelContext&) {});
}

void expect(const Status& s) { EXPECT_TRUE(s.ok()) << s.message; }

Status drain(StreamDevice& d) {
    for (bool done = false; !done;)
        if (const Status s = d.synchronise(slice, done); !s.ok()) return s;
    return {};
}

EventId mark(StreamDevice& d, QueueId q) {
    EventId e = -1;
    expect(d.record(q, true, e));
    return e;
}

// Each rank, again and again: numbers made on one queue, summed over all ranks on another, gathered on a third, each behind an event.
TEST(CpuStreams, QueuesEventsAndMembers) {
    constexpr int ranks = 4, rounds = 100;
    const auto shared = fabric();
    std::vector<std::unique_ptr<StreamDevice>> devices;
    for (int r = 0; r < ranks; ++r) devices.push_back(shared->device());
    WorldId id{};
    expect(devices[0]->world_id(id));
    std::vector<std::vector<float>> sums(ranks, std::vector<float>(rounds)),
        all(ranks, std::vector<float>(static_cast<std::size_t>(rounds * ranks)));
    std::vector<std::vector<float>> mine(ranks, std::vector<float>(rounds));
    for (auto& d : devices) d->host_begins();
    {
        std::vector<std::jthread> hosts;
        for (int r = 0; r < ranks; ++r)
            hosts.emplace_back([&, r] {
                StreamDevice& d = *devices[r];
                std::unique_ptr<StreamCommunicator> world, group;
                expect(d.connect(id, ranks, r, "world", world));
                expect(world->split(0, ranks - r, "group", group)); // the other way round
                float source = 0;
                for (int i = 0; i < rounds; ++i) {
                    const auto at = static_cast<std::size_t>(i);
                    auto& values = mine[r];
                    const EventId before = mark(d, comm_queue);
                    expect(d.wait(work, before)); // the sum before has been made of what is overwritten now
                    source = static_cast<float>(r + 1);
                    expect(d.copy(&values[at], &source, sizeof source, work));
                    const EventId made = mark(d, work);
                    expect(d.wait(comm_queue, made));
                    expect(world->all_reduce(&values[at], &sums[r][at], 1, DType::fp32, false, comm_queue));
                    expect(d.wait(other_queue, made));
                    expect(group->all_gather(&values[at], &all[r][at * ranks], 1, DType::fp32, other_queue));
                }
                expect(drain(d));
                d.host_ends();
            });
    }
    for (int r = 0; r < ranks; ++r)
        for (int i = 0; i < rounds; ++i) {
            EXPECT_EQ(sums[r][i], 10);
            for (int m = 0; m < ranks; ++m) EXPECT_EQ(all[r][i * ranks + m], static_cast<float>(ranks - m));
        }
}

// Two devices, each with a host thread of its own, in a communicator of both: meet(device, world, rank) on each.
template <class F> void two(CpuFabric& shared, F meet) {
    std::unique_ptr<StreamDevice> devices[2] = {shared.device(), shared.device()};
    WorldId id{};
    expect(devices[0]->world_id(id));
    for (auto& d : devices) d->host_begins();
    std::vector<std::jthread> hosts;
    for (int r = 0; r < 2; ++r)
        hosts.emplace_back([&, r] {
            std::unique_ptr<StreamCommunicator> world;
            expect(devices[r]->connect(id, 2, r, "world", world));
            meet(*devices[r], *world, r);
            devices[r]->host_ends();
        });
    hosts.clear(); // joined while the devices are there
}

// Two that send to each other: together in a group they pass, whatever the order.
TEST(CpuStreams, AGroupProgressesTogether) {
    const auto shared = fabric();
    float from[2] = {1, 2}, to[2] = {0, 0};
    two(*shared, [&](StreamDevice& device, StreamCommunicator& world, int r) {
        expect(device.begin_group());
        expect(world.send(&from[r], 1, DType::fp32, 1 - r, comm_queue));
        expect(world.receive(&to[r], 1, DType::fp32, 1 - r, comm_queue));
        expect(device.end_group());
        expect(drain(device));
    });
    EXPECT_EQ(to[0], 2);
    EXPECT_EQ(to[1], 1);
    EXPECT_FALSE(shared->stands_still());
}

// Sends alone, one behind the other: each waits for a receive behind the other's send.
TEST(CpuStreams, AStandstillIsSeen) {
    const auto shared = fabric();
    float from[2] = {1, 2}, to[2] = {0, 0};
    std::string said[2];
    two(*shared, [&](StreamDevice& device, StreamCommunicator& world, int r) {
        world.send(&from[r], 1, DType::fp32, 1 - r, comm_queue);
        world.receive(&to[r], 1, DType::fp32, 1 - r, comm_queue);
        said[r] = drain(device).message;
    });
    EXPECT_TRUE(shared->stands_still());
    EXPECT_NE(said[0] + said[1], "");
}

TEST(CpuStreams, WhatAKernelThrowsIsKept) {
    CpuFabric shared(
        [](const Op&, std::span<const Operand>, std::span<const Operand>, const KernelContext&) { throw std::domain_error("no number"); });
    const auto device = shared.device();
    device->host_begins();
    const Plan plan;
    const KernelFacts facts;
    const BucketLayouts buckets;
    const Op op{};
    EXPECT_FALSE(shared.failure());
    const KernelContext context{plan, facts, buckets};
    device->run(op, {}, {}, context, work);
    EXPECT_FALSE(drain(*device).ok());
    device->host_ends();
    EXPECT_TRUE(shared.failure());
    EXPECT_THROW(std::rethrow_exception(shared.failure()), std::domain_error);
}

} // namespace
} // namespace orrery

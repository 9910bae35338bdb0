// NCCL as the device wraps it, with the one rank that one GPU can be.
#include "tests/gpu/device.hpp"

#include <gtest/gtest.h>

#include <array>

namespace orrery::test {
namespace {

TEST(Nccl, OneRankConnectsAndReduces) {
    const Gpu gpu = open_gpu();
    if (!gpu.device) GTEST_SKIP() << gpu.why_not;
    StreamDevice& device = *gpu.device;
    const auto good = [](const Status& s) { EXPECT_TRUE(s.ok()) << s.message; };
    WorldId id{};
    good(device.world_id(id));
    std::unique_ptr<StreamCommunicator> world, part;
    good(device.connect(id, 1, 0, "world", world));
    ASSERT_TRUE(world);
    good(world->split(0, 0, "part", part));
    ASSERT_TRUE(part);
    constexpr std::size_t n = 1000;
    std::array<float, n> values{}, back{};
    for (std::size_t i = 0; i < n; ++i) values[i] = static_cast<float>(i) - 500;
    std::byte* memory = nullptr;
    good(device.allocate(2 * sizeof values, MemorySpace::device, &memory));
    good(device.copy(memory, values.data(), sizeof values, compute_queue));
    good(part->all_reduce(memory, memory + sizeof values, n, DType::fp32, false, compute_queue));
    good(device.copy(back.data(), memory + sizeof values, sizeof back, compute_queue));
    bool done = false;
    good(device.synchronise(Milliseconds(20000), done));
    EXPECT_TRUE(done);
    EXPECT_EQ(back, values);
    good(world->poll());
    part.reset();
    world.reset();
    good(device.release(memory));
}

} // namespace
} // namespace orrery::test

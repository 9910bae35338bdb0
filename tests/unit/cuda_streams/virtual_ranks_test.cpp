// All ranks on one GPU, its memory managed: what they ask for is what it has.
#include "exec/cuda/plugin.hpp"
#include "tests/unit/cuda_streams/fleet.hpp"

namespace orrery::test {
namespace {

TEST(VirtualRanksOnStandIns, TrainToTheSerialBits) {
    fake::reset(1);
    const Scenario scenario =
        agree::tiny({"strategy.tensor_parallel=2", "strategy.data_parallel=2", "strategy.pipeline_parallel=2", "strategy.schedule=1f1b"});
    const auto losses = [&](Backend backend) {
        const auto world = make_world(scenario, DType::fp32, {}, std::move(backend));
        initialise(*world);
        const auto executor = serial_executor(*world);
        for (int step = 0; step < 2; ++step) { // the second one's losses tell of the first one's update, whose moments begin as zero
            load_batch(*world, {"", scenario.model.vocab_size, 1}, step);
            executor->step(nullptr);
        }
        return world->losses;
    };
    EXPECT_EQ(losses(cuda_machine(std::make_shared<StandInGpu>(0, cpu_machine()))), losses(cpu_machine()));
    EXPECT_EQ(fake::live_allocations(), 0);
}

TEST(VirtualRanksOnStandIns, MoreThanTheGpuHasIsRefused) {
    fake::reset(1);
    const auto gpu = std::make_shared<StandInGpu>(0, cpu_machine());
    std::int64_t free = 0, total = 0;
    ASSERT_TRUE(gpu->memory(free, total).ok());
    const Backend backend = cuda_machine(gpu);
    constexpr std::int64_t first = 1 << 20;
    std::shared_ptr<std::byte> one = backend.reserve(first);
    EXPECT_THROW(backend.reserve(free - first + 1), OutOfMemory); // alone it would fit
    EXPECT_NO_THROW(backend.reserve(first));
}

} // namespace
} // namespace orrery::test

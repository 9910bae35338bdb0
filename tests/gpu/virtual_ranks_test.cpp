// Virtual ranks on one GPU: the serial executor with the device's kernels trains as it does with the CPU's.
#include "tests/gpu/device.hpp"
#include "tests/gpu/losses.hpp"
#include "tests/unit/kernels/single_rank.hpp"

namespace orrery::test {
namespace {

std::vector<double> losses(const Scenario& scenario, const Backend& backend) {
    const auto world = make_world(scenario, DType::fp32, {}, backend);
    initialise(*world);
    const auto executor = serial_executor(*world);
    return losses_of(*world, *executor);
}

TEST(VirtualRanks, TrainOnOneGpuAsOnTheCpu) {
    const Gpu gpu = open_gpu();
    if (!gpu.device) GTEST_SKIP() << gpu.why_not;
    const Scenario scenario = tiny_scenario({"cluster.devices_per_node=8", "strategy.tensor_parallel=2", "strategy.sequence_parallel=true",
                                             "strategy.pipeline_parallel=2", "strategy.schedule=1f1b", "strategy.data_parallel=2",
                                             "strategy.zero_stage=1", "training.micro_batch_size=1"});
    const std::vector<double> cpu = losses(scenario, cpu_machine()), here = losses(scenario, cuda_machine(gpu.device));
    for (std::size_t i = 0; i < cpu.size(); ++i) EXPECT_NEAR(here[i], cpu[i], 1e-3) << "step " << i;
}

// The run that the test above compares with, so that it is known to train where the other skips.
TEST(VirtualRanks, TrainOnTheCpu) {
    const std::vector<double> cpu = losses(tiny_scenario({"cluster.devices_per_node=2", "strategy.data_parallel=2"}), cpu_machine());
    EXPECT_LT(cpu.back(), cpu.front());
}

} // namespace
} // namespace orrery::test

// The asynchronous executor on GPUs: streams, events, planned memory on the device and NCCL, a GPU a rank, against the processor.
#include "tests/gpu/device.hpp"
#include "tests/gpu/losses.hpp"
#include "tests/unit/kernels/single_rank.hpp"

namespace orrery::test {
namespace {

std::vector<double> losses(const Scenario& scenario, DType stored, bool gpus, int steps) {
    const auto world = make_world(scenario, stored);
    initialise(*world);
    const auto executor = gpus ? queues_executor(*world, cuda_fleet(*world, std::nullopt, 60)) : serial_executor(*world);
    return losses_of(*world, *executor, steps);
}

void expect_as_on_the_cpu(const std::vector<std::string>& fields, int gpus, DType stored = DType::fp32, double tolerance = 1e-3,
                          int steps = 10) {
    const Gpu gpu = open_gpu();
    if (!gpu.device) GTEST_SKIP() << gpu.why_not;
    std::string why_not;
    if (const int here = load_cuda(why_not)->devices(why_not); here < gpus)
        GTEST_SKIP() << "this needs " << gpus << " GPUs, and there are " << here;
    const Scenario scenario = tiny_scenario(fields);
    const std::vector<double> cpu = losses(scenario, DType::fp32, false, steps), there = losses(scenario, stored, true, steps);
    for (std::size_t i = 0; i < cpu.size(); ++i) EXPECT_NEAR(there[i], cpu[i], tolerance) << "step " << i;
}

TEST(GpuQueues, OneRank) { expect_as_on_the_cpu({"training.gradient_clipping=1.0"}, 1); }
TEST(GpuQueues, OneRankInSixteenBits) { expect_as_on_the_cpu({"training.precision=bf16"}, 1, DType::bf16, 0.02); }
TEST(GpuQueues, OneRankInHalfPrecision) {
    expect_as_on_the_cpu({"training.precision=fp16", "training.gradient_clipping=1.0"}, 1, DType::fp16, 0.02);
}
// The first steps overflow: they are left out, as the processor does that rounds to fp16.
TEST(GpuQueues, OverflowOfHalfPrecision) {
    const Gpu gpu = open_gpu();
    if (!gpu.device) GTEST_SKIP() << gpu.why_not;
    const Scenario scenario = tiny_scenario({"training.precision=fp16", "training.gradient_clipping=1.0"});
    const auto cpu = make_world(scenario, DType::fp32), there = make_world(scenario, DType::fp16);
    round_storage(*cpu);
    for (World* w : {cpu.get(), there.get()}) {
        initialise(*w);
        for (auto& rank : w->ranks) rank->scaling->factor = 0x1p40;
    }
    const auto serial = serial_executor(*cpu), queues = queues_executor(*there, cuda_fleet(*there, std::nullopt, 60));
    const std::vector<double> expected = losses_of(*cpu, *serial, 40), found = losses_of(*there, *queues, 40);
    for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(found[i], expected[i], 0.05) << "step " << i;
    EXPECT_GT(loss_scale(*there)->skipped, 0);
    EXPECT_LT(loss_scale(*there)->skipped, 40);
    EXPECT_NEAR(static_cast<double>(loss_scale(*there)->skipped), static_cast<double>(loss_scale(*cpu)->skipped), 1);
}
TEST(GpuQueues, Lamb) { expect_as_on_the_cpu({"training.optimizer=lamb"}, 1); }
TEST(GpuQueues, DataParallel) {
    expect_as_on_the_cpu({"cluster.devices_per_node=2", "strategy.data_parallel=2", "strategy.zero_stage=1", "training.micro_batch_size=1"},
                         2);
}
TEST(GpuQueues, TensorAndPipelineParallel) {
    expect_as_on_the_cpu({"cluster.devices_per_node=4", "strategy.tensor_parallel=2", "strategy.sequence_parallel=true",
                          "strategy.pipeline_parallel=2", "strategy.schedule=1f1b", "training.micro_batch_size=1"},
                         4);
}

// Heads that cuDNN has fused kernels for: two of 64 columns; and four queries to a key, packed by groups.
TEST(GpuQueues, FusedAttention) {
    for (const DType type : {DType::bf16, DType::fp16})
        for (const char* groups : {"model.kv_heads=8", "model.kv_heads=2"})
            expect_as_on_the_cpu({std::string("training.precision=") + name(type), "training.gradient_clipping=1.0",
                                  "model.hidden_size=512", "model.attention_heads=8", groups, "model.position=rope",
                                  "training.sequence_length=128"},
                                 1, type, 0.03);
}

TEST(GpuQueues, FusedAttentionOfLongSequences) {
    expect_as_on_the_cpu({"training.precision=bf16", "model.layers=1", "model.hidden_size=256", "model.attention_heads=32",
                          "model.position=rope", "training.sequence_length=2048", "training.global_batch_size=4",
                          "training.micro_batch_size=4"},
                         1, DType::bf16, 0.03, 2);
}

} // namespace
} // namespace orrery::test

// The CUDA plugin's kernels against the CPU's, by whole models: the same plan, the same weights, every gradient. Without a GPU these skip,
// and say why.
#include "tests/gpu/device.hpp"
#include "tests/unit/kernels/models.hpp"
#include "tests/unit/kernels/single_rank.hpp"

#include <cmath>

namespace orrery::test {
namespace {

class OnGpu : public testing::TestWithParam<Model> {};

TEST_P(OnGpu, GradientsAreTheCpus) {
    const Gpu gpu_here = open_gpu();
    if (!gpu_here.device) GTEST_SKIP() << gpu_here.why_not;
    SingleRank cpu(tiny_scenario(GetParam().overrides), DType::fp64),
        gpu(tiny_scenario(GetParam().overrides), DType::fp32, cuda_machine(gpu_here.device));
    EXPECT_NEAR(gpu.run(true), cpu.run(true), 1e-5);
    for (BufferId w : cpu.parameters()) {
        const auto a = gpu.values(gpu.gradient_of(w)), b = cpu.values(cpu.gradient_of(w));
        double difference = 0, size = 1e-12;
        for (std::size_t i = 0; i < a.size(); ++i) difference += (a[i] - b[i]) * (a[i] - b[i]), size += b[i] * b[i];
        EXPECT_LT(std::sqrt(difference), 1e-4 * std::sqrt(size)) << cpu.plan().buffers[w].name;
    }
}

INSTANTIATE_TEST_SUITE_P(Models, OnGpu, testing::ValuesIn(models()), [](const auto& instance) { return instance.param.name; });

TEST(Gpu, TrainsInSixteenBits) {
    const Gpu gpu_here = open_gpu();
    if (!gpu_here.device) GTEST_SKIP() << gpu_here.why_not;
    const std::vector<std::string> overrides{"training.precision=bf16", "training.gradient_clipping=1.0"};
    SingleRank cpu(tiny_scenario(overrides), DType::fp32), gpu(tiny_scenario(overrides), DType::bf16, cuda_machine(gpu_here.device));
    for (SingleRank* r : {&cpu, &gpu}) { // master weights begin as the parameters
        const BufferId master = r->find("opt.master");
        ASSERT_GE(master, 0);
        std::int64_t at = 0;
        for (BufferId w : r->parameters())
            for (double x : r->values(w)) r->set(master, at++, x);
    }
    for (int i = 0; i < 10; ++i, ++cpu.step, ++gpu.step) EXPECT_NEAR(gpu.run(true, true), cpu.run(true, true), 0.02) << "step " << i;
}

} // namespace
} // namespace orrery::test

// The CUDA executor's streams, events, memory and NCCL calls against stand-ins of both libraries: does every strategy train to the serial
// executor's bits, and does it keep the libraries' rules?
#include "tests/unit/cuda_streams/fleet.hpp"

#include <algorithm>
#include <map>
#include <set>

namespace orrery::test {
namespace {

using agree::Case;
using agree::Trained;

class OnStandIns : public testing::TestWithParam<Case> {};

Trained train(const Scenario& scenario, int polls) {
    fake::reset(scenario.world_size());
    fake::set_progress_polls(polls);
    return agree::train(scenario,
                        {.steps = 2, .real = DType::fp32, .make = [](World& world) { return queues_executor(world, stand_ins(world)); }});
}

TEST_P(OnStandIns, SerialToTheBit) {
    const Scenario scenario = agree::tiny(GetParam().fields);
    const Offload& o = scenario.strategy.offload;
    for (const Tier tier : {o.optimizer, o.gradients, o.parameters, o.activations})
        if (tier == Tier::nvme) GTEST_SKIP() << "NVMe is refused on GPUs";
    const Trained serial = agree::train(scenario, {.steps = 2, .real = DType::fp32}), gpus = train(scenario, 3);
    EXPECT_EQ(serial.losses, gpus.losses);
    EXPECT_EQ(difference(serial.first_gradients, gpus.first_gradients).relative, 0)
        << difference(serial.first_gradients, gpus.first_gradients).worst;
    EXPECT_EQ(difference(serial.parameters, gpus.parameters).relative, 0) << difference(serial.parameters, gpus.parameters).worst;
    EXPECT_EQ(difference(serial.states, gpus.states).relative, 0) << difference(serial.states, gpus.states).worst;
    EXPECT_EQ(routed(*serial.world), routed(*gpus.world));
    EXPECT_TRUE(fake::misuse().empty()) << fake::misuse().front();
    EXPECT_EQ(fake::aborted(), 0);
    EXPECT_EQ(fake::live_streams() + fake::live_events() + fake::live_allocations(), 0) << "something was left behind";
}

INSTANTIATE_TEST_SUITE_P(Strategies, OnStandIns, testing::ValuesIn(agree::strategies()),
                         [](const auto& tested) { return tested.param.name; });

// One order of launches for all communicators that two devices share: what NCCL wants of host threads.
TEST(LaunchOrder, IsTheSameOnEveryTwoDevices) {
    const Scenario scenario =
        agree::tiny({"strategy.tensor_parallel=2", "strategy.data_parallel=2", "strategy.context_parallel=2",
                     "strategy.sequence_parallel=true", "strategy.zero_stage=1", "strategy.framework=megatron",
                     "strategy.overlap.grad_reduce=true", "strategy.overlap.param_gather=true", "training.gradient_clipping=0.1"});
    const Trained trained = train(scenario, 0);
    const World& world = *trained.world;
    for (std::size_t a = 0; a < world.ranks.size(); ++a)
        for (std::size_t b = a + 1; b < world.ranks.size(); ++b) {
            std::set<std::string> shared;
            for (std::size_t c = 0; c < world.plan.communicators.size(); ++c)
                if (const auto& m = world.members[c][a]; std::ranges::find(m, static_cast<int>(b)) != m.end())
                    shared.insert(world.plan.communicators[c].name);
            const auto of = [&](std::size_t device) {
                std::vector<std::string> calls;
                for (const fake::Launched& l : fake::launched(static_cast<int>(device)))
                    if (shared.contains(l.comm)) calls.push_back(l.comm + " " + l.call);
                return calls;
            };
            EXPECT_EQ(of(a), of(b)) << a << " and " << b;
        }
    EXPECT_GT(fake::launched(0).size(), 50u);
}

} // namespace
} // namespace orrery::test

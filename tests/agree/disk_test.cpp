// A model that does not fit the device's memory trains in it with what it offloads, to the bit as the one that fits does; what lies on NVMe
// lies in a file.
#include "agree.hpp"

#include "exec/runtime/storage.hpp"

#include <gtest/gtest.h>

namespace orrery::agree {
namespace {

std::vector<double> losses(const Scenario& scenario, const std::string& executor, std::int64_t limit, std::int64_t* peak = nullptr) {
    const auto world = make_world(scenario, DType::fp32);
    for (auto& rank : world->ranks) rank->memory.limit(limit);
    initialise(*world);
    const auto runs = make_executor(executor, *world);
    const Corpus corpus{"", scenario.model.vocab_size, scenario.training.seed};
    std::vector<double> all;
    for (int step = 0; step < 4; ++step) {
        load_batch(*world, corpus, step);
        runs->step(nullptr);
        all.push_back(mean_loss(*world));
    }
    if (peak) *peak = world->rank(0).memory.device().highest;
    return all;
}

TEST(Disk, AModelThatDoesNotFitTrainsToTheBitOfTheOneThatDoes) {
    std::int64_t needed = 0, less = 0;
    const std::vector<std::string> one{"training.global_batch_size=1"}; // of several microbatches sums would be added in another order
    const std::vector<double> whole = losses(tiny(one), "serial", 0, &needed);
    const std::vector<std::string> away{one[0],
                                        "strategy.offload.optimizer=nvme",
                                        "strategy.offload.gradients=cpu",
                                        "strategy.offload.parameters=cpu",
                                        "strategy.offload.activations=cpu",
                                        "strategy.offload.sub_group_size=600"};
    losses(tiny(away), "serial", 0, &less);
    ASSERT_LT(less, needed / 2);
    EXPECT_THROW(losses(tiny(one), "serial", less), OutOfMemory);
    for (const char* executor : {"serial", "threads"}) EXPECT_EQ(losses(tiny(away), executor, less), whole) << executor;
}

TEST(Disk, HoldsAllStatesAndTheHostASubGroupsAtATime) {
    const auto world = make_world(tiny({"strategy.offload.optimizer=nvme", "strategy.offload.sub_group_size=600"}), DType::fp32);
    const Arena& disk = world->rank(0).memory.arena(2);
    std::int64_t states = 0;
    for (const Buffer& b : world->plan.buffers)
        if (b.space == Space::nvme) states += b.bytes.count;
    EXPECT_GE(disk.live(), states);
    EXPECT_GT(states, 0);
    const std::shared_ptr<std::byte> file = reserve_on_disk(4096);
    file.get()[4095] = std::byte{7};
    EXPECT_EQ(file.get()[4095], std::byte{7});
}

} // namespace
} // namespace orrery::agree

// A rank that fails, starves or does not fit: is it named, with its op and its tensor, on every executor, and do the others end?
#include "agree.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <thread>

namespace orrery::agree {
namespace {

using Fields = std::vector<std::string>;

std::unique_ptr<World> world_of(const Fields& fields) {
    const Scenario scenario = tiny(fields);
    auto world = make_world(scenario, DType::fp64);
    initialise(*world);
    load_batch(*world, {"", scenario.model.vocab_size, 1}, 0);
    return world;
}

// The message of a step as it ends, "" where it ends well.
template <class Failure> std::string failure_of(World& world, const std::string& executor) {
    try {
        make_executor(executor, world)->step(nullptr);
    } catch (const Failure& e) { return e.what(); }
    return "";
}

// After a rank's op of that name, whatever runs kernels there.
void behind(World& world, int rank, const std::string& op_name, std::function<void(std::span<const Operand> out)> work) {
    const int stage = world.rank(rank).stage;
    const Coordinates at = world.rank(rank).context.at;
    world.machine.kernel = [=, kernel = world.machine.kernel](const Op& op, std::span<const Operand> in, std::span<const Operand> out,
                                                              const KernelContext& context) {
        kernel(op, in, out, context);
        if (op.name == op_name && context.at == at && !out.empty() && out[0].buffer->stage == stage) work(out);
    };
}

void put_nan(std::span<const Operand> out) { reinterpret_cast<double*>(out[0].data)[5] = std::nan(""); }

const Fields two{"strategy.data_parallel=2"};

TEST(NoNumber, IsNamedWhereItShows) {
    for (const std::string& executor : executor_names()) {
        const auto world = world_of(two);
        world->watch = Watch::ends;
        behind(*world, 1, "l1.fc2", put_nan); // a token's loss
        const std::string said = failure_of<NotFinite>(*world, executor);
        EXPECT_NE(said.find("at step 0: rank 1: loss of F0"), std::string::npos) << said;
    }
}

TEST(NoNumber, InAGradientIsNamed) {
    for (const Fields& more : {Fields{}, Fields{"strategy.zero_stage=1"}, Fields{"strategy.framework=fsdp"}})
        for (const std::string& executor : executor_names()) {
            Fields fields = two;
            fields.insert(fields.end(), more.begin(), more.end());
            const auto world = world_of(fields);
            world->watch = Watch::ends;
            behind(*world, 1, "l0.fc1.wgrad", put_nan);
            const std::string said = failure_of<NotFinite>(*world, executor);
            EXPECT_NE(said.find("optimizer of optimizer:0"), std::string::npos) << said;
            EXPECT_NE(said.find("is given the gradient of l0.fc1.weight, whose element 5 of"), std::string::npos) << said;
        }
}

TEST(NoNumber, IsFoundAtItsOp) {
    for (const std::string& executor : executor_names()) {
        const auto world = world_of({"strategy.tensor_parallel=2", "strategy.pipeline_parallel=2", "strategy.schedule=1f1b"});
        world->watch = Watch::all;
        behind(*world, 3, "l1.qkv.dgrad", put_nan);
        const std::string said = failure_of<NotFinite>(*world, executor);
        EXPECT_NE(said.find("rank 3: l1.qkv.dgrad of B1"), std::string::npos) << said;
    }
}

TEST(Starved, RankIsNamedAndGoesOnWhenItCan) {
    const auto starved = world_of(two), free = world_of(two);
    std::atomic<bool> slept = false;
    behind(*starved, 1, "l0.fc1", [&](std::span<const Operand>) {
        if (!slept.exchange(true)) std::this_thread::sleep_for(std::chrono::milliseconds(400));
    });
    std::vector<std::string> said;
    threads_executor(*starved, {0.1, [&](const std::string& who) { said.push_back(who); }})->step(nullptr);
    ASSERT_FALSE(said.empty());
    EXPECT_NE(said[0].find("rank 1: l0.fc1 of F0 (action 1) has begun and does not end"), std::string::npos) << said[0];
    EXPECT_NE(said[0].find("waits for rank 1 on communicator dp.reduce"), std::string::npos) << said[0];
    threads_executor(*free)->step(nullptr);
    EXPECT_EQ(mean_loss(*starved), mean_loss(*free));
}

TEST(OutOfRoom, NamesWhatIsWantedAndWhatIsAlive) {
    for (const std::string& executor : executor_names()) {
        const auto once = world_of(two);
        make_executor(executor, *once)->step(nullptr);
        const std::int64_t peak = once->rank(0).memory.device().highest;
        for (const std::int64_t less : {0, 1}) {
            const auto world = world_of(two);
            world->rank(1).memory.limit(peak - less);
            const std::string said = failure_of<OutOfMemory>(*world, executor);
            EXPECT_EQ(said.empty(), less == 0) << said;
            if (less > 0) {
                EXPECT_NE(said.find("of " + std::to_string(peak - 1) + " are in use; alive are opt."), std::string::npos) << said;
            }
        }
        const auto world = world_of(two);
        EXPECT_THROW(world->rank(0).memory.limit(1000), OutOfMemory);
    }
}

} // namespace
} // namespace orrery::agree

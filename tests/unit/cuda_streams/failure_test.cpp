// Failures between GPUs, with stand-ins that fail and hang: does every rank leave soon, and say who was missing where?
#include "tests/unit/cuda_streams/fleet.hpp"

#include "exec/mpi/processes.hpp"

#include <nccl.h>

#include <algorithm>
#include <chrono>
#include <cmath>

namespace orrery::test {
namespace {

struct Outcome {
    std::string said;
    double seconds = 0;
    bool lost = false;
    Cause cause = Cause::ours;
};

Outcome train(const Scenario& scenario, double patience, const std::function<void()>& before_step, double last_resort = 0) {
    const auto world = make_world(scenario, DType::fp32);
    initialise(*world);
    Fleet fleet = stand_ins(*world, patience);
    fleet.last_resort = last_resort;
    const auto began = std::chrono::steady_clock::now();
    Outcome o;
    try {
        const auto executor = queues_executor(*world, std::move(fleet));
        load_batch(*world, {"", scenario.model.vocab_size, 1}, 0);
        before_step();
        executor->step(nullptr);
    } catch (const LostPeer& e) {
        o.said = e.what();
        o.lost = true;
    } catch (const LibraryFailed& e) {
        o.said = e.what();
        o.cause = e.cause;
    } catch (const std::exception& e) { o.said = e.what(); }
    o.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    return o;
}

const std::vector<std::string> four = {"strategy.data_parallel=2", "strategy.tensor_parallel=2", "strategy.zero_stage=1"};

TEST(Failure, AHangingRankIsNamedWithItsCommunicator) {
    fake::reset(4);
    const Outcome o = train(agree::tiny(four), 1, [] { fake::hang_device(2, 3); });
    EXPECT_TRUE(o.lost) << o.said;
    EXPECT_LT(o.seconds, 10);
    EXPECT_NE(o.said.find(" waits for "), std::string::npos) << o.said;
    // Whoever speaks first: the partner of the one that hangs, or one that waits for that partner.
    EXPECT_TRUE(o.said.find("communicator tp") != std::string::npos ||
                o.said.find("on communicator dp.reduce (which stands at") != std::string::npos)
        << o.said;
    EXPECT_NE(o.said.find("no progress for 1 s"), std::string::npos) << o.said;
    EXPECT_GE(fake::aborted(), 4 * 2); // every rank's, the one of all ranks and at least one more
    EXPECT_EQ(std::ranges::count(fake::misuse(), std::string("ncclCommAbort alone")), 0);
    EXPECT_EQ(fake::live_streams() + fake::live_allocations(), 0);
}

TEST(Failure, ACallThatFailsEndsAllRanks) {
    fake::reset(4);
    const Outcome o = train(agree::tiny(four), 30, [] { fake::fail_call("ncclReduceScatter", 1, ncclSystemError); });
    EXPECT_LT(o.seconds, 10);
    EXPECT_NE(o.said.find("reduce-scatter"), std::string::npos) << o.said;
    EXPECT_NE(o.said.find("said by a stand-in"), std::string::npos) << o.said;
    EXPECT_EQ(o.cause, Cause::communicator) << o.said;
    EXPECT_NE(o.said.find("rank "), std::string::npos) << o.said;
    EXPECT_GE(fake::aborted(), 4 * 2);
}

TEST(Failure, ADeviceThatFailsIsToldFromACommunicator) {
    fake::reset(4);
    const Outcome o = train(agree::tiny(four), 30, [] { fake::fail_call("cudaMemcpyAsync", 2, cudaErrorUnknown); });
    EXPECT_LT(o.seconds, 10);
    EXPECT_NE(o.said.find("rank 2"), std::string::npos) << o.said;
    EXPECT_EQ(o.cause, Cause::device) << o.said;
}

// Memory of a GPU's own is not looked into; losses come to the host, and say whose they are.
TEST(Failure, ALossThatIsNoNumberIsNamed) {
    fake::reset(2);
    const Scenario scenario = agree::tiny({"strategy.data_parallel=2"});
    const auto world = make_world(scenario, DType::fp32);
    initialise(*world);
    world->watch = Watch::ends;
    world->machine.kernel = [kernel = world->machine.kernel](const Op& op, std::span<const Operand> in, std::span<const Operand> out,
                                                             const KernelContext& context) {
        kernel(op, in, out, context);
        if (op.name == "l1.fc2" && context.at[Axis::dp] == 1) reinterpret_cast<float*>(out[0].data)[5] = NAN;
    };
    const auto executor = queues_executor(*world, stand_ins(*world));
    load_batch(*world, {"", scenario.model.vocab_size, 1}, 0);
    try {
        executor->step(nullptr);
        ADD_FAILURE() << "nobody noticed";
    } catch (const NotFinite& e) { EXPECT_NE(std::string(e.what()).find("at step 0: rank 1: loss of F0"), std::string::npos) << e.what(); }
}

TEST(Failure, ASplitThatFailsEndsAllRanks) {
    fake::reset(4);
    fake::fail_call("ncclCommSplit", 3, ncclRemoteError);
    const Outcome o = train(agree::tiny(four), 30, [] {});
    EXPECT_LT(o.seconds, 10);
    EXPECT_NE(o.said.find("split of world"), std::string::npos) << o.said;
    EXPECT_NE(o.said.find("rank 3"), std::string::npos) << o.said;
}

TEST(Failure, AnAbortThatDoesNotReturnEndsTheProcess) {
    const auto stuck = [] {
        fake::reset(4);
        fake::hang_abort(true);
        train(
            agree::tiny(four), 1, [] { fake::hang_device(2, 3); }, 2);
    };
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    EXPECT_EXIT(stuck(), testing::ExitedWithCode(exit_code_lost), "does not return from that");
}

} // namespace
} // namespace orrery::test

// The CUDA executor's streams, events, memory and NCCL calls against stand-ins of both libraries: does every strategy train to the serial
// executor's bits, and does it keep the libraries' rules?
#include "tests/unit/cuda_streams/fleet.hpp"

#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>
#include <numeric>
#include <set>
#include <tuple>

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

// Storage of 16 bits on the stand-ins, as GPUs have it, against the processor, which rounds fp32. (Sums of two members: of more, NCCL
// rounds each.)
TEST(SixteenBitsOnStandIns, SerialToTheBit) {
    const agree::Fields strategies[] = {
        {"strategy.tensor_parallel=2", "strategy.sequence_parallel=true", "strategy.data_parallel=2", "strategy.framework=megatron",
         "strategy.zero_stage=1"},
        {"strategy.data_parallel=2", "strategy.framework=fsdp"},
        {"strategy.data_parallel=2", "strategy.framework=fsdp2"},
        {"strategy.data_parallel=2", "strategy.framework=deepspeed", "strategy.zero_stage=3"},
        {"strategy.pipeline_parallel=2", "strategy.schedule=1f1b", "strategy.data_parallel=2", "strategy.framework=megatron"},
        {"strategy.context_parallel=2", "strategy.framework=megatron"},
        {"strategy.data_parallel=2", "strategy.expert_parallel=2", "strategy.framework=megatron", "model.moe.experts=4",
         "model.moe.top_k=2", "model.moe.expert_ffn_size=16", "model.moe.capacity_factor=1.5"},
        {"strategy.data_parallel=2", "strategy.framework=megatron", "strategy.zero_stage=1", "training.optimizer=lamb"},
        {"strategy.data_parallel=2", "strategy.framework=deepspeed", "strategy.zero_stage=2", "strategy.offload.optimizer=cpu"}};
    for (const DType type : {DType::fp16, DType::bf16})
        for (const agree::Fields& fields : strategies) {
            const std::string precision = std::string("training.precision=") + name(type);
            const Scenario scenario = agree::tiny(agree::with(fields, {precision, "training.gradient_clipping=1"}));
            const Trained serial = agree::train(scenario, {.steps = 3, .real = DType::fp32, .rounds = true});
            fake::reset(scenario.world_size());
            const Trained gpus =
                agree::train(scenario, {.steps = 3, .real = type, .make = [](World& w) { return queues_executor(w, stand_ins(w)); }});
            SCOPED_TRACE(precision + " " + fields.front() + " " + fields.back());
            agree::expect_same_bits(serial, gpus);
            EXPECT_EQ(loss_scale(*gpus.world) != nullptr, type == DType::fp16);
            EXPECT_TRUE(fake::misuse().empty()) << fake::misuse().front();
        }
}

// A rank that is replayed has its own gradients alone: its scale falls until they do not overflow, and where they always do nothing fails.
TEST(SixteenBitsOnStandIns, AReplayedRankMovesItsScale) {
    const Scenario scenario =
        agree::tiny({"training.precision=fp16", "training.gradient_clipping=1", "strategy.data_parallel=2", "strategy.framework=megatron"});
    for (const bool always : {false, true}) {
        fake::reset(1);
        const auto world = make_world(scenario, DType::fp16, {1});
        initialise(*world);
        LossScale& scale = *world->rank(1).scaling;
        scale.factor = always ? 4 : 0x1p40;
        if (always)
            world->machine.kernel = [kernel = world->machine.kernel](const Op& op, std::span<const Operand> in,
                                                                     std::span<const Operand> out, const KernelContext& context) {
                kernel(op, in, out, context);
                if (std::holds_alternative<GradientNorm>(op.work))
                    write_element(out[0].data, 0, std::numeric_limits<double>::infinity(), DType::fp32);
            };
        Fleet fleet = stand_ins(*world);
        fleet.delays.assign(world->rank(1).order->issues.size(), 0);
        const auto executor = queues_executor(*world, std::move(fleet));
        for (std::int64_t step = 0; step < 24; ++step) {
            load_batch(*world, {"", scenario.model.vocab_size, scenario.training.seed}, step);
            executor->step(nullptr);
        }
        EXPECT_LT(scale.factor, always ? 2 : 0x1p30);
        EXPECT_EQ(scale.good_steps > 0, !always);
        EXPECT_EQ(scale.good_steps + scale.skipped, 24);
    }
}

// Gradients that overflow fp16: every GPU leaves the step out, with its parameters and states as they were, halves the scale, and trains
// on as the processor does.
TEST(SixteenBitsOnStandIns, AnOverflowLeavesOutTheStep) {
    const Scenario scenario =
        agree::tiny({"training.precision=fp16", "training.gradient_clipping=1", "strategy.tensor_parallel=2", "strategy.data_parallel=2",
                     "strategy.pipeline_parallel=2", "strategy.schedule=1f1b", "strategy.framework=megatron", "strategy.zero_stage=1"});
    constexpr double first = 0x1p26;
    const auto run = [&](World& world, Executor& executor, std::vector<std::pair<double, std::int64_t>>& scales) {
        for (auto& rank : world.ranks) rank->scaling->factor = first;
        for (std::int64_t step = 0; step < 12; ++step) {
            load_batch(world, {"", scenario.model.vocab_size, scenario.training.seed}, step);
            executor.step(nullptr);
            for (const auto& rank : world.ranks) EXPECT_EQ(rank->scaling->factor, world.ranks[0]->scaling->factor);
            scales.emplace_back(loss_scale(world)->factor, loss_scale(world)->skipped);
            if (step > 0) continue;
            executor.fetch();
            const auto fresh = make_world(scenario, world.real);
            if (world.real == DType::fp32) round_storage(*fresh);
            initialise(*fresh);
            for (const Quantity q : {Quantity::parameters, Quantity::states})
                EXPECT_EQ(difference(gather(*fresh, q).tensors, gather(world, q).tensors).relative, 0) << "the step was not left out";
        }
        executor.fetch();
    };
    std::vector<std::pair<double, std::int64_t>> scales, expected;
    const auto processor = make_world(scenario, DType::fp32), gpus = make_world(scenario, DType::fp16);
    round_storage(*processor);
    initialise(*processor);
    run(*processor, *serial_executor(*processor), expected);
    fake::reset(scenario.world_size());
    initialise(*gpus);
    const auto executor = queues_executor(*gpus, stand_ins(*gpus));
    run(*gpus, *executor, scales);
    EXPECT_EQ(scales, expected);
    EXPECT_EQ(scales.front(), std::pair(first / 2, std::int64_t{1}));
    EXPECT_LT(scales.back().second, 12) << "no step was made";
    for (const Quantity q : {Quantity::parameters, Quantity::states})
        EXPECT_EQ(difference(gather(*processor, q).tensors, gather(*gpus, q).tensors).relative, 0);
}

// Steps of an asynchronous pipeline flow into each other: one program has several of them, and a stage several versions of its weights.
// Kernels of NCCL begin in the order of their launches, which must hold up no stage.
TEST(PipeDream, TrainsToTheSerialBits) {
    for (const auto& [versions, stages, microbatches] : {std::tuple("stash", 4, 1), std::tuple("2bw", 4, 4), std::tuple("2bw", 3, 4)}) {
        const Scenario scenario = agree::tiny({"strategy.schedule=pipedream-async", "strategy.pipeline_parallel=" + std::to_string(stages),
                                               "model.layers=" + std::to_string(stages), "strategy.flush_every=5",
                                               "training.global_batch_size=" + std::to_string(2 * microbatches),
                                               std::string("strategy.weight_versions=") + versions, "strategy.data_parallel=2",
                                               "model.tied_embeddings=false", "training.optimizer=sgd"});
        fake::reset(scenario.world_size());
        fake::set_progress_polls(2);
        const auto after_two_rounds = [&](auto&& executor_of) {
            const auto world = make_world(scenario, DType::fp32);
            initialise(*world);
            const std::unique_ptr<Executor> executor = executor_of(*world);
            for (std::int64_t step = 0; step < 2 * world->plan.steps; step += world->plan.steps) {
                load_batch(*world, {"", scenario.model.vocab_size, scenario.training.seed}, step);
                executor->step(nullptr);
            }
            executor->fetch();
            return gather(*world, Quantity::parameters).tensors;
        };
        const auto serial = after_two_rounds([](World& w) { return make_executor("serial", w); });
        const auto gpus = after_two_rounds([](World& w) { return queues_executor(w, stand_ins(w)); });
        EXPECT_EQ(difference(serial, gpus).relative, 0) << versions << ": " << difference(serial, gpus).worst;
        EXPECT_TRUE(fake::misuse().empty()) << fake::misuse().front();
    }
}

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

// Libraries choose an algorithm by a call's kind and size, and connect members for it when it first comes: no step may be the first.
TEST(WarmUp, MakesEachUnlikeCallOfTheStep) {
    const std::vector<std::string> plans[] = {
        {"strategy.tensor_parallel=2", "strategy.data_parallel=2", "strategy.zero_stage=1", "strategy.framework=megatron",
         "strategy.sequence_parallel=true", "training.gradient_clipping=0.1"},
        {"strategy.data_parallel=4", "strategy.framework=fsdp2"},
        {"strategy.data_parallel=2", "strategy.pipeline_parallel=2", "strategy.schedule=1f1b", "training.gradient_clipping=0.1"},
        {"strategy.pipeline_parallel=2", "strategy.schedule=dualpipe", "model.layers=4", "strategy.zero_stage=1"},
        {"strategy.data_parallel=4", "strategy.expert_parallel=4", "strategy.framework=megatron", "model.moe.experts=4",
         "model.moe.top_k=2", "model.moe.expert_ffn_size=16", "model.moe.capacity_factor=1.5"}};
    for (const auto& fields : plans) {
        const Scenario scenario = agree::tiny(fields);
        fake::reset(scenario.world_size());
        const auto world = make_world(scenario, DType::fp32);
        initialise(*world);
        const auto executor = queues_executor(*world, stand_ins(*world));
        using Call = std::tuple<std::string, std::string, std::size_t>;
        const auto calls = [](int device, std::size_t from) {
            std::set<Call> all;
            const std::vector<fake::Launched> launched = fake::launched(device);
            for (std::size_t i = from; i < launched.size(); ++i)
                if (launched[i].call != "send" && launched[i].call != "receive")
                    all.emplace(launched[i].comm, launched[i].call, launched[i].count);
            return all;
        };
        std::vector<std::size_t> made;
        for (int d = 0; d < scenario.world_size(); ++d) made.push_back(fake::launched(d).size());
        load_batch(*world, {"", scenario.model.vocab_size, 1}, 0);
        executor->step(nullptr);
        for (int d = 0; d < scenario.world_size(); ++d) {
            const std::set<Call> step = calls(d, made[d]);
            std::set<Call> before;
            const std::vector<fake::Launched> launched = fake::launched(d);
            for (std::size_t i = 0; i < made[d]; ++i) before.emplace(launched[i].comm, launched[i].call, launched[i].count);
            EXPECT_FALSE(step.empty());
            for (const auto& [comm, call, count] : step)
                EXPECT_TRUE(before.contains({comm, call, count})) << fields.back() << ": " << call << " of " << count << " on " << comm;
        }
        EXPECT_TRUE(fake::misuse().empty()) << fake::misuse().front();
    }
}

// An expert without rows runs no kernel: before the first step each product has had all the rows there is room for, and fewer.
TEST(WarmUp, GivesExpertsRows) {
    const Scenario scenario =
        agree::tiny({"strategy.data_parallel=2", "strategy.expert_parallel=2", "strategy.framework=megatron", "model.moe.experts=4",
                     "model.moe.top_k=2", "model.moe.expert_ffn_size=16", "training.sequence_length=32"});
    fake::reset(2);
    const auto world = make_world(scenario, DType::fp32);
    initialise(*world);
    std::mutex mutex;
    std::map<std::string, std::set<std::int64_t>> rows; // by op: of all experts here
    std::map<std::string, std::int64_t> room;
    world->machine.kernel = [&, kernel = world->machine.kernel](const Op& op, std::span<const Operand> in, std::span<const Operand> out,
                                                                const KernelContext& context) {
        if (std::holds_alternative<Linear>(op.work) && in.back().buffer->role == Role::counts) {
            const auto* counts = reinterpret_cast<const std::int64_t*>(in.back().data);
            const std::lock_guard lock(mutex);
            rows[op.name].insert(std::accumulate(counts, counts + elements(*in.back().buffer), std::int64_t{0}));
            room[op.name] = in[0].buffer->shape[0];
        }
        kernel(op, in, out, context);
    };
    const auto executor = queues_executor(*world, stand_ins(*world)); // no step
    ASSERT_FALSE(rows.empty());
    int warmed = 0;
    for (const auto& [op, seen] : rows) {
        EXPECT_TRUE(seen.contains(0)) << op;
        warmed += seen.contains(room[op]) && seen.size() > 3;
    }
    EXPECT_GE(warmed, 3) << "a product forward, and its two gradients, of each shape";
}

// One process with all ranks: a library lets a communicator go where all members of the machine let it go.
TEST(TheEnd, IsThatOfAllRanksAtOnce) {
    const Scenario scenario = agree::tiny({"strategy.data_parallel=4", "strategy.zero_stage=1"});
    fake::reset(4);
    const auto world = make_world(scenario, DType::fp32);
    initialise(*world);
    auto executor = queues_executor(*world, stand_ins(*world));
    const auto began = std::chrono::steady_clock::now();
    executor.reset();
    EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count(), 30);
    EXPECT_EQ(fake::aborted(), 0);
    EXPECT_TRUE(fake::misuse().empty()) << fake::misuse().front();
    EXPECT_EQ(fake::live_streams() + fake::live_events() + fake::live_allocations(), 0);
}

} // namespace
} // namespace orrery::test

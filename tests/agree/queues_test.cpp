// The asynchronous executor: with a stream a queue, all of them running ahead as far as the plan lets them, is every strategy the serial
// executor's to the bit? Does planned memory ever put two in one place that could meet?
#include "agree.hpp"

#include "exec/queues/executor.hpp"
#include "exec/queues/program.hpp"

#include <gtest/gtest.h>

namespace orrery::agree {
namespace {

class Queues : public testing::TestWithParam<Case> {};

TEST_P(Queues, AreSerialToTheBit) {
    const Scenario scenario = tiny(GetParam().fields);
    const Trained serial = train(scenario, {.steps = 2, .real = DType::fp32}),
                  queues = train(scenario, {.steps = 2, .real = DType::fp32, .executor = "queues"});
    expect_same_bits(serial, queues);
    expect_peaks_as_predicted(scenario, queues);
}

// By every pair of users of every two buffers that share a byte: what the planner concludes from clocks.
TEST_P(Queues, NoTwoMeetInOnePlace) {
    const auto world = make_world(tiny(GetParam().fields), DType::fp32);
    for (std::size_t stage = 0; stage < world->orders.size(); ++stage)
        for (const auto& rank : world->ranks) {
            if (rank->stage != static_cast<int>(stage)) continue;
            const StagePlan plan = stage_plan(*world, *rank);
            EXPECT_EQ(overlap(plan.layout, plan.queues), "") << "stage " << stage;
            break;
        }
}

INSTANTIATE_TEST_SUITE_P(Strategies, Queues, testing::ValuesIn(strategies()), [](const auto& tested) { return tested.param.name; });

// Rows of experts, whose counts are known when they go, are sent from where they lie and received where they will. They are copied on the
// way for a sum alone, whose parts are made equally long.
TEST(QueuesStaging, IsForSumsAloneOfRowsOfExperts) {
    const auto world = make_world(tiny({"strategy.tensor_parallel=2", "strategy.sequence_parallel=true", "strategy.data_parallel=2",
                                        "strategy.expert_parallel=2", "strategy.framework=megatron", "model.moe.experts=4",
                                        "model.moe.top_k=2", "model.moe.expert_ffn_size=16", "model.bias=false"}),
                                  DType::fp32);
    Rank& rank = world->rank(0);
    const StagePlan stage = stage_plan(*world, rank);
    RankPlaces places;
    for (int space = 0; space < memories; ++space) places.base[space] = rank.memory.arena(space).base();
    places.staging.assign(static_cast<std::size_t>(stage.queues.queues()), nullptr);
    const std::vector<Command> commands = rank_program(*world, rank, stage, places).commands;
    int sums = 0, others = 0;
    for (std::size_t i = 0; i < commands.size(); ++i) {
        if (!commands[i].counted) continue;
        const Op& op = *rank.order->issues[i].op;
        const bool sum = std::get<Collective>(op.work).kind == CollectiveKind::reduce_scatter;
        EXPECT_EQ(commands[i].staging > 0, sum) << op.name;
        ++(sum ? sums : others);
    }
    EXPECT_GT(sums, 0);
    EXPECT_GT(others, 0);
}

// A device with memory of its own: the world's is its mirror.
TEST(QueuesMirror, IsSerialToTheBit) {
    const MakeExecutor apart = [](World& world) {
        Fleet fleet = cpu_fleet(world);
        fleet.separate_memory = true;
        return queues_executor(world, std::move(fleet));
    };
    for (const std::vector<std::string>& fields :
         {std::vector<std::string>{"strategy.data_parallel=4", "strategy.framework=fsdp"},
          {"strategy.data_parallel=2", "strategy.pipeline_parallel=2", "strategy.schedule=1f1b"}}) {
        const Scenario scenario = tiny(fields);
        expect_same_bits(train(scenario, {.steps = 3, .real = DType::fp32}),
                         train(scenario, {.steps = 3, .real = DType::fp32, .make = apart}));
    }
}

// Times of a step, from events: an op begins when what it waits for has ended, and queues really overlap nothing within themselves.
TEST(QueuesTimes, FollowTheDependencies) {
    const Scenario scenario =
        tiny({"strategy.pipeline_parallel=2", "strategy.data_parallel=2", "strategy.schedule=1f1b", "strategy.overlap.pipeline=true"});
    const auto world = make_world(scenario, DType::fp32);
    initialise(*world);
    const auto executor = queues_executor(*world);
    load_batch(*world, {"", scenario.model.vocab_size, 1}, 0);
    std::vector<OpTime> record;
    executor->step(&record);
    std::vector<std::vector<std::int64_t>> begin(world->ranks.size()), end(world->ranks.size());
    for (std::size_t r = 0; r < world->ranks.size(); ++r)
        begin[r].assign(world->rank(static_cast<int>(r)).order->issues.size(), -1), end[r] = begin[r];
    for (const OpTime& t : record) {
        begin[t.rank][t.issue] = t.posted;
        end[t.rank][t.issue] = t.end;
        EXPECT_LE(t.posted, t.begin);
        EXPECT_LE(t.begin, t.end);
    }
    constexpr std::int64_t rounding = 200; // ns: milliseconds in a float
    for (std::size_t r = 0; r < world->ranks.size(); ++r) {
        const IssueOrder& order = *world->rank(static_cast<int>(r)).order;
        int ops = 0;
        for (std::size_t i = 0; i < order.issues.size(); ++i) {
            if (is_host_only(*order.issues[i].op)) continue;
            ++ops;
            ASSERT_GE(end[r][i], 0) << place(world->plan, order.issues[i]);
            for (std::int32_t d : order.deps_of(order.issues[i])) {
                if (is_host_only(*order.issues[d].op)) continue;
                EXPECT_LE(end[r][d], begin[r][i] + rounding) << place(world->plan, order.issues[i]);
            }
        }
        EXPECT_GT(ops, 100);
    }
}

} // namespace
} // namespace orrery::agree

// Does one rank of a plan, run by itself, do what it does among the others: the same ops, the same memory, and wait as long as predicted?
#include "agree.hpp"

#include "exec/local/replay.hpp"
#include "exec/local/timeline.hpp"
#include "exec/queues/executor.hpp"
#include "sim/compare/compare.hpp"

#include <gtest/gtest.h>

namespace orrery::agree {
namespace {

struct Replayed {
    Trace predicted, measured;
};

Replayed replay(const Scenario& scenario, int rank, bool fold) {
    PredictOptions options;
    options.simulate.trace = true;
    options.simulate.fold = fold;
    const Prediction p = predict(scenario, options);
    const auto world = make_world(scenario, DType::fp32, {rank});
    world->facts.forced_routing = scenario.model.moe.has_value();
    initialise(*world);
    load_batch(*world, {"", scenario.model.vocab_size, 1}, 0);
    const Lane& lane = lane_of(*p.simulation.trace, rank, world->rank(rank).stage);
    std::vector<OpTime> record;
    replay_executor(*world, predicted_delays(*world, world->rank(rank), lane))->step(&record);
    return {alone(*p.simulation.trace, lane), trace_of(*world, record, "measured: a test")};
}

Scenario small(std::vector<std::string> fields) {
    fields.push_back("runtime.allocator=plan");
    return tiny(fields);
}

TEST(Replay, DoesWhatTheRankDoes) {
    const std::vector<std::string> strategies[] = {
        {"strategy.data_parallel=2", "strategy.tensor_parallel=2", "strategy.sequence_parallel=true", "strategy.pipeline_parallel=2",
         "strategy.schedule=1f1b", "training.gradient_clipping=0.1"},
        {"strategy.data_parallel=4", "strategy.framework=fsdp"},
        {"strategy.context_parallel=2", "strategy.context_parallel_kind=ring", "strategy.data_parallel=2", "strategy.zero_stage=1"},
        {"strategy.context_parallel=2", "strategy.context_parallel_kind=ulysses", "strategy.pipeline_parallel=2",
         "strategy.schedule=zb-h1"},
        {"strategy.data_parallel=4", "strategy.expert_parallel=4", "strategy.framework=megatron", "model.moe.experts=4",
         "model.moe.top_k=2", "model.moe.expert_ffn_size=16"},
        {"strategy.data_parallel=2", "strategy.pipeline_parallel=2", "strategy.schedule=dualpipe", "model.layers=4"},
    };
    for (const auto& fields : strategies) {
        const Scenario scenario = small(fields);
        for (const int rank : {0, scenario.world_size() - 1}) {
            SCOPED_TRACE(fields[0] + " " + fields[1] + " rank " + std::to_string(rank));
            const Replayed r = replay(scenario, rank, false);
            const Comparison c = compare(r.predicted, r.measured);
            EXPECT_TRUE(c.measured);
            EXPECT_TRUE(c.only_a.empty() && c.only_b.empty());
            EXPECT_EQ(c.memory.back().name, "peak");
            EXPECT_EQ(c.memory.back().a, c.memory.back().b);
            double moved = 0;
            for (const Pair& q : c.queues) {
                if (q.name == "compute") continue;
                EXPECT_EQ(q.a.count, q.b.count) << q.name;
                moved += q.b.seconds;
            }
            EXPECT_GT(moved, 0);
        }
    }
}

// Collectives take as long as predicted, to the nanosecond each; what precedes them may take what it likes.
TEST(Replay, WaitsAsPredicted) {
    const Replayed r = replay(small({"strategy.data_parallel=2", "strategy.tensor_parallel=4", "strategy.zero_stage=1"}), 3, false);
    for (const Pair& q : compare(r.predicted, r.measured).queues) {
        if (q.name == "compute") continue;
        EXPECT_NEAR(q.a.seconds, q.b.seconds, 1e-9 * q.a.count) << q.name;
    }
}

// A device's queue stands still for the wait and the move in one: told apart behind, a communication is as long as its move.
TEST(Replay, OnQueuesCommunicationsBeginWithTheirMoves) {
    const Scenario scenario =
        small({"strategy.data_parallel=2", "strategy.pipeline_parallel=2", "strategy.schedule=1f1b", "training.micro_batch_size=1"});
    PredictOptions options;
    options.simulate.trace = true;
    const Prediction p = predict(scenario, options);
    const auto world = make_world(scenario, DType::fp32, {1});
    initialise(*world);
    load_batch(*world, {"", scenario.model.vocab_size, 1}, 0);
    const std::vector<Delay> delays = predicted_delays(*world, world->rank(1), lane_of(*p.simulation.trace, 1, world->rank(1).stage));
    Fleet fleet = cpu_fleet(*world);
    for (const Delay& d : delays) fleet.delays.push_back(d.wait + d.move);
    std::vector<OpTime> times;
    queues_executor(*world, std::move(fleet))->step(&times);
    begin_with_moves(times, delays);
    int waited = 0;
    for (const OpTime& t : times) {
        const Delay& d = delays[t.issue];
        if (d.wait == 0) continue;
        ++waited;
        EXPECT_EQ(t.end - t.begin, d.move);
        EXPECT_GE(t.begin - t.posted, d.wait / 2);
    }
    EXPECT_GT(waited, 0);
}

// A rank of many, by the lane that stands for those like it.
TEST(Replay, OneOfAThousand) {
    const Replayed r = replay(small({"strategy.data_parallel=256", "strategy.pipeline_parallel=4", "strategy.schedule=1f1b",
                                     "model.layers=4", "training.global_batch_size=1024", "strategy.zero_stage=1"}),
                              777, true);
    EXPECT_EQ(r.measured.lanes.at(0).rank, 777);
    EXPECT_LE(r.predicted.lanes.at(0).rank, 777);
    const Comparison c = compare(r.predicted, r.measured);
    EXPECT_TRUE(c.only_a.empty() && c.only_b.empty());
    EXPECT_GT(r.measured.end.ps, 0);
}

TEST(Replay, RefusesAnotherPlansDelays) {
    const Scenario one = small({"strategy.data_parallel=2"}), other = small({"strategy.data_parallel=2", "strategy.zero_stage=1"});
    PredictOptions options;
    options.simulate.trace = true;
    const Prediction p = predict(other, options);
    const auto world = make_world(one, DType::fp32, {0});
    EXPECT_THROW(predicted_delays(*world, world->rank(0), p.simulation.trace->lanes[0]), std::runtime_error);
}

} // namespace
} // namespace orrery::agree

// Asynchronous pipelines against a sequential reference: one rank makes each step's gradients with weights that are, stage by stage, as
// old as the pipeline would have them, and they are stepped on by hand.
#include "tests/agree/agree.hpp"

#include "exec/runtime/tensors.hpp"
#include "sim/plan/lower.hpp"
#include "sim/plan/staleness.hpp"
#include "sim/plan/verify.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

namespace orrery::agree {
namespace {

constexpr double rate = 0.05;

// p stages of one layer each, m microbatches a step, `steps` between two drains.
Scenario flowing(int p, int m, int steps, const std::string& versions, std::vector<std::string> more = {}) {
    std::vector<std::string> fields{
        "strategy.schedule=pipedream-async",
        fmt::format("strategy.pipeline_parallel={}", p),
        fmt::format("model.layers={}", p),
        fmt::format("strategy.flush_every={}", steps),
        fmt::format("training.global_batch_size={}", m),
        "strategy.weight_versions=" + versions,
        "model.tied_embeddings=false",
        "training.optimizer=sgd",
        "training.learning_rate=0.05",
    };
    fields.insert(fields.end(), more.begin(), more.end());
    return tiny(fields);
}

std::map<std::string, int> stages_of(const Plan& plan) {
    std::map<std::string, int> stage;
    for (const Buffer& b : plan.buffers)
        if (b.role == Role::parameter) stage[plan.tensors[b.tensor].name] = b.stage;
    return stage;
}

// Updates a step's gradients on `stage` are behind: PipeDream's stage has sent as many microbatches ahead as there are stages after it.
std::int64_t age(const Scenario& s, int stage, std::int64_t step) {
    if (s.strategy.weight_versions == WeightVersions::two) return std::min<std::int64_t>(step, 1);
    return std::min<std::int64_t>(step, s.strategy.pipeline_parallel - 1 - stage);
}

// Of two rounds; in every round the pipeline fills anew.
Tensors by_hand(const Scenario& scenario) {
    const std::map<std::string, int> stage = stages_of(lower(scenario));
    const auto world = make_world(on_one_rank(scenario), DType::fp64);
    initialise(*world);
    const auto runs = make_executor("serial", *world);
    const Corpus corpus{"", scenario.model.vocab_size, scenario.training.seed};
    Tensors newest = gather(*world, Quantity::parameters).tensors;
    for (int round = 0; round < 2; ++round) {
        std::vector<Tensors> history{newest};
        for (std::int64_t step = 0; step < scenario.strategy.flush_every; ++step) {
            Tensors read = newest;
            for (auto& [name, t] : read) t = history[step - age(scenario, stage.at(name), step)].at(name);
            scatter(*world, Quantity::parameters, read);
            load_batch(*world, corpus, round * scenario.strategy.flush_every + step);
            runs->step(nullptr);
            const Tensors gradients = gather(*world, Quantity::gradients).tensors;
            for (auto& [name, t] : newest)
                for (std::size_t i = 0; i < t.values.size(); ++i) t.values[i] -= rate * gradients.at(name).values[i];
            history.push_back(newest);
        }
    }
    return newest;
}

Tensors by_plan(const Scenario& scenario, const std::string& executor) {
    const auto world = make_world(scenario, DType::fp64);
    initialise(*world);
    return parameters_after(*world, executor, 2 * world->plan.steps).tensors;
}

void expect_same(const Scenario& s, double tolerance) {
    const Tensors expected = by_hand(s);
    for (const char* executor : {"serial", "threads", "queues"}) {
        const Difference d = difference(expected, by_plan(s, executor));
        EXPECT_LE(d.relative, tolerance) << executor << " " << d.worst;
    }
}

TEST(Asynchronous, StashedWeightsGiveTheUpdatesOfTheirAgeToTheBit) {
    for (int p : {2, 3, 4}) expect_same(flowing(p, 1, 9, "stash"), 0);
}

TEST(Asynchronous, TwoVersionsAreOneUpdateOldOnEveryStageToTheBit) {
    expect_same(flowing(2, 2, 7, "2bw"), 0);
    expect_same(flowing(3, 4, 5, "2bw"), 0);
    expect_same(flowing(4, 4, 6, "2bw"), 0);
}

TEST(Asynchronous, ReplicasAndTensorRanksReduceEveryStepAsOneRankWould) {
    expect_same(flowing(2, 4, 5, "2bw", {"strategy.data_parallel=2"}), 1e-12);
    expect_same(flowing(2, 2, 5, "stash", {"strategy.tensor_parallel=2", "strategy.weight_versions=2bw"}), 1e-12);
    expect_same(flowing(3, 2, 6, "stash", {"strategy.data_parallel=2"}), 1e-12);
}

// Nothing flows from one of its steps into the next, whatever flush_every says.
TEST(Asynchronous, OneStageIsOrdinaryTraining) {
    const Scenario s = flowing(1, 2, 4, "stash");
    EXPECT_EQ(s.strategy.flush_every, 1);
    Scenario plain = s;
    plain.strategy.schedule = "none";
    const auto by = [](const Scenario& scenario) {
        const auto world = make_world(scenario, DType::fp64);
        initialise(*world);
        const auto runs = make_executor("serial", *world);
        for (int step = 0; step < 3; ++step) {
            load_batch(*world, {"", scenario.model.vocab_size, scenario.training.seed}, step);
            runs->step(nullptr);
        }
        return gather(*world, Quantity::parameters).tensors;
    };
    EXPECT_EQ(difference(by(plain), by(s)).relative, 0);
}

TEST(Asynchronous, StalenessAndVersionsAreThePapers) {
    for (int p : {2, 4, 6}) {
        const Plan stash = lower(flowing(p, 1, 40, "stash")), two = lower(flowing(p, p, 40, "2bw"));
        EXPECT_TRUE(verify(stash).empty()) << to_text(verify(stash));
        EXPECT_TRUE(verify(two).empty()) << to_text(verify(two));
        const Staleness a = staleness(stash), b = staleness(two);
        EXPECT_EQ(a.worst, p - 1);
        EXPECT_EQ(a.versions, p) << "a version for each microbatch under way";
        for (int stage = 0; stage < p; ++stage) {
            EXPECT_EQ(a.stages[stage].worst, p - 1 - stage);
            EXPECT_EQ(a.stages[stage].versions, p - stage);
            EXPECT_EQ(b.stages[stage].worst, 1);
            EXPECT_EQ(b.stages[stage].versions, 2);
        }
        EXPECT_NEAR(a.mean, (p - 1) / 2.0, 0.1 * p);
        EXPECT_NEAR(b.mean, 1, 0.05);
    }
}

template <class F> bool refused(F&& change, const std::string& rule) {
    Plan plan = lower(flowing(3, 1, 5, "stash"));
    change(plan);
    const auto found = verify(plan);
    return std::any_of(found.begin(), found.end(), [&](const Violation& v) { return v.rule == rule; });
}

// Backward passes that read other weights than their forward passes did, updates over weights that are still read, a last update that the
// next run would not see, and a step without its update are all found.
TEST(Asynchronous, BrokenVersionsAreFound) {
    const auto backward = [](Plan& p, auto&& f) {
        for (Action& a : p.programs[0].actions)
            if (p.blocks[a.block].kind == BlockKind::backward && f(a)) return;
        ADD_FAILURE() << "nothing to change";
    };
    EXPECT_TRUE(refused(
        [&](Plan& p) {
            backward(p, [&](Action& a) {
                if (p.blocks[a.block].version == 0) return false;
                for (BlockId b = 0; b < static_cast<BlockId>(p.blocks.size()); ++b)
                    if (p.blocks[b].kind == BlockKind::backward && p.blocks[b].stage == 0 && p.blocks[b].version == 0) a.block = b;
                return true;
            });
        },
        "weight-version"));
    EXPECT_TRUE(refused(
        [](Plan& p) { // every update writes what the first one does
            BlockId first = -1;
            for (Action& a : p.programs[0].actions) {
                if (p.blocks[a.block].kind != BlockKind::optimizer) continue;
                if (first < 0) first = a.block;
                a.block = first;
                a.last = static_cast<std::int32_t>(p.blocks[first].ops.size());
            }
        },
        "weight-version"));
    EXPECT_TRUE(refused(
        [](Plan& p) {
            auto& actions = p.programs[0].actions;
            for (std::size_t i = actions.size(); i-- > 0;)
                if (p.blocks[actions[static_cast<std::int32_t>(i)].block].kind == BlockKind::optimizer) {
                    actions[static_cast<std::int32_t>(i)].last = actions[static_cast<std::int32_t>(i)].first;
                    break;
                }
        },
        "parameter-not-updated"));
}

} // namespace
} // namespace orrery::agree

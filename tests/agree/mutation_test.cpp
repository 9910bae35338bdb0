// A plan that lacks a communication: do both verify and the numbers say so?
#include "agree.hpp"

#include "sim/engine/simulate.hpp"
#include "sim/plan/lower.hpp"
#include "sim/plan/verify.hpp"
#include "tests/unit/plan/mutations.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <sstream>
#include <sys/wait.h>
#include <unistd.h>

namespace orrery::agree {
namespace {

// In a process of its own, for a plan that is wrong may end in one of our own checks: anything but "0" is noticed.
bool ends_well(const std::function<bool()>& work) {
    const pid_t child = fork();
    if (child == 0) {
        std::freopen("/dev/null", "w", stderr);
        bool good = false;
        try {
            good = work();
        } catch (...) {}
        _exit(good ? 0 : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

struct Place {
    std::int32_t block, op;
};

std::vector<Place> communications(const Plan& plan) {
    std::vector<Place> places;
    for (std::size_t b = 0; b < plan.blocks.size(); ++b)
        for (std::size_t i = 0; i < plan.blocks[b].ops.size(); ++i)
            if (std::holds_alternative<Collective>(plan.blocks[b].ops[i].work))
                places.push_back({static_cast<std::int32_t>(b), static_cast<std::int32_t>(i)});
    return places;
}

void expect_each_is_missed(const std::vector<std::string>& fields) {
    const Scenario scenario = tiny(fields);
    const Plan plan = lower(scenario);
    const Trained right = train(scenario, {.steps = 2});
    const auto agrees = [&](const std::function<void(Plan&)>& change) {
        return ends_well([&] {
            const Trained t = train(scenario, {.steps = 2, .change = change});
            return t.disagreement == 0 && difference(right.first_gradients, t.first_gradients).relative < 1e-9 &&
                   difference(right.parameters, t.parameters).relative < 1e-9 && std::abs(t.losses[1] - right.losses[1]) < 1e-12;
        });
    };
    ASSERT_TRUE(agrees([](Plan&) {}));
    const std::vector<Place> places = communications(plan);
    EXPECT_FALSE(places.empty());
    for (const Place& p : places) {
        const auto drop = [&](Plan& broken) { test::drop_op(broken, p.block, p.op); };
        const Op& op = plan.blocks[p.block].ops[p.op];
        Plan broken = plan;
        drop(broken);
        EXPECT_FALSE(verify(broken).empty()) << "verify does not miss " << op.name;
        // Loads that nothing has written are all alike, and those have no gradient.
        if (op.name.ends_with(".loads")) continue;
        // The next step's gathers bring the small parameters again.
        if (op.name == "gather.small") continue;
        EXPECT_FALSE(agrees(drop)) << "the numbers do not miss " << op.name;
    }
}

TEST(MissingCommunication, DataParallel) { expect_each_is_missed({"strategy.data_parallel=2", "training.gradient_clipping=0.1"}); }
TEST(MissingCommunication, Sharded) {
    expect_each_is_missed({"strategy.data_parallel=2", "strategy.zero_stage=1", "training.gradient_clipping=0.1"});
}
TEST(MissingCommunication, TensorParallel) {
    expect_each_is_missed({"strategy.tensor_parallel=2", "model.layers=1", "training.gradient_clipping=0.1"});
}
TEST(MissingCommunication, SequenceParallel) {
    expect_each_is_missed({"strategy.tensor_parallel=2", "strategy.sequence_parallel=true", "model.layers=1"});
}
TEST(MissingCommunication, Ring) { expect_each_is_missed({"strategy.context_parallel=2", "model.layers=1"}); }
TEST(MissingCommunication, Ulysses) {
    expect_each_is_missed({"strategy.context_parallel=2", "strategy.context_parallel_kind=ulysses", "model.layers=1"});
}
TEST(MissingCommunication, AllGatheredKeys) {
    expect_each_is_missed({"strategy.context_parallel=2", "strategy.context_parallel_kind=allgather", "model.layers=1"});
}
TEST(MissingCommunication, NormsOfTensors) {
    expect_each_is_missed(
        {"strategy.tensor_parallel=2", "strategy.data_parallel=2", "strategy.zero_stage=1", "model.layers=1", "training.optimizer=lamb"});
}
TEST(MissingCommunication, TiedEmbedding) {
    expect_each_is_missed({"strategy.pipeline_parallel=2", "strategy.schedule=1f1b", "training.gradient_clipping=0.1"});
}

TEST(MissingCommunication, ShardedParameters) {
    expect_each_is_missed({"strategy.data_parallel=2", "strategy.framework=deepspeed", "strategy.zero_stage=3",
                           "training.gradient_clipping=0.1", "model.layers=1"});
    expect_each_is_missed({"strategy.data_parallel=2", "strategy.framework=fsdp", "training.gradient_clipping=0.1", "model.layers=1"});
    expect_each_is_missed({"strategy.data_parallel=4", "strategy.framework=fsdp2", "strategy.shard_group_size=2", "model.layers=1"});
    expect_each_is_missed({"strategy.data_parallel=2", "strategy.framework=megatron", "strategy.zero_stage=2",
                           "strategy.pipeline_parallel=2", "strategy.schedule=1f1b"});
}

const std::vector<std::string> small_mixture{"model.moe.experts=4", "model.moe.top_k=2", "model.moe.expert_ffn_size=12",
                                             "model.layers=1",      "model.bias=false",  "strategy.framework=megatron"};

std::vector<std::string> of_experts(const std::vector<std::string>& more) {
    std::vector<std::string> fields = small_mixture;
    fields.insert(fields.end(), more.begin(), more.end());
    return fields;
}

TEST(MissingCommunication, Experts) {
    expect_each_is_missed(of_experts({"strategy.data_parallel=2", "strategy.expert_parallel=2", "training.gradient_clipping=0.1"}));
    expect_each_is_missed(of_experts({"strategy.data_parallel=4", "strategy.expert_parallel=2", "strategy.zero_stage=1"}));
    expect_each_is_missed(of_experts({"strategy.data_parallel=2", "strategy.expert_parallel=2", "model.moe.capacity_factor=1.5"}));
    expect_each_is_missed(of_experts({"strategy.data_parallel=2", "strategy.expert_parallel=2", "runtime.token_dispatcher=allgather"}));
}
TEST(MissingCommunication, ExpertsOverTensorRanks) {
    expect_each_is_missed(of_experts({"strategy.tensor_parallel=2", "strategy.sequence_parallel=true", "strategy.data_parallel=2",
                                      "strategy.expert_parallel=2", "strategy.expert_tensor_parallel=2", "model.vocab_size=256"}));
    expect_each_is_missed(of_experts({"strategy.tensor_parallel=2", "strategy.sequence_parallel=true", "strategy.data_parallel=2",
                                      "strategy.expert_parallel=2", "strategy.expert_tensor_parallel=2", "model.moe.capacity_factor=1.5",
                                      "model.vocab_size=256"})); // each rank has words of its own, none padding alone
}
TEST(MissingCommunication, Pipelines) {
    expect_each_is_missed({"strategy.pipeline_parallel=2", "strategy.schedule=zb-h1", "strategy.tensor_parallel=2"});
    expect_each_is_missed({"strategy.pipeline_parallel=2", "strategy.schedule=dualpipe", "model.layers=4", "strategy.zero_stage=1"});
    expect_each_is_missed({"strategy.pipeline_parallel=2", "strategy.schedule=1f1b", "strategy.context_parallel=2",
                           "strategy.context_parallel_kind=ulysses"});
}

// A rank that does not call a collective its partner calls: the report names both, the op and the communicator.
TEST(Deadlock, IsReported) {
    const Scenario scenario = tiny({"strategy.pipeline_parallel=2", "strategy.schedule=1f1b"});
    const auto drop_first = [](Plan& plan) {
        for (std::size_t b = 0; b < plan.blocks.size(); ++b)
            for (std::size_t i = 0; i < plan.blocks[b].ops.size(); ++i)
                if (plan.blocks[b].ops[i].name == "finalize.embedding")
                    return test::drop_op(plan, static_cast<std::int32_t>(b), static_cast<std::int32_t>(i));
    };
    for (const std::string& executor : executor_names()) {
        try {
            train(scenario, {.steps = 1, .executor = executor, .change = drop_first});
            ADD_FAILURE() << "nobody noticed";
        } catch (const StandsStill& e) {
            const std::string said = e.what();
            EXPECT_NE(said.find("rank 1: finalize.embedding of optimizer:1"), std::string::npos) << said;
            EXPECT_NE(said.find("waits for rank 0 on communicator embedding"), std::string::npos) << said;
        }
    }
}

// A line a rank. In the simulator, who is done with a step goes on to the next one: where it stands there, no executor can say.
void expect_same_report(const std::string& executed, const std::string& simulated) {
    std::map<std::string, std::string> said; // by rank
    std::istringstream in(simulated), out(executed);
    for (std::string line; std::getline(in, line);) said[line.substr(0, line.find(':'))] = line;
    for (std::string line; std::getline(out, line);) {
        const std::string& theirs = said[line.substr(0, line.find(':'))];
        const char* const until = line.find(" (which") == std::string::npos ? " (which" : "\n";
        EXPECT_EQ(line.substr(0, line.find(until)), theirs.substr(0, theirs.find(until)));
    }
    EXPECT_EQ(executed.empty(), simulated.empty()) << executed << simulated;
}

// Plans that lack any one transfer, or a sum over stages on one of them: where the simulator stands still every executor does, and both
// report the same, word for word.
TEST(Deadlock, IsTheSimulators) {
    const std::vector<std::string> plans[] = {
        {"strategy.pipeline_parallel=2", "strategy.schedule=1f1b", "strategy.overlap.pipeline=true"},
        {"strategy.pipeline_parallel=2", "strategy.schedule=1f1b", "strategy.tensor_parallel=2", "training.gradient_clipping=0.1"},
        {"strategy.pipeline_parallel=4", "strategy.schedule=1f1b", "model.layers=4"},
        {"strategy.pipeline_parallel=2", "strategy.schedule=interleaved-1f1b", "strategy.virtual_pipeline=2", "model.layers=4"},
    };
    for (const auto& fields : plans) {
        const Scenario scenario = tiny(fields);
        const Fabric fabric(scenario.cluster);
        const CostModel cost(scenario, fabric);
        const Plan right = executed_plan(scenario);
        int standing = 0;
        for (std::size_t b = 0; b < right.blocks.size(); ++b)
            for (std::size_t i = 0; i < right.blocks[b].ops.size(); ++i) {
                const Op& op = right.blocks[b].ops[i];
                const bool between_stages =
                    std::holds_alternative<Exchange>(op.work) || op.name == "finalize.embedding" || op.name == "gradient_norm.reduce";
                if (!between_stages) continue;
                const auto drop = [&](Plan& plan) { test::drop_op(plan, static_cast<std::int32_t>(b), static_cast<std::int32_t>(i)); };
                Plan plan = right;
                drop(plan);
                SimulateOptions unfolded;
                unfolded.fold = false;
                const Simulation simulated = simulate(plan, scenario, fabric, cost, unfolded);
                for (const std::string& executor : executor_names()) {
                    std::string said;
                    try {
                        train(scenario, {.steps = 1, .executor = executor, .change = drop});
                    } catch (const StandsStill& e) { said = e.what(); }
                    SCOPED_TRACE(executor + " without " + op.name + " of " + right.blocks[b].name);
                    expect_same_report(said, simulated.deadlock ? to_text(*simulated.deadlock) : "");
                }
                standing += simulated.deadlock.has_value();
            }
        EXPECT_GT(standing, 2) << fields[1];
    }
}

} // namespace
} // namespace orrery::agree

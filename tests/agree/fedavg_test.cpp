// FedAvg against a reference written by hand: a world of one rank for each client, trained on the client's own samples alone, over and
// over; after some steps their parameters become the mean in which each weighs as much as it has samples.
#include "tests/agree/agree.hpp"

#include "exec/runtime/clients.hpp"
#include "sim/plan/lower.hpp"
#include "sim/plan/verify.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace orrery::agree {
namespace {

constexpr int clients = 3, local_steps = 2, fedavg_rounds = 3;
constexpr int samples[clients] = {5, 2, 9}; // of batches of four: each client meets its first ones again

Scenario federated(const std::vector<std::string>& more = {}) {
    std::vector<std::string> fields{"training.global_batch_size=12", "strategy.synchronization.kind=fedavg",
                                    "strategy.synchronization.inner_steps=2", "strategy.synchronization.samples=[5,2,9]",
                                    "strategy.synchronization.workers=3"};
    const bool grouped = std::ranges::any_of(more, [](const std::string& f) { return f.starts_with("strategy.data_parallel="); });
    if (!grouped) fields.push_back("strategy.data_parallel=3");
    fields.insert(fields.end(), more.begin(), more.end());
    return tiny(fields);
}

// A client's step: its own next four sequences.
void load_own(World& world, const Corpus& corpus, std::int64_t step, int client) {
    load_batch(world, corpus, step); // the step's number; its tokens are overwritten
    const std::int64_t batch = world.scenario.training.global_batch_size, length = world.facts.sequence,
                       first = std::accumulate(samples, samples + client, std::int64_t{0});
    for (std::size_t b = 0; b < world.plan.buffers.size(); ++b) {
        const Buffer& x = world.plan.buffers[b];
        if (x.role != Role::batch) continue;
        auto* data = reinterpret_cast<std::int64_t*>(world.rank(0).memory.block(static_cast<BufferId>(b), -1));
        std::vector<std::int64_t> sequence(static_cast<std::size_t>(length + 1));
        for (std::int64_t i = 0; i < batch; ++i) {
            read_sequence(corpus, first + (step * batch + i) % samples[client], sequence);
            std::copy_n(sequence.begin() + x.ahead, length, data + i * length);
        }
    }
}

Tensors fedavg_by_hand(const Scenario& scenario) {
    Scenario one = on_one_rank(scenario);
    one.training.global_batch_size /= clients;
    one.strategy.synchronization = {};
    const Corpus corpus{"", one.model.vocab_size, one.training.seed};
    std::vector<std::unique_ptr<World>> worlds;
    std::vector<std::unique_ptr<Executor>> executors;
    for (int c = 0; c < clients; ++c) {
        worlds.push_back(make_world(one, DType::fp64));
        initialise(*worlds.back());
        executors.push_back(make_executor("serial", *worlds.back()));
    }
    const double all = std::accumulate(samples, samples + clients, 0.0);
    Tensors mean;
    for (int step = 0; step < fedavg_rounds * local_steps; ++step) {
        for (int c = 0; c < clients; ++c) {
            load_own(*worlds[c], corpus, step, c);
            executors[c]->step(nullptr);
        }
        if ((step + 1) % local_steps != 0) continue;
        for (int c = 0; c < clients; ++c) {
            const Tensors own = gather(*worlds[c], Quantity::parameters).tensors;
            if (c == 0) mean = own;
            for (auto& [name, t] : mean)
                for (std::size_t i = 0; i < t.values.size(); ++i)
                    t.values[i] = (c == 0 ? 0 : t.values[i]) + samples[c] / all * own.at(name).values[i];
        }
        for (auto& world : worlds) scatter(*world, Quantity::parameters, mean);
    }
    return mean;
}

Tensors fedavg_by_plan(const Scenario& scenario, const std::string& executor, double& disagreement) {
    const auto world = make_world(scenario, DType::fp64);
    initialise(*world);
    Gathered all = parameters_after(*world, executor, fedavg_rounds * local_steps);
    disagreement = all.disagreement;
    return std::move(all.tensors);
}

void expect_same(const Scenario& scenario) {
    EXPECT_TRUE(verify(lower(scenario)).empty()) << to_text(verify(lower(scenario)));
    const Tensors expected = fedavg_by_hand(scenario);
    for (const char* executor : {"serial", "threads", "queues"}) {
        double disagreement = 1;
        const Difference d = difference(expected, fedavg_by_plan(scenario, executor, disagreement));
        EXPECT_LE(d.relative, 1e-10) << executor << " " << d.worst;
        EXPECT_EQ(disagreement, 0) << executor << ": clients are alike after a round";
    }
}

TEST(Fedavg, IsTheMeanOfClientsByTheirSamples) {
    expect_same(federated());
    expect_same(federated({"training.optimizer=sgd"}));
    expect_same(federated({"strategy.tensor_parallel=2"}));
    expect_same(federated({"strategy.pipeline_parallel=2", "strategy.schedule=1f1b", "training.gradient_clipping=0.5"}));
}

// A client may be two replicas that share its steps and its samples, whole or sharded.
TEST(Fedavg, OfClientsOfTwoReplicas) {
    expect_same(federated({"strategy.data_parallel=6"}));
    expect_same(federated({"strategy.data_parallel=6", "strategy.framework=fsdp2", "strategy.zero_stage=3"}));
}

// One client with nearly all samples is nearly all of the mean, and alike clients are local SGD.
TEST(Fedavg, OfAlikeClientsIsLocalSgd) {
    double disagreement = 0;
    const std::vector<std::string> fields{"strategy.data_parallel=2", "strategy.synchronization.inner_steps=2"};
    const auto with = [&](const std::vector<std::string>& more) {
        std::vector<std::string> all = fields;
        all.insert(all.end(), more.begin(), more.end());
        return fedavg_by_plan(tiny(all), "serial", disagreement);
    };
    EXPECT_EQ(difference(with({"strategy.synchronization.kind=fedavg"}), with({"strategy.synchronization.kind=local_sgd"})).relative, 0);
}

template <class F> bool refused(F&& change) {
    Plan plan = lower(federated());
    change(plan);
    const auto found = verify(plan);
    return std::any_of(found.begin(), found.end(), [](const Violation& v) { return v.rule == "worker-averaged"; });
}

TEST(Fedavg, AMeanWithoutSharesIsFound) {
    const auto shares = [](const Op& op) {
        const auto* p = std::get_if<Pointwise>(&op.work);
        return p && p->kind == PointwiseKind::own_share;
    };
    EXPECT_TRUE(refused([&](Plan& p) { // as if all weighed alike
        for (Block& b : p.blocks)
            for (Op& op : b.ops)
                if (shares(op)) std::get<Pointwise>(op.work).kind = PointwiseKind::cast;
    }));
    EXPECT_TRUE(refused([&](Plan& p) { p.shares.clear(); }));
}

// The clients of a federated scenario become replicas, with its local steps and their samples.
TEST(Fedavg, ClientsOfAFederatedScenarioAreReplicas) {
    Scenario client = tiny();
    client.federated.emplace();
    client.federated->table = {{1, 30, 10, 10, 1}, {2, 10, 10, 10, 1}, {1, 5, 10, 10, 1}};
    client.federated->sampled = 3;
    client.federated->local_steps = 4;
    const ClientsOnRanks ranks = clients_on_ranks(client);
    ASSERT_TRUE(ranks.problems.empty()) << to_text(ranks.problems);
    const Scenario all = tiny(ranks.overrides);
    EXPECT_EQ(all.strategy.data_parallel, 3);
    EXPECT_EQ(all.strategy.synchronization.inner_steps, 4);
    EXPECT_EQ(all.strategy.synchronization.samples, (std::vector<int>{30, 10, 5}));
    EXPECT_EQ(all.training.global_batch_size, 3 * client.training.global_batch_size);
    client.strategy.data_parallel = 2;
    const Scenario doubled = tiny(clients_on_ranks(client).overrides);
    EXPECT_EQ(doubled.strategy.data_parallel, 6);
    EXPECT_EQ(doubled.strategy.replicas_of_worker(), 2);
    client.federated->sampled = 2;
    client.federated->local_steps = 0;
    EXPECT_EQ(clients_on_ranks(client).problems.size(), 2u);
}

} // namespace
} // namespace orrery::agree

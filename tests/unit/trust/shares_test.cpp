// Are shares the sensitivities of the step: does it grow by them where durations of a group grow?
#include "sim/report/report.hpp"
#include "sim/scenario/parse.hpp"
#include "sim/trust/beliefs.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

namespace orrery {
namespace {

Scenario small_parsed(const std::string& strategy, const std::string& cluster = R"({"preset": "dgx-a100-80gb", "nodes": 2})") {
    const ParseResult r = parse_scenario(R"({"name": "small", "model": "gpt3-1.3b", "cluster": )" + cluster +
                                         R"(, "training": {"global_batch_size": 64, "micro_batch_size": 1, "sequence_length": 2048,
        "precision": "bf16"}, "runtime": {"cuda_graphs": true}, "strategy": )" +
                                         strategy + "}");
    EXPECT_TRUE(r.problems.empty()) << to_text(r.problems);
    return r.scenario.value();
}

Report predicted(const Scenario& s) {
    PredictOptions options;
    options.shares = true;
    return predict(s, options).report;
}

double share(const Report& r, CostGroup g) { return r.shares[g]; }

const char* const strategies[] = {R"({"framework": "ddp"})", R"({"framework": "megatron", "tensor_parallel": 4, "pipeline_parallel": 2})",
                                  R"({"framework": "fsdp2", "zero_stage": 3})"};

TEST(Shares, AddUpToOne) {
    for (const char* strategy : strategies) {
        const Report r = predicted(small_parsed(strategy));
        EXPECT_NEAR(std::accumulate(r.shares.begin(), r.shares.end(), 0.0), 1, 1e-9) << strategy;
        EXPECT_GT(share(r, CostGroup::products), 0.2) << strategy;
        EXPECT_EQ(share(r, CostGroup::experts), 0) << strategy << ": the model has none";
    }
}

// A rate of the device changes other things than one group of kernels, and casts of unlike types are not bound by memory, so this holds
// roughly.
TEST(Shares, OfMemoryIsWhatASlowerMemoryCosts) {
    for (const char* strategy : strategies) {
        Scenario s = small_parsed(strategy);
        const Report before = predicted(s);
        s.cluster.device.memory_bandwidth.value /= 1.02;
        const double grown = std::log(predicted(s).step_time_s / before.step_time_s) / std::log(1.02);
        EXPECT_NEAR(share(before, CostGroup::memory), grown, 0.1) << strategy;
    }
}

// Twice as slow in everything is a step of twice the length: the factors reach all durations.
TEST(Shares, AllGroupsTogetherScaleTheStep) {
    for (const char* strategy : strategies) {
        const Scenario s = small_parsed(strategy);
        PredictOptions twice;
        twice.simulate.factors.fill(2);
        const double ratio = predict(s, twice).report.step_time_s / predict(s).report.step_time_s;
        EXPECT_NEAR(ratio, 2, 0.02) << strategy;
    }
}

TEST(Shares, NoGroupMakesAStepFasterByBeingSlower) {
    for (const char* strategy : strategies) {
        const Scenario s = small_parsed(strategy);
        const double before = predict(s).report.step_time_s;
        for (int g = 0; g < cost_group_count; ++g) {
            PredictOptions slower;
            slower.simulate.factors[g] = 1.3;
            EXPECT_GE(predict(s, slower).report.step_time_s, before * 0.9999) << strategy << ": " << name(static_cast<CostGroup>(g));
        }
    }
}

TEST(Shares, OfNetworksIsWhatASlowerNetworkCosts) {
    Scenario s = small_parsed(R"({"framework": "ddp"})",
                              R"({"preset": "dgx-a100-80gb", "nodes": 2, "inter_node": {"nics_per_node": 1, "gbit_per_s": 50}})");
    const Report before = predicted(s);
    EXPECT_GT(share(before, CostGroup::links_between), 0.3) << "this network is the bottleneck";
    s.cluster.inter.nic_bandwidth.value /= 1.02;
    const double grown = std::log(predicted(s).step_time_s / before.step_time_s) / std::log(1.02);
    EXPECT_NEAR(share(before, CostGroup::links_between), grown, 0.12) << "what is hidden grows out of hiding too";
    EXPECT_EQ(share(before, CostGroup::links_inside), 0);
}

TEST(Shares, TransfersInsideANodeAreNotItsNetworks) {
    const Report r =
        predicted(small_parsed(R"({"framework": "megatron", "tensor_parallel": 8})", R"({"preset": "dgx-a100-80gb", "nodes": 1})"));
    EXPECT_GT(share(r, CostGroup::links_inside), 0.02);
    EXPECT_EQ(share(r, CostGroup::links_between), 0);
}

TEST(Beliefs, AMeasuredStepMovesWhatItRestsOnAndNarrowsIt) {
    CostShares shares{};
    shares[CostGroup::products] = 0.5;
    shares[CostGroup::memory] = 0.5;
    Beliefs b = beliefs_of(judged_spreads.stated);
    const double before = spread_of(b, shares);
    EXPECT_EQ(expected_off(b, shares), 0);
    EXPECT_NEAR(before, std::sqrt(0.25 * 0.08 * 0.08 + 0.25 * 0.5 * 0.5 + 0.07 * 0.07), 1e-12);
    learn(b, shares, 0.2, 0.05);
    EXPECT_GT(expected_off(b, shares), 0.15);
    EXPECT_LT(expected_off(b, shares), 0.2) << "a reading is not believed entirely";
    EXPECT_LT(spread_of(b, shares), 0.06);
    EXPECT_GT(b.mean[static_cast<std::size_t>(CostGroup::memory)], 10 * b.mean[static_cast<std::size_t>(CostGroup::products)])
        << "what is least sure moves most";
    EXPECT_EQ(b.mean[static_cast<std::size_t>(CostGroup::host)], 0) << "it has no part in the step";
}

TEST(Beliefs, LearningTheSameStepOftenEndsAtItsTime) {
    CostShares shares{};
    shares[CostGroup::products] = 1;
    Beliefs b = beliefs_before({});
    for (int i = 0; i < 200; ++i) learn(b, shares, -0.1, 0.05);
    EXPECT_NEAR(expected_off(b, shares), -0.1, 2e-3);
    EXPECT_LT(spread_of(b, shares), 0.005);
}

TEST(Beliefs, PartsOfASpreadAddUp) {
    const Report r = predicted(small_parsed(strategies[1]));
    const BeliefArray parts = parts_of_spread(beliefs_before({}), r.shares);
    EXPECT_NEAR(std::accumulate(parts.begin(), parts.end(), 0.0), 1, 1e-9);
    for (double part : parts) EXPECT_GE(part, 0);
    EXPECT_EQ(parts_of_spread(beliefs_before({}), CostShares{})[0], 0);
}

// Steps made with known spreads give these spreads back.
TEST(Beliefs, SpreadsAreFoundInStepsThatWereMadeWithThem) {
    BeliefArray truth = judged_spreads.stated;
    truth[static_cast<std::size_t>(CostGroup::memory)] = 0.25;
    std::vector<Observed> rows;
    std::uint64_t state = 7;
    const auto uniform = [&] { return static_cast<double>((state = state * 6364136223846793005u + 1442695040888963407u) >> 11) * 0x1p-53; };
    const auto normal = [&] { return std::sqrt(-2 * std::log(uniform() + 1e-300)) * std::cos(6.283185307179586 * uniform()); };
    for (int i = 0; i < 4000; ++i) {
        Observed o;
        double sum = 0;
        for (double& share : o.shares) sum += share = std::pow(uniform(), 3);
        for (double& share : o.shares) share /= sum;
        for (std::size_t g = 0; g < o.shares.size(); ++g) o.off += o.shares[g] * truth[g] * normal();
        o.left_open = {i % 2 == 0, i % 3 == 0};
        if (o.left_open[0]) o.off += o.shares[CostGroup::attention] * 0.4 * normal();
        if (o.left_open[1]) o.off += 0.12 * normal();
        o.off += truth[cost_group_count] * normal();
        o.source = std::to_string(i % 40);
        rows.push_back(o);
    }
    const Spreads found = fitted_spreads(rows, judged_spreads), unmoved = fitted_spreads({}, judged_spreads);
    EXPECT_NEAR(found.stated[static_cast<std::size_t>(CostGroup::memory)], 0.25, 0.06);
    EXPECT_NEAR(found.stated[static_cast<std::size_t>(CostGroup::links_between)], 0.4, 0.08);
    EXPECT_NEAR(found.open[0], 0.4, 0.1) << "what fields left open add is told apart from what their groups are unsure by";
    EXPECT_NEAR(found.open[1], 0.12, 0.03);
    for (std::size_t i = 0; i < belief_count; ++i) EXPECT_NEAR(unmoved.stated[i], judged_spreads.stated[i], 1e-9);
    for (std::size_t i = 0; i < open_fields.size(); ++i) EXPECT_NEAR(unmoved.open[i], judged_spreads.open[i], 1e-9);
}

} // namespace
} // namespace orrery

// Time to a target: samples(B) = E_min (1 + B / B_crit) (McCandlish et al., arXiv:1812.06162), steps one after the other.
#include "tests/laws/scenarios.hpp"

#include "sim/report/report.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace orrery::laws {
namespace {

Scenario aimed(int microbatches,
               const std::string& convergence = R"({"target": "loss 2.5", "min_samples": 1000, "critical_batch_size": 64})",
               const std::string& strategy = "") {
    Gpt g;
    g.dp = 4;
    g.microbatches = microbatches;
    g.extra_strategy = strategy;
    std::string text = g.text();
    const std::string batch = R"("training": {)";
    text.insert(text.find(batch) + batch.size(), R"("convergence": )" + convergence + ", ");
    return scenario(text);
}

TEST(Target, TakesStepsAsTheLawSays) {
    for (int microbatches : {1, 4, 16, 64}) {
        const Scenario s = aimed(microbatches);
        const Report r = predict(s).report;
        const double batch = 4 * 2 * microbatches, least_steps = 1000.0 / 64;
        EXPECT_EQ(r.target.name, "loss 2.5");
        EXPECT_NEAR(r.target.samples, 1000 * (1 + batch / 64), 1e-9 * r.target.samples);
        EXPECT_NEAR(r.target.steps, least_steps * (1 + 64 / batch), 1e-9 * r.target.steps);
        EXPECT_NEAR(r.target.s, r.target.steps * r.step_time_s, 1e-9 * r.target.s);
        EXPECT_NEAR(r.target.usd, r.target.steps * r.cost_usd, 1e-9 * r.target.usd);
    }
    EXPECT_TRUE(predict(Gpt{}.make()).report.target.name.empty()) << "nobody asked";
}

// Workers that drift need more samples, as many as the scenario says.
TEST(Target, OfWorkersTakesTheirPenalty) {
    const std::string how = R"({"min_samples": 1000, "critical_batch_size": 64, "replica_penalty": 0.1})";
    const Report together = predict(aimed(4, how)).report;
    for (const char* kind : {"local_sgd", "diloco"}) {
        const Report apart = predict(aimed(4, how, fmt::format(R"(, "synchronization": {{"kind": "{}", "inner_steps": 8}})", kind))).report;
        EXPECT_NEAR(apart.target.samples, 1.1 * together.target.samples, 1e-9 * together.target.samples) << kind;
    }
}

// Workers of a server compute with its parameters: they have none that drift, and what is old is staleness_penalty's.
TEST(Target, OfWorkersOfAServerTakesNoPenaltyOfReplicas) {
    const std::string law = R"({"min_samples": 1000, "critical_batch_size": 64, "replica_penalty": )";
    const std::string served = R"(, "synchronization": {"kind": "parameter_server", "servers": 1})";
    const Report none = predict(aimed(4, law + "0}", served)).report, some = predict(aimed(4, law + "0.5}", served)).report;
    EXPECT_EQ(some.target.samples, none.target.samples);
    const auto noted = [](const Report& r) {
        return std::ranges::any_of(r.notes,
                                   [](const std::string& n) { return n.find("replica_penalty has no effect") != std::string::npos; });
    };
    EXPECT_TRUE(noted(some));
    EXPECT_FALSE(noted(predict(aimed(4, law + "0.5}", R"(, "synchronization": {"kind": "gossip"})")).report));
}

// Gradients that are old need more samples, by how many updates old they are in the mean; those that are not need no more.
TEST(Target, OfOldGradientsTakesTheirPenalty) {
    const auto how = [](double penalty) {
        return fmt::format(R"({{"min_samples": 1000, "critical_batch_size": 64, "staleness_penalty": {}}})", penalty);
    };
    const std::string served = R"(, "synchronization": {"kind": "parameter_server", "servers": 1})";
    const Report fresh = predict(aimed(4, how(0), served)).report;
    ASSERT_GT(fresh.mean_staleness(), 1);
    double before = fresh.target.s;
    for (double penalty : {0.01, 0.1, 1.0}) {
        const Report old = predict(aimed(4, how(penalty), served)).report;
        EXPECT_NEAR(old.target.samples, (1 + penalty * old.mean_staleness()) * fresh.target.samples, 1e-9 * old.target.samples);
        EXPECT_NEAR(old.target.s, old.target.steps * old.step_time_s, 1e-9 * old.target.s);
        EXPECT_GT(old.target.s, before);
        before = old.target.s;
    }
    const Scenario together = aimed(4, how(1));
    const Report r = predict(together).report;
    EXPECT_NEAR(r.target.samples, 1000 * (1 + 32.0 / 64), 1e-9 * r.target.samples);
    EXPECT_TRUE(std::ranges::any_of(
        r.notes, [](const std::string& n) { return n.find("training.convergence.staleness_penalty has no effect") != std::string::npos; }));
}

// MLPerf's reference convergence points, medians of 5 to 88 runs each: the law passes within these errors of all of a benchmark's batches.
TEST(Target, TheLawFitsMlperfsPoints) {
    const std::filesystem::path table = ORRERY_SOURCE_DIR "/../shared/data/mlperf_rcp.csv";
    if (!std::filesystem::exists(table)) GTEST_SKIP() << "no table of convergence points here";
    struct Fit {
        const char* benchmark;
        double least, critical, error;
    };
    constexpr Fit fits[] = {{"resnet", 34.7, 45900, 0.065}, {"bert", 2.31e6, 12300, 0.135},      {"rnnt", 34.5, 3400, 0.035},
                            {"maskrcnn", 12.8, 850, 0.065}, {"dlrm_dcnv2", 0.64, 297000, 0.045}, {"llama31_8b", 132e3, 83, 0.055}};
    for (const Fit& f : fits) {
        Convergence c;
        c.min_samples = f.least;
        c.critical_batch_size = f.critical;
        std::ifstream file(table);
        int points = 0;
        for (std::string line; std::getline(file, line);) {
            std::istringstream cells(line);
            std::string name, batch, unit, runs, median;
            for (std::string* cell : {&name, &batch, &unit, &runs, &median}) std::getline(cells, *cell, ',');
            if (name != f.benchmark) continue;
            ++points;
            const double measured = std::stod(median);
            EXPECT_NEAR(samples_to_target(c, std::stod(batch), false, 0), measured, f.error * measured) << name << " " << batch;
        }
        EXPECT_GE(points, 5) << f.benchmark;
    }
}

} // namespace
} // namespace orrery::laws

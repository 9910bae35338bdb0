// Does the simulated run agree with what is known exactly?
#include "sim/job/formulas.hpp"
#include "sim/job/job.hpp"
#include "sim/job/whole_run.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <numeric>
#include <sstream>

namespace orrery {
namespace {

// Synchronous saves, failures at a constant rate that strike steps, saves and restarts alike. All in minutes.
TrainingJob synchronous(double m, double tau, double delta, double r) {
    TrainingJob job;
    job.nodes = 1000;
    job.run.failures.per_node_day = 86400 / (m * 60) / job.nodes;
    job.run.failures.by = {};
    job.run.failures.by[FailingPart::gpu] = 1;
    job.run.failures.transient = 1;
    job.run.detect.crash = 0;
    job.run.restart.schedule_s = job.run.restart.compile_s = 0;
    job.run.checkpoint.kind = CheckpointKind::sync;
    job.init_s = r * 60;
    job.save_every = 50;
    job.step_ps = std::llround(tau * 60 / 50 * 1e12);
    job.save.block_s = delta * 60;
    return job;
}

double total(const JobOutcome& o) { return o.productive_s + std::accumulate(o.lost_s.begin(), o.lost_s.end(), 0.0); }

struct OracleRow {
    double m, tau, delta, r, exact;
};
std::vector<OracleRow> rows() {
    std::ifstream in(ORRERY_SOURCE_DIR "/tests/unit/job/data/run_goodput_oracle.csv");
    std::vector<OracleRow> out;
    std::string line;
    std::getline(in, line);
    while (std::getline(in, line)) {
        std::replace(line.begin(), line.end(), ',', ' ');
        std::istringstream cells(line);
        OracleRow row{};
        if (cells >> row.m >> row.tau >> row.delta >> row.r >> row.exact) out.push_back(row);
    }
    return out;
}

TEST(JobOracle, TheFormulaIsTheTables) {
    ASSERT_EQ(rows().size(), 81u);
    for (const OracleRow& row : rows()) EXPECT_NEAR(exact_goodput(row.m, row.tau, row.delta, row.r), row.exact, 1.5e-5);
}

// Each point is simulated until its own standard error is below a third of the bound.
TEST(JobOracle, GoodputIsExactWithinHalfAPercent) {
    for (const OracleRow& row : rows()) {
        TrainingJob job = synchronous(row.m, row.tau, row.delta, row.r);
        const double exact = exact_goodput(row.m, row.tau, row.delta, row.r);
        // What one interval between failures brings varies the more, the longer a restart is: so many failures leave a standard error
        // of about 0.15 %.
        const double failures = 1e5 + 1.3e6 * std::pow(row.r / row.m, 1.5);
        job.horizon_s = row.m * 60 * failures;
        job.most_failures = std::int64_t{1} << 40;
        const JobOutcome o = simulate_job(job, 0);
        EXPECT_TRUE(o.finished);
        EXPECT_NEAR(o.goodput() / exact, 1, 0.005) << row.m << " " << row.tau << " " << row.delta << " " << row.r;
        EXPECT_NEAR(total(o), o.wall_s, 1e-6 * o.wall_s);
    }
}

TEST(JobOracle, OtherPointsToo) {
    for (const auto& [m, tau, delta, r] : {std::array{147.7, 38.4, 5.0, 5.0}, {960.0, 98.0, 5.0, 5.0}, {147.7, 7.0, 0.167, 5.0}}) {
        TrainingJob job = synchronous(m, tau, delta, r);
        job.horizon_s = m * 60 * 300'000;
        EXPECT_NEAR(simulate_job(job, 3).goodput() / exact_goodput(m, tau, delta, r), 1, 0.005);
    }
}

// Renewals: as many failures as the length of the run over their mean distance, with a Poisson's spread.
TEST(JobOracle, FailuresArePoisson) {
    TrainingJob job = synchronous(100, 10, 0, 1);
    job.horizon_s = 100 * 60 * 100;
    double sum = 0, squares = 0;
    const int seeds = 400;
    for (const JobOutcome& o : simulate_seeds(job, seeds, 2)) {
        const auto n = static_cast<double>(o.failures);
        sum += n / seeds;
        squares += n * n / seeds;
    }
    EXPECT_NEAR(sum, 100, 4 * 10 / std::sqrt(seeds));
    EXPECT_NEAR((squares - sum * sum) / 100, 1, 4 * std::sqrt(2.0 / seeds));
}

// Nodes that have been in use fail at the rate 1 / mean from the first day on, whatever the shape (Cox, 1962).
TEST(JobOracle, WeibullFailuresAreARenewalProcess) {
    for (const double shape : {0.5, 1.0, 2.0, 5.0}) {
        TrainingJob job = synchronous(100, 10, 0, 1);
        job.nodes = 20;
        job.run.failures.per_node_day = 1;
        job.run.failures.distribution = FailureLaw::weibull;
        job.run.failures.shape = shape;
        const double variation = std::tgamma(1 + 2 / shape) / std::pow(std::tgamma(1 + 1 / shape), 2) - 1; // 5, 1, 0.273, 0.052
        for (const double days : {2, 500}) {
            job.horizon_s = 86400 * days;
            double sum = 0;
            const int seeds = days < 100 ? 400 : 20;
            for (const JobOutcome& o : simulate_seeds(job, seeds, 2)) sum += static_cast<double>(o.failures) / seeds;
            EXPECT_NEAR(sum, 20 * days, 4 * std::sqrt(20 * days * std::max(1.0, variation) / seeds)) << shape << ", " << days << " days";
        }
    }
}

TEST(JobOracle, WithoutFailuresARunIsItsSteps) {
    TrainingJob job = synchronous(100, 10, 0, 1);
    job.run.failures.per_node_day = 0;
    job.step_ps = 12'345'678'901'234;
    job.steps = 250'003;
    job.save_every = 100;
    const JobOutcome o = simulate_job(job, 0);
    ASSERT_TRUE(o.finished);
    for (const double lost : o.lost_s) EXPECT_EQ(lost, 0);
    EXPECT_EQ(o.steps, 250'003);
    EXPECT_EQ(o.wall_s, 250'003 * job.step_s()); // the steps and their exact time make up the whole run
    EXPECT_EQ(o.goodput(), 1);
    job.save.block_s = 2; // 2,500 saves and the last one
    EXPECT_NEAR(simulate_job(job, 0).wall_s, 250'003 * job.step_s() + 2501 * 2.0, 1e-3);
    job.run.evaluate_every_steps = 1000;
    job.run.evaluation_s = 60;
    EXPECT_NEAR(simulate_job(job, 0).wall_s, 250'003 * job.step_s() + 2501 * 2.0 + 250 * 60.0, 1e-3);
}

TEST(JobOracle, TheSameSeedGivesTheSameRun) {
    TrainingJob job = synchronous(60, 12, 1, 5);
    job.steps = 100'000;
    const auto one = simulate_seeds(job, 8, 1), two = simulate_seeds(job, 8, 3);
    for (std::size_t i = 0; i < 8; ++i) {
        EXPECT_EQ(one[i].wall_s, two[i].wall_s);
        EXPECT_EQ(one[i].lost_s, two[i].lost_s);
    }
    EXPECT_NE(one[0].wall_s, one[1].wall_s);
}

TEST(JobOracle, YoungAndDalyAndMeta) {
    EXPECT_NEAR(young_interval(147.7, 5), 38.43, 0.01);
    EXPECT_NEAR(daly_interval(147.7, 5), 33.43, 0.01);
    EXPECT_NEAR(exact_goodput(147.7, 38.4, 5, 5), 0.736, 0.001);
    EXPECT_NEAR(meta_ettr(147.7, 38.4, 5, 5), 0.740, 0.001);
    EXPECT_EQ(meta_ettr(60, 3.5, 0.1, 60), 0) << "it does not hold there, and says nothing";
}

TEST(JobOracle, TheBestIntervalIsTheExactLaws) {
    TrainingJob job = synchronous(147.7, 38.4, 5, 5);
    job.step_ps = 60'000'000'000'000;
    job.horizon_s = 147.7 * 60 * 3000;
    const std::vector<IntervalPoint> curve = interval_curve(job, 2);
    const IntervalPoint best = *std::ranges::max_element(curve, {}, &IntervalPoint::goodput);
    double most = 0;
    for (int tau = 1; tau < 300; ++tau) most = std::max(most, exact_goodput(147.7, tau, 5, 5));
    EXPECT_NEAR(exact_goodput(147.7, static_cast<double>(best.steps), 5, 5) / most, 1, 0.005);
}

// Corruption that is noticed a day later, and ten saves that are kept: they must reach back further than a day. Intervals as short as
// failures alone would have them lose the whole run.
TEST(JobOracle, TheBestIntervalReachesBehindWhatCorruptsUnnoticed) {
    TrainingJob job = synchronous(720, 38.4, 0.1, 5); // a failure in twelve hours
    job.step_ps = 10'000'000'000'000;
    job.horizon_s = 86400 * 30;
    job.run.failures.by = {};
    job.run.failures.by[FailingPart::sdc] = 1;
    job.run.detect.sdc = 86400;
    job.run.checkpoint.keep = 10;
    job.run.seeds = 16;
    const std::vector<IntervalPoint> curve = interval_curve(job, 2);
    const IntervalPoint best = best_interval(curve, 60, job.step_s());
    EXPECT_GT(static_cast<double>(best.steps) * job.step_s() * job.run.checkpoint.keep, job.run.detect.sdc);
    const auto goodput = [&](double seconds) {
        TrainingJob other = job;
        other.save_every = std::llround(seconds / job.step_s());
        double sum = 0;
        for (const JobOutcome& o : simulate_seeds(other, 16, 2)) sum += o.goodput() / 16;
        return sum;
    };
    for (const double seconds : {120, 600, 2400, 9000, 12000, 20000, 60000})
        EXPECT_GE(best.goodput, goodput(seconds) - 0.02) << seconds << " s, against " << static_cast<double>(best.steps) * job.step_s();
}

TEST(JobOracle, QuantilesKnowTheirError) {
    std::vector<double> values;
    for (int i = 0; i < 1000; ++i) values.push_back(i / 1000.0);
    const SeedBand b = band(values);
    EXPECT_NEAR(b.p10, 0.1, 0.002);
    EXPECT_NEAR(b.p50, 0.5, 0.002);
    EXPECT_NEAR(b.error50, std::sqrt(0.25 / 1000), 0.001); // of a uniform law
}

} // namespace
} // namespace orrery

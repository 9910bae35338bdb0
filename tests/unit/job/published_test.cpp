// Published runs, from what their sources say of failures, saves and restarts. A model of failures and saves alone must land above what was
// measured: people, new software and lost sites are the rest. What it does not explain is named.
#include "sim/job/formulas.hpp"
#include "sim/job/job.hpp"
#include "sim/job/random.hpp"
#include "sim/job/whole_run.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>

namespace orrery {
namespace {

// Every failure stops the run for restart_s and is over then; saves hold it up for save_s.
TrainingJob job_of_rates(int nodes, double per_node_day, double step_s, double save_s, double restart_s) {
    TrainingJob job;
    job.nodes = nodes;
    job.run.failures.per_node_day = per_node_day;
    job.run.failures.by = {};
    job.run.failures.by[FailingPart::gpu] = 1;
    job.run.failures.transient = 1;
    job.run.detect.crash = job.run.restart.schedule_s = job.run.restart.compile_s = 0;
    job.run.checkpoint.kind = CheckpointKind::sync;
    job.init_s = restart_s;
    job.step_ps = std::llround(step_s * 1e12);
    job.save.block_s = save_s;
    job.run.seeds = 16;
    return job;
}

double mean_goodput(const TrainingJob& job, int seeds) {
    double sum = 0;
    for (const JobOutcome& o : simulate_seeds(job, seeds, 2)) sum += o.goodput() / seeds;
    return sum;
}

// BLOOM (bigscience chronicles): 48 nodes, a GPU a week, steps of 105 s, 2.3 TB in 40 s every 100 steps, evaluation of 12 min every 1,000,
// 82,072 steps in 108 days: 0.923. A restart of an hour is what the chronicles' kill, allocation and start come to. The gap of
// about 5 points: hangs and losses that are told of one by one (1.6), and nights and weekends until somebody saw a stop.
TEST(PublishedRuns, BloomLosesToPeopleWhatFailuresAndSavesLeave) {
    TrainingJob job = job_of_rates(48, 1.0 / 7 / 48, 105, 40, 3600);
    job.steps = 94'767 - 12'695;
    job.save_every = 100;
    const double failures_and_saves = mean_goodput(job, 50);
    EXPECT_NEAR(failures_and_saves, 0.98, 0.006);
    job.run.evaluate_every_steps = 1000;
    job.run.evaluation_s = 720;
    const double goodput = mean_goodput(job, 50);
    EXPECT_NEAR(failures_and_saves - goodput, 0.0067, 0.001) << "evaluation: 12 min in 29.5 h";
    EXPECT_GT(goodput, 0.923);
    EXPECT_LT(goodput - 0.923, 0.06) << "more than hangs and people";
}

// Kokolis et al. (arXiv:2410.21680): 12,000 GPUs, saves and restarts of 300 s: 0.9 needs 1 failure per 1,000 node-days, or saves of 10 s.
// With RSC-1's own 6.5 they give 0.74; its largest jobs measured 0.85 to 0.9, and save faster than in 300 s: the saves are the gap.
TEST(PublishedRuns, RscNeedsFewerFailuresOrFasterSaves) {
    struct Case {
        double per_node_day, save_s, printed, within;
    };
    for (const Case& c : {Case{0.001, 300, 0.9, 0.01}, {0.0065, 10, 0.9, 0.025}, {0.0065, 300, 0.736, 0.01}}) {
        TrainingJob job = job_of_rates(1500, c.per_node_day, 5, c.save_s, 300);
        job.horizon_s = 400 * 86400.0;
        double best = 0;
        for (const IntervalPoint& p : interval_curve(job, 2)) best = std::max(best, p.goodput);
        EXPECT_NEAR(best, c.printed, c.within) << c.per_node_day << " " << c.save_s;
    }
}

// Projected by them from 6.5 per 1,000 node-days: 1.8 h at 16,384 GPUs, 0.23 h at 131,072. Measured on small jobs: 47.7 days at 8 GPUs, 7.9
// h at 1,024, where that rate says 154 days and 29 h. One rate does not fit both: small jobs fail 3 to 4 times as often a node.
TEST(PublishedRuns, RscMeanTimesToFailure) {
    const auto hours_between = [](int nodes) {
        TrainingJob job = job_of_rates(nodes, 0.0065, 5, 0, 0);
        job.save_every = 100;
        job.horizon_s = 86400 / (0.0065 * nodes) * 20'000;
        return job.horizon_s / 3600 / static_cast<double>(simulate_job(job, 0).failures);
    };
    EXPECT_NEAR(hours_between(2048), 1.8, 0.05);
    EXPECT_NEAR(hours_between(16'384), 0.23, 0.01);
    EXPECT_NEAR(hours_between(1) / 1144.8, 3.2, 0.2) << "not explained by the rate";
    EXPECT_NEAR(hours_between(128) / 7.9, 3.65, 0.2) << "not explained by the rate";
}

// Other points of the exact law than the table's: drawn at random, from a failure in each save to one in a thousand intervals.
TEST(PublishedRuns, TheExactLawAtRandomPoints) {
    JobRandom random(20);
    double worst = 0;
    for (int i = 0; i < 200; ++i) {
        const double m = 600 * std::pow(100, random.share()), tau = m * std::pow(10, -2.5 + 2.5 * random.share());
        const double delta = tau * 0.5 * random.share(), restart = m * 0.5 * random.share() * random.share();
        TrainingJob job = job_of_rates(1000, 86.4 / m, tau / 50, delta, restart);
        job.save_every = 50;
        job.horizon_s = m * (2e5 + 2.6e6 * std::pow(restart / m, 1.5)); // a standard error of 0.1 %
        job.most_failures = std::int64_t{1} << 40;
        const double exact = exact_goodput(m, 50 * job.step_s(), delta, restart);
        const double off = simulate_job(job, 0).goodput() / exact - 1;
        EXPECT_NEAR(off, 0, 0.005) << m << " " << tau << " " << delta << " " << restart;
        worst = std::max(worst, std::abs(off));
    }
    std::printf("200 random points: worst %.2f %%\n", 100 * worst);
}

} // namespace
} // namespace orrery

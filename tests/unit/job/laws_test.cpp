// Does a better job ever finish later? Pairs that meet the same failures, and differ by one thing.
#include "sim/job/job.hpp"
#include "sim/job/random.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <functional>
#include <sstream>

namespace orrery {
namespace {

TrainingJob random_job(JobRandom& random) {
    TrainingJob job;
    job.nodes = 16 + random.below(2000);
    job.replicas = 1 + random.below(16);
    job.run.failures.per_node_day = 0.5 / job.nodes * std::exp(4 * random.share());
    job.run.failures.transient = 1; // as many nodes at all times
    job.run.checkpoint.kind = random.below(2) ? CheckpointKind::sync : CheckpointKind::async;
    job.run.restart.schedule_s = 100 * random.share();
    job.step_ps = 1'000'000'000'000 + static_cast<std::int64_t>(random.share() * 2e13);
    job.steps = 20'000;
    job.save_every = 1 + random.below(200);
    job.save.block_s = 60 * random.share();
    job.save.write_s = job.run.checkpoint.kind == CheckpointKind::async ? 300 * random.share() : 0;
    job.save.load_s = 200 * random.share();
    job.init_s = 300 * random.share();
    job.seed = random.next();
    return job;
}

struct Change {
    const char* what;
    std::function<void(TrainingJob&)> worse;
};
const std::vector<Change>& changes() {
    static const std::vector<Change> all = {
        {"slower saves", [](TrainingJob& j) { j.save.block_s *= 1.5; }},
        {"slower loads", [](TrainingJob& j) { j.save.load_s *= 2; }},
        {"longer initialisation", [](TrainingJob& j) { j.init_s += 100; }},
        {"later detection", [](TrainingJob& j) { j.run.detect.crash += 60; }},
        {"longer compilation", [](TrainingJob& j) { j.run.restart.compile_s *= 2; }},
        {"later first batches", [](TrainingJob& j) { j.first_batch_s += 50; }},
        {"slower steps", [](TrainingJob& j) { j.step_ps += j.step_ps / 10; }},
    };
    return all;
}

TEST(JobLaws, WhatIsWorseNeverFinishesEarlier) {
    for (int i = 0; i < 300; ++i) {
        JobRandom random(static_cast<std::uint64_t>(i));
        const TrainingJob job = random_job(random);
        const JobOutcome better = simulate_job(job, 0);
        for (const Change& change : changes()) {
            TrainingJob worse = job;
            change.worse(worse);
            // Silent corruption is noticed after a time of its own, and a failure that comes first may spare it: left out.
            TrainingJob sound = job;
            worse.run.failures.by[FailingPart::sdc] = sound.run.failures.by[FailingPart::sdc] = 0;
            EXPECT_GE(simulate_job(worse, 0).wall_s, simulate_job(sound, 0).wall_s * (1 - 1e-9)) << "job " << i << ": " << change.what;
        }
        EXPECT_TRUE(better.finished) << i;
    }
}

// The same where nodes are repaired, for want of spares the run waits for them or goes on with a replica less, and it evaluates. (Where
// something else than its interval decides when a run saves, as planned stops do, or where a copy near by is lost by chance, a worse run
// may be luckier in one seed.)
TEST(JobLaws, WhatIsWorseNeverFinishesEarlierWithRepairs) {
    for (int i = 0; i < 300; ++i) {
        JobRandom random(static_cast<std::uint64_t>(7000 + i));
        TrainingJob job = random_job(random);
        job.run.failures.transient = 0.5;
        job.run.repair.mean_days = 0.3;
        job.spares = random.below(8);
        job.run.failures.by[FailingPart::sdc] = 0;
        job.run.elastic = i % 2 == 0 ? Elasticity::drop_replica : Elasticity::none;
        if (i % 4 == 0) job.run.evaluate_every_steps = 500, job.run.evaluation_s = 100;
        const auto wall = [](TrainingJob j) {
            j.pace = [&j](const MachineState& s) { return Pace{j.step_s() * j.replicas / (j.replicas - s.replicas_lost), 1}; };
            return simulate_job(j, 0).wall_s;
        };
        const double better = wall(job);
        for (const Change& change : changes()) {
            TrainingJob worse = job;
            change.worse(worse);
            EXPECT_GE(wall(worse), better * (1 - 1e-9)) << "job " << i << ": " << change.what;
        }
    }
}

// More failures: those of a trace and some more.
TEST(JobLaws, MoreFailuresNeverFinishEarlier) {
    for (int i = 0; i < 200; ++i) {
        JobRandom random(static_cast<std::uint64_t>(1000 + i));
        TrainingJob few = random_job(random);
        few.run.failures.distribution = FailureLaw::trace;
        for (int n = 0; n < 40; ++n) {
            const double at = random.share() * 1e6;
            few.run.failures.trace.push_back({random.below(few.nodes), at, at});
        }
        few.run.failures.trace.push_back({0, 4e8, 4e8}); // the same period
        TrainingJob many = few;
        for (int n = 0; n < 20; ++n) {
            const double at = random.share() * 1e6;
            many.run.failures.trace.push_back({random.below(few.nodes), at, at});
        }
        for (TrainingJob* job : {&few, &many}) std::ranges::stable_sort(job->run.failures.trace, {}, &WholeRun::Outage::begin_s);
        EXPECT_GE(simulate_job(many, 0).wall_s, simulate_job(few, 0).wall_s * (1 - 1e-9)) << i;
    }
}

TEST(JobLaws, MoreSparesAndShorterRepairsAreNeverWorseInTheMean) {
    TrainingJob job;
    job.nodes = 256;
    job.replicas = 16;
    job.run.failures.per_node_day = 0.02;
    job.run.failures.transient = 0;
    job.run.repair.mean_days = 2;
    job.step_ps = 10'000'000'000'000;
    job.horizon_s = 86400 * 60;
    job.save_every = 60;
    const auto goodput = [](const TrainingJob& j) {
        double sum = 0;
        for (const JobOutcome& o : simulate_seeds(j, 20, 2)) sum += o.goodput() / 20;
        return sum;
    };
    double last = -1;
    for (const int spares : {0, 4, 8, 16, 32}) {
        job.spares = spares;
        const double now = goodput(job);
        EXPECT_GT(now, last) << spares;
        last = now;
    }
    job.spares = 4;
    const double waits = goodput(job);
    job.run.repair.mean_days = 1;
    EXPECT_GT(goodput(job), waits);
    job.run.repair.mean_days = 2;
    job.pace = [&job](const MachineState& s) { return Pace{job.step_s() * 16 / (16 - s.replicas_lost), 1}; };
    job.run.elastic = Elasticity::drop_replica;
    EXPECT_GT(goodput(job), waits) << "going on with fewer replicas is worth more than waiting for days";
}

TEST(JobLaws, ErrorsOfEveryKindCostWhatTheyMust) {
    TrainingJob job;
    job.nodes = 100;
    job.run.failures.per_node_day = 0.01;
    job.run.failures.transient = 1;
    job.step_ps = 1'000'000'000'000;
    job.horizon_s = 86400 * 200;
    job.save_every = 600;
    const auto only = [&](FailingPart part) {
        job.run.failures.by = {};
        job.run.failures.by[part] = 1;
        double recovery = 0, wasted = 0, n = 0;
        for (const JobOutcome& o : simulate_seeds(job, 10, 2)) {
            recovery += o.lost_s[LostTime::recovery];
            wasted += o.lost_s[LostTime::wasted];
            n += static_cast<double>(o.interruptions);
        }
        return std::pair{recovery / n, wasted / n};
    };
    const auto [crash, crash_wasted] = only(FailingPart::gpu);
    const auto [hang, hang_wasted] = only(FailingPart::hang);
    const auto [sdc, sdc_wasted] = only(FailingPart::sdc);
    EXPECT_NEAR(hang - crash, job.run.detect.hang - job.run.detect.crash, 15);
    EXPECT_NEAR(crash_wasted, 300, 15) << "half the interval between saves";
    EXPECT_NEAR(sdc_wasted, 300 + job.run.detect.sdc, 300) << "all since the error is done again";
    EXPECT_LT(sdc, hang);
    EXPECT_NEAR(hang_wasted, crash_wasted, 20);
}

// The short way through a usual failure, which a run with a timeline does not take, gives the same run to the bit.
TEST(JobLaws, TheShortWayThroughAFailureIsTheLongOne) {
    for (int i = 0; i < 60; ++i) {
        JobRandom random(static_cast<std::uint64_t>(5000 + i));
        TrainingJob job = random_job(random);
        job.run.failures.transient = i % 2 == 0 ? 0.5 : 1;
        job.run.repair.mean_days = 0.5;
        job.steps = 1e6;
        job.spares = random.below(20);
        job.run.spares.warm = random.below(2) == 0;
        job.run.elastic = i % 5 == 0 ? Elasticity::drop_replica : Elasticity::none;
        job.run.restart.repeat = i % 7 == 0 ? 0.1 : 0;
        job.first_batch_s = i % 3 == 0 ? 20 : 0;
        job.pace = [&job](const MachineState& s) { return Pace{job.step_s() * job.replicas / (job.replicas - s.replicas_lost), 1}; };
        const JobOutcome short_way = simulate_job(job, i), long_way = simulate_job(job, i, true);
        EXPECT_EQ(short_way.wall_s, long_way.wall_s) << i;
        EXPECT_EQ(short_way.lost_s, long_way.lost_s) << i;
        EXPECT_EQ(short_way.by_part, long_way.by_part) << i;
        EXPECT_EQ(short_way.interruptions, long_way.interruptions) << i;
        EXPECT_EQ(short_way.saves, long_way.saves) << i;
        EXPECT_EQ(short_way.node_down_s, long_way.node_down_s) << i;
    }
}

// After each start the readers' first batches are waited for.
TEST(JobLaws, StartsWaitForSamples) {
    TrainingJob job;
    job.nodes = 64;
    job.replicas = 16;
    job.run.failures.per_node_day = 0.02;
    job.run.repair.mean_days = 0.2;
    job.step_ps = 10'000'000'000'000;
    job.horizon_s = 86400 * 300;
    job.save_every = 60;
    const JobOutcome before = simulate_job(job, 0);
    job.first_batch_s = 30;
    const JobOutcome after = simulate_job(job, 0);
    const auto of = [](const JobOutcome& o, LostTime t) { return o.lost_s[t]; };
    EXPECT_EQ(of(before, LostTime::data), 0);
    EXPECT_GT(after.interruptions, 100);
    EXPECT_NEAR(of(after, LostTime::data), 30.0 * static_cast<double>(after.interruptions), 60) << "but where a failure came between";
}

// Copies in other nodes' memory survive one node's loss, and a rack's only where it does not hold all copies.
TEST(JobLaws, NearCopiesSurviveWhatTheyShould) {
    TrainingJob job;
    job.nodes = 64;
    job.run.failures.per_node_day = 0;
    job.run.checkpoint.kind = CheckpointKind::peer;
    job.run.checkpoint.storage_every = 100;
    job.step_ps = 10'000'000'000'000;
    job.horizon_s = 86400 * 100;
    job.save_every = 10;
    job.run.failures.racks = {8, 0.2};
    job.run.failures.transient = 1;
    JobOutcome o = simulate_job(job, 0);
    EXPECT_GT(o.failures, 50);
    EXPECT_EQ(o.fallbacks, 0) << "the copy stands 32 nodes away";
    job.run.failures.lemon_share = 0.2; // lemons are struck one by one more often; a rack is a rack
    job.run.failures.lemon_factor = 5;
    o = simulate_job(job, 0);
    EXPECT_GT(o.failures, 50);
    EXPECT_EQ(o.fallbacks, 0) << "the copy stands 32 nodes away";
    job.run.failures.lemon_factor = 1;
    job.run.failures.racks = {64, 0.2};
    o = simulate_job(job, 0);
    EXPECT_GT(o.failures, 5);
    EXPECT_EQ(o.fallbacks, o.interruptions) << "all nodes at once";
}

// Elastic stepwise, two replicas of a node each. A node that starts again beside the run is missing until it has: where the other one fails
// meanwhile, nobody is left who knows the numbers, and the run goes back to its last save.
TEST(JobLaws, StepwiseNeedsASurvivor) {
    TrainingJob job;
    job.nodes = 2;
    job.replicas = 2;
    job.run.elastic = Elasticity::stepwise;
    job.run.failures.distribution = FailureLaw::trace;
    job.run.failures.trace = {{0, 50'000, 50'000}, {1, 50'500, 50'500}, {0, 4e8, 4e8}};
    job.run.restart.regroup_s = 10;
    job.init_s = 2000; // until a node has started
    job.step_ps = 10'000'000'000'000;
    job.horizon_s = 200'000;
    job.save_every = 1000;
    job.pace = [&job](const MachineState& s) { return Pace{job.step_s(), 1 - 0.5 * s.replicas_lost}; };
    JobOutcome o = simulate_job(job, 0);
    const auto wasted = [](const JobOutcome& of) { return of.lost_s[LostTime::wasted]; };
    EXPECT_EQ(o.interruptions, 2);
    EXPECT_NEAR(wasted(o), 500, 60) << "all since the save at 50,000 s, less what the first failure stood still";
    job.run.failures.trace[1].begin_s = job.run.failures.trace[1].end_s = 60'000; // the first is back by then
    o = simulate_job(job, 0);
    EXPECT_LE(wasted(o), 2 * job.step_s()) << "a step each";
    // And a node that is back is no save: a loss of both goes back to the last real one.
    job.run.failures.trace = {{0, 55'000, 55'000}, {0, 59'000, 59'000}, {1, 59'100, 59'100}, {0, 4e8, 4e8}};
    EXPECT_NEAR(wasted(simulate_job(job, 0)), 9000, 2100);
    EXPECT_GT(wasted(simulate_job(job, 0)), 6000);
}

// A planned stop saves before it begins, until the save can be gone back to: a failure within it costs no work.
TEST(JobLaws, PlannedStopsSaveBefore) {
    TrainingJob job;
    job.nodes = 64;
    job.run.failures.per_node_day = 0;
    job.run.failures.planned_per_day = 1;
    job.run.failures.planned_s = 7200;
    job.step_ps = 10'000'000'000'000;
    job.horizon_s = 86400 * 100;
    job.save_every = 1'000'000; // no other save
    job.save.block_s = 3;
    job.save.write_s = 40;
    JobOutcome o = simulate_job(job, 0);
    const auto of = [&](LostTime t) { return o.lost_s[t]; };
    ASSERT_GT(o.planned, 50);
    EXPECT_NEAR(of(LostTime::save), 43.0 * static_cast<double>(o.planned), 43);
    EXPECT_EQ(o.saves, o.planned);
    EXPECT_EQ(of(LostTime::wasted), 0);
    job.run.failures.distribution = FailureLaw::trace; // node 0 fails each hour of the first days
    for (int i = 0; i < 100; ++i) job.run.failures.trace.push_back({0, 3600.0 * i, 3600.0 * i});
    job.run.failures.trace.push_back({0, 4e8, 4e8});
    o = simulate_job(job, 0);
    double after = 0;
    for (std::size_t i = 0; i < lost_times; ++i) after += o.lost_s[i];
    EXPECT_NEAR(after + o.productive_s, o.wall_s, 1e-6 * o.wall_s);
}

// A run that ends in days within an evaluation: the steps before it count.
TEST(JobLaws, AnEndWithinAnEvaluationKeepsTheSteps) {
    TrainingJob job;
    job.run.failures.per_node_day = 0;
    job.step_ps = 10'000'000'000'000;
    job.save_every = 1'000'000;
    job.run.evaluate_every_steps = 100;
    job.run.evaluation_s = 600;
    job.horizon_s = 1000 + 600 + 1000 + 300;
    const JobOutcome o = simulate_job(job, 0);
    EXPECT_EQ(o.steps, 200);
    EXPECT_EQ(o.lost_s[LostTime::evaluation], 900);
    EXPECT_EQ(o.lost_s[LostTime::slower], 0);
}

// The share of node time that is under repair, of a trace that is replayed whole.
TEST(JobLaws, AReplayedTraceGivesItsUnavailableShare) {
    TrainingJob job;
    job.nodes = 40;
    job.run.failures.distribution = FailureLaw::trace;
    JobRandom random(5);
    std::vector<std::vector<std::pair<double, double>>> by_node(40);
    for (int i = 0; i < 300; ++i) {
        const double at = random.share() * 9e6, lasts = 2e5 * random.exponential();
        const int node = random.below(40);
        job.run.failures.trace.push_back({node, at, std::min(at + lasts, 1e7)});
    }
    job.run.failures.trace.push_back({0, 9e6, 1e7}); // it is as long as the run
    std::ranges::stable_sort(job.run.failures.trace, {}, &WholeRun::Outage::begin_s);
    for (const auto& o : job.run.failures.trace) by_node[o.node].push_back({o.begin_s, o.end_s});
    double down = 0;
    for (const auto& outages : by_node) {
        double until = 0;
        for (const auto& [begin, end] : outages) down += std::max(0.0, end - std::max(begin, until)), until = std::max(until, end);
    }
    job.run.elastic = Elasticity::drop_replica;
    job.replicas = 40;
    job.step_ps = 10'000'000'000'000;
    job.horizon_s = 1e7 - 1;
    job.save_every = 10;
    EXPECT_NEAR(simulate_job(job, 0).node_down_s / down, 1, 1e-4);
}

// The published trace, where it is: 584 faults of 400 nodes over 348 days (stepfun-ai/InfiniteHBD-Trace), 2.32 % of the node time.
TEST(JobLaws, InfiniteHbdsTrace) {
    std::ifstream in(ORRERY_SOURCE_DIR "/../shared/data/run_fault_trace_infinitehbd.csv");
    if (!in) GTEST_SKIP() << "the trace is not here";
    TrainingJob job;
    job.nodes = 400;
    job.replicas = 400;
    job.run.elastic = Elasticity::drop_replica;
    job.run.failures.distribution = FailureLaw::trace;
    std::string line;
    std::getline(in, line);
    while (std::getline(in, line)) {
        const auto last = line.rfind(','), before = line.rfind(',', last - 1);
        job.run.failures.trace.push_back(
            {std::stoi(line), std::stod(line.substr(before + 1)) * 86400, std::stod(line.substr(last + 1)) * 86400});
    }
    std::ranges::stable_sort(job.run.failures.trace, {}, &WholeRun::Outage::begin_s);
    job.step_ps = 10'000'000'000'000;
    job.horizon_s = 348 * 86400;
    const JobOutcome o = simulate_job(job, 0);
    EXPECT_NEAR(o.node_down_s / (400 * job.horizon_s), 0.0232, 0.0003);
}

} // namespace
} // namespace orrery

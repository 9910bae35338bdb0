// Federated learning against what can be worked out by hand.
#include "sim/federated/federated.hpp"
#include "sim/scenario/parse.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

namespace orrery {
namespace {

// A step of 2 s on 10 samples; 10 MB both ways over 8 and 4 Mbit/s are 10 and 20 s.
const FederatedTask task{2, 10, 10e6, 10e6};

Federated alike(int clients, int sampled) {
    Federated f;
    f.clients = clients;
    f.slowness_sigma = 0;
    f.samples = 50;
    f.down_mbit_per_s = 8;
    f.up_mbit_per_s = 4;
    f.sampled = sampled;
    f.overcommit = 1;
    f.rounds = 50;
    f.seeds = 2;
    return f;
}

// Of clients 1, 2, .. n times as slow.
Federated staircase(int n, int sampled) {
    Federated f = alike(n, sampled);
    for (int i = 1; i <= n; ++i) f.table.push_back({double(i), 50, 8, 4, 1});
    f.overcommit = double(n) / sampled;
    return f;
}

TEST(Federated, AClientsTaskIsDownloadStepsAndUpload) {
    const Federated f = alike(1, 1);
    EXPECT_DOUBLE_EQ(task_s(f, clients_of(f, 0)[0], task), 10 + 5 * 2 + 20);
    Federated fixed = f;
    fixed.local_steps = 3;
    EXPECT_DOUBLE_EQ(task_s(fixed, clients_of(fixed, 0)[0], task), 10 + 3 * 2 + 20);
    EXPECT_DOUBLE_EQ(task_s(f, {4, 50, 8, 4, 1}, task), 10 + 4 * 5 * 2 + 20);
}

TEST(Federated, ClientsThatAreAlikeAnswerTogetherAndNothingIsWasted) {
    Federated f = alike(40, 20);
    f.server_s = 3;
    const FederatedReport r = federated(f, task);
    EXPECT_DOUBLE_EQ(r.round_s.mean, 40 + 3);
    EXPECT_DOUBLE_EQ(r.round_s.p90, 43);
    EXPECT_EQ(r.wasted_share, 0);
    EXPECT_EQ(r.counted, 20);
    EXPECT_EQ(r.down_bytes, 20 * 10e6);
    EXPECT_EQ(r.up_bytes, 20 * 10e6);
    EXPECT_EQ(r.samples_counted, 20 * 50);
    f.overcommit = 1.5;
    const FederatedReport more = federated(f, task);
    EXPECT_DOUBLE_EQ(more.round_s.mean, 43);
    EXPECT_EQ(more.asked, 30);
    EXPECT_NEAR(more.wasted_share, 10.0 / 30, 1e-12) << "ten had trained to the end, and nobody waits for them";
}

// All are asked: the round lasts as long as the task of the K-th fastest, and the others have trained that long in vain.
TEST(Federated, ARoundEndsWithTheAnswerThatMakesItFull) {
    const Federated f = staircase(10, 4);
    const FederatedReport r = federated(f, task);
    EXPECT_DOUBLE_EQ(r.round_s.mean, 10 + 4 * 10 + 20);
    EXPECT_DOUBLE_EQ(r.slowness_counted, 2.5);
    EXPECT_DOUBLE_EQ(r.slowness_all, 5.5);
    double wasted = 0, all = (1 + 2 + 3 + 4) * 10;
    for (int i = 5; i <= 10; ++i) wasted += std::min(i * 10, 4 * 10 + 20); // training until the round ends, 10 s of download apart
    all += wasted;
    EXPECT_NEAR(r.wasted_share, wasted / all, 1e-12);
}

TEST(Federated, ADeadlineEndsARoundWithWhatItHas) {
    Federated f = staircase(10, 10);
    f.deadline_s = 10 + 65 + 20;
    const FederatedReport r = federated(f, task);
    EXPECT_DOUBLE_EQ(r.round_s.mean, 95);
    EXPECT_EQ(r.counted, 6);
    EXPECT_EQ(r.failed_share, 0);
    f.deadline_s = 35;
    EXPECT_EQ(federated(f, task).failed_share, 1);
    f.deadline_s = 1e6;
    EXPECT_DOUBLE_EQ(federated(f, task).round_s.mean, 10 + 100 + 20) << "who is full does not wait for the deadline";
}

// The rounds that are shown are those the figures are of.
TEST(Federated, AnExampleShowsWhatEachClientDid) {
    Federated f = staircase(10, 4);
    f.server_s = 3;
    EXPECT_TRUE(federated(f, task).example.tasks.empty()) << "nobody asked for one";
    const FederatedExample e = federated(f, task, 0, 2).example;
    ASSERT_EQ(e.rounds.size(), 2u);
    EXPECT_EQ(e.places, 10);
    EXPECT_DOUBLE_EQ(e.rounds[0].end_s, 70 + 3);
    EXPECT_DOUBLE_EQ(e.rounds[1].end_s, 2 * 73);
    EXPECT_EQ(e.rounds[1].asked, 10);
    EXPECT_EQ(e.rounds[1].counted, 4);
    EXPECT_EQ(e.rounds[1].late, 6);
    ASSERT_EQ(e.tasks.size(), 20u);
    for (const FederatedTaskSpan& t : e.tasks) {
        const double from = t.round * 73.0, slow = t.client + 1;
        EXPECT_EQ(t.outcome, slow <= 4 ? FederatedOutcome::counted : FederatedOutcome::late);
        EXPECT_EQ(t.place, t.client) << "the first answer stands first";
        EXPECT_DOUBLE_EQ(t.begin_s, from);
        EXPECT_DOUBLE_EQ(t.train_s, from + 10);
        EXPECT_DOUBLE_EQ(t.upload_s, from + std::min(70.0, 10 + 10 * slow));
        EXPECT_DOUBLE_EQ(t.end_s, from + std::min(70.0, 30 + 10 * slow));
    }
}

TEST(Federated, AnExampleOfAStreamSaysHowOldUpdatesAre) {
    Federated f = alike(20, 6);
    f.aggregation = Aggregation::fedbuff;
    f.buffer = 3;
    f.dropout = 0.2;
    f.slowness_sigma = 0.8;
    f.rounds = f.seeds = 1;
    const FederatedReport r = federated(f, task, 7, 1);
    const FederatedExample& e = r.example;
    ASSERT_EQ(e.rounds.size(), 1u);
    EXPECT_DOUBLE_EQ(e.rounds[0].end_s - e.rounds[0].begin_s, r.round_s.mean);
    EXPECT_EQ(e.rounds[0].counted, 3);
    EXPECT_EQ(e.places, 6);
    std::vector<double> busy(6, 0);
    for (const FederatedTaskSpan& t : e.tasks) {
        EXPECT_GE(t.begin_s, busy[t.place]) << "one at a time in a place";
        busy[t.place] = t.end_s;
        EXPECT_LE(t.end_s, e.rounds[0].end_s);
    }
    f.rounds = 200;
    double stale = 0, counted = 0;
    const FederatedReport many = federated(f, task, 7, 200);
    for (const FederatedTaskSpan& t : many.example.tasks) {
        if (t.outcome != FederatedOutcome::counted) continue;
        stale += t.staleness;
        ++counted;
    }
    EXPECT_NEAR(stale / counted, many.staleness, 1e-9);
}

TEST(Federated, TheTargetCountsWhatRoundsAreWorth) {
    Federated f = staircase(10, 10);
    f.target_rounds = 30;
    const FederatedReport full = federated(f, task);
    EXPECT_NEAR(full.rounds_to_target, 30, 1e-9);
    EXPECT_NEAR(full.time_to_target_s, 30 * 130, 1e-6);
    EXPECT_NEAR(full.bytes_to_target, 30 * 10 * 20e6, 1);
    f.deadline_s = 95; // six of ten
    EXPECT_NEAR(federated(f, task).rounds_to_target, 50, 1e-9);
}

TEST(Federated, GivenUpTasksLengthenRoundsAndWasteTime) {
    Federated f = alike(200, 50);
    f.overcommit = 2;
    f.dropout = 0.3;
    const FederatedReport r = federated(f, task);
    EXPECT_DOUBLE_EQ(r.round_s.mean, 40) << "of a hundred asked more than fifty stay";
    // Of a hundred 30 give up at a place that is even over 40 s, of which those from 10 to 20 are training; 20 more come too late.
    EXPECT_NEAR(r.wasted_share, (30 * (0.25 * 5 + 0.5 * 10) + 20 * 10) / (30 * (0.25 * 5 + 0.5 * 10) + 70 * 10), 0.01);
    f.overcommit = 1;
    EXPECT_NEAR(federated(f, task).counted, 35, 1);
}

// Of 200 clients 40 are at work all the time, and their server steps on every eight answers.
Federated buffered(int steps) {
    Federated f = alike(200, 40);
    f.aggregation = Aggregation::fedbuff;
    f.buffer = 8;
    f.rounds = steps;
    f.slowness_sigma = 0.5;
    return f;
}

TEST(Federated, ABufferIsFedAtTheRateOfThoseAtWork) {
    Federated f = buffered(2000);
    const FederatedReport r = federated(f, task);
    // Little's law: those at work over what a task takes in the mean. A client that is slow is at work for longer, but asked no more often.
    double mean = 0;
    for (int seed = 0; seed < f.seeds; ++seed)
        for (const FederatedClient& c : clients_of(f, static_cast<std::uint64_t>(seed))) mean += task_s(f, c, task) / 200 / f.seeds;
    EXPECT_NEAR(r.round_s.mean, 8 * mean / 40, 0.05 * 8 * mean / 40);
    EXPECT_NEAR(r.staleness, 40.0 / 8, 0.5) << "while a task lasts those at work answer about once";
    EXPECT_GT(r.worst_staleness, r.staleness);
    EXPECT_EQ(r.wasted_share, 0);
    f.target_rounds = 10;
    const double discounted = federated(f, task).rounds_to_target;
    f.staleness_exponent = 0;
    EXPECT_NEAR(federated(f, task).rounds_to_target, 10 * 40 / 8.0, 1e-6);
    EXPECT_GT(discounted, 10 * 40 / 8.0);
}

// The server steps while others answer: what it takes shows only where it is more than the answers need to come.
TEST(Federated, AServerThatStepsBesideItsClientsIsTheLimitOrHidden) {
    Federated f = buffered(1000);
    const FederatedReport fast = federated(f, task);
    ASSERT_GT(fast.round_s.mean, 5);
    double staleness = fast.staleness;
    for (double share : {0.25, 0.5}) {
        f.server_s = share * fast.round_s.mean;
        const FederatedReport r = federated(f, task);
        EXPECT_NEAR(r.round_s.mean, fast.round_s.mean, 0.02 * fast.round_s.mean) << share;
        EXPECT_GT(r.staleness, staleness) << share << ": a new model comes later";
        staleness = r.staleness;
    }
    // Little's law: between a download and the sum 40 are at work or wait, and 8 are in the buffer, of which the server takes 8 a step.
    for (double times : {2.0, 5.0, 20.0}) {
        f.server_s = times * fast.round_s.mean;
        const FederatedReport r = federated(f, task);
        EXPECT_NEAR(r.round_s.mean, f.server_s, 0.01 * f.server_s) << times;
        EXPECT_NEAR(r.staleness, (40 + 8) / 8.0, 0.1) << times;
        EXPECT_EQ(r.counted, 8) << times;
        EXPECT_NEAR(r.down_bytes, 8 * task.down_bytes, 0.02 * 8 * task.down_bytes) << times << ": who waits is not followed";
    }
}

// Four clients alike answer at 40 s, two make a step of 100 s: two are summed until 140 s, two wait in the buffer, and are summed until 240
// s.
TEST(Federated, AnExampleOfABusyServerShowsWhoWaits) {
    Federated f = alike(4, 4);
    f.aggregation = Aggregation::fedbuff;
    f.buffer = 2;
    f.server_s = 100;
    f.rounds = 3;
    f.seeds = 1;
    const FederatedReport r = federated(f, task, 0, 3);
    ASSERT_EQ(r.example.rounds.size(), 3u);
    for (int k = 0; k < 3; ++k) {
        EXPECT_DOUBLE_EQ(r.example.rounds[k].begin_s, k == 0 ? 0 : 40 + 100.0 * k);
        EXPECT_DOUBLE_EQ(r.example.rounds[k].end_s, 140 + 100.0 * k);
        EXPECT_EQ(r.example.rounds[k].counted, 2);
    }
    EXPECT_DOUBLE_EQ(r.round_s.mean, 340 / 3.0);
    std::vector<double> summed;
    for (const FederatedTaskSpan& t : r.example.tasks)
        if (t.outcome == FederatedOutcome::counted) summed.push_back(t.staleness);
    // Those of the start, all with the first model; those that followed at 40 s have it too.
    EXPECT_EQ(summed, (std::vector<double>{0, 0, 1, 1, 2, 2}));
}

TEST(Federated, MoreOverSelectionIsNeverSlowerAndALongerDeadlineNeverCountsFewer) {
    Federated f = alike(500, 50);
    f.slowness_sigma = 0.8;
    double before = 1e9;
    for (double over : {1.0, 1.2, 1.5, 2.0, 4.0}) {
        f.overcommit = over;
        const double now = federated(f, task).round_s.mean;
        EXPECT_LE(now, before * 1.02) << over;
        before = now;
    }
    f.overcommit = 1.2;
    double counted = 0;
    for (double deadline : {35.0, 40.0, 50.0, 100.0, 1000.0}) {
        f.deadline_s = deadline;
        const double now = federated(f, task).counted;
        EXPECT_GE(now, counted - 1e-9) << deadline;
        counted = now;
    }
}

TEST(Federated, SameSeedsGiveTheSameReport) {
    Federated f = alike(100, 10);
    f.slowness_sigma = 0.7;
    f.dropout = 0.1;
    f.available = 0.5;
    EXPECT_EQ(to_json(federated(f, task)), to_json(federated(f, task)));
    EXPECT_NE(to_json(federated(f, task, 1)), to_json(federated(f, task, 2)));
}

std::string scenario_text(const std::string& federated) {
    return R"({"model": "gpt2-124m", "cluster": {"preset": "local-cpu", "nodes": 1, "devices_per_node": 1},
        "training": {"global_batch_size": 4, "sequence_length": 64, "precision": "fp32"}, "strategy": {"framework": "ddp"},
        "federated": )" +
           federated + "}";
}

TEST(Federated, ATableOfClientsIsRead) {
    const std::string dir = testing::TempDir();
    std::ofstream(dir + "clients.csv") << "samples,slowness,up_mbit_per_s\n100,1,5\n200,2.5,7\n";
    std::ofstream(dir + "broken.csv") << "samples,slowness\n100,1\n200,-1\n";
    ParseOptions options;
    options.base_dir = dir;
    const ParseResult parsed = parse_scenario(scenario_text(R"({"table": "clients.csv", "sampled": 2, "down_mbit_per_s": 30})"), options);
    ASSERT_TRUE(parsed.scenario) << to_text(parsed.problems);
    const std::vector<FederatedClient> expected{{1, 100, 30, 5, 1}, {2.5, 200, 30, 7, 1}};
    EXPECT_EQ(clients_of(*parsed.scenario->federated, 0), expected);
    for (const auto& [table, what] : {std::pair{"broken.csv", "line 3 must have a slowness"}, {"none.csv", "cannot be read"}}) {
        const ParseResult bad = parse_scenario(scenario_text(std::string(R"({"table": ")") + table + R"(", "sampled": 1})"), options);
        ASSERT_FALSE(bad.problems.empty());
        EXPECT_NE(to_text(bad.problems).find(what), std::string::npos) << to_text(bad.problems);
    }
}

TEST(Federated, WhatIsTrainedTravels) {
    const ParseResult all = parse_scenario(scenario_text(R"({"clients": 200})"), {});
    ParseOptions tuned;
    tuned.overrides = {"model.trainable.lora.rank=4"};
    const ParseResult few = parse_scenario(scenario_text(R"({"clients": 200})"), tuned);
    ASSERT_TRUE(all.scenario && few.scenario) << to_text(few.problems);
    EXPECT_NEAR(federated_task(*all.scenario, 1).up_bytes, 4 * 124.4e6, 1e6);
    EXPECT_LT(federated_task(*few.scenario, 1).up_bytes, 0.02 * federated_task(*all.scenario, 1).up_bytes);
}

} // namespace
} // namespace orrery

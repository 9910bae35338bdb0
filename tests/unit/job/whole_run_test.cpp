// From a scenario to the report of its whole run: sizes of saves, their best interval, what the text and the JSON say.
#include "sim/job/whole_run.hpp"
#include "sim/scenario/csv.hpp"
#include "sim/scenario/parameters.hpp"
#include "sim/scenario/parse.hpp"
#include "topology/input_error.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <sstream>
#include <unistd.h>

namespace orrery {
namespace {

Scenario job_of(const std::vector<std::string>& fields) {
    ParseOptions options;
    options.overrides = fields;
    const ParseResult parsed =
        parse_scenario(R"({"name": "job", "model": {"layers": 4, "hidden_size": 1024, "attention_heads": 16, "vocab_size": 32000},
        "cluster": {"preset": "dgx-a100-80gb", "nodes": 8}, "training": {"global_batch_size": 256, "sequence_length": 1024},
        "strategy": {"framework": "megatron", "tensor_parallel": 8},
        "run": {"days": 40, "failures": {"per_node_day": 0.1}, "seeds": 10}})",
                       options);
    EXPECT_TRUE(parsed.scenario.has_value()) << to_text(parsed.problems);
    return *parsed.scenario;
}

// MLPerf Storage's checkpoints (mlcommons/storage): 105, 912 and 5,290 GiB of 8, 70 and 405 billion parameters, 14 bytes each.
TEST(WholeRun, SavesAreAsLargeAsMlperfs) {
    const Scenario s = job_of({});
    EXPECT_NEAR(state_bytes(s, 8.03e9, 8.03e9) / 1073741824, 105, 0.02 * 105);
    EXPECT_NEAR(state_bytes(s, 70.6e9, 70.6e9) / 1073741824, 912, 0.02 * 912);
    EXPECT_NEAR(state_bytes(s, 405.9e9, 405.9e9) / 1073741824, 5290, 0.02 * 5290);
    EXPECT_EQ(state_bytes(job_of({"training.precision=fp32"}), 1, 1), 12);
    EXPECT_EQ(state_bytes(job_of({"run.checkpoint.gb=7"}), 1, 1), 7e9);
    EXPECT_EQ(state_bytes(job_of({"training.moment_dtype=int8"}), 1, 1), 2 + 4 + 2);
    EXPECT_EQ(state_bytes(job_of({"strategy.framework=ddp", "strategy.tensor_parallel=1", "training.precision=bf16"}), 1, 1), 12)
        << "autocast's parameters are fp32";
}

// Muon has one moment of matrices; tables have AdamW's two.
TEST(WholeRun, SavesOfMuonLackAMoment) {
    const Scenario s = job_of({"training.optimizer=muon"}); // positions as long as the sequence, one table for both ends
    const double tables = (32000.0 + 1024) * 1024, parameters = tables + 1e9;
    EXPECT_EQ(static_cast<double>(table_parameters(s.model)), tables);
    EXPECT_EQ(state_bytes(s, parameters, parameters), 10e9 + 14 * tables);
}

// Frozen parameters have no optimizer states: a save holds them as they are.
TEST(WholeRun, SavesOfAdaptersAreSmall) {
    const Scenario all = job_of({}), lora = job_of({"model.trainable={\"lora\": {\"rank\": 16}}"}),
                   frozen = job_of({"model.trainable={\"frozen\": [\"embedding\"]}"});
    const Report whole = predict(all).report, adapters = predict(lora).report, most = predict(frozen).report;
    const auto bytes = [](const Scenario& s, const Report& r) { return state_bytes(s, r.parameters, r.trained_parameters); };
    EXPECT_EQ(bytes(all, whole), 14 * whole.parameters);
    EXPECT_EQ(bytes(lora, adapters), 2 * adapters.parameters + 14 * adapters.trained_parameters);
    EXPECT_LT(adapters.trained_parameters, 0.05 * adapters.parameters);
    EXPECT_EQ(bytes(frozen, most), 2 * most.parameters + 12 * most.trained_parameters);
    EXPECT_LT(most.trained_parameters, most.parameters);
}

// BLOOM's: 2.3 TB in 40 s at 57.5 GB/s (bigscience chronicles).
TEST(WholeRun, ASaveIsItsBytesAtTheRateOfStorage) {
    const Scenario s = job_of({"run.checkpoint.kind=sync", "cluster.storage.write_gb_per_s=57.5", "cluster.storage.per_node_gb_per_s=20"});
    EXPECT_NEAR(save_cost(s, 2.3e12).block_s, 40, 1e-9);
    const Scenario client =
        job_of({"run.checkpoint.kind=sync", "cluster.storage.write_gb_per_s=57.5", "cluster.storage.per_node_gb_per_s=1"});
    EXPECT_NEAR(save_cost(client, 2.3e12).block_s, 2300 / 8.0, 1e-9) << "eight clients of 1 GB/s";
    const Scenario requests = job_of({"run.checkpoint.kind=sync", "cluster.storage.latency_us=1000", "cluster.storage.requests_per_node=1",
                                      "cluster.storage.write_gb_per_s=1000"});
    EXPECT_NEAR(save_cost(requests, 3.2e10).block_s, 1, 1e-9) << "4 MB in 1 ms from each of 8 nodes";
    const SaveCost async = save_cost(job_of({"cluster.storage.write_gb_per_s=1", "run.checkpoint.copy_gb_per_s=10"}), 6.4e11);
    EXPECT_NEAR(async.block_s, 1, 1e-9) << "each of 64 devices copies 10 GB";
    EXPECT_NEAR(async.write_s, 640, 1e-9);
}

// A save on top of others is read after them: of ten, four and a half follow the full one in the mean.
TEST(WholeRun, ARestartReadsTheIncrementsToo) {
    const auto load = [](const std::string& checkpoint) {
        return save_cost(job_of({"run.checkpoint=" + checkpoint, "cluster.storage.read_gb_per_s=10"}), 1e12);
    };
    const SaveCost full = load(R"({"kind": "sync"})"), some = load(R"({"kind": "sync", "fraction": 0.2, "full_every": 10})");
    EXPECT_NEAR(full.load_s, 100, 1e-9);
    EXPECT_NEAR(some.load_s, 100 * (1 + 0.2 * 4.5), 1e-9);
    EXPECT_EQ(some.near_load_s, some.load_s);
    EXPECT_LT(some.block_s, full.block_s);
    EXPECT_EQ(load(R"({"kind": "sync", "fraction": 1, "full_every": 10})").load_s, full.load_s) << "each is a full one";
    EXPECT_LT(load(R"({"kind": "sync", "fraction": 0.1, "full_every": 10})").load_s, some.load_s);
    EXPECT_LT(load(R"({"kind": "sync", "fraction": 0.2, "full_every": 4})").load_s, some.load_s);
}

TEST(WholeRun, ItsReportAddsUp) {
    const Scenario s = job_of({});
    const Prediction p = predict(s);
    const WholeRunReport r = whole_run(s, p, {2, {}});
    EXPECT_EQ(r.finished, 10);
    EXPECT_NEAR(r.productive_s + std::accumulate(r.lost_s.begin(), r.lost_s.end(), 0.0), r.mean_wall_s, 1e-6 * r.mean_wall_s);
    EXPECT_NEAR(r.mean_wall_s, 40 * 86400, 1e-3);
    EXPECT_NEAR(r.failures, 8 * 0.1 * 40, 8) << "32 in the mean";
    EXPECT_TRUE(r.save_auto);
    EXPECT_LE(r.goodput.p10, r.goodput.p50);
    EXPECT_LE(r.goodput.p50, r.goodput.p90);
    EXPECT_GT(r.goodput.p50, 0.5);
    EXPECT_FALSE(r.elastic.empty());
    const nlohmann::json j = nlohmann::json::parse(to_json(r));
    EXPECT_EQ(j["lost_s"].size(), lost_times);
    EXPECT_EQ(j["seeds"], 10);
    const std::string text = to_text(r, s);
    for (const char* word : {"goodput", "wasted progress", "Young", "Daly", "drop-replica", "device hours"})
        EXPECT_NE(text.find(word), std::string::npos) << word << "\n" << text;
    EXPECT_FALSE(nlohmann::json::parse(timeline_perfetto(r)).empty());
    EXPECT_NE(timeline_csv(r).find("restart"), std::string::npos);
    EXPECT_EQ(to_json(whole_run(s, p, {1, {}})), to_json(r)) << "the number of threads changes nothing";
}

// As good as the best, and the least that storage has to do; never while the last save is written.
TEST(WholeRun, AutoSavesAsSeldomAsItMay) {
    const std::vector<IntervalPoint> curve{{1, 0.9}, {10, 0.95}, {30, 0.9505}, {60, 0.9497}, {90, 0.9}, {600, 0.5}};
    EXPECT_EQ(best_interval(curve, 0, 1).steps, 60);
    EXPECT_EQ(best_interval(curve, 50, 1).steps, 60);
    EXPECT_EQ(best_interval(curve, 61, 1).steps, 90);
    EXPECT_EQ(best_interval(curve, 1e6, 1).steps, 600);
    TrainingJob job;
    job.run.checkpoint.kind = CheckpointKind::async;
    job.save.write_s = 5;
    EXPECT_EQ(least_interval_s(job, 0), 60);
    EXPECT_EQ(least_interval_s(job, 100), 10);
    job.save.write_s = 300;
    EXPECT_EQ(least_interval_s(job, 100), 300);
    job.run.checkpoint.kind = CheckpointKind::peer; // every 10th goes to storage, for 50 s
    job.save.write_s = 2;
    job.save.storage_s = 50;
    EXPECT_EQ(least_interval_s(job, 1000), 5);
    const Scenario s = job_of({"run.failures.per_node_day=0.004"});
    const WholeRunReport r = whole_run(s, predict(s), {2, {}});
    EXPECT_GE(static_cast<double>(r.save_every) * r.step_s, r.least_s * (1 - 1e-9));
    EXPECT_GE(r.least_s, 60);
}

TEST(WholeRun, StatesAreSimulatedByTheStepModel) {
    const Scenario s = job_of({"model.hidden_size=4096", "training.sequence_length=4096",
                               "run.slow_node={\"per_node_day\": 0.1, \"factor\": 2}", "run.elastic=drop-replica"});
    const Prediction p = predict(s);
    const auto pace = paces(s, p);
    MachineState slow;
    slow.slow_node = true;
    EXPECT_GT(pace(slow).step_s, 1.5 * p.report.step_time_s);
    MachineState less;
    less.replicas_lost = 4; // of 8: twice the sequences for each that is left
    EXPECT_NEAR(pace(less).step_s / p.report.step_time_s, 2, 0.3);
    EXPECT_EQ(pace(less).share, 1);
    EXPECT_EQ(replicas_per_node(s), 1);
    EXPECT_EQ(replicas_per_node(job_of({"strategy.tensor_parallel=2"})), 4);
}

// A NIC less is a NIC that is down: its traffic goes by its neighbours.
TEST(WholeRun, ALostNicIsOneThatIsDown) {
    const std::vector<std::string> fields{"model.hidden_size=4096",   "strategy.tensor_parallel=1",       "strategy.zero_stage=3",
                                          "strategy.framework=fsdp2", "cluster.inter_node.gbit_per_s=25", "run.lost_nic.per_node_day=0.1"};
    const Scenario s = job_of(fields);
    const Prediction p = predict(s);
    MachineState less;
    less.lost_nic = true;
    Scenario down = s;
    down.cluster.inter.down.push_back({});
    down.cluster.inter.down.back().node = 0;
    const double step = predict(down).report.step_time_s;
    EXPECT_GT(step, 1.05 * p.report.step_time_s);
    EXPECT_DOUBLE_EQ(paces(s, p)(less).step_s, step);
    Scenario again = down; // the first is down as it is: the next one goes
    const Prediction without = predict(again);
    EXPECT_GT(paces(again, without)(less).step_s, step * (1 - 1e-9));
}

const ElasticOption& option(const WholeRunReport& r, const std::string& name) {
    const auto at = std::ranges::find(r.elastic, name, &ElasticOption::name);
    EXPECT_NE(at, r.elastic.end()) << name;
    return at == r.elastic.end() ? r.elastic.front() : *at;
}

// Each row is the run that its words say: the same scenario with that field changed, saved as often, over the same failures.
TEST(WholeRun, RowsSideBySideAreRunsOfTheirOwn) {
    const Scenario s = job_of({});
    const WholeRunReport r = whole_run(s, predict(s), {2, {}});
    const std::string every = "run.checkpoint.every={\"steps\": " + std::to_string(r.save_every) + "}";
    const std::string own = "run.spares.nodes=" + std::to_string(r.spares);
    struct Case {
        std::string row;
        std::vector<std::string> fields;
    };
    const std::string usual = std::to_string(r.spares);
    const std::vector<Case> cases{{"none", {own}},
                                  {"drop-replica", {own, "run.elastic=drop-replica"}},
                                  {"shrink-batch", {own, "run.elastic=shrink-batch"}},
                                  {"stepwise", {own, "run.elastic=stepwise"}},
                                  {"none, 1 hot spare", {"run.spares.nodes=1"}},
                                  {"none, " + usual + " hot spares", {own}},
                                  {"none, 1 cold spare", {"run.spares.nodes=1", "run.spares.warm=false"}},
                                  {"none, " + usual + " cold spares", {own, "run.spares.warm=false"}},
                                  {"torchelastic", {"run.practice=torchelastic"}},
                                  {"ray-train", {own, "run.practice=ray-train"}}};
    ASSERT_GT(r.spares, 1);
    for (const auto& [row, fields] : cases) {
        std::vector<std::string> all = fields;
        all.push_back(every);
        const Scenario other = job_of(all);
        const WholeRunReport alone = whole_run(other, predict(other), {2, {}});
        const ElasticOption& o = option(r, row);
        EXPECT_NEAR(o.goodput, alone.productive_s / alone.mean_wall_s, 1e-9) << row;
        EXPECT_NEAR(o.steps, alone.mean_steps, 1e-6 * alone.mean_steps) << row;
        EXPECT_EQ(o.spares, alone.spares) << row;
    }
    EXPECT_TRUE(option(r, "none").chosen);
    EXPECT_GT(option(r, "none, " + usual + " hot spares").goodput, option(r, "none, 1 hot spare").goodput);
    EXPECT_GT(option(r, "none, 1 hot spare").goodput, option(r, "none, 1 cold spare").goodput);
    EXPECT_GT(option(r, "stepwise").goodput, option(r, "ray-train").goodput) << "no step is lost but one";
    const std::string text = to_text(r, s);
    for (const Case& c : cases) EXPECT_NE(text.find(c.row), std::string::npos) << c.row << "\n" << text;
}

// Copies in host memory: one until it is written; in peers' memory own and theirs, the last until the next is whole.
TEST(WholeRun, CopiesTakeTheNodesMemory) {
    EXPECT_EQ(save_cost(job_of({"run.checkpoint.kind=sync"}), 8e12).host_bytes, 0);
    EXPECT_EQ(save_cost(job_of({"run.checkpoint.kind=async"}), 8e12).host_bytes, 1e12);
    EXPECT_EQ(save_cost(job_of({"run.checkpoint.kind=peer", "run.checkpoint.replicas=2"}), 8e12).host_bytes, 6e12);
    const auto notes = [](const std::string& gb) {
        const Scenario s = job_of({"run.checkpoint.kind=peer", "run.checkpoint.gb=800", "cluster.host.memory_gb=" + gb});
        std::string all;
        for (const std::string& note : whole_run(s, predict(s), {2, {}}).notes) all += note;
        return all;
    };
    EXPECT_NE(notes("300").find("copies of saves need 400.0 GB of a node's memory, and it has 300.0 GB"), std::string::npos)
        << notes("300");
    EXPECT_EQ(notes("500").find("copies of saves"), std::string::npos);
}

// A save is written at NVMe's rate of writes and read at that of reads; a direction without a rate of its own has that of both.
TEST(WholeRun, SavesOnNvmeTakeTheRateOfTheirDirection) {
    const auto cost = [](const char* kind, std::vector<std::string> fields) {
        fields.push_back(std::string("run.checkpoint.kind=") + kind);
        return save_cost(job_of(fields), 8e12); // 1 TB a node
    };
    for (const char* kind : {"local", "tiers"}) {
        const SaveCost both = cost(kind, {"cluster.host.nvme_gb_per_s=0.1"});
        EXPECT_NEAR(both.write_s, 1e4, 1) << kind;
        const SaveCost apart = cost(kind, {"cluster.host.nvme_write_gb_per_s=0.2", "cluster.host.nvme_read_gb_per_s=0.05"});
        EXPECT_NEAR(apart.write_s, 5e3, 1) << kind;
        const SaveCost reads = cost(kind, {"cluster.host.nvme_gb_per_s=0.1", "cluster.host.nvme_read_gb_per_s=0.05"});
        EXPECT_EQ(reads.write_s, both.write_s) << kind;
        if (std::string(kind) != "local") {
            EXPECT_EQ(reads.near_load_s, both.near_load_s) << "from other nodes' memory";
            continue;
        }
        EXPECT_NEAR(both.near_load_s, 1e4, 20);
        EXPECT_NEAR(apart.near_load_s, 2e4, 20);
        EXPECT_NEAR(reads.near_load_s, 2e4, 20);
    }
    Scenario unsaid = job_of({"run.checkpoint.kind=tiers"});
    unsaid.cluster.host.nvme_bandwidth = {};
    EXPECT_GT(save_cost(unsaid, 8e14).write_s, save_cost(job_of({"run.checkpoint.kind=peer"}), 8e14).write_s) << "a usual host's, not free";
}

// Saves that find no room beside what is offloaded do not fit; a cluster that does not say how large a place is has room.
TEST(WholeRun, SavesThatFindNoRoomDoNotFit) {
    const auto why = [](const std::vector<std::string>& fields) {
        std::vector<std::string> all{"run.checkpoint.gb=800"};
        all.insert(all.end(), fields.begin(), fields.end());
        const Scenario s = job_of(all);
        return why_saves_do_not_fit(s, predict(s).report);
    };
    for (const char* kind : {"async", "peer", "local", "tiers"}) {
        const std::string is = std::string("run.checkpoint.kind=") + kind;
        EXPECT_EQ(why({is}), "") << kind;
        EXPECT_NE(why({is, "cluster.host.memory_gb=1"}).find("cluster.host.memory_gb"), std::string::npos) << kind;
        const bool disk = std::string(kind) == "local" || std::string(kind) == "tiers";
        EXPECT_EQ(why({is, "cluster.host.nvme_gb=150"}).find("saves need 200.0 GB of a node's NVMe, and it has 150.0 GB") == 0, disk)
            << kind;
        EXPECT_EQ(why({is, "cluster.host.nvme_gb=250"}), "") << kind;
    }
    EXPECT_EQ(why({"run.checkpoint.kind=sync", "cluster.host.memory_gb=1", "cluster.host.nvme_gb=1"}), "");
    Scenario unsaid = job_of({"run.checkpoint.kind=tiers", "run.checkpoint.gb=8e6"});
    unsaid.cluster.host.memory = unsaid.cluster.host.nvme = {};
    EXPECT_EQ(why_saves_do_not_fit(unsaid, predict(unsaid).report), "");
}

// The example of Llama 3 405B: as many failures as were counted, goodput above the 90 % that were published. How often it saved and how
// long a restart took is assumed, so no more can be asked.
TEST(WholeRun, Llama3sOwnFailures) {
    const ParseResult parsed = load_scenario(ORRERY_SOURCE_DIR "/scenarios/llama3-405b-run.json", {"run.seeds=20"});
    ASSERT_TRUE(parsed.scenario) << to_text(parsed.problems);
    PredictOptions options;
    options.verify = false;
    TrainingJob job = job_of(*parsed.scenario, predict(*parsed.scenario, options), {});
    const double failure_every_s = 86400 / (0.00379 * 2048);
    job.save_every = best_interval(interval_curve(job, 2), least_interval_s(job, failure_every_s), job.step_s()).steps;
    double failures = 0, planned = 0;
    for (const JobOutcome& o : simulate_seeds(job, 20, 2)) {
        failures += static_cast<double>(o.failures) / 20;
        planned += static_cast<double>(o.planned) / 20;
        EXPECT_GT(o.goodput(), 0.9);
        EXPECT_LT(o.goodput(), 0.99);
    }
    EXPECT_NEAR(failures, 419, 4 * std::sqrt(419.0 / 20));
    EXPECT_NEAR(planned, 47, 4 * std::sqrt(47.0 / 20));
    // Goodput above 0.9 demands R + tau/2 + M delta/tau below 18.6 min: those assumed are inside.
    const double tau = static_cast<double>(job.save_every) * job.step_s();
    const double restart = job.run.detect.crash + job.run.restart.schedule_s + job.init_s + job.save.load_s + job.run.restart.compile_s;
    EXPECT_LT(restart + tau / 2 + failure_every_s * job.save.block_s / tau, 18.6 * 60);
}

// The timeline read again from its exports: spans without gaps or overlaps that fill the run, restarts among them as many as it counted,
// each with what broke; saves as many as it counted, each inside a span of training.
TEST(WholeRun, ItsTimelineIsReadAgain) {
    const Scenario s = job_of({"run.evaluation={\"every_steps\": 20000, \"seconds\": 600}", "run.failures.planned_per_day=0.1",
                               "run.checkpoint={\"every\": {\"seconds\": 3600}, \"save_s\": 20}"});
    const WholeRunReport r = whole_run(s, predict(s), {2, {}});
    const nlohmann::json document = nlohmann::json::parse(timeline_perfetto(r));
    std::vector<nlohmann::json> events, saves;
    for (const nlohmann::json& e : document["traceEvents"])
        if (e["ph"] == "X") (e["tid"] == 1 ? events : saves).push_back(e);
    std::istringstream table(timeline_csv(r));
    std::string line;
    std::getline(table, line);
    EXPECT_EQ(csv_cells(line), (std::vector<std::string>{"begin_day", "end_day", "what", "detail"}));
    double at = 0;
    std::size_t n = 0;
    std::int64_t restarts = 0;
    for (; std::getline(table, line); ++n) {
        const std::vector<std::string> cell = csv_cells(line);
        ASSERT_EQ(cell.size(), 4u) << line;
        ASSERT_LT(n, events.size());
        EXPECT_EQ(events[n]["name"], cell[2]);
        EXPECT_NEAR(events[n]["ts"].get<double>() * 1e-6, std::stod(cell[0]) * 86400, 0.1);
        EXPECT_NEAR(events[n]["ts"].get<double>() * 1e-6, at, 1e-3) << "a gap before " << line;
        at = (events[n]["ts"].get<double>() + events[n]["dur"].get<double>()) * 1e-6;
        restarts += cell[2] == "restart";
        if (cell[2] == "restart") { EXPECT_FALSE(cell[3].empty()) << line; }
    }
    EXPECT_EQ(n, events.size());
    EXPECT_NEAR(at, 40 * 86400, 1);
    EXPECT_GE(restarts, r.example.interruptions + r.example.planned) << "more where a failure comes into one";
    EXPECT_EQ(static_cast<std::int64_t>(saves.size()) + r.example.planned, r.example.saves)
        << "those ahead of a planned stop are a part of it";
    ASSERT_GT(saves.size(), 100u);
    for (const nlohmann::json& e : saves) {
        const double from = e["ts"], to = from + e["dur"].get<double>();
        EXPECT_NEAR(to - from, 20e6, 1);
        EXPECT_TRUE(std::ranges::any_of(events, [&](const nlohmann::json& t) {
            return t["name"] == "training" && t["ts"].get<double>() <= from && to <= t["ts"].get<double>() + t["dur"].get<double>() + 1;
        })) << e;
    }
    // The same as a trace: written, read again.
    const std::string file = testing::TempDir() + "orrery_run_" + std::to_string(getpid()) + ".trace";
    save(timeline_trace(r), file);
    const Trace trace = load_trace(file);
    std::filesystem::remove(file);
    ASSERT_EQ(trace.lanes.size(), 1u);
    ASSERT_EQ(trace.lanes[0].spans.size(), events.size() + saves.size());
    for (std::size_t i = 0; i < events.size(); ++i) {
        const Span& span = trace.lanes[0].spans[i];
        EXPECT_NEAR(span.begin.seconds(), events[i]["ts"].get<double>() * 1e-6, 1e-6);
        EXPECT_TRUE(trace.ops[span.op].name.starts_with(events[i]["name"].get<std::string>()));
    }
    EXPECT_NEAR(trace.end.seconds(), 40 * 86400, 1);
}

// The missing parts are said, and what broke.
TEST(WholeRun, ItsTimelineNamesStatesAndFailures) {
    const Scenario s = job_of({"run.slow_node={\"per_node_day\": 0.1, \"factor\": 1.5, \"hours\": 5}",
                               "run.slow_link={\"per_node_day\": 0.1, \"factor\": 3}", "run.lost_nic.per_node_day=0.1",
                               "run.elastic=drop-replica", "run.spares.nodes=0", "run.failures.by.hbm=1"});
    const std::string table = timeline_csv(whole_run(s, predict(s), {2, {}}));
    for (const char* words : {"a slow node", "a slow link", "a NIC less", "1 replica less", "restart,hbm"})
        EXPECT_NE(table.find(words), std::string::npos) << words;
}

TEST(WholeRun, ATracesNodesThatTheJobLacksAreNamed) {
    Scenario s = job_of({});
    s.run->failures.distribution = FailureLaw::trace;
    s.run->failures.trace = {{99, 86400, 2 * 86400}, {3, 2 * 86400, 3 * 86400}};
    std::string notes;
    for (const std::string& note : whole_run(s, predict(s), {2, {}}).notes) notes += note;
    EXPECT_NE(notes.find("1 of its 2 failures are of nodes beyond this job's 8"), std::string::npos) << notes;
    EXPECT_NE(notes.find("it covers 3 days and is repeated 13.3 times"), std::string::npos) << notes;
}

TEST(WholeRun, ATraceOfTooManyFailuresIsRefused) {
    Scenario s = job_of({"run.seeds=100000"});
    s.run->failures.distribution = FailureLaw::trace;
    for (int i = 0; i < 100'000; ++i) s.run->failures.trace.push_back({i % 8, 20.0 * i, 20.0 * i + 1});
    const Prediction p = predict(s);
    try {
        (void)whole_run(s, p, {1, {}});
        FAIL() << "it was simulated";
    } catch (const InputError& e) { EXPECT_NE(std::string(e.what()).find("a shorter trace"), std::string::npos) << e.what(); }
}

TEST(WholeRun, WhatCannotBeCountedIsRefused) {
    const Scenario s = job_of({"run.days=36500", "run.failures.per_node_day=1000", "run.seeds=100000"});
    const Prediction p = predict(s);
    try {
        (void)whole_run(s, p, {1, {}});
        FAIL() << "it was simulated";
    } catch (const InputError& e) { EXPECT_NE(std::string(e.what()).find("fewer run.seeds"), std::string::npos) << e.what(); }
}

} // namespace
} // namespace orrery

// Ranks in processes of their own: the same bits as in one process, and a clear end where one is lost. Skipped where there is no MPI.
#include "sim/trace/trace.hpp"
#include "tests/unit/simexec/process.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace {

namespace fs = std::filesystem;
using orrery::test::comes;
using orrery::test::Process;
using orrery::test::Words;

const std::string simexec = ORRERY_BINARY_DIR "/bin/simexec";
const std::string simrun = ORRERY_BINARY_DIR "/bin/simrun";

fs::path scratch(const std::string& name) { return fs::path(testing::TempDir()) / ("orrery_mpi_" + name + std::to_string(getpid())); }

std::string scenario(int ranks) {
    const fs::path file = scratch("scenario" + std::to_string(ranks) + ".json");
    std::ofstream(file)
        << R"({"name": "tiny", "model": {"name": "tiny", "layers": 2, "hidden_size": 16, "attention_heads": 4, "vocab_size": 32, "ffn_size": 32},
        "cluster": {"preset": "local-cpu", "nodes": 1, "devices_per_node": )"
        << ranks << R"(},
        "training": {"global_batch_size": 8, "sequence_length": 8, "precision": "fp32", "learning_rate": 0.01},
        "strategy": {"framework": "ddp"}})";
    return file.string();
}

Process start(const Words& words, const std::string& name) { return orrery::test::start_process(words, scratch(name)); }

Words over(int ranks, const Words& more) {
    Words words{"mpirun", "-n", std::to_string(ranks), simexec, "run", scenario(ranks), "--executor", "mpi"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
}

nlohmann::json run(Words words, const std::string& name) {
    const fs::path report = scratch(name + ".json");
    words.insert(words.end(), {"--json", "-o", report.string(), "--steps", "3"});
    const Process p = start(words, name);
    EXPECT_EQ(p.wait(50), 0) << p.text();
    std::ifstream in(report);
    return nlohmann::json::parse(in, nullptr, false);
}

// The process numbers that --verbose names, once all are there.
std::vector<pid_t> ranks_of(const Process& p, int ranks) {
    const std::regex line("rank ([0-9]+) is process ([0-9]+)");
    std::vector<pid_t> ids;
    const auto all = [&] {
        const std::string text = p.text();
        ids.assign(static_cast<std::size_t>(ranks), 0);
        for (std::sregex_iterator i(text.begin(), text.end(), line), end; i != end; ++i) ids[std::stoul((*i)[1])] = std::stoi((*i)[2]);
        return std::ranges::find(ids, 0) == ids.end() && text.find("step 1:") != std::string::npos;
    };
    return comes([&] { return all() || !p.alive(); }) && all() ? ids : std::vector<pid_t>{};
}

class Mpi : public testing::Test {
  protected:
    void SetUp() override {
        if (!orrery::test::has_mpi()) GTEST_SKIP() << "no MPI here: exec_mpi.so was not built, or there is no mpirun";
    }
};

TEST_F(Mpi, SameBitsAsOneProcess) {
    const std::pair<const char*, Words> cases[] = {
        {"zero1", {"--set", "strategy.data_parallel=4", "--set", "strategy.zero_stage=1"}},
        {"fsdp", {"--set", "strategy.data_parallel=4", "--set", "strategy.framework=fsdp"}},
        {"tp_pp", {"--set", "strategy.tensor_parallel=2", "--set", "strategy.pipeline_parallel=2", "--set", "strategy.schedule=1f1b"}},
        {"cp_sp",
         {"--set", "strategy.tensor_parallel=2", "--set", "strategy.context_parallel=2", "--set", "strategy.sequence_parallel=true"}},
        {"experts",
         {"--set", "strategy.tensor_parallel=2", "--set", "strategy.sequence_parallel=true", "--set", "strategy.expert_parallel=2", "--set",
          "strategy.expert_tensor_parallel=2", "--set", "model.moe.experts=4", "--set", "model.moe.top_k=2", "--set",
          "model.moe.expert_ffn_size=16", "--set", "model.moe.imbalance=[1,1e-6,0,0]", "--set", "model.bias=false"}},
    };
    for (const auto& [name, fields] : cases) {
        Words alone{simexec, "run", scenario(4)};
        alone.insert(alone.end(), fields.begin(), fields.end());
        const nlohmann::json one = run(alone, std::string(name) + "_serial"), many = run(over(4, fields), name);
        EXPECT_EQ(one["last_loss"], many["last_loss"]) << name;
        EXPECT_LT(one["last_loss"], one["first_loss"]) << name;
        for (const char* bytes : {"peak_bytes", "predicted_bytes"}) EXPECT_EQ(one["memory"][0][bytes], many["memory"][0][bytes]) << name;
        const auto allocated = [](const nlohmann::json& run) { return run["memory"][0]["allocated_bytes"].get<double>(); };
        EXPECT_NEAR(allocated(many), allocated(one), 0.01 * allocated(one)) << name << ": places of a rank alone, and beside others";
    }
}

// The choices of the routers of all processes are one record.
TEST_F(Mpi, RoutingIsRecordedOverRanks) {
    const Words experts{"--set",    "strategy.pipeline_parallel=2",
                        "--set",    "strategy.schedule=1f1b",
                        "--set",    "strategy.expert_parallel=2",
                        "--set",    "model.moe.experts=4",
                        "--set",    "model.moe.top_k=2",
                        "--set",    "model.moe.expert_ffn_size=16",
                        "--set",    "model.moe.imbalance=[1,1e-6,0,0]",
                        "--routing"};
    Words alone{simexec, "run", scenario(4)}, words = over(4, experts);
    alone.insert(alone.end(), experts.begin(), experts.end());
    std::vector<std::string> said;
    for (Words* w : {&alone, &words}) {
        w->push_back(scratch("routing").string());
        run(*w, "routing_run");
        std::ifstream in(w->back());
        said.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
        fs::remove(w->back());
    }
    EXPECT_EQ(said[0], said[1]);
    EXPECT_EQ(nlohmann::json::parse(said[0], nullptr, false).size(), 2u); // of both stages
}

// Messages longer than an int can count are cut: here those longer than 100 bytes.
TEST_F(Mpi, CutMessagesCarryTheSameBits) {
    const Words dp{"--set", "strategy.data_parallel=3", "--set", "strategy.zero_stage=1", "--set", "training.global_batch_size=6"};
    Words alone{simexec, "run", scenario(3)};
    alone.insert(alone.end(), dp.begin(), dp.end());
    setenv("ORRERY_MPI_CHUNK", "100", 1);
    const nlohmann::json many = run(over(3, dp), "cut");
    unsetenv("ORRERY_MPI_CHUNK");
    EXPECT_EQ(run(alone, "cut_serial")["last_loss"], many["last_loss"]);
}

// A thread of its own moves communications on: some end while a kernel runs. Where processors are short it may not get one in time: some
// step of several will do; without that thread none would.
TEST_F(Mpi, CommunicatesWhileItComputes) {
    const fs::path file = scratch("overlap.trace");
    int inside = 0;
    for (int tries = 0; tries < 8 && inside == 0; ++tries) {
        const Process p = start(
            over(2, {"--set", "strategy.data_parallel=2", "--set", "model.layers=12", "--set", "model.hidden_size=64", "--set",
                     "training.sequence_length=512", "--set", "training.global_batch_size=2", "--set", "strategy.overlap.grad_reduce=true",
                     "--set", "strategy.bucket_bytes=100000", "--steps", "2", "--trace", file.string()}),
            "overlap");
        ASSERT_EQ(p.wait(50), 0) << p.text();
        const orrery::Trace t = orrery::load_trace(file.string());
        ASSERT_EQ(t.lanes.size(), 2u);
        for (const orrery::Span& c : t.lanes[0].spans)
            for (const orrery::Span& k : t.lanes[0].spans)
                inside += c.queue >= 4 && c.kind == orrery::SpanKind::op && k.queue == 0 && k.kind == orrery::SpanKind::op &&
                          k.begin < c.end && c.end < k.end;
    }
    EXPECT_GT(inside, 0);
}

// One trace of all ranks on one clock: a collective begins at one time on all its members.
TEST_F(Mpi, OneTraceOfAllRanks) {
    const fs::path file = scratch("merged.trace");
    const Process p = start(over(4, {"--set", "strategy.tensor_parallel=2", "--set", "strategy.pipeline_parallel=2", "--set",
                                     "strategy.schedule=1f1b", "--steps", "3", "--trace", file.string()}),
                            "merged");
    ASSERT_EQ(p.wait(50), 0) << p.text();
    const orrery::Trace t = orrery::load_trace(file.string());
    ASSERT_EQ(t.lanes.size(), 4u);
    std::map<std::pair<int, int>, std::vector<orrery::Time>> begins; // of an op of a microbatch on the two ranks of a stage
    for (const orrery::Lane& lane : t.lanes) {
        EXPECT_FALSE(lane.spans.empty());
        for (const orrery::Span& s : lane.spans) {
            EXPECT_LE(s.end, t.end);
            if (s.kind == orrery::SpanKind::op && t.ops[s.op].kind == "all-reduce" && t.queues[s.queue] == "tp")
                begins[{s.op, s.microbatch}].push_back(s.begin);
        }
    }
    ASSERT_FALSE(begins.empty());
    std::vector<double> apart; // s; both begin when the second has come: but for what a round trip leaves unknown of the clocks
    for (const auto& [call, times] : begins) {
        ASSERT_EQ(times.size(), 2u);
        apart.push_back(std::abs((times[0] - times[1]).seconds()));
    }
    std::sort(apart.begin(), apart.end());
    EXPECT_LT(apart[apart.size() / 2], 1e-3);
    for (int r = 1; r < 4; ++r) EXPECT_FALSE(fs::exists(file.string() + ".rank" + std::to_string(r)));
}

TEST_F(Mpi, KilledRankEndsTheJob) {
    const Process p = start(over(2, {"--set", "strategy.data_parallel=2", "--steps", "1000000", "-v"}), "killed");
    const auto ranks = ranks_of(p, 2);
    ASSERT_EQ(ranks.size(), 2u) << p.text();
    kill(ranks[1], SIGKILL);
    const int code = p.wait(15);
    EXPECT_NE(code, 0);
    EXPECT_NE(code, -1) << "it did not end";
}

TEST_F(Mpi, StoppedRankIsNamed) {
    const Process p = start(over(2, {"--set", "strategy.data_parallel=2", "--steps", "1000000", "-v", "--patience", "2"}), "stopped");
    const auto ranks = ranks_of(p, 2);
    ASSERT_EQ(ranks.size(), 2u) << p.text();
    kill(ranks[1], SIGSTOP);
    const int code = p.wait(25);
    kill(ranks[1], SIGKILL); // where mpirun could not
    EXPECT_EQ(code, 6) << p.text();
    EXPECT_TRUE(std::regex_search(p.text(), std::regex("rank 0: .* waits for rank 1")))
        << p.text().substr(p.text().size() > 2000 ? p.text().size() - 2000 : 0);
}

// By signs of life, long before anyone's patience ends; also of rank 0, which hears the others. One process says it, once.
TEST_F(Mpi, AStoppedRankIsNamedInTenSecondsByOneOther) {
    for (const int victim : {2, 0}) {
        const Process p = start(over(3, {"--set", "strategy.data_parallel=3", "--set", "training.global_batch_size=6", "--steps", "1000000",
                                         "-v", "--patience", "300"}),
                                "silent" + std::to_string(victim));
        const auto ranks = ranks_of(p, 3);
        ASSERT_EQ(ranks.size(), 3u) << p.text().substr(0, 2000);
        kill(ranks[victim], SIGSTOP);
        const int code = p.wait(15);
        kill(ranks[victim], SIGKILL); // where mpirun could not
        const std::string text = p.text(), tail = text.substr(text.size() > 2000 ? text.size() - 2000 : 0);
        EXPECT_EQ(code, 6) << victim << tail;
        const std::regex said("rank " + std::to_string(victim) + " gives no sign of life for ([0-9]+) s");
        const std::sregex_iterator found(text.begin(), text.end(), said);
        ASSERT_EQ(std::distance(found, std::sregex_iterator()), 1) << tail;
        EXPECT_LE(std::stoi((*found)[1]), 10);
    }
}

// `check` is guarded as `run` is.
TEST_F(Mpi, AStoppedRankOfACheckIsNamed) {
    const Process p = start({"mpirun", "-n", "2", simexec, "check", scenario(2), "--executor", "mpi", "--set", "strategy.data_parallel=2",
                             "--set", "training.global_batch_size=2048", "--steps", "1000", "-v"},
                            "checked");
    const std::regex line("rank 1 is process ([0-9]+)");
    pid_t victim = 0;
    const auto both_train = [&] {
        const std::string text = p.text();
        std::smatch found;
        if (std::regex_search(text, found, line)) victim = std::stoi(found[1]);
        return victim != 0 && text.find("/1000  measuring") != std::string::npos;
    };
    ASSERT_TRUE(comes(both_train)) << p.text();
    ASSERT_TRUE(p.alive()) << p.text();
    kill(victim, SIGSTOP);
    const int code = p.wait(15);
    kill(victim, SIGKILL); // where mpirun could not
    EXPECT_EQ(code, 6) << p.text();
    EXPECT_NE(p.text().find("rank 1 gives no sign of life"), std::string::npos) << p.text();
}

// A rank that gets no processor for a while delays the others, and nothing else.
TEST_F(Mpi, StarvedRankGoesOn) {
    const Process p = start(over(2, {"--set", "strategy.data_parallel=2", "--steps", "800", "-v", "--patience", "20"}), "starved");
    const auto ranks = ranks_of(p, 2);
    ASSERT_EQ(ranks.size(), 2u) << p.text();
    kill(ranks[1], SIGSTOP);
    std::this_thread::sleep_for(std::chrono::milliseconds(700));
    kill(ranks[1], SIGCONT);
    EXPECT_EQ(p.wait(40), 0) << p.text().substr(0, 2000);
}

int times(const std::string& text, const std::string& what) {
    int n = 0;
    for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
    return n;
}

// All ranks find it in the gradients that they have summed; of a pipeline the two of the last stage find it in their losses.
TEST_F(Mpi, NoNumberIsSaidByOneRankWithItsName) {
    const std::pair<const char*, Words> cases[] = {
        {"nan_dp", {"--set", "strategy.data_parallel=4"}},
        {"nan_pp", {"--set", "strategy.data_parallel=2", "--set", "strategy.pipeline_parallel=2", "--set", "strategy.schedule=1f1b"}}};
    for (const auto& [name, strategy] : cases) {
        Words words = over(4, strategy);
        words.insert(words.end(), {"--set", "training.learning_rate=1e30", "--steps", "1000000"});
        const Process p = start(words, name);
        EXPECT_EQ(p.wait(25), 4) << p.text();
        EXPECT_TRUE(std::regex_search(p.text(), std::regex("training has failed at step [0-9]+: rank [0-3]: .*is no number"))) << p.text();
        EXPECT_EQ(times(p.text(), "simexec: error"), 1) << p.text();
        EXPECT_EQ(times(p.text(), "is no number"), 1) << p.text();
    }
}

// A mistake that all find is said once, and so is a loss.
TEST_F(Mpi, WhatAllRanksKnowIsSaidOnce) {
    const Process wrong = start(over(3, {"--set", "strategy.tensor_parallel=5"}), "once_wrong");
    EXPECT_EQ(wrong.wait(25), 1) << wrong.text();
    EXPECT_EQ(times(wrong.text(), "simexec: error"), 1) << wrong.text();
    const Process missing = start(over(3, {"--text", "no-such-file", "--set", "strategy.data_parallel=3"}), "once_missing");
    EXPECT_EQ(missing.wait(25), 1) << missing.text();
    EXPECT_EQ(times(missing.text(), "simexec: error"), 1) << missing.text();
    const Process option = start(over(3, {"--no-such-option"}), "once_option");
    EXPECT_EQ(option.wait(25), 1) << option.text();
    EXPECT_EQ(times(option.text(), "simexec run: error"), 1) << option.text();
    const Process nothing = start(over(3, {"--set", "strategy.data_parallel=3", "--set", "training.global_batch_size=6", "--resume",
                                           scratch("no_checkpoints").string()}),
                                  "once_nothing");
    EXPECT_EQ(nothing.wait(25), 1) << nothing.text();
    EXPECT_EQ(times(nothing.text(), "simexec: error"), 1) << nothing.text();
    const Process trained = start(over(2, {"--set", "strategy.data_parallel=2", "--steps", "3", "-v"}), "once_loss");
    EXPECT_EQ(trained.wait(25), 0) << trained.text();
    EXPECT_EQ(times(trained.text(), "step 1: loss"), 1) << trained.text();
}

TEST_F(Mpi, OutOfMemoryEndsTheJob) {
    const Words dp{"--set", "strategy.data_parallel=2"};
    const auto peak = run(over(2, dp), "memory_peak")["memory"][0]["peak_bytes"].get<std::int64_t>();
    Words words = over(2, dp);
    words.insert(words.end(), {"--memory", "0.000" + std::to_string(peak - 1), "--steps", "1000000"});
    ASSERT_GT(peak, 100000);
    ASSERT_LT(peak, 1000000);
    const Process p = start(words, "memory");
    EXPECT_EQ(p.wait(25), 2) << p.text();
    EXPECT_TRUE(std::regex_search(p.text(), std::regex("out of memory: .* are in use; alive are"))) << p.text();
    EXPECT_EQ(times(p.text(), "simexec: error"), 1) << p.text(); // both have as much
}

// A checkpoint that no rank can read is passed over with one word.
TEST_F(Mpi, ADamagedCheckpointIsSaidOnce) {
    const fs::path folder = scratch("damaged");
    const Words job{"--set", "strategy.data_parallel=3", "--set", "training.global_batch_size=6"};
    Words first = over(3, job), second = first;
    first.insert(first.end(), {"--steps", "4", "--every", "2", "--checkpoint", folder.string()});
    second.insert(second.end(), {"--steps", "5", "--resume", folder.string()});
    const Process p = start(first, "damaged_first");
    ASSERT_EQ(p.wait(25), 0) << p.text();
    for (const auto& part : fs::directory_iterator(folder / "step-00000004"))
        if (part.path().extension() != ".json") fs::resize_file(part.path(), fs::file_size(part.path()) / 2);
    const Process q = start(second, "damaged_second");
    EXPECT_EQ(q.wait(25), 0) << q.text();
    EXPECT_EQ(times(q.text(), "the checkpoint before it is taken"), 1) << q.text();
    fs::remove_all(folder);
}

TEST_F(Mpi, StrategiesAgreeWithOneRankAcrossProcesses) {
    const std::pair<const char*, Words> cases[] = {
        {"agree_zero1", {"--set", "strategy.data_parallel=4", "--set", "strategy.zero_stage=1"}},
        {"agree_tp_pp",
         {"--set", "strategy.tensor_parallel=2", "--set", "strategy.pipeline_parallel=2", "--set", "strategy.schedule=1f1b"}}};
    for (const auto& [name, strategy] : cases) {
        const fs::path report = scratch(std::string(name) + ".json");
        Words words{"mpirun", "-n",      "4", simexec,  "agree", scenario(4),    "--executor",
                    "mpi",    "--steps", "3", "--json", "-o",    report.string()};
        words.insert(words.end(), strategy.begin(), strategy.end());
        const Process p = start(words, name);
        ASSERT_EQ(p.wait(50), 0) << p.text();
        std::ifstream in(report);
        const nlohmann::json said = nlohmann::json::parse(in, nullptr, false);
        EXPECT_EQ(said["agrees"], true) << said;
        EXPECT_EQ(said["memory_as_predicted"], true) << said;
        ASSERT_EQ(said["differences"].size(), 5u) << said;
        EXPECT_GT(said["differences"][1]["relative"], 0) << said; // gradients of other sums: they are of other runs
    }
    const Process many =
        start({"mpirun", "-n", "2", simexec, "agree", scenario(4), "--executor", "mpi", "--set", "strategy.data_parallel=4"}, "agree_many");
    EXPECT_EQ(many.wait(25), 1) << many.text();
    EXPECT_EQ(times(many.text(), "simexec: error"), 1) << many.text();
}

// The bytes a rank may write are limited, as on a disk that is full: 12 MB, in blocks of 512.
TEST_F(Mpi, FullDiskEndsTheJob) {
    const fs::path folder = scratch("full");
    Words words{"mpirun", "-n", "2", "sh", "-c", "trap '' XFSZ; ulimit -f 24576; exec \"$@\"", "sh"}, rank = over(2, {});
    words.insert(words.end(), rank.begin() + 3, rank.end());
    words.insert(words.end(), {"--set", "strategy.data_parallel=2", "--set", "model.hidden_size=256", "--set", "model.ffn_size=1024",
                               "--checkpoint", folder.string(), "--every", "2", "--steps", "1000000"});
    const Process p = start(words, "disk");
    EXPECT_EQ(p.wait(25), 7) << p.text();
    EXPECT_NE(p.text().find("cannot write the checkpoint: File too large"), std::string::npos) << p.text();
    EXPECT_EQ(times(p.text(), "simexec: error"), 1) << p.text(); // both failed
    for (const auto& entry : fs::directory_iterator(folder)) ADD_FAILURE() << "left behind: " << entry.path();
}

// Ranks of one job share its folder; those of a second job are refused, which is said once.
TEST_F(Mpi, ASecondJobIsKeptOutOfTheFolder) {
    const fs::path folder = scratch("shared");
    const Words job{"--set", "strategy.data_parallel=2", "--steps", "1000000", "--every", "1000", "--checkpoint", folder.string()};
    const Process first = start(over(2, job), "first");
    ASSERT_TRUE(comes([&] { return fs::exists(folder / ".lock"); })) << first.text();
    const Process second = start(over(2, job), "second");
    EXPECT_EQ(second.wait(25), 1) << second.text();
    EXPECT_EQ(times(second.text(), "simexec: error"), 1) << second.text();
    EXPECT_TRUE(times(second.text(), "is in use") == 1 || times(second.text(), "holds checkpoints of an earlier run") == 1)
        << second.text();
    EXPECT_TRUE(first.alive()) << first.text();
    kill(first.id, SIGTERM);
    EXPECT_NE(first.wait(25), -1) << first.text();
}

TEST_F(Mpi, AnotherTypeIsRefused) {
    const std::string file = scenario(2);
    const Words words{"mpirun", "-n", "1", simexec, "run", file, "--executor", "mpi", "--set", "strategy.data_parallel=2",
                      ":",      "-n", "1", simexec, "run", file, "--executor", "mpi", "--set", "strategy.data_parallel=2",
                      "--fp64"};
    const Process p = start(words, "type");
    EXPECT_EQ(p.wait(25), 6) << p.text();
    EXPECT_NE(p.text().find("has another element type"), std::string::npos) << p.text();
    Words rounding{"mpirun"}; // bf16 on one, not on the other
    for (const char* more : {"--quiet", "--fp32"}) {
        if (rounding.size() > 1) rounding.push_back(":");
        for (const std::string& w : Words{"-n", "1", simexec, "run", file, "--executor", "mpi", "--set", "strategy.data_parallel=2",
                                          "--set", "training.precision=bf16", more})
            rounding.push_back(w);
    }
    const Process q = start(rounding, "rounding");
    EXPECT_EQ(q.wait(25), 6) << q.text();
    EXPECT_NE(q.text().find("has another element type"), std::string::npos) << q.text();
}

// Kernels of another machine's instructions sum in another order.
TEST_F(Mpi, AnotherKernelLibraryIsRefused) {
    const auto with = [](const std::string& core) {
        const fs::path report = scratch("kernels.json");
        EXPECT_EQ(
            std::system(
                ("OPENBLAS_CORETYPE=" + core + " " + simexec + " run " + scenario(1) + " --steps 1 --json -o " + report.string()).c_str()),
            0);
        std::ifstream in(report);
        return nlohmann::json::parse(in, nullptr, false)["kernels"].get<std::string>();
    };
    if (with("Nehalem") == with("Core2")) GTEST_SKIP() << "one kernel library alone: " << with("Nehalem");
    const std::string file = scenario(2);
    Words words{"mpirun"};
    for (const char* core : {"Nehalem", "Core2"}) {
        if (words.size() > 1) words.push_back(":");
        for (const std::string& w : Words{"-n", "1", "env", std::string("OPENBLAS_CORETYPE=") + core, simexec, "run", file, "--executor",
                                          "mpi", "--set", "strategy.data_parallel=2"})
            words.push_back(w);
    }
    const Process p = start(words, "kernels");
    EXPECT_EQ(p.wait(25), 6) << p.text();
    EXPECT_NE(p.text().find("has another kernel library"), std::string::npos) << p.text();
}

TEST_F(Mpi, AnotherPlanIsRefused) {
    const std::string file = scenario(2);
    const Words words{"mpirun",     "-n",
                      "1",          simexec,
                      "run",        file,
                      "--executor", "mpi",
                      "--set",      "strategy.data_parallel=2",
                      ":",          "-n",
                      "1",          simexec,
                      "run",        file,
                      "--executor", "mpi",
                      "--set",      "strategy.data_parallel=2",
                      "--set",      "model.ffn_size=64"};
    const Process p = start(words, "another");
    EXPECT_EQ(p.wait(25), 6) << p.text();
    EXPECT_NE(p.text().find("has another plan"), std::string::npos) << p.text();
}

// Two ranks, each with words of its own; they are of one plan, and may differ in what a plan does not say.
Words two_ranks(const Words& of_first, const Words& of_second) {
    const std::string file = scenario(2);
    Words words{"mpirun"};
    for (const Words* own : {&of_first, &of_second}) {
        if (words.size() > 1) words.push_back(":");
        for (const std::string& w : Words{"-n", "1", simexec, "run", file, "--executor", "mpi", "--set", "strategy.data_parallel=2",
                                          "--set", "model.vocab_size=256"})
            words.push_back(w);
        words.insert(words.end(), own->begin(), own->end());
    }
    return words;
}

// Whatever two ranks do not have alike: it is said once, and nothing is trained.
TEST_F(Mpi, RanksThatDifferAreRefused) {
    const fs::path a = scratch("a.txt"), b = scratch("b.txt");
    std::ofstream(a) << std::string(200, 'x');
    std::ofstream(b) << std::string(200, 'x') << 'y';
    const struct {
        const char* what;
        Words first, second;
    } cases[] = {
        {"another scenario file or --set", {"--set", "training.learning_rate=0.01"}, {"--set", "training.learning_rate=0.02"}},
        {"another scenario file or --set", {"--set", "training.seed=1"}, {"--set", "training.seed=2"}},
        {"another text", {"--text", a.string()}, {"--text", b.string()}},
        {"another number of --steps", {"--steps", "3"}, {"--steps", "4"}},
        {"another choice of --trace", {"--trace", scratch("t").string()}, {"-q"}},
        {"another choice of --checkpoint and --every", {"--checkpoint", scratch("c").string()}, {"-q"}},
    };
    for (const auto& c : cases) {
        const Process p = start(two_ranks(c.first, c.second), "differ");
        EXPECT_EQ(p.wait(25), 6) << p.text();
        const std::string said = p.text(), wanted = std::string("rank 1 has ") + c.what;
        EXPECT_NE(said.find(wanted), std::string::npos) << said;
        EXPECT_EQ(said.find("error:", said.find("error:") + 1), std::string::npos) << "said twice:\n" << said;
    }
    const Process p = start(two_ranks({"--text", a.string(), "--steps", "3"}, {"--text", a.string(), "--steps", "3"}), "same");
    EXPECT_EQ(p.wait(25), 0) << p.text();
}

TEST_F(Mpi, TooFewProcesses) {
    Words words = over(2, {"--set", "strategy.data_parallel=2"});
    words[2] = "1";
    const Process p = start(words, "few");
    EXPECT_EQ(p.wait(25), 1) << p.text();
    EXPECT_NE(p.text().find("mpirun -n 2"), std::string::npos) << p.text();
}

TEST_F(Mpi, StopsAtASignalAndGoesOn) {
    const fs::path folder = scratch("checkpoints");
    const Words dp{"--set", "strategy.data_parallel=2", "--checkpoint", folder.string()};
    Words words = over(2, dp);
    words.insert(words.end(), {"--steps", "1000000", "-v"});
    const Process p = start(words, "signal");
    ASSERT_EQ(ranks_of(p, 2).size(), 2u) << p.text();
    kill(p.id, SIGTERM);
    p.wait(20);
    ASSERT_FALSE(fs::is_empty(folder));
    const Process q = start({simexec, "run", scenario(1), "--resume", folder.string(), "--steps", "1000001", "--json", "-v", "--set",
                             "training.global_batch_size=8"},
                            "further");
    ASSERT_TRUE(comes([&] { return q.keeps(SIGTERM); })) << q.text();
    kill(q.id, SIGTERM);
    EXPECT_EQ(q.wait(20), 5) << q.text();
}

// A sweep of a few hundred points, dealt to four ranks; then again with a rank killed on its way, and the same command after that.
TEST(MpiSweep, RanksMakeTheCsvOfOneProcessAlsoAfterOneWasKilled) {
    if (!orrery::test::has_mpi() || !fs::exists(simrun)) GTEST_SKIP() << "no MPI";
    const fs::path folder = scratch("sweep");
    fs::create_directories(folder);
    const std::string sweep = (folder / "sweep.json").string();
    std::ofstream(sweep) << R"({"model": {"layers": 4, "hidden_size": 1024, "attention_heads": 16, "vocab_size": 32000},
        "cluster": {"preset": "dgx-a100-40gb"}, "training": {"global_batch_size": 64, "sequence_length": 1024}, "strategy": {},
        "sweep": {"/strategy/tensor_parallel": [1, 2, 3, 4, 8], "/strategy/pipeline_parallel": [1, 2, 4], "/training/micro_batch_size": [1, 2, 4, 8],
                  "/training/sequence_length": [512, 1024, 2048, 4096]}})";
    const auto csv = [&](const char* name) {
        std::ifstream in(folder / name);
        return std::string{std::istreambuf_iterator<char>(in), {}};
    };
    const auto words = [&](const std::string& name, Words before) {
        for (const std::string& w : {simrun, sweep, std::string("-q"), std::string("-o"), (folder / (name + ".sqlite")).string(),
                                     std::string("--csv"), (folder / (name + ".csv")).string()})
            before.push_back(w);
        return before;
    };
    const Words four{"mpirun", "-n", "4"};
    const Process one = start(words("one", {"env"}), "one"), all = start(words("four", four), "four");
    ASSERT_EQ(one.wait(60), 0) << one.text();
    ASSERT_EQ(all.wait(60), 0) << all.text();
    EXPECT_FALSE(csv("one.csv").empty());
    EXPECT_EQ(csv("four.csv"), csv("one.csv"));
    // A rank that kills itself once it has begun: ranks are told apart by the variable that mpirun sets.
    const std::string dies =
        "if [ \"$OMPI_COMM_WORLD_RANK\" = 2 ]; then \"$@\" & p=$!; sleep 0.35; kill -9 $p; wait $p; exit 9; fi; exec \"$@\"";
    const Process killed = start(words("killed", {"mpirun", "-n", "4", "bash", "-c", dies, "bash"}), "killed");
    EXPECT_NE(killed.wait(60), 0) << "a lost rank is no success";
    const Process again = start(words("killed", four), "again");
    ASSERT_EQ(again.wait(60), 0) << again.text();
    EXPECT_EQ(csv("killed.csv"), csv("one.csv"));
    fs::remove_all(folder);
}

// A search whose points four ranks compute: the answer of one process, to the byte.
TEST(MpiSearch, RanksMakeTheAnswerOfOneProcess) {
    if (!orrery::test::has_mpi() || !fs::exists(simrun)) GTEST_SKIP() << "no MPI";
    const fs::path folder = scratch("search");
    fs::create_directories(folder);
    const std::string job = (folder / "job.json").string();
    std::ofstream(job) << R"({"model": {"layers": 4, "hidden_size": 1024, "attention_heads": 16, "vocab_size": 32000},
        "cluster": {"preset": "dgx-a100-40gb", "nodes": 1}, "training": {"global_batch_size": 16, "sequence_length": 1024},
        "strategy": {"framework": "megatron", "context_parallel": 1, "zero_stage": 1}})";
    const auto text = [&](const std::string& name) {
        std::ifstream in(folder / name);
        return std::string{std::istreambuf_iterator<char>(in), {}};
    };
    const auto search = [&](const std::string& name, Words before) {
        for (const std::string& w : {simrun, std::string("search"), job, std::string("-q"), std::string("--csv"),
                                     (folder / (name + ".csv")).string(), std::string("-o"), (folder / (name + ".json")).string()})
            before.push_back(w);
        return before;
    };
    const Process one = start(search("one", {"env"}), "one"), four = start(search("four", {"mpirun", "-n", "4"}), "four");
    ASSERT_EQ(one.wait(60), 0) << one.text();
    ASSERT_EQ(four.wait(60), 0) << four.text();
    EXPECT_FALSE(text("one.csv").empty());
    EXPECT_EQ(text("four.csv"), text("one.csv"));
    EXPECT_EQ(text("four.json"), text("one.json"));
    fs::remove_all(folder);
}

} // namespace

// simexec as launchers start it: processes with torchrun's, mpirun's and Slurm's variables, through its own main, each with a GPU that is a
// stand-in. One and two nodes are both this machine. Do they find each other, train as one process does, and leave when one is gone?
#include "sim/trace/trace.hpp"
#include "tests/unit/simexec/process.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <fstream>
#include <map>
#include <netinet/in.h>
#include <regex>
#include <sys/socket.h>

namespace orrery::test {
namespace {

namespace fs = std::filesystem;
using Variables = std::map<std::string, std::string>;

const std::string simexec = ORRERY_BINARY_DIR "/stand_ins/simexec";

fs::path scratch(const std::string& name) { return fs::path(testing::TempDir()) / ("orrery_launch_" + name + std::to_string(getpid())); }

// A socket that listens on a port of its own, as torchrun's agent does.
class Listener {
  public:
    Listener() : socket_(::socket(AF_INET6, SOCK_STREAM, 0)) {
        for (int tries = 0; tries < 1000 && port_ == 0; ++tries) { // below the ports that connections get, and another in each process
            static int next = 20000 + static_cast<int>(getpid()) * 40 % 10000;
            sockaddr_in6 at{};
            at.sin6_family = AF_INET6;
            at.sin6_port = htons(static_cast<std::uint16_t>(next));
            if (::bind(socket_, reinterpret_cast<sockaddr*>(&at), sizeof at) == 0) port_ = next;
            next += 2; // the next one is for the ranks' own store
        }
        EXPECT_EQ(::listen(socket_, 1), 0);
    }
    ~Listener() { ::close(socket_); }
    Listener(const Listener&) = delete;
    Listener& operator=(const Listener&) = delete;
    std::string port() const { return std::to_string(port_); }

  private:
    int socket_, port_ = 0;
};

std::string free_port() { return Listener().port(); }

std::string scenario(int nodes, int per_node) {
    const fs::path file = scratch("scenario" + std::to_string(nodes) + std::to_string(per_node) + ".json");
    std::ofstream(file)
        << R"({"name": "tiny", "model": {"name": "tiny", "layers": 2, "hidden_size": 16, "attention_heads": 4, "vocab_size": 32,
        "ffn_size": 32}, "cluster": {"preset": "local-cpu", "nodes": )"
        << nodes << R"(, "devices_per_node": )" << per_node
        << (nodes > 1 ? R"(, "inter_node": {"kind": "infiniband", "nics_per_node": 1, "gbit_per_s": 100})" : "") << R"(},
        "training": {"global_batch_size": 8, "sequence_length": 8, "precision": "fp32", "learning_rate": 0.01, "gradient_clipping": 0.1},
        "strategy": {"framework": "megatron", "data_parallel": 2, "pipeline_parallel": 2, "schedule": "1f1b", "zero_stage": 1}})";
    return file.string();
}

Process start_with(const Variables& variables, const Words& words, const std::string& name) {
    for (const auto& [key, value] : variables) setenv(key.c_str(), value.c_str(), 1);
    Process p = start_process(words, scratch(name));
    for (const auto& [key, value] : variables) unsetenv(key.c_str());
    return p;
}

Words on_gpus(const std::string& file, const Words& more) {
    Words words{simexec, "run", file, "--device", "cuda", "--executor", "queues"};
    words.insert(words.end(), more.begin(), more.end());
    if (std::ranges::find(more, "--steps") == more.end()) words.insert(words.end(), {"--steps", "3"});
    return words;
}

nlohmann::json read(const fs::path& file) {
    std::ifstream in(file);
    return nlohmann::json::parse(in, nullptr, false);
}

// The serial executor of one process on this processor: the reference.
nlohmann::json alone(const std::string& file, const Words& more = {}) {
    const fs::path report = scratch("alone.json");
    Words words{simexec, "run", file, "--json", "-o", report.string()};
    words.insert(words.end(), more.begin(), more.end());
    if (more.empty()) words.insert(words.end(), {"--steps", "3"});
    const Process p = start_process(words, scratch("alone"));
    EXPECT_EQ(p.wait(30), 0) << p.text();
    return read(report);
}

using Launcher = Variables (*)(int rank, int nodes, int per_node, const std::string& port);

Variables torchrun(int rank, int nodes, int per_node, const std::string& port) {
    return {{"RANK", std::to_string(rank)},
            {"WORLD_SIZE", std::to_string(nodes * per_node)},
            {"LOCAL_RANK", std::to_string(rank % per_node)},
            {"GROUP_RANK", std::to_string(rank / per_node)},
            {"MASTER_ADDR", "127.0.0.1"},
            {"MASTER_PORT", port},
            {"TORCHELASTIC_USE_AGENT_STORE", "True"}};
}

Variables slurm(int rank, int nodes, int per_node, const std::string& port) {
    return {{"SLURM_PROCID", std::to_string(rank)},
            {"SLURM_NTASKS", std::to_string(nodes * per_node)},
            {"SLURM_STEP_NUM_TASKS", std::to_string(nodes * per_node)},
            {"SLURM_LOCALID", std::to_string(rank % per_node)},
            {"SLURM_NODEID", std::to_string(rank / per_node)},
            {"SLURM_STEP_ID", "0"},
            {"SLURM_STEP_NODELIST", nodes > 1 ? "127.0.0.[1-2]" : "127.0.0.1"},
            {"ORRERY_PORT", port}};
}

struct Started {
    std::vector<Process> processes;
    fs::path report; // rank 0's
};

// more: what each rank gets besides.
Started start_all(Launcher launcher, int nodes, int per_node, const std::string& port, const std::string& name,
                  const std::function<Words(int)>& more, const std::function<Variables(int)>& variables = {}) {
    Started s;
    s.report = scratch(name + ".json");
    const std::string file = scenario(nodes, per_node);
    for (int rank = 0; rank < nodes * per_node; ++rank) {
        Words words = on_gpus(file, more(rank));
        if (rank == 0) words.insert(words.end(), {"--json", "-o", s.report.string()});
        Variables all = launcher(rank, nodes, per_node, port);
        if (variables) all.merge(variables(rank));
        s.processes.push_back(start_with(all, words, name + std::to_string(rank)));
    }
    return s;
}

std::string said(const Started& s) {
    std::string text;
    for (const Process& p : s.processes) text += p.text();
    return text;
}

int times(const std::string& text, const std::string& what) {
    int n = 0;
    for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
    return n;
}

void train(Launcher launcher, int nodes, int per_node, const std::string& port, const std::string& name) {
    const Started s = start_all(launcher, nodes, per_node, port, name, [](int) { return Words{}; });
    for (const Process& p : s.processes) EXPECT_EQ(p.wait(60), 0) << p.text();
    const nlohmann::json many = read(s.report), one = alone(scenario(nodes, per_node));
    EXPECT_EQ(many["last_loss"], one["last_loss"]) << said(s);
    EXPECT_LT(many["last_loss"], many["first_loss"]);
    EXPECT_GT(many["memory"][0]["communicators"]["world"], 0);
}

// Its agent listens on MASTER_PORT itself.
TEST(Torchrun, OneNodeBesideItsAgent) {
    const Listener agent;
    train(torchrun, 1, 4, agent.port(), "torchrun1");
}

TEST(Torchrun, TwoNodes) {
    const Listener agent;
    train(torchrun, 2, 2, agent.port(), "torchrun2");
}

TEST(Slurm, OneNode) { train(slurm, 1, 4, free_port(), "slurm1"); }
TEST(Slurm, TwoNodesOfAList) { train(slurm, 2, 2, free_port(), "slurm2"); }

// In a batch script, one process for all GPUs of a node: the allocation's number of tasks is not its own. Slurm says nothing of a step
// there, or counts it from the end.
TEST(Slurm, OneProcessDrivesANode) {
    for (const bool says : {false, true}) {
        Variables variables = slurm(0, 1, 4, free_port());
        for (const char* of_a_step : {"SLURM_STEP_ID", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_NODELIST"}) variables.erase(of_a_step);
        if (says) variables["SLURM_STEP_ID"] = "4294967291";
        const fs::path report = scratch("driver.json");
        const Process p = start_with(variables, on_gpus(scenario(1, 4), {"--json", "-o", report.string()}), "driver");
        ASSERT_EQ(p.wait(60), 0) << p.text();
        EXPECT_EQ(read(report)["last_loss"], alone(scenario(1, 4))["last_loss"]);
        const Process on_processor = start_with(variables, {simexec, "run", scenario(1, 4), "--steps", "1"}, "driver-cpu");
        EXPECT_EQ(on_processor.wait(60), 0) << on_processor.text();
    }
}

TEST(Mpirun, StartsAProcessAGpu) {
    if (std::system("command -v mpirun > /dev/null 2>&1") != 0) GTEST_SKIP() << "no mpirun here";
    const fs::path report = scratch("mpirun.json");
    Words words{"mpirun", "-n", "4"};
    const Words rank = on_gpus(scenario(1, 4), {"--json", "-o", report.string()});
    words.insert(words.end(), rank.begin(), rank.end());
    const Process p = start_with({{"MASTER_PORT", free_port()}}, words, "mpirun");
    ASSERT_EQ(p.wait(60), 0) << p.text();
    EXPECT_EQ(read(report)["last_loss"], alone(scenario(1, 4))["last_loss"]);
}

TEST(Launched, TracesOfAllRanksAreOne) {
    const fs::path trace = scratch("all.trace");
    const Started s = start_all(slurm, 2, 2, free_port(), "trace", [&](int) { return Words{"--trace", trace.string()}; });
    for (const Process& p : s.processes) ASSERT_EQ(p.wait(60), 0) << p.text();
    EXPECT_EQ(load_trace(trace.string()).lanes.size(), 4u);
}

TEST(Launched, GoOnFromACheckpoint) {
    const fs::path folder = scratch("checkpoints");
    const auto run = [&](const std::string& name, const Words& more) {
        const Started s = start_all(torchrun, 1, 4, free_port(), name, [&](int) { return more; });
        for (const Process& p : s.processes) EXPECT_EQ(p.wait(60), 0) << p.text();
        return read(s.report);
    };
    run("first", {"--checkpoint", folder.string(), "--every", "2"});
    const nlohmann::json second = run("second", {"--resume", folder.string(), "--steps", "5"});
    EXPECT_EQ(second["first_step"], 3);
    EXPECT_EQ(second["last_loss"], alone(scenario(1, 4), {"--steps", "5"})["last_loss"]);
    fs::remove_all(folder);
}

// A step's losses on rank 0 say that all of them train.
bool trains(const Started& s) {
    const Process& first = s.processes[0];
    return comes([&] { return first.says("step 2:") || !first.alive(); }) && first.says("step 2:");
}

// Processes of one job share its folder; another job is refused, which its rank 0 says.
TEST(Launched, ASecondJobIsKeptOutOfTheFolder) {
    const fs::path folder = scratch("shared");
    const auto job = [&](const std::string& name) {
        return start_all(torchrun, 1, 4, free_port(), name,
                         [&](int) { return Words{"--checkpoint", folder.string(), "--steps", "1000000", "--every", "1000000", "-v"}; });
    };
    const Started first = job("holds");
    ASSERT_TRUE(trains(first)) << said(first);
    const Started second = job("comes");
    for (const Process& p : second.processes) EXPECT_EQ(p.wait(30), 1) << p.text();
    EXPECT_EQ(times(said(second), folder.string() + " is in use"), 1) << said(second);
    EXPECT_EQ(times(said(second), "simexec: error"), 1) << said(second);
    for (const Process& p : first.processes) EXPECT_TRUE(p.alive()) << p.text();
    for (const Process& p : first.processes) kill(p.id, SIGTERM);
    for (const Process& p : first.processes) EXPECT_EQ(p.wait(30), 5) << p.text();
    fs::remove_all(folder);
}

// The first node may have a folder of that name, and the second another: this is found before anything is trained.
TEST(Launched, AFolderOfOneMachineIsNoPlaceForCheckpoints) {
    const fs::path shared = scratch("of_all"), other = scratch("of_the_last");
    const Started s = start_all(slurm, 2, 2, free_port(), "apart", [&](int rank) {
        return Words{"--checkpoint", (rank == 3 ? other : shared).string(), "--steps", "1000000"};
    });
    for (const Process& p : s.processes) EXPECT_EQ(p.wait(30), 1) << p.text();
    EXPECT_EQ(times(said(s), shared.string() + ": rank 3 has another folder there than rank 0"), 1) << said(s);
    EXPECT_EQ(times(said(s), "simexec: error"), 1) << said(s);
    fs::remove_all(shared);
    fs::remove_all(other);
}

// Nothing is left to do: each says that with its code, also whoever hears of it last.
TEST(Launched, ARunThatIsDoneIsRefusedByAll) {
    const fs::path folder = scratch("done");
    const Words words{"--checkpoint", folder.string(), "--resume", folder.string(), "--steps", "2"};
    const Started first = start_all(slurm, 1, 4, free_port(), "does", [&](int) {
        return Words{"--checkpoint", folder.string(), "--steps", "2"};
    });
    for (const Process& p : first.processes) ASSERT_EQ(p.wait(60), 0) << p.text();
    Started second = start_all(slurm, 1, 4, free_port(), "done", [&](int) { return words; });
    const Process& last = second.processes[3];
    ASSERT_TRUE(comes([&] { return last.keeps(SIGTERM); }));
    for (int i = 0; i < 50 && second.processes[0].alive(); ++i) { // it is slow
        kill(last.id, SIGSTOP);
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        kill(last.id, SIGCONT);
        std::this_thread::sleep_for(std::chrono::microseconds(500));
    }
    for (const Process& p : second.processes) EXPECT_EQ(p.wait(30), 1) << p.text();
    EXPECT_EQ(times(said(second), "stands at step 2 already"), 1) << said(second);
    fs::remove_all(folder);
}

// Two jobs that were told one port: the second finds it taken, and the first trains on; also where the launcher does not tell jobs apart.
TEST(Launched, ASecondJobOnThePortIsShownOut) {
    const std::pair<Launcher, int> launchers[] = {{slurm, 0}, {torchrun, 1}};
    for (const auto& [launcher, beside] : launchers) {
        const std::string port = free_port();
        const auto job = [&, of = launcher](const std::string& id) {
            return start_all(
                of, 1, 4, port, "job" + id + "_" + port,
                [](int) {
                    return Words{"--steps", "1000000", "-v"};
                },
                [&](int) {
                    return Variables{{"SLURM_JOB_ID", id}};
                });
        };
        const Started first = job("71");
        ASSERT_TRUE(trains(first)) << said(first);
        const Started second = job("72");
        for (const Process& p : second.processes) EXPECT_EQ(p.wait(30), 1) << p.text();
        EXPECT_EQ(times(said(second), fmt::format("cannot listen on port {}", std::stoi(port) + beside)), 1) << said(second);
        EXPECT_EQ(times(said(second), "is another job's rank 0"), 1) << said(second);
        for (const Process& p : first.processes) EXPECT_TRUE(p.alive()) << p.text();
        for (const Process& p : first.processes) kill(p.id, SIGTERM);
        for (const Process& p : first.processes) EXPECT_EQ(p.wait(30), 5) << p.text();
    }
}

// Launchers signal one process after another: ranks that have ended the step with the first one's signal get their own while they end.
TEST(Launched, ALateSignalEndsNobodyTwice) {
    const Started s = start_all(slurm, 1, 4, free_port(), "late", [](int) { return Words{"--steps", "1000000", "-v"}; });
    ASSERT_TRUE(trains(s)) << said(s);
    kill(s.processes[0].id, SIGTERM);
    for (Patience patience(30); s.processes[0].alive() && !patience.over();) { // until the first is gone, and then once more
        for (std::size_t r = 1; r < s.processes.size(); ++r) kill(s.processes[r].id, SIGTERM);
        std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
    for (std::size_t r = 1; r < s.processes.size(); ++r) kill(s.processes[r].id, SIGTERM);
    for (const Process& p : s.processes) EXPECT_EQ(p.wait(30), 5) << p.text();
}

// Whoever does not come is named, by whoever misses it.
TEST(Launched, ARankThatDoesNotComeIsNamed) {
    const std::string file = scenario(1, 4), port = free_port();
    Started s;
    for (int rank = 0; rank < 3; ++rank)
        s.processes.push_back(start_with(slurm(rank, 1, 4, port), on_gpus(file, {"--patience", "6"}), "missing" + std::to_string(rank)));
    for (const Process& p : s.processes) EXPECT_EQ(p.wait(60), 6) << p.text();
    EXPECT_EQ(times(said(s), "rank 3 has not come within 6 s: was its process started?"), 1) << said(s);
    EXPECT_EQ(times(said(s), "simexec: error"), 1) << said(s);
}

// Variables that make no sense are named where they are needed, and harm nobody else.
TEST(Launched, NonsenseInVariablesIsSaid) {
    const std::string file = scenario(1, 4);
    const Words on_processor{simexec, "run", file, "--steps", "1"}, gpus = on_gpus(file, {});
    struct Case {
        Variables variables;
        Words words;
        int code;
        std::string says;
    };
    const Variables four{{"RANK", "0"}, {"WORLD_SIZE", "4"}};
    const auto with = [](Variables v, const Variables& more) {
        v.merge(Variables(more));
        return v;
    };
    const Variables in_slurm{{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}, {"SLURM_STEP_ID", "0"}, {"SLURM_JOB_NODELIST", "gpu[1"}};
    const Case cases[] = {
        {{{"RANK", "7"}, {"WORLD_SIZE", "4"}}, on_processor, 1, "RANK=7 is not a number from 0 to 3"},
        {{{"RANK", "0"}, {"WORLD_SIZE", "four"}}, gpus, 1, "WORLD_SIZE=four is not a number"},
        {with(four, {{"MASTER_PORT", "tcp://10.0.0.1:23"}}), on_processor, 1, "started 4 processes"},
        {with(four, {{"MASTER_PORT", "tcp://10.0.0.1:23"}}), gpus, 1, "MASTER_PORT=tcp://10.0.0.1:23 is not a number from 1 to 65535"},
        {with(four, {{"MASTER_PORT", ""}}), gpus, 1, "MASTER_PORT= is not a number"},
        {{{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"MASTER_PORT", ""}}, on_processor, 0, "1 step on 4 ranks"},
        {{{"MASTER_PORT", "tcp://10.0.0.1:23"}}, on_processor, 0, "1 step on 4 ranks"},
        {in_slurm, on_processor, 1, "Slurm started 4 processes"},
        {in_slurm, gpus, 1, "gpu[1 is no list of nodes"}};
    for (const Case& c : cases) {
        const Process p = start_with(c.variables, c.words, "nonsense");
        EXPECT_EQ(p.wait(60), c.code) << p.text();
        EXPECT_EQ(times(p.text(), c.says), 1) << c.says << "\n" << p.text();
        EXPECT_EQ(times(p.text(), "terminate called"), 0) << p.text();
    }
}

// fp16 with a scaled loss: GPUs store it, and train as the processor does that rounds to it; a run goes on with the scale of its
// checkpoint.
TEST(Launched, HalfPrecisionTrainsAsOnTheProcessor) {
    const std::string file = scenario(1, 4);
    const Words half{"--set", "training.precision=fp16", "--steps", "3"};
    const fs::path report = scratch("fp16.json"), folder = scratch("fp16_checkpoints");
    fs::remove_all(folder);
    Words words = on_gpus(file, half);
    words.insert(words.end(), {"--json", "-o", report.string(), "--checkpoint", folder.string()});
    const Process p = start_process(words, scratch("fp16"));
    ASSERT_EQ(p.wait(60), 0) << p.text();
    const nlohmann::json gpus = read(report), one = alone(file, half);
    EXPECT_EQ(gpus["numbers"], "fp16 as the device stores it");
    EXPECT_EQ(gpus["last_loss"], one["last_loss"]) << p.text();
    EXPECT_EQ(gpus["loss_scale"], 65536);
    EXPECT_EQ(gpus["steps_left_out"], 0);
    const Words on{"--set", "training.precision=fp16", "--steps", "5"};
    Words again = on_gpus(file, on);
    again.insert(again.end(), {"--json", "-o", report.string(), "--resume", folder.string()});
    const Process resumed = start_process(again, scratch("fp16_resumed"));
    ASSERT_EQ(resumed.wait(60), 0) << resumed.text();
    EXPECT_EQ(read(report)["last_loss"], alone(file, on)["last_loss"]) << resumed.text();
}

TEST(Launched, HalfPrecisionWithoutANormIsRefused) {
    const std::string file = scenario(1, 4);
    for (const std::string device : {"cpu", "cuda"}) {
        const Process p = start_process({simexec, "run", file, "--device", device, "--executor", "queues", "--set",
                                         "training.precision=fp16", "--set", "training.gradient_clipping=0"},
                                        scratch("fp16"));
        EXPECT_NE(p.wait(30), 0) << p.text();
        EXPECT_NE(p.text().find("set training.gradient_clipping (1e9 clips nothing)"), std::string::npos) << p.text();
    }
}

TEST(Launched, AnotherLearningRateIsRefused) {
    const Started s = start_all(torchrun, 2, 2, free_port(), "rate", [](int rank) {
        return rank == 3 ? Words{"--set", "training.learning_rate=0.02"} : Words{};
    });
    for (const Process& p : s.processes) EXPECT_EQ(p.wait(30), 6) << p.text();
    EXPECT_EQ(times(said(s), "rank 3 has another scenario file or --set than rank 0"), 1) << said(s);
    EXPECT_EQ(times(said(s), "simexec: error"), 1) << said(s);
}

void lose(int victim, const std::string& name) {
    const Started s = start_all(torchrun, 2, 2, free_port(), name, [](int) { return Words{"--steps", "1000000", "-v"}; });
    ASSERT_TRUE(trains(s)) << said(s);
    kill(s.processes[victim].id, SIGKILL);
    Patience patience(15); // of all
    for (std::size_t r = 0; r < s.processes.size(); ++r)
        EXPECT_EQ(s.processes[r].wait(patience), static_cast<int>(r) == victim ? 128 + SIGKILL : 6) << r << s.processes[r].text();
    const std::string text = said(s); // the store sees it, or NCCL before it
    EXPECT_EQ(times(text, "simexec: error"), 1) << text;
    EXPECT_TRUE(text.find("the process of rank " + std::to_string(victim)) != std::string::npos ||
                text.find("remote process exited") != std::string::npos)
        << text;
}

TEST(Launched, AKilledRankEndsTheOthers) { lose(2, "killed"); }
TEST(Launched, RankZeroKilledEndsTheOthers) { lose(0, "killed0"); }

// CUDA's errors and NCCL's have exit codes of their own, of the rank that has them; the others say that another has failed.
TEST(Launched, LibrariesErrorsHaveTheirCodes) {
    for (const auto& [fails, code] : {std::pair{"cudaMemcpyAsync 999", 8}, {"ncclAllReduce 2", 9}}) {
        const Started s = start_all(
            slurm, 1, 4, free_port(), "library" + std::to_string(code), [](int) { return Words{}; },
            [&](int rank) {
                return rank == 1 ? Variables{{"ORRERY_STAND_IN_FAILS", fails}} : Variables{};
            });
        for (std::size_t r = 0; r < s.processes.size(); ++r) EXPECT_EQ(s.processes[r].wait(30), r == 1 ? code : 6) << s.processes[r].text();
        EXPECT_EQ(times(said(s), "simexec: error"), 1) << said(s);
        EXPECT_NE(s.processes[1].text().find("rank 1: "), std::string::npos);
    }
}

// The two ranks of the last stage find it; the two of the first hear that another has failed.
TEST(Launched, NoNumberIsSaidOnce) {
    const std::pair<Launcher, const char*> launchers[] = {{torchrun, "torchrun_nan"}, {slurm, "slurm_nan"}};
    for (const auto& [launcher, name] : launchers) {
        const Started s = start_all(launcher, 1, 4, free_port(), name, [](int) {
            return Words{"--set", "training.learning_rate=1e30", "--set", "training.gradient_clipping=0", "--steps", "1000000"};
        });
        int found = 0;
        for (const Process& p : s.processes) {
            const int code = p.wait(30);
            EXPECT_TRUE(code == 4 || code == 6) << code << p.text();
            found += code == 4;
        }
        EXPECT_GE(found, 1);
        EXPECT_EQ(times(said(s), "simexec: error"), 1) << said(s);
        EXPECT_TRUE(std::regex_search(said(s), std::regex("training has failed at step [0-9]+: rank [0-3]: .*is no number"))) << said(s);
    }
}

// Launchers that end no process when another ends, as srun: all find the same mistake, and one says it.
TEST(Launched, AMistakeIsSaidOnce) {
    const Words mistakes[] = {{"--set", "strategy.tensor_parallel=5"},
                              {"--no-such-option"},
                              {"--text", "no-such-file"},
                              {"--set", "strategy.data_parallel=1"},
                              {"--resume", scratch("no_checkpoints").string()}};
    for (const Words& mistake : mistakes) {
        const Started s = start_all(slurm, 1, 4, free_port(), "mistake", [&](int) { return mistake; });
        for (const Process& p : s.processes) EXPECT_EQ(p.wait(30), 1) << p.text();
        EXPECT_EQ(times(said(s), ": error: "), 1) << said(s);
    }
    const fs::path folder = scratch("full"); // none may write a file of more than 4 KiB
    const std::string file = scenario(1, 4), port = free_port();
    std::vector<Process> all;
    for (int rank = 0; rank < 4; ++rank) {
        Words words{"sh", "-c", "trap '' XFSZ; ulimit -f 8; exec \"$@\"", "sh"};
        const Words own = on_gpus(file, {"--checkpoint", folder.string()});
        words.insert(words.end(), own.begin(), own.end());
        all.push_back(start_with(slurm(rank, 1, 4, port), words, "full" + std::to_string(rank)));
    }
    std::string text;
    for (const Process& p : all) {
        EXPECT_EQ(p.wait(30), 7) << p.text();
        text += p.text();
    }
    EXPECT_EQ(times(text, "simexec: error"), 1) << text;
    fs::remove_all(folder);
}

// Commands that run all ranks in one process would do it as often as there are processes.
TEST(Launched, CommandsOfOneProcessAreRefused) {
    const std::string file = scenario(1, 4);
    for (const std::string command : {"run", "check", "agree"}) {
        const Process p = start_with(torchrun(0, 1, 2, "29400"), {simexec, command, file, "--steps", "1"}, "whole-" + command);
        EXPECT_EQ(p.wait(30), 1) << p.text();
        EXPECT_NE(p.text().find(" started 2 processes, and each would "), std::string::npos) << p.text();
    }
    std::string text; // which one says for both
    std::vector<Process> both;
    for (const int rank : {0, 1})
        both.push_back(start_with(slurm(rank, 1, 2, "29400"), {simexec, "run", file}, "whole" + std::to_string(rank)));
    for (const Process& p : both) {
        EXPECT_EQ(p.wait(30), 1) << p.text();
        text += p.text();
    }
    EXPECT_EQ(times(text, "simexec: error"), 1) << text;
}

TEST(Launched, MoreProcessesThanRanksAreRefused) {
    const Started s = start_all(torchrun, 1, 4, free_port(), "many", [](int) { return Words{"--set", "strategy.data_parallel=1"}; });
    for (const Process& p : s.processes) EXPECT_EQ(p.wait(30), 1) << p.text();
}

} // namespace
} // namespace orrery::test

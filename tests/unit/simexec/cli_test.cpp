// The program as a user meets it: exit codes, reports, stopping and going on.
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace {

namespace fs = std::filesystem;

const std::string program = ORRERY_BINARY_DIR "/bin/simexec";
const std::string small =
    " " ORRERY_SOURCE_DIR "/scenarios/tiny-gpt.json --set model.layers=1 --set model.hidden_size=16 --set training.sequence_length=16 "
    "--set training.global_batch_size=4 --set training.micro_batch_size=1";

fs::path scratch(const std::string& name) {
    return fs::path(testing::TempDir()) / ("orrery_simexec_" + std::to_string(getpid()) + "_" + name);
}

struct Outcome {
    int code;
    std::string out, err;
};

Outcome run(const std::string& arguments) {
    const fs::path out = scratch("out"), err = scratch("err");
    const int status = std::system((program + " " + arguments + " > " + out.string() + " 2> " + err.string()).c_str());
    const auto text = [](const fs::path& file) {
        std::ifstream in(file);
        return std::string{std::istreambuf_iterator<char>(in), {}};
    };
    return {WEXITSTATUS(status), text(out), text(err)};
}

nlohmann::json report(const std::string& arguments) {
    const Outcome o = run(arguments + " --json");
    EXPECT_EQ(o.code, 0) << o.err;
    return nlohmann::json::parse(o.out, nullptr, false);
}

TEST(Simexec, TrainsOnText) {
    const nlohmann::json r = report("run" + small + " --steps 12 --set training.learning_rate=0.01 --text " ORRERY_SOURCE_DIR "/LICENSE");
    EXPECT_EQ(r["steps"], 12);
    EXPECT_LT(r["last_loss"], r["first_loss"].get<double>() - 0.3);
    EXPECT_EQ(r["memory"][0]["peak_bytes"], r["memory"][0]["predicted_bytes"]);
}

TEST(Simexec, AgreesUnderAnotherStrategy) {
    for (const std::string executor : {"serial", "queues"}) {
        const Outcome o =
            run("agree" + small + " --set strategy.tensor_parallel=2 --set cluster.devices_per_node=2 --steps 2 --executor " + executor);
        EXPECT_EQ(o.code, 0) << o.out << o.err;
        EXPECT_NE(o.out.find("as predicted, to the byte"), std::string::npos) << o.out;
    }
}

TEST(Simexec, SaysWhatIsWrong) {
    const Outcome none = run("run no-such-file.json");
    EXPECT_EQ(none.code, 1);
    EXPECT_NE(none.err.find("no-such-file.json"), std::string::npos);
    const Outcome precise = run("run" + small + " --set strategy.optimizer_sync=post-validation --set strategy.schedule=zb-h1");
    EXPECT_EQ(precise.code, 1) << precise.out;
    const fs::path brief = scratch("brief.txt");
    std::ofstream(brief) << "too short";
    const Outcome text = run("run" + small + " --text " + brief.string());
    EXPECT_EQ(text.code, 1);
    EXPECT_NE(text.err.find("shorter than a sequence"), std::string::npos) << text.err;
}

TEST(Simexec, SaysWhichCommandMissesWhat) {
    const Outcome misspelt = run("run" + small + " --step 3");
    EXPECT_EQ(misspelt.code, 1);
    EXPECT_NE(misspelt.err.find("simexec run: error:"), std::string::npos) << misspelt.err;
    EXPECT_NE(misspelt.err.find("did you mean --steps?"), std::string::npos) << misspelt.err;
    const Outcome help = run("replay --help");
    EXPECT_EQ(help.code, 0);
    EXPECT_NE(help.out.find("simexec replay large.json"), std::string::npos) << help.out;
    EXPECT_EQ(help.out.find("simexec calibrate"), std::string::npos) << "examples of another command";
}

// Each way to fail has its exit code and its words, whatever executor.
TEST(Simexec, FailsWithACode) {
    const std::string two = small + " --set cluster.devices_per_node=2 --set strategy.data_parallel=2 --steps 100000";
    for (const std::string executor : {" --executor serial", " --executor threads", " --executor queues"}) {
        const Outcome nan = run("run" + two + executor + " --set training.learning_rate=1e30");
        EXPECT_EQ(nan.code, 4) << nan.err;
        EXPECT_NE(nan.err.find("is no number"), std::string::npos) << nan.err;
        EXPECT_NE(nan.err.find(": rank "), std::string::npos) << nan.err; // by its op
        const Outcome memory = run("run" + two + executor + " --memory 0.0002");
        EXPECT_EQ(memory.code, 2) << memory.err;
        EXPECT_NE(memory.err.find("are in use; alive are"), std::string::npos) << memory.err;
        const fs::path folder = scratch("full");
        const int status = std::system(("trap '' XFSZ; ulimit -f 16; timeout 20 " + program + " run" + two + executor +
                                        " -q --every 2 --checkpoint " + folder.string() + " 2> " + scratch("err").string())
                                           .c_str());
        EXPECT_EQ(WEXITSTATUS(status), 7);
        EXPECT_TRUE(fs::is_empty(folder));
    }
}

// The record of a step that fails is written.
TEST(Simexec, FailureLeavesATrace) {
    const fs::path trace = scratch("failed.trace");
    fs::remove(trace);
    EXPECT_EQ(run("run" + small + " --steps 100000 --set training.learning_rate=1e30 --trace " + trace.string()).code, 4);
    EXPECT_GT(fs::file_size(trace), 1000u);
}

TEST(Simexec, CheckSetsMemoryEqual) {
    const Outcome o = run("check" + small + " --steps 1 --json");
    EXPECT_EQ(o.code, 0) << o.err;
    const nlohmann::json c = nlohmann::json::parse(o.out, nullptr, false);
    ASSERT_FALSE(c.is_discarded());
    EXPECT_NE(o.out.find("peak"), std::string::npos);
}

TEST(Simexec, ChecksSeveralInATable) {
    const std::string two = " " ORRERY_SOURCE_DIR "/scenarios/tiny-gpt.json";
    const Outcome o = run("check" + small + two + " --steps 1 --json");
    ASSERT_EQ(o.code, 0) << o.err;
    const nlohmann::json c = nlohmann::json::parse(o.out, nullptr, false);
    ASSERT_EQ(c["scenarios"].size(), 2u);
    for (const auto& s : c["scenarios"]) {
        EXPECT_TRUE(s["memory_as_predicted"].get<bool>()) << s;
        EXPECT_GT(s["compute_measured_s"], 0.0);
    }
    EXPECT_GE(c["median_compute_error"], 0.0);
}

TEST(Simexec, ReplaysARank) {
    const std::string many = small + " --set cluster.devices_per_node=8 --set strategy.pipeline_parallel=2 --set model.layers=2 --set "
                                     "strategy.schedule=1f1b --set training.global_batch_size=16 --steps 1";
    const Outcome o = run("replay" + many + " --rank 5 --json");
    EXPECT_EQ(o.code, 0) << o.err;
    EXPECT_NE(o.out.find("rank 5 of 8 replayed"), std::string::npos) << o.out;
    const Outcome none = run("replay" + many + " --rank 8");
    EXPECT_EQ(none.code, 1);
    EXPECT_NE(none.err.find("ranks 0 to 7"), std::string::npos) << none.err;
}

TEST(Simexec, TraceIsComparable) {
    const fs::path trace = scratch("step.trace");
    EXPECT_EQ(run("run" + small + " --steps 2 -q --trace " + trace.string()).code, 0);
    EXPECT_GT(fs::file_size(trace), 1000u);
}

// Routers choose the same whichever executor runs them.
TEST(Simexec, RecordsRouting) {
    const std::string two = small + " --set cluster.devices_per_node=2 --set strategy.expert_parallel=2 --set model.moe.experts=4 --set "
                                    "model.moe.top_k=2 --set model.moe.expert_ffn_size=16 --set model.moe.imbalance=zipf:30 --steps 2 -q";
    std::vector<std::string> said;
    for (const std::string executor : {"serial", "threads", "queues"}) {
        const fs::path file = scratch("routing_" + executor + ".json");
        const Outcome o = run("run" + two + " --executor " + executor + " --routing " + file.string());
        ASSERT_EQ(o.code, 0) << o.err;
        std::ifstream in(file);
        said.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
        EXPECT_EQ(said.back(), said.front()) << executor;
    }
    const nlohmann::json loads = nlohmann::json::parse(said[0]);
    ASSERT_EQ(loads.size(), 1u); // layers
    std::int64_t tokens = 0;
    for (const auto& n : loads[0]) tokens += n.get<std::int64_t>();
    EXPECT_EQ(tokens, 2 * 4 * 16 * 2); // steps, sequences, their length, experts each
}

// A signal ends the run behind its step, with a checkpoint; what goes on from there is what would have been.
TEST(Simexec, StopsAndGoesOn) {
    const fs::path folder = scratch("checkpoints");
    fs::remove_all(folder);
    const std::string text = " --text " ORRERY_SOURCE_DIR "/LICENSE";
    const pid_t child = fork();
    if (child == 0) {
        const std::string line = "exec " + program + " run" + small + text + " -q --steps 100000 --checkpoint " + folder.string();
        execl("/bin/sh", "sh", "-c", line.c_str(), nullptr);
        _exit(127);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(700));
    kill(child, SIGTERM);
    int status = 0;
    waitpid(child, &status, 0);
    ASSERT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 5);
    std::string newest;
    for (const auto& entry : fs::directory_iterator(folder)) newest = std::max(newest, entry.path().filename().string());
    ASSERT_TRUE(newest.starts_with("step-")) << newest;
    const int step = std::stoi(newest.substr(5));
    const std::string until = " --steps " + std::to_string(step + 3);
    const nlohmann::json on = report("run" + small + text + until + " --resume " + folder.string()),
                         whole = report("run" + small + text + until);
    EXPECT_EQ(on["first_step"], step);
    EXPECT_EQ(on["last_loss"], whole["last_loss"]);
    const nlohmann::json other = report("run" + small + text + until +
                                        " --set strategy.tensor_parallel=2 --set cluster.devices_per_node=2 --resume " + folder.string());
    EXPECT_NEAR(other["last_loss"], whole["last_loss"], 1e-5);
}

} // namespace

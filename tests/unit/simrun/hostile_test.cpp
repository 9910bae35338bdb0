// Does hostile or absurd input end in exit 1 with a message, and does what is accepted stay below 4 GB? Runs the built binary, as the
// child of a shell that limits its address space, and measures its resident memory. ORRERY_NIGHTLY=1 runs the slow extremes too.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace orrery {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

struct Ended {
    int code;
    std::string out, err;
};

// Bytes, of the largest child so far.
double resident() {
    rusage used{};
    getrusage(RUSAGE_CHILDREN, &used);
    return static_cast<double>(used.ru_maxrss) * 1024;
}

bool nightly() { return std::getenv("ORRERY_NIGHTLY") != nullptr; }

class Hostile : public testing::Test {
  protected:
    fs::path binary = fs::path(ORRERY_BINARY_DIR) / "bin" / "simrun";
    fs::path folder = fs::temp_directory_path() / ("orrery-hostile-" + std::to_string(getpid()));

    void SetUp() override {
        if (!fs::exists(binary)) GTEST_SKIP() << binary << " is not built";
        fs::create_directories(folder);
    }
    void TearDown() override { fs::remove_all(folder); }

    void write(const std::string& name, const std::string& text) const { std::ofstream(folder / name, std::ios::binary) << text; }
    std::string read(const std::string& name) const {
        std::ifstream in(folder / name, std::ios::binary);
        std::stringstream text;
        text << in.rdbuf();
        return text.str();
    }
    // With 4 GB of address space (a sanitizer's shadow needs more: then without).
    Ended run(const std::string& arguments, [[maybe_unused]] bool limited = true) const {
#if defined(__SANITIZE_ADDRESS__)
        const std::string limit;
#else
        const std::string limit = limited ? "ulimit -v 4000000 && " : "";
#endif
        const std::string command =
            limit + "cd '" + folder.string() + "' && '" + binary.string() + "' " + arguments + " >out.txt 2>err.txt </dev/null";
        const int status = std::system(command.c_str());
        return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read("out.txt"), read("err.txt")};
    }
    void accepted(const std::string& sets, bool limited = true) const {
        const Ended e = run("dense.json " + sets, limited);
        EXPECT_TRUE(e.code == 0 || e.code == 2) << sets << ": exit " << e.code << "\n" << e.err;
        EXPECT_NE(e.out.find("step time"), std::string::npos) << sets;
#if !defined(__SANITIZE_ADDRESS__) // its shadow is memory, too
        EXPECT_LT(resident(), 4e9) << sets;
        EXPECT_GT(resident(), 1e7) << sets;
#endif
    }
    // Exit 1, one clean message, nothing raw.
    void refused(const std::string& arguments, const std::string& says) const {
        const Ended e = run(arguments);
        EXPECT_EQ(e.code, 1) << arguments << "\n" << e.err;
        EXPECT_NE(e.err.find(says), std::string::npos) << arguments << "\n" << e.err;
        EXPECT_EQ(e.err.find("json.exception"), std::string::npos) << e.err;
        EXPECT_EQ((e.out + e.err).find('\x1b'), std::string::npos) << arguments << "\n" << e.err;
    }
};

constexpr const char* dense =
    R"({"name": "t", "model": {"layers": 4, "hidden_size": 256, "attention_heads": 4, "vocab_size": 1000},
     "cluster": {"preset": "dgx-h100", "nodes": 1, "devices_per_node": 4},
     "training": {"global_batch_size": 16, "micro_batch_size": 1, "sequence_length": 128},
     "strategy": {"framework": "megatron", "tensor_parallel": 2, "pipeline_parallel": 2}})";

// Near the bounds from below: accepted, and inside 4 GB.
TEST_F(Hostile, ExtremeScenariosThatAreAcceptedStayBelowFourGigabytes) {
    write("dense.json", dense);
    std::vector<std::string> extremes = {
        "--set training.global_batch_size=400000", "--set model.layers=2000",
        "--set cluster.nodes=16384 --set cluster.devices_per_node=8 --set training.global_batch_size=131072",
        "--set strategy.offload.activations=cpu --set strategy.pipeline_parallel=1 --set strategy.tensor_parallel=4 --set "
        "model.layers=40 --set training.global_batch_size=16000"};
    if (nightly())
        extremes.insert(extremes.end(),
                        {"--set training.global_batch_size=1000000", "--set cluster.nodes=524288 --set training.global_batch_size=1048576",
                         "--set model.layers=2000 --set model.mtp_layers=1000 --set strategy.pipeline_parallel=1",
                         "--set model.layers=512 --set strategy.pipeline_parallel=512 --set cluster.nodes=256 --set "
                         "training.global_batch_size=3500",
                         "--set model.layers=100 --set strategy.pipeline_parallel=1 --set strategy.tensor_parallel=1 --set "
                         "strategy.context_parallel=2048 --set cluster.nodes=512 --set training.sequence_length=40960"});
    for (const std::string& sets : extremes) accepted(sets);
}

// Their lists of actions grow by doubling, and the allocator keeps the address space of those before: more than that.
TEST_F(Hostile, MillionsOfActionsStayBelowFourGigabytesOfResidentMemory) {
    if (!nightly()) GTEST_SKIP() << "ORRERY_NIGHTLY=1 runs it";
    write("dense.json", dense);
    for (const char* sets : {"--set model.layers=1000 --set strategy.virtual_pipeline=500 --set training.global_batch_size=1900",
                             "--set model.layers=16 --set strategy.framework=fsdp --set strategy.pipeline_parallel=1 --set "
                             "strategy.tensor_parallel=1 --set training.global_batch_size=400000",
                             "--set model.layers=16 --set strategy.virtual_pipeline=4 --set training.global_batch_size=240000",
                             "--set model.layers=16 --set strategy.schedule=dualpipe --set training.global_batch_size=600000"})
        accepted(sets, false);
}

TEST_F(Hostile, WhatWouldTakeMoreIsRefusedWithTheField) {
    write("dense.json", dense);
    refused("dense.json --set training.global_batch_size=2147483648", "/training/global_batch_size");
    refused("dense.json --set training.global_batch_size=4000000", "lower it to");
    refused("dense.json --set model.layers=8000", "model.layers");
    refused("dense.json --set training.global_batch_size=400000 --trace big.trace", "at most 12000000 are recorded");
    refused("dense.json --set cluster.nodes=1000000", "at most 2097152 devices");
    const std::string large = "dense.json --set cluster.nodes=65536 --set training.global_batch_size=262144";
    for (const std::string unlike : {" --no-fold", " --set perturb='[{\"jitter\": 0.5}]'"})
        refused(large + unlike, "dense.json: 262144 ranks are unlike others and simulated one by one");
    Json sweep = Json::parse(dense);
    std::vector<int> many(10000);
    for (int i = 0; i < 10000; ++i) many[i] = i + 1;
    sweep["sweep"] = {{"/training/global_batch_size", many}, {"/model/layers", many}};
    write("sweep.json", sweep.dump());
    refused("sweep.json", "10000 x 10000 combinations: at most 1000000");
}

TEST_F(Hostile, BadBytesAndCorruptFilesAreBadInput) {
    write("dense.json", dense);
    refused("dense.json --set name=$(printf '\\377\\376')", "not UTF-8");
    write("latin.json", std::string(R"({"name": "caf)") + "\xe9" + "\"}");
    refused("latin.json", "line 1, column");
    ASSERT_EQ(run("dense.json --trace whole.trace -q").code, 0);
    std::string bytes = read("whole.trace");
    bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 0x55);
    write("corrupt.trace", bytes);
    refused("compare whole.trace corrupt.trace", "corrupt.trace is corrupt");
    refused("compare whole.trace corrupt.trace", "write it once more");
}

// A parser that calls itself for each level would end the program.
TEST_F(Hostile, ValuesOfAMillionLevelsAreBadInput) {
    write("dense.json", dense);
    std::string lists(1'000'000, '['), objects;
    lists += std::string(1'000'000, ']');
    for (int n = 0; n < 1'000'000; ++n) objects += "{\"a\":";
    objects += "1" + std::string(1'000'000, '}');
    write("named.json", "{\"name\": " + lists + ", \"rows\": []}");
    write("rows.json", "{\"rows\": [" + objects + "]}");
    write("space.json", "{\"/strategy/tensor_parallel\": [" + objects + "]}");
    write("gemm_h100-sxm-80gb.json", "[{\"m\": " + lists + "}]");
    write("laws.json", "{\"device\": \"h100-sxm-80gb\", \"gemm\": " + objects + "}");
    const std::string deep = "nested more than 64 deep";
    for (const std::string command :
         {"validate named.json", "validate rows.json", "learn named.json", "learn rows.json", "rows.json",
          "search dense.json --space space.json", "fit --check gemm_h100-sxm-80gb.json", "dense.json --calibration laws.json"})
        refused(command, deep);
    refused("dense.json --set name=" + lists.substr(1'000'000 - 30'000, 60'000), deep);
    write("space.json", R"({"/strategy/tensor_parallel": [1], "/strategy/tensor_parallel": [2]})");
    refused("search dense.json --space space.json", "given twice");
    refused("dense.json --set run='{\"days\": 1, \"days\": 2}'", "given twice");
}

TEST_F(Hostile, WhatShowsOnlyWhileItIsComputedNamesTheFile) {
    write("dense.json", dense);
    const std::string endless = " --set training.sequence_length=9999999999";
    for (const std::string command : {"", "advise ", "compare dense.json ", "dense.json "}) {
        const Ended e = run(command + "dense.json" + endless);
        EXPECT_EQ(e.code, 1) << command << e.err;
        EXPECT_NE(e.err.find("error: dense.json: stage 0 would compute for"), std::string::npos) << command << e.err;
    }
    refused("export dense.json --to perfetto" + endless, "error: dense.json: stage 0 would compute");
    refused("export dense.json --to run-csv", "dense.json is of one step");
    refused("dense.json --set training.global_batch_size=64000 --set run='{\"steps\": 100000000000}'", "dense.json: run: it would take");
}

TEST_F(Hostile, OutputsThatCannotBeWrittenAreBadInput) {
    write("dense.json", dense);
    refused("export dense.json --to perfetto -o /dev/full", "/dev/full: cannot be written: No space left");
    refused("dense.json --trace /dev/full", "/dev/full: cannot be written: No space left");
    refused("dense.json -o .", ".: cannot be written: it is a folder");
    ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
    for (const std::string output : {"dense.json -o pipe", "dense.json --trace pipe", "export dense.json --to perfetto -o pipe"})
        refused(output, "pipe: cannot be written: it is a pipe that nobody reads");
    refused("search dense.json --database pipe", "pipe is a device or a pipe");
    refused("search dense.json --database dense.json", "dense.json is an input and an output");
    for (const std::string over : {"dense.json -o dense.json", "dense.json --trace ./dense.json", "plan dense.json -o dense.json"})
        refused(over, "dense.json is an input and an output");
    EXPECT_EQ(read("dense.json"), dense);
}

TEST_F(Hostile, OneFileForTwoOutputsIsRefused) {
    write("dense.json", dense);
    Json sweep = Json::parse(dense);
    sweep["sweep"] = {{"/training/micro_batch_size", {1, 2}}};
    write("sweep.json", sweep.dump());
    refused("sweep.json --csv a -o ./a", "a is named by -o and by --csv");
    refused("dense.json --json -o q --trace q", "q is named by -o and by --trace");
    refused("search dense.json --csv q -o q", "q is named by -o and by --csv");
    refused("search dense.json --database d --csv d", "d is named by --database and by --csv");
    for (const char* file : {"a", "q", "d"}) EXPECT_FALSE(fs::exists(folder / file));
    EXPECT_EQ(run("dense.json --json -o /dev/null --trace /dev/null").code, 0);
}

TEST_F(Hostile, AWrongOptionAfterAFileIsNamed) {
    write("dense.json", dense);
    refused("dense.json --nofold", "--nofold (did you mean --no-fold?)");
    refused("dens --nofold", "dens is no command");
}

TEST_F(Hostile, APipeThatIsReadIsWritten) {
    write("dense.json", dense);
    ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
    const std::string reader = "(sleep 0.3; cat '" + (folder / "pipe").string() + "' > '" + (folder / "read.json").string() + "') &";
    ASSERT_EQ(std::system(reader.c_str()), 0);
    EXPECT_EQ(run("dense.json --json -o pipe").code, 0);
    for (int n = 0; n < 100 && !Json::accept(read("read.json")); ++n) usleep(20000);
    EXPECT_TRUE(Json::accept(read("read.json"))) << read("read.json");
}

TEST_F(Hostile, SweepsWithoutAnAnswerSayWhy) {
    Json sweep = Json::parse(dense);
    sweep["sweep"] = {{"/strategy/tensor_parallel", {3, 5}}};
    write("none.json", sweep.dump());
    refused("none.json --quiet", "none.json: none of its 2 combinations can be predicted; most often, because ");
    write("cut.json", R"({"sweep": {"/model/layers": [1, 2)");
    refused("cut.json --top 3", "cut.json: 1 problem\nnot JSON at line 1");
    refused("none.json --set 'sweep={}'", "--set sweep");
}

TEST_F(Hostile, DamagedResultsOfSweepsAreBadInput) {
    Json sweep = Json::parse(dense);
    sweep["sweep"] = {{"/strategy/pipeline_parallel", {1, 2}}, {"/name", {"first", "second"}}};
    write("sweep.json", sweep.dump());
    ASSERT_EQ(run("sweep.json -q -o kept.sqlite").code, 0);
    std::string bytes = read("kept.sqlite");
    for (std::size_t at = bytes.find("second"); at != std::string::npos; at = bytes.find("second", at + 1)) bytes[at] = '\xa5';
    write("damaged.sqlite", bytes);
    for (const std::string command : {"sweep.json --json -o damaged.sqlite", "sweep.json -o damaged.sqlite", "merge damaged.sqlite"})
        refused(command, "damaged.sqlite is damaged");
    EXPECT_EQ(run("sweep.json -q -o damaged.sqlite --fresh").code, 0);
}

TEST_F(Hostile, WhatLastsSaysSo) {
    write("dense.json", dense);
    const std::string command = "cd '" + folder.string() + "' && '" + binary.string() +
                                "' dense.json --no-replay --set training.global_batch_size=100000 >out.txt 2>err.txt & p=$!; sleep 0.4; "
                                "kill -ALRM $p; wait $p";
    EXPECT_EQ(std::system(command.c_str()), 0);
    EXPECT_EQ(read("err.txt").find("simrun: still computing after "), 0u) << read("err.txt");
    EXPECT_NE(read("out.txt").find("step time"), std::string::npos);
}

TEST_F(Hostile, AdviceOnAJobWhoseStepIsTooLargeToBeRecorded) {
    write("dense.json", dense);
    const Ended e = run("advise dense.json --set training.global_batch_size=400000");
    EXPECT_EQ(e.code, 0) << e.err;
    EXPECT_NE(e.out.find("the step has too many ops to be recorded"), std::string::npos) << e.out;
    EXPECT_NE(e.out.find("A better machine"), std::string::npos) << e.out;
}

TEST_F(Hostile, DatasetsOfWrongTypesAreBadInput) {
    const Json row = {{"name", "a"}, {"scenario", Json::parse(dense)}, {"measured", {{"step_time_s", 1.0}}}};
    const std::vector<std::tuple<std::string, Json, std::string>> cases = {
        {"/name", 5, "\"name\" = 5 must be a text"},
        {"/source", Json::array(), "must be a text"},
        {"/measured", "fast", "\"measured\" = \"fast\" must be an object"},
        {"/measured/step_time_s", "1 s", "measured: \"step_time_s\" = \"1 s\" must be a number above 0"},
        {"/measured/step_time_s", -1, "must be a number above 0"},
        {"/assumed", 3, "must be a list"},
        {"/scenario", 3, "must be the object itself"}};
    for (const auto& [pointer, value, says] : cases) {
        Json mine = row;
        mine[Json::json_pointer(pointer)] = value;
        write("set.json", Json{{"rows", {row, mine}}}.dump());
        refused("validate set.json", says);
        refused("validate set.json", "rows[1]");
    }
    write("set.json", Json{{"held_out", "yes"}, {"rows", {row}}}.dump());
    refused("validate set.json", "\"held_out\" = \"yes\" must be true or false");
    write("set.json", "{\"rows\": [}");
    refused("validate set.json", "line 1, column");
    write("gemm_h100-sxm-80gb.csv", "dtype,m,n,k,batch,us\nbf16,x,1,1,1,2\n");
    refused("fit --check gemm_h100-sxm-80gb.csv", "is no number");
    write("gemm_h100-sxm-80gb.json", "[1, 2]");
    refused("fit --check gemm_h100-sxm-80gb.json", "is no object of columns");
}

TEST_F(Hostile, CalibrationsThatSpeedJobsUpAreRefused) {
    write("dense.json", dense);
    const std::string series = R"({"causal": {"128": [300, 1000]}, "full": {"128": [300, 1000]}})";
    const std::string attention = R"({"forward": )" + series + R"(, "backward": )" + series + "}";
    write("zz.json", R"({"device": "h100-sxm-80gb", "attention": {"flash-2@zz": )" + attention + "}}");
    refused("dense.json --calibration zz.json", "attention.flash-2@zz is no attention kernel");
    write("zero.json", R"({"device": "h100-sxm-80gb", "memory": {"fused": 0, "kernel_us": 2}})");
    refused("dense.json --calibration zero.json", "memory.fused = 0 must be a number from 0.001 to 1.5");
    write("negative.json", R"({"device": "h100-sxm-80gb", "sustained": {"bf16": -1, "fp8": 1, "other": 1}})");
    refused("dense.json --calibration negative.json", "sustained.bf16 = -1");
    write("text.json", R"({"device": "h100-sxm-80gb", "gemm": {"bf16": {"menu": "wide", "t0_us": "x"}}})");
    refused("dense.json --calibration text.json", "gemm.bf16.t0_us = \"x\"");
    write("cut.json", "{\"device\": ");
    refused("dense.json --calibration cut.json", "line 1, column");
}

TEST_F(Hostile, NamesCannotSteerTheTerminalNorBeFormulas) {
    Json job = Json::parse(dense);
    job["name"] = "quick\x1b]0;owned\x07";
    write("named.json", job.dump());
    refused("named.json", "/name: name = ");
    job["name"] = "sweep";
    job["description"] = "\x1b[2J";
    job["sweep"] = {{"/name", {"=1+1", "\x1b[31mred"}}};
    write("sweep.json", job.dump());
    const Ended swept = run("sweep.json --csv all.csv");
    EXPECT_EQ(swept.code, 0) << swept.err;
    EXPECT_EQ((swept.out + swept.err).find('\x1b'), std::string::npos) << swept.out;
    const std::string csv = read("all.csv");
    EXPECT_NE(csv.find("\n'=1+1,"), std::string::npos) << csv;
    EXPECT_EQ(csv.find('\x1b'), std::string::npos) << csv;
    refused("$(printf 'no\\033[31mfile.json')", "no file no\\x1b[31mfile.json");
}

} // namespace
} // namespace orrery

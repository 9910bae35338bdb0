// Does the program say and return what its help promises? Runs the built binary.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace orrery {
namespace {

namespace fs = std::filesystem;

std::string slurp(const fs::path& path) {
    std::ifstream in(path, std::ios::binary);
    std::stringstream text;
    text << in.rdbuf();
    return text.str();
}

struct Ran {
    int code;
    std::string out, err;
};

class Simrun : public testing::Test {
  protected:
    fs::path binary = fs::path(ORRERY_BINARY_DIR) / "bin" / "simrun";
    fs::path folder = fs::temp_directory_path() / ("orrery-cli-" + std::to_string(getpid()));

    void SetUp() override {
        if (!fs::exists(binary)) GTEST_SKIP() << binary << " is not built";
        fs::create_directories(folder);
    }
    void TearDown() override { fs::remove_all(folder); }

    std::string write(const std::string& name, const std::string& text) const {
        std::ofstream(folder / name) << text;
        return (folder / name).string();
    }

    std::string scenario(const std::string& name = "small.json", const std::string& extra = "") const {
        return write(name, R"({"name": ")" + name +
                               R"(", "model": {"layers": 4, "hidden_size": 1024, "attention_heads": 16, "vocab_size": 32000},
            "cluster": {"preset": "dgx-a100-80gb"}, "training": {"global_batch_size": 32, "micro_batch_size": 1, "sequence_length": 1024},
            "strategy": {"tensor_parallel": 2, "pipeline_parallel": 2})" +
                               extra + "}");
    }

    // Runs in the temporary folder; `arguments` as a shell takes them.
    Ran run(const std::string& arguments) const {
        const std::string command =
            "cd '" + folder.string() + "' && '" + binary.string() + "' " + arguments + " >out.txt 2>err.txt </dev/null";
        const int status = std::system(command.c_str());
        return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, slurp(folder / "out.txt"), slurp(folder / "err.txt")};
    }
};

TEST_F(Simrun, OutputThatCannotBeWrittenIsAnError) {
    const int status =
        std::system(("'" + binary.string() + "' '" + scenario() + "' --json >/dev/full 2>'" + (folder / "err.txt").string() + "'").c_str());
    EXPECT_EQ(WEXITSTATUS(status), 1);
    EXPECT_NE(slurp(folder / "err.txt").find("standard output cannot be written"), std::string::npos) << slurp(folder / "err.txt");
}

TEST_F(Simrun, InputsAreRegularFiles) {
    const Ran device = run("/dev/zero");
    EXPECT_EQ(device.code, 1);
    EXPECT_NE(device.err.find("/dev/zero is a device or a pipe"), std::string::npos) << device.err;
    for (const char* sub : {"", "validate ", "search ", "advise ", "learn "}) { // says that it has no bytes, and may never end
        const Ran empty = run(sub + write("empty.json", ""));
        EXPECT_EQ(empty.code, 1) << sub;
        EXPECT_NE(empty.err.find("empty.json is empty"), std::string::npos) << sub << empty.err;
    }
    ASSERT_EQ(mkfifo((folder / "fifo.json").c_str(), 0600), 0);
    const Ran fifo = run("fifo.json");
    EXPECT_EQ(fifo.code, 1);
    EXPECT_NE(fifo.err.find("fifo.json is a device or a pipe"), std::string::npos) << fifo.err;
}

TEST_F(Simrun, PrintsAReportAndReturnsZero) {
    const Ran r = run(scenario());
    EXPECT_EQ(r.code, 0) << r.err;
    EXPECT_NE(r.out.find("small.json: fits"), std::string::npos) << r.out;
    EXPECT_EQ(r.err, "");
    EXPECT_EQ(r.out.find('\x1b'), std::string::npos) << "no colour in a pipe";
}

TEST_F(Simrun, PrintsTheReportAsJson) {
    const Ran r = run(scenario() + " --json");
    EXPECT_EQ(r.code, 0);
    const auto j = nlohmann::json::parse(r.out);
    EXPECT_EQ(j.at("world_size"), 8);
    EXPECT_GT(j.at("step_time_s").get<double>(), 0);
    const Ran to_file = run(scenario() + " -o report.json");
    EXPECT_EQ(to_file.out, "");
    EXPECT_EQ(slurp(folder / "report.json"), r.out);
}

TEST_F(Simrun, ReturnsTwoAndTheReasonWhereItDoesNotFit) {
    const Ran r = run(scenario() + " --set cluster.device='{\"preset\": \"a100-sxm-80gb\", \"memory_gb\": 3}'");
    EXPECT_EQ(r.code, 2) << r.err << r.out;
    for (const char* word : {"does not fit", "stage", "GB more than the device's", " at "})
        EXPECT_NE(r.err.find(word), std::string::npos) << r.err;
    EXPECT_NE(r.out.find("DOES NOT FIT"), std::string::npos);
    const std::string run_of_it =
        scenario("run.json", R"(, "run": {"days": 30})") + " --set cluster.device='{\"preset\": \"a100-sxm-80gb\", \"memory_gb\": 3}'";
    EXPECT_NE(run(run_of_it).out.find("was not simulated: the job does not fit"), std::string::npos);
    EXPECT_EQ(nlohmann::json::parse(run(run_of_it + " --json").out)["run"]["simulated"], false);
    EXPECT_EQ(run("export " + run_of_it + " --to run-csv").code, 2);
}

TEST_F(Simrun, ReturnsOneAndEveryProblemOfBadInput) {
    const std::string file = write("bad.json", R"({"model": {"layers": 4, "hidden_size": 1024, "attention_heads": 16, "vocab_size": 32000},
        "cluster": {"preset": "dgx-a100-80gb"}, "training": {"global_batch_size": 32, "micro_batch_size": 1, "sequence_length": 1024},
        "strategy": {"tensor_paralel": 2, "pipeline_parallel": "two"}})");
    const Ran r = run(file);
    EXPECT_EQ(r.code, 1);
    EXPECT_EQ(r.out, "");
    for (const char* word : {"tensor_paralel", "tensor_parallel", "/strategy/pipeline_parallel", "2 problems"})
        EXPECT_NE(r.err.find(word), std::string::npos) << r.err;
}

TEST_F(Simrun, MeansAFileItCannotFind) {
    scenario("llama.json");
    const Ran r = run("lama.json");
    EXPECT_EQ(r.code, 1);
    EXPECT_NE(r.err.find("no file lama.json: did you mean llama.json?"), std::string::npos) << r.err;
}

TEST_F(Simrun, RefusesWhatWouldDoNothing) {
    const std::string file = scenario(), other = scenario("other.json");
    for (const char* option : {" --csv x.csv", " --top 3", " --by mfu", " --fresh"}) {
        const Ran r = run(file + option);
        EXPECT_EQ(r.code, 1) << option << r.out;
        EXPECT_NE(r.err.find("for a sweep"), std::string::npos) << option << r.err;
    }
    const std::string sweep = scenario("sweep.json", R"(, "sweep": {"/strategy/tensor_parallel": [1, 2]})");
    for (const char* option : {" --trace x.json", " --no-fold", " --no-replay"}) {
        for (const std::string& files : {sweep, file + " " + other}) {
            const Ran r = run(files + option);
            EXPECT_EQ(r.code, 1) << option << r.out;
            EXPECT_NE(r.err.find("for one scenario"), std::string::npos) << option << r.err;
        }
    }
}

TEST_F(Simrun, SaysWhichCommandMissesWhat) {
    const std::string file = scenario();
    write("text.trace", "no trace at all");
    run(file + " --trace step.json");
    const std::string whole = scenario("whole.json", R"(, "run": {"days": 3, "seeds": 2})");
    EXPECT_EQ(run("export " + whole + " --to run-perfetto -o run.json").code, 0);
    EXPECT_EQ(run("export " + whole + " --to run-csv -o run.csv").code, 0);
    EXPECT_EQ(run("export " + whole + " --to run-trace -o run.trace -q").code, 0);
    EXPECT_GT(fs::file_size(folder / "run.trace"), 100u);
    const std::pair<std::string, std::string> told[] = {
        {"compare " + file, "simrun compare: error:"},
        {"plan " + file + " --aftr lifetimes", "did you mean --after?); see `simrun plan --help`"},
        {"comprae a.json b.json", "did you mean the command `simrun compare`?"},
        {"list", "name what to list: models, clusters"},
        {"compare " + file + " text.trace", "neither a trace nor a scenario"},
        {"compare " + file + " step.json", "ui.perfetto.dev"},
        {"compare " + file + " run.json", "export --to run-trace writes one that can"},
        {"compare run.csv " + file, "simrun A.json B.json prints the runs of two scenarios side by side"},
    };
    for (const auto& [arguments, words] : told) {
        const Ran r = run(arguments);
        EXPECT_EQ(r.code, 1) << arguments << r.out;
        EXPECT_NE(r.err.find(words), std::string::npos) << arguments << "\n" << r.err;
    }
}

// Whole runs side by side: as a table, as JSON, as traces.
TEST_F(Simrun, ComparesWholeRuns) {
    const std::string few = scenario("few.json", R"(, "run": {"days": 30, "seeds": 4, "failures": {"per_node_day": 0.01}})"),
                      many = scenario("many.json", R"(, "run": {"days": 30, "seeds": 4, "failures": {"per_node_day": 3}})");
    const Ran table = run(few + " " + many);
    EXPECT_EQ(table.code, 0) << table.err;
    EXPECT_NE(table.out.find("the whole run  goodput"), std::string::npos) << table.out;
    const auto json = nlohmann::json::parse(run(few + " " + many + " --json").out);
    EXPECT_GT(json[0]["run"]["goodput"]["p50"], json[1]["run"]["goodput"]["p50"]);
    EXPECT_EQ(json[0]["run"], nlohmann::json::parse(run(few + " --json").out)["run"]);
    EXPECT_EQ(run(scenario() + " " + scenario()).out.find("the whole run"), std::string::npos);
    EXPECT_EQ(run("export " + few + " --to run-trace -o few.trace -q").code, 0);
    EXPECT_EQ(run("export " + many + " --to run-trace -o many.trace -q").code, 0);
    const Ran traces = run("compare few.trace many.trace");
    EXPECT_EQ(traces.code, 0) << traces.err;
    for (const char* kind : {"training", "restart", "save"}) EXPECT_NE(traces.out.find(kind), std::string::npos) << traces.out;
    EXPECT_TRUE(std::regex_search(traces.out, std::regex("\nrun   [0-9.]+ "))) << traces.out;
    EXPECT_EQ(traces.out.find("step"), std::string::npos) << traces.out;
}

// Every example of every command's help that needs nothing but a scenario, as it stands there.
TEST_F(Simrun, ExamplesOfItsHelpWork) {
    for (const char* name : {"job.json", "a.json", "b.json", "c.json"}) scenario(name);
    write("job.json", std::regex_replace(slurp(folder / "job.json"), std::regex("\"pipeline_parallel\": 2"), "\"pipeline_parallel\": 1"));
    scenario("sweep.json", R"(, "sweep": {"/strategy/tensor_parallel": [1, 2]})");
    const fs::path real = fs::path(ORRERY_SOURCE_DIR) / "tests/unit/ingest/files";
    fs::copy_file(real / "node.xml", folder / "topo.xml");
    fs::copy_file(real / "fabric.txt", folder / "fabric.txt");
    write("mine.json", R"({"name": "mine", "source": "my runs", "rows": [{"name": "run", "source": "my runs", "scenario": )" +
                           slurp(folder / "a.json") + R"(, "measured": {"step_time_s": 1}}]})");
    int tried = 0;
    for (const char* command : {"", "compare ", "plan ", "export ", "list ", "schema "}) {
        std::istringstream help(run(std::string(command) + "--help").out);
        for (std::string line; std::getline(help, line);) {
            if (!line.starts_with("  simrun ") || line.find("scenarios/") != std::string::npos ||
                line.find(".csv.gz") != std::string::npos || line.find(".trace") != std::string::npos ||
                line.find(".log") != std::string::npos)
                continue;
            EXPECT_TRUE(*command == '\0' || line.starts_with("  simrun " + std::string(command))) << "of another command: " << line;
            const std::string arguments = line.substr(9, line.find("  ", 9) - 9);
            const Ran r = run(arguments);
            EXPECT_EQ(r.code, 0) << arguments << "\n" << r.err;
            ++tried;
        }
    }
    EXPECT_GE(tried, 15);
}

// The printed script, run as Slurm would: each task by its number, one of them told to stop and started again.
TEST_F(Simrun, SlurmScriptComputesTheSweepInParts) {
    const std::string sweep =
        scenario("sweep.json", R"(, "sweep": {"/strategy/tensor_parallel": [1, 2, 4, 8], "/training/micro_batch_size": [1, 2, 4, 8]})");
    ASSERT_EQ(run(sweep + " -q -o one.sqlite --csv one.csv --set strategy.pipeline_parallel=1").code, 0);
    const Ran script = run("sbatch sweep.json --shards 4 --cpus 1 --time 1:00:00 --set strategy.pipeline_parallel=1 -o part.sh");
    ASSERT_EQ(script.code, 0) << script.err;
    const std::string text = slurp(folder / "part.sh");
    EXPECT_NE(text.find("#SBATCH --array=1-4\n"), std::string::npos) << text;
    const auto task = [&](int n, const std::string& before) {
        const std::string command =
            "cd '" + folder.string() + "' && " + before + " SLURM_ARRAY_TASK_ID=" + std::to_string(n) + " bash part.sh >log 2>&1";
        return WEXITSTATUS(std::system(command.c_str()));
    };
    task(2, "timeout 0.01 env"); // wherever it is then, what it had is kept or made again
    for (int n = 1; n <= 4; ++n) EXPECT_EQ(task(n, "env"), 0) << slurp(folder / "log");
    const Ran merged = run("merge sweep-parts/*.sqlite -o all.sqlite --json");
    ASSERT_EQ(merged.code, 0) << merged.err;
    EXPECT_EQ(nlohmann::json::parse(merged.out).at("added"), 16);
    ASSERT_EQ(run("sweep.json -q -o all.sqlite --csv all.csv --set strategy.pipeline_parallel=1").code, 0);
    EXPECT_EQ(slurp(folder / "all.csv"), slurp(folder / "one.csv"));
}

// The same of a search: eight parts, each as a task of an array, and the merged file gives the answer of one machine.
TEST_F(Simrun, SlurmScriptSearchesInParts) {
    write("job.json", R"({"model": {"layers": 4, "hidden_size": 1024, "attention_heads": 16, "vocab_size": 32000},
        "cluster": {"preset": "dgx-a100-80gb", "nodes": 1}, "training": {"global_batch_size": 16, "sequence_length": 1024},
        "strategy": {"framework": "megatron", "context_parallel": 1, "zero_stage": 1}})");
    write("space.json", R"({"/strategy/recompute": ["none", "full"]})");
    ASSERT_EQ(run("search job.json --space space.json -q --csv one.csv").code, 0);
    const Ran script = run("sbatch job.json --space space.json --shards 8 --cpus 1 -o part.sh");
    ASSERT_EQ(script.code, 0) << script.err;
    for (int n = 1; n <= 8; ++n) {
        const std::string task = "cd '" + folder.string() + "' && SLURM_ARRAY_TASK_ID=" + std::to_string(n) + " bash part.sh >log 2>&1";
        EXPECT_EQ(WEXITSTATUS(std::system(task.c_str())), 0) << slurp(folder / "log");
    }
    ASSERT_EQ(run("merge job-parts/*.sqlite -o job.sqlite").code, 0);
    const Ran all = run("search job.json --space space.json --database job.sqlite --csv all.csv --json");
    ASSERT_EQ(all.code, 0) << all.err;
    EXPECT_EQ(slurp(folder / "all.csv"), slurp(folder / "one.csv"));
    const auto j = nlohmann::json::parse(all.out);
    EXPECT_TRUE(j.at("proven"));
    EXPECT_EQ(j.at("counts").at("reused"), j.at("counts").at("simulated")) << "nothing is simulated again";
    EXPECT_EQ(run("sbatch sweep.json --by cost").code, 1) << "no such file";
    scenario("sweep.json", R"(, "sweep": {"/strategy/tensor_parallel": [1, 2]})");
    const Ran wrong = run("sbatch sweep.json --by cost");
    EXPECT_EQ(wrong.code, 1);
    EXPECT_NE(wrong.err.find("for a search"), std::string::npos) << wrong.err;
}

// A script is printed of a search that its tasks would not refuse.
TEST_F(Simrun, SlurmScriptIsRefusedForWhatItsTasksWouldRefuse) {
    const std::string job = scenario();
    write("wrong.json", R"({"/strategy/recomputation": ["none"]})");
    write("never.json", R"({"/strategy/tensor_parallel": [7]})");
    EXPECT_EQ(run("sbatch " + job + " -o part.sh").code, 0);
    for (const std::string more : {"--space wrong.json", "--space never.json", "--within 30", "--by goodput"}) {
        const Ran task = run("search " + job + " " + more + " --shard 1/8 --database one.sqlite"),
                  script = run("sbatch " + job + " " + more);
        EXPECT_EQ(task.code, 1) << more << ": with no point in this part, too";
        EXPECT_EQ(script.code, 1) << more;
        EXPECT_EQ(script.out, "") << more;
        EXPECT_EQ(script.err, task.err) << more;
    }
}

// With more parts than a space has forms some have no point: they are done, and their files can be joined.
TEST_F(Simrun, AnEmptyPartOfASearchIsDone) {
    const std::string job = scenario();
    int empty = 0;
    for (int n = 1; n <= 16; ++n) {
        const std::string part = std::to_string(n);
        const Ran r = run("search " + job + " --no-refine --shard " + part + "/16 --database " + part + ".sqlite");
        EXPECT_EQ(r.code, 0) << r.err;
        EXPECT_EQ(r.err.find("error"), std::string::npos) << r.err;
        empty += (r.out + r.err).find("this part of the space is empty") != std::string::npos ? 1 : 0;
    }
    EXPECT_GT(empty, 0);
    EXPECT_LT(empty, 16);
    std::string files;
    for (int n = 1; n <= 16; ++n) files += std::to_string(n) + ".sqlite ";
    EXPECT_EQ(run("merge " + files + "-o all.sqlite").code, 0);
}

// A search without an answer ends in the nearest miss and what it lacks, with the exit codes of the help.
TEST_F(Simrun, SearchSaysWhyItFoundNothing) {
    const std::string job = R"({"model": "llama3-8b", "cluster": {"device": "rtx-4090", "nodes": 1, "devices_per_node": 1},
        "training": {"global_batch_size": 8, "sequence_length": 2048, "precision": "bf16"}, "strategy": {"framework": "FRAMEWORK"}})";
    write("ddp.json", std::regex_replace(job, std::regex("FRAMEWORK"), "ddp"));
    write("deepspeed.json", std::regex_replace(job, std::regex("FRAMEWORK"), "deepspeed"));
    const Ran none = run("search ddp.json");
    EXPECT_EQ(none.code, 2);
    EXPECT_NE(none.err.find("the nearest found lacks"), std::string::npos) << none.err;
    write("larger.json", std::regex_replace(std::regex_replace(job, std::regex("FRAMEWORK"), "megatron"),
                                            std::regex(R"("device": "rtx-4090")"), R"("preset": "dgx-a100-40gb")"));
    const Ran larger = run("search larger.json");
    EXPECT_EQ(larger.code, 2);
    EXPECT_NE(larger.err.find("the smallest cluster found that does: "), std::string::npos) << "and the way out: " << larger.err;
    const Ran away = run("search deepspeed.json --write best");
    EXPECT_EQ(away.code, 0) << away.err;
    EXPECT_NE(away.out.find("Nothing fits with all states"), std::string::npos) << away.out;
    EXPECT_EQ(run("best/1.json -q").code, 0) << "the written scenario fits";
    write("empty.json", R"({"/strategy/tensor_parallel": []})");
    write("never.json", R"({"/strategy/tensor_parallel": [8]})");
    EXPECT_EQ(run("search ddp.json --space empty.json").code, 1);
    const Ran never = run("search ddp.json --space never.json");
    EXPECT_EQ(never.code, 1);
    EXPECT_NE(never.err.find("no combination of the free fields is legal"), std::string::npos) << never.err;
    EXPECT_EQ(run("search ddp.json --allow everything").code, 1);
    const Ran stopped = run("search deepspeed.json --seconds 0.000001");
    EXPECT_EQ(stopped.code, 1);
    EXPECT_NE(stopped.err.find("stopped before"), std::string::npos) << stopped.err;
}

TEST_F(Simrun, PartsOfASweepSayWhatIsWrong) {
    const std::string sweep = scenario("sweep.json", R"(, "sweep": {"/strategy/tensor_parallel": [1, 2]})");
    for (const char* wrong : {"9/8", "slurm", "x"}) {
        const Ran r = run(sweep + " --shard " + wrong);
        EXPECT_EQ(r.code, 1);
        EXPECT_NE(r.err.find("--shard"), std::string::npos) << r.err;
    }
    EXPECT_EQ(run(scenario() + " --shard 1/2").code, 1) << "a scenario has no parts";
    const Ran r = run("merge nothing.sqlite");
    EXPECT_EQ(r.code, 1);
    EXPECT_NE(r.err.find("nothing.sqlite"), std::string::npos) << r.err;
}

TEST_F(Simrun, OverridesFields) {
    const auto one = nlohmann::json::parse(run(scenario() + " --json").out);
    const auto two =
        nlohmann::json::parse(run(scenario() + " --json --set training.global_batch_size=64 --set strategy.tensor_parallel=4").out);
    EXPECT_EQ(one.at("data_parallel"), 2);
    EXPECT_EQ(two.at("data_parallel"), 1);
    EXPECT_GT(two.at("flops_per_step").get<double>(), 1.9 * one.at("flops_per_step").get<double>());
    EXPECT_EQ(run(scenario() + " --set strategy.tensor_paralel=4").code, 1);
}

TEST_F(Simrun, IsQuietWhenAsked) {
    const Ran r = run(scenario() + " -q");
    EXPECT_EQ(r.code, 0);
    EXPECT_EQ(r.out + r.err, "");
}

TEST_F(Simrun, SaysMoreWhenAsked) {
    const Ran r = run(scenario() + " -v");
    for (const char* word : {"Largest buffers", "Defaults", "events"}) EXPECT_NE(r.out.find(word), std::string::npos) << word;
}

TEST_F(Simrun, ComparesSeveralScenarios) {
    const Ran r = run(scenario("a.json") + " " + scenario("b.json"));
    EXPECT_EQ(r.code, 0) << r.err;
    for (const char* word : {"a.json", "b.json", "tokens/s", "yes"}) EXPECT_NE(r.out.find(word), std::string::npos) << r.out;
    EXPECT_EQ(nlohmann::json::parse(run(scenario("a.json") + " " + scenario("b.json") + " --json").out).size(), 2u);
}

TEST_F(Simrun, FoldingAndReplayChangeNothing) {
    const auto folded = nlohmann::json::parse(run(scenario() + " --json").out),
               whole = nlohmann::json::parse(run(scenario() + " --json --no-fold --no-replay").out);
    const double a = folded.at("step_time_s").get<double>(), b = whole.at("step_time_s").get<double>();
    EXPECT_NEAR(a, b, 1e-9 * b);
}

TEST_F(Simrun, WritesTraces) {
    EXPECT_EQ(run(scenario() + " -q --trace step.json").code, 0);
    EXPECT_FALSE(nlohmann::json::parse(slurp(folder / "step.json")).at("traceEvents").empty());
    EXPECT_EQ(run(scenario() + " -q --trace step.trace").code, 0);
    EXPECT_GT(fs::file_size(folder / "step.trace"), 100u);
    EXPECT_LT(fs::file_size(folder / "step.trace"), fs::file_size(folder / "step.json") / 2);
    EXPECT_EQ(run("export " + scenario() + " --to perfetto -o same.json").code, 0);
    EXPECT_EQ(slurp(folder / "same.json"), slurp(folder / "step.json"));
}

TEST_F(Simrun, PrintsAndVerifiesPlans) {
    const Ran r = run("plan " + scenario());
    EXPECT_EQ(r.code, 0) << r.err;
    EXPECT_NE(r.err.find("verified"), std::string::npos) << r.err;
    EXPECT_NE(r.out.find("F0"), std::string::npos);
    const auto passes = nlohmann::json::parse(run("list passes --json").out);
    ASSERT_GT(passes.size(), 3u);
    for (const auto& pass : passes) {
        const Ran after = run("plan " + scenario() + " --after " + pass.begin().value().get<std::string>());
        EXPECT_EQ(after.code, 0) << after.err;
        EXPECT_FALSE(after.out.empty()) << pass;
    }
    const Ran wrong = run("plan " + scenario() + " --after tensor-paralel");
    EXPECT_EQ(wrong.code, 1);
    EXPECT_NE(wrong.err.find("did you mean tensor-parallel?"), std::string::npos) << wrong.err;
}

// Each strategy names an example that sets its field. What a framework sets by itself (data parallelism's degree) may be left out there.
TEST_F(Simrun, EveryStrategyHasAnExample) {
    const std::set<std::string> derived{"data_parallel"};
    const auto rows = nlohmann::json::parse(run("list strategies --json").out);
    EXPECT_GT(rows.size(), 50u);
    for (const auto& row : rows) {
        const std::string strategy = row["strategy"], field = row["field of strategy"];
        const fs::path file = fs::path(ORRERY_SOURCE_DIR) / "scenarios" / (row["example in scenarios"].get<std::string>() + ".json");
        ASSERT_TRUE(fs::exists(file)) << strategy << ": " << file;
        const std::string text = slurp(file), last = field.substr(field.rfind('.') + 1);
        if (derived.contains(field)) continue;
        EXPECT_TRUE(text.find('"' + last + '"') != std::string::npos || text.find('/' + last + '"') != std::string::npos)
            << strategy << ": " << file.filename() << " does not set " << field;
        // Where a kind makes the strategy, the example has that kind, or one of those that are named.
        const std::string what = row["what it does"];
        const auto at = what.find("kind "), end = what.find(':', at);
        if (at == std::string::npos || end == std::string::npos) continue;
        std::istringstream kinds(what.substr(at + 5, end - at - 5));
        bool has = false;
        for (std::string kind; kinds >> kind;) has = has || text.find('"' + kind.substr(0, kind.find(',')) + '"') != std::string::npos;
        EXPECT_TRUE(has) << strategy << ": " << file.filename() << " has no kind of " << what;
    }
}

TEST_F(Simrun, ListsWhatCanBeNamed) {
    for (const char* topic : {"models", "clusters", "devices", "schedules", "strategies", "frameworks", "passes"}) {
        const Ran r = run(std::string("list ") + topic);
        EXPECT_EQ(r.code, 0) << topic << r.err;
        EXPECT_GT(std::count(r.out.begin(), r.out.end(), '\n'), 5) << topic;
    }
    for (const char* name : {"llama3-405b", "gpt3-175b"}) EXPECT_NE(run("list models").out.find(name), std::string::npos) << name;
    EXPECT_NE(run("list schedules").out.find("interleaved-1f1b"), std::string::npos);
    const Ran wrong = run("list model");
    EXPECT_EQ(wrong.code, 1);
    EXPECT_NE(wrong.err.find("did you mean models?"), std::string::npos) << wrong.err;
}

TEST_F(Simrun, PrintsTheSchema) {
    const Ran r = run("schema");
    EXPECT_EQ(r.code, 0);
    EXPECT_TRUE(nlohmann::json::parse(r.out).contains("properties"));
}

TEST_F(Simrun, ExportsThePlanAsDot) {
    const Ran r = run("export " + scenario() + " --to dot");
    EXPECT_EQ(r.code, 0) << r.err;
    EXPECT_EQ(r.out.rfind("digraph", 0), 0u);
    EXPECT_EQ(run("export " + scenario() + " --to megatron").code, 1);
}

TEST_F(Simrun, ExportsWhatWorkersAndClientsDo) {
    const std::string scenarios = ORRERY_SOURCE_DIR "/scenarios/";
    const Ran served = run("export " + scenarios + "gpt2-parameter-server-8-a100.json --to workers-csv");
    EXPECT_EQ(served.code, 0) << served.err;
    EXPECT_EQ(served.out.rfind("worker,doing,begin_s,end_s,step,version,age,peer\n", 0), 0u);
    for (const char* word : {"\n7,push,", "\n0,pull,", "\nservers,update,", "\n3,step,"})
        EXPECT_NE(served.out.find(word), std::string::npos) << word;
    const Ran rounds = run("export " + scenarios + "gpt2-124m-federated-lora.json --to workers-csv");
    EXPECT_EQ(rounds.code, 0) << rounds.err;
    EXPECT_EQ(std::count(rounds.out.begin(), rounds.out.end(), '\n'), 1 + 4 * 130);
    for (const char* word : {",counted,", ",late,", ",given up,"}) EXPECT_NE(rounds.out.find(word), std::string::npos) << word;
    const Ran none = run("export " + scenario() + " --to workers-csv");
    EXPECT_EQ(none.code, 1);
    EXPECT_NE(none.err.find("parameter_server, gossip or async_average"), std::string::npos) << none.err;
}

TEST_F(Simrun, ValidatesADataset) {
    nlohmann::json set{{"name", "one"}, {"source", "here"}, {"rows", nlohmann::json::array()}};
    set["rows"].push_back({{"name", "r"}, {"scenario", nlohmann::json::parse(slurp(scenario()))}, {"measured", {{"step_time_s", 0.1}}}});
    const std::string file = write("set.json", set.dump());
    const Ran r = run("validate " + file);
    EXPECT_EQ(r.code, 0) << r.err;
    EXPECT_NE(r.out.find("mean error"), std::string::npos) << r.out;
    EXPECT_EQ(nlohmann::json::parse(run("validate --json " + file).out).at("rows").size(), 1u);
    const Ran csv = run("validate --csv " + file);
    EXPECT_EQ(std::count(csv.out.begin(), csv.out.end(), '\n'), 2);
    EXPECT_EQ(run("validate " + scenario()).code, 1);
}

TEST_F(Simrun, RunsSweepsAndGoesOn) {
    const std::string file = scenario("sweep.json", R"(, "sweep": {"/training/micro_batch_size": [1, 2, 3, 4]})");
    const Ran first = run(file + " --csv all.csv --top 2");
    EXPECT_EQ(first.code, 0) << first.err;
    EXPECT_NE(first.out.find("4 combinations, 3 fit, 1 impossible"), std::string::npos) << first.out;
    EXPECT_TRUE(fs::exists(folder / "sweep.sqlite"));
    const std::string csv = slurp(folder / "all.csv");
    EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 5);
    const Ran again = run(file);
    EXPECT_NE(again.out.find("4 were known from before"), std::string::npos) << again.out;
    // A ranking by what no point has is none.
    for (const auto& [by, lacks] : {std::pair{"time_to_target_s", "training.convergence"}, {"run_cost", "\"run\""}}) {
        const Ran ran = run(file + " --by " + by);
        EXPECT_EQ(ran.code, 1) << by;
        EXPECT_NE(ran.err.find(lacks), std::string::npos) << ran.err;
    }
    const Ran energy = run(file + " --set cluster='\"tpu-v5p-pod\"' --by energy --fresh");
    EXPECT_NE(energy.err.find("cluster.device.power_w"), std::string::npos) << energy.err;
}

TEST_F(Simrun, HelpsWithExamplesAndAVersion) {
    const Ran help = run("--help");
    EXPECT_EQ(help.code, 0);
    for (const char* word : {"Examples:", "--set", "validate", "GiB 2^30"}) EXPECT_NE(help.out.find(word), std::string::npos) << word;
    const Ran version = run("--version");
    EXPECT_EQ(version.code, 0);
    EXPECT_EQ(version.out.rfind("simrun ", 0), 0u);
    for (const char* sub : {"plan", "list", "schema", "validate", "export"}) EXPECT_EQ(run(std::string(sub) + " --help").code, 0) << sub;
    EXPECT_EQ(run("").code, 1);
    EXPECT_EQ(run("--no-such-flag").code, 1);
    EXPECT_EQ(run("search x.json").code, 1) << "what is not built is absent";
}

// Two scenarios compared: parts that add up to each step, as their reports have it, and whether one is certainly the faster.
TEST_F(Simrun, ComparesWhatTwoStepsGoTo) {
    const std::string a = scenario("a.json"),
                      b = scenario("b.json", R"(, "runtime": {"fused_norm": false})") + " --set strategy.framework=nemo";
    EXPECT_EQ(run("compare " + a + " " + a).out.find("80 % interval"), std::string::npos) << "of nothing";
    const Ran r = run("compare " + a + " " + b);
    ASSERT_EQ(r.code, 0) << r.err;
    EXPECT_NE(r.out.find("Time of a step"), std::string::npos) << r.out;
    EXPECT_NE(r.out.find("80 % interval"), std::string::npos) << r.out;
    EXPECT_EQ(r.out.find("geometric mean"), std::string::npos) << "ratios of ops say something of a prediction alone";
    const auto json = nlohmann::json::parse(run("compare " + a + " " + b + " --json").out);
    double sum = 0;
    for (const auto& part : json.at("parts_s")) sum += part.at(0).get<double>();
    EXPECT_NEAR(sum, json.at("a").at("step_time_s").get<double>(), 1e-6);
    const double ratio = json.at("b").at("step_time_s").get<double>() / json.at("a").at("step_time_s").get<double>();
    EXPECT_LT(json.at("ratio_interval").at(0).get<double>(), ratio);
    EXPECT_GT(json.at("ratio_interval").at(1).get<double>(), ratio);
    EXPECT_DOUBLE_EQ(json.at("a").at("step_time_s").get<double>(),
                     nlohmann::json::parse(run(a + " --json --set strategy.framework=nemo").out).at("step_time_s").get<double>());
    const Ran too_big = run("compare " + a + " " + a + " --set cluster.device='{\"preset\": \"a100-sxm-80gb\", \"memory_gb\": 3}'");
    EXPECT_EQ(too_big.code, 2) << "one that does not fit";
    EXPECT_NE(too_big.err.find("those if it did"), std::string::npos) << too_big.err;
    EXPECT_NE(too_big.err.find("that fits: "), std::string::npos) << "and the way out: " << too_big.err;
}

// Saves that find no room on a node are told as a step that does not fit is.
TEST_F(Simrun, TellsSavesThatDoNotFit) {
    const std::string file = scenario("run.json", R"(, "run": {"days": 1, "seeds": 2, "checkpoint": {"kind": "local", "gb": 100}})");
    EXPECT_EQ(run(file).code, 0) << run(file).err;
    for (const char* field : {"memory_gb", "nvme_gb"}) {
        const Ran r = run(file + " --json --set cluster.host." + field + "=0.001");
        EXPECT_EQ(r.code, 2) << field;
        EXPECT_NE(r.err.find(std::string("a larger cluster.host.") + field), std::string::npos) << r.err;
        EXPECT_FALSE(nlohmann::json::parse(r.out).at("run").at("simulated").get<bool>()) << field;
    }
}

TEST_F(Simrun, ComparesAScenarioWithATrace) {
    const std::string file = scenario();
    ASSERT_EQ(run("--trace step.trace " + file).code, 0);
    const Ran same = run("compare " + file + " step.trace --json");
    ASSERT_EQ(same.code, 0) << same.err;
    const auto json = nlohmann::json::parse(same.out);
    EXPECT_EQ(json["a"]["plan_hash"], json["b"]["plan_hash"]);
    EXPECT_DOUBLE_EQ(json["op_ratio"]["geometric_mean"], 1);
    const Ran changed = run("compare step.trace " + file + " --set training.micro_batch_size=2");
    EXPECT_EQ(changed.code, 0) << changed.err;
    EXPECT_NE(changed.out.find("By kind of op"), std::string::npos) << changed.out;
    EXPECT_EQ(run("compare " + file).code, 1);
    EXPECT_EQ(run("compare step.trace nowhere.trace").code, 1);
}

TEST_F(Simrun, WritesTheBestOfASweepAsScenarios) {
    const std::string file = scenario("sweep.json", R"(, "sweep": {"/training/micro_batch_size": [1, 2, 4]})");
    const Ran r = run(file + " --top 2 --write best");
    ASSERT_EQ(r.code, 0) << r.err;
    EXPECT_FALSE(fs::exists(folder / "best" / "3.json"));
    const auto first = nlohmann::json::parse(run("best/1.json --json").out), second = nlohmann::json::parse(run("best/2.json --json").out);
    EXPECT_GE(first.at("tokens_per_s").get<double>(), second.at("tokens_per_s").get<double>());
    EXPECT_EQ(run("compare best/1.json best/2.json").code, 0);
    EXPECT_NE(run(scenario() + " --write best").code, 0) << "no sweep: nothing to write";
    EXPECT_EQ(run(file + " --top 1 --write best").code, 0);
    EXPECT_TRUE(fs::exists(folder / "best" / "1.json"));
    EXPECT_FALSE(fs::exists(folder / "best" / "2.json")) << "of the ranking before";
    write("best/7.json", "{}");
    const Ran strange = run(file + " --top 2 --write best");
    EXPECT_EQ(strange.code, 1);
    EXPECT_NE(strange.err.find("7.json was written by no `--write` before"), std::string::npos) << strange.err;
    EXPECT_TRUE(fs::exists(folder / "best" / "7.json"));
    const Ran lost = run(file + " --csv sweep.sqlite"); // where results are without -o
    EXPECT_EQ(lost.code, 1);
    EXPECT_NE(lost.err.find("is named by the file of results (-o) and by --csv"), std::string::npos) << lost.err;
}

TEST_F(Simrun, HelpOfACommandHasItsOwnWords) {
    EXPECT_NE(run("learn --help").out.find("three that agree"), std::string::npos);
    EXPECT_NE(run("learn --help").out.find("simrun learn mine.json -o learned.json --check more.json"), std::string::npos);
    EXPECT_NE(run("validate --help").out.find("attainable"), std::string::npos);
}

// Steps of one's own move predictions, and rows that were not learned from are checked.
TEST_F(Simrun, LearnsFromMeasuredSteps) {
    const auto step = nlohmann::json::parse(run(scenario() + " --json").out).at("step_time_s").get<double>();
    std::ifstream in(scenario());
    const auto of = nlohmann::json::parse(in);
    const auto rows = [&](double factor, int n) {
        nlohmann::json set{{"name", "mine"}, {"source", "my cluster"}, {"rows", nlohmann::json::array()}};
        for (int i = 0; i < n; ++i) {
            nlohmann::json one = of;
            one["name"] = "run " + std::to_string(i);
            set["rows"].push_back({{"name", "run " + std::to_string(i)},
                                   {"source", "my cluster"},
                                   {"scenario", one},
                                   {"measured", {{"step_time_s", factor * step}}}});
        }
        return set.dump();
    };
    write("rows.json", rows(1.4, 3));
    const Ran learned = run("learn rows.json -o learned.json --check rows.json");
    ASSERT_EQ(learned.code, 0) << learned.err;
    EXPECT_NE(learned.out.find("No other rows to check"), std::string::npos) << learned.out << "rows learned from prove nothing";
    const Ran after = run(scenario() + " --json --calibration learned.json");
    ASSERT_EQ(after.code, 0) << after.err;
    EXPECT_NEAR(nlohmann::json::parse(after.out).at("step_time_s").get<double>(), 1.4 * step, 0.1 * step);
    EXPECT_EQ(run("learn rows.json -o again.json --calibration learned.json").code, 1) << "learned twice";
    write("empty.json", R"({"name": "none", "source": "x", "rows": []})");
    EXPECT_EQ(run("learn empty.json -o none.json").code, 1);
    write("odd.json", rows(1000, 2));
    const Ran odd = run("learn rows.json odd.json -o none.json");
    EXPECT_EQ(odd.code, 1);
    EXPECT_NE(odd.err.find("odd.json: row \"run 0\": \"step_time_s\" = "), std::string::npos) << odd.err;
    EXPECT_NE(odd.err.find("is it in milliseconds?"), std::string::npos) << odd.err;
    auto bytes = nlohmann::json::parse(rows(1, 1));
    bytes["rows"][0]["measured"] = {{"memory_gb", 20e9}};
    write("bytes.json", bytes.dump());
    EXPECT_NE(run("learn bytes.json -o none.json").err.find("\"memory_gb\" = 2e+10 is read in GB"), std::string::npos);
}

// A table too small for some constants makes a file that predictions take, and says which they are.
TEST_F(Simrun, AFitOfASmallTableCanBeUsed) {
    std::string table = "dtype,m,n,k,batch,us,source\n";
    for (int m = 64; m <= 1024; m *= 2)
        for (int n = 512; n <= 4096; n *= 2)
            for (int k = 512; k <= 1024; k *= 2)
                table += "bf16," + std::to_string(m) + "," + std::to_string(n) + "," + std::to_string(k) + ",1," +
                         std::to_string(5 + 2.0 * m * n * k / 100e6) + ",mine\n";
    write("gemm_a100-sxm-80gb.csv", table);
    const Ran fitted = run("fit gemm_a100-sxm-80gb.csv -o mine.json");
    ASSERT_EQ(fitted.code, 0) << fitted.err;
    EXPECT_NE(fitted.out.find("mine.json is written"), std::string::npos) << fitted.out;
    EXPECT_NE(fitted.out.find("Use it: simrun job.json --calibration mine.json"), std::string::npos) << fitted.out;
    EXPECT_NE(fitted.out.find("does not determine gemm.bf16: "), std::string::npos) << fitted.out;
    const Ran mine = run(scenario() + " --calibration mine.json");
    EXPECT_EQ(mine.code, 0) << mine.err;
}

// Constants fitted to a table serve predictions: products twice as slow by the table make a slower step, and the report says so.
TEST_F(Simrun, PredictsByACalibrationOfOnesOwn) {
    std::string table = "dtype,m,n,k,batch,us,source\n";
    for (int m = 128; m <= 16384; m *= 2)
        for (int n = 512; n <= 16384; n *= 2)
            for (int k = 512; k <= 16384; k *= 2)
                table += "bf16," + std::to_string(m) + "," + std::to_string(n) + "," + std::to_string(k) + ",1," +
                         std::to_string(5 + 2.0 * m * n * k / 100e6) + ",mine\n"; // 100 TFLOP/s
    write("gemm_a100-sxm-80gb.csv", table);
    const Ran fitted = run("fit gemm_a100-sxm-80gb.csv -o mine.json");
    ASSERT_EQ(fitted.code, 0) << fitted.err;
    const std::string job = scenario() + " --json";
    const Ran mine = run(job + " --calibration mine.json");
    ASSERT_EQ(mine.code, 0) << mine.err;
    EXPECT_GT(nlohmann::json::parse(mine.out).at("step_time_s").get<double>(),
              nlohmann::json::parse(run(job).out).at("step_time_s").get<double>());
    EXPECT_NE(mine.out.find("simrun fit of gemm_a100-sxm-80gb.csv"), std::string::npos);
    EXPECT_EQ(run("fit --check gemm_a100-sxm-80gb.csv --calibration mine.json").code, 0);
    EXPECT_EQ(mine.err.find("was not used"), std::string::npos) << mine.err;
    const Ran elsewhere = run(job + " --set cluster.device=h100-sxm-80gb --calibration mine.json");
    EXPECT_EQ(elsewhere.code, 0) << elsewhere.err;
    EXPECT_NE(elsewhere.err.find("the calibration of a100-sxm-80gb was not used"), std::string::npos) << elsewhere.err;
    write("other.json", "{\"device\": \"a100-sxm-80gb\"}");
    const Ran wrong = run(job + " --calibration other.json");
    EXPECT_EQ(wrong.code, 1);
    EXPECT_NE(wrong.err.find("none of the groups of constants"), std::string::npos) << wrong.err;
    for (const char* gemm : {R"({"menu": "wide", "t0_us": 2.0})", R"({"menu": "tall"})"}) {
        write("broken.json", std::string("{\"device\": \"a100-sxm-80gb\", \"gemm\": {\"bf16\": ") + gemm + "}}");
        const Ran broken = run(job + " --calibration broken.json");
        EXPECT_EQ(broken.code, 1) << gemm;
        EXPECT_NE(broken.err.find("cannot be used as a calibration"), std::string::npos) << broken.err;
    }
    // Kernels of a release that no library has would be read and never used.
    write("broken.json", R"({"device": "a100-sxm-80gb", "attention": {"cudnn@2026": {}}})");
    EXPECT_NE(run(job + " --calibration broken.json").err.find("attention.cudnn@2026 is no attention kernel"), std::string::npos);
    const Ran nameless = run("fit --check " + write("ours.csv", table));
    EXPECT_EQ(nameless.code, 1) << "nothing could be checked";
}

TEST_F(Simrun, SaysThatARunIsPerturbedAndBySoMuch) {
    const std::string job =
        scenario("two.json", R"(, "perturb": [{"slow": 2, "link": "nic"}, {"slow": 1.2, "node": 1}])") + " --set cluster.nodes=2";
    const Ran r = run(job);
    ASSERT_EQ(r.code, 0) << r.err;
    EXPECT_NE(r.out.find("perturbed: nic 2 x slower; node 1 1.2 x slower"), std::string::npos) << r.out;
    const Ran wrong = run(scenario("wrong.json", R"(, "perturb": [{"slow": 2, "link": "node9.nic9"}])"));
    EXPECT_EQ(wrong.code, 1) << "bad input, not a plan that cannot run";
    EXPECT_NE(wrong.err.find("is no link of this cluster: its classes are"), std::string::npos) << wrong.err;
}

// The README's first scenario, as a reader saves it, gives the report that the README shows.
TEST_F(Simrun, PrintsWhatTheReadmeShows) {
    const std::string readme = slurp(ORRERY_SOURCE_DIR "/README.md");
    const auto job = readme.find("    {\n      \"name\""), job_end = readme.find("\n    }\n", job);
    ASSERT_LT(job, job_end);
    const Ran report = run(write("job.json", readme.substr(job, job_end + 6 - job)));
    ASSERT_EQ(report.code, 0) << report.err;
    const auto begin = readme.find("    llama3-70b on 64 H100: fits", job_end), end = readme.find("\nChange one field", job_end);
    ASSERT_LT(begin, end);
    std::istringstream shown(readme.substr(begin, end - begin));
    int lines = 0;
    for (std::string line; std::getline(shown, line);) {
        if (line.size() <= 4 || line == "    ..") continue;
        EXPECT_NE(report.out.find(line.substr(4)), std::string::npos) << "the README shows: " << line;
        ++lines;
    }
    EXPECT_GT(lines, 20);
}

// Its two published runs, and the errors of VALIDATION.md.
TEST_F(Simrun, IsAsAccurateAsTheReadmeSays) {
    const std::string readme = slurp(ORRERY_SOURCE_DIR "/README.md");
    const auto predicted = [&](const char* scenario) {
        const Ran r = run(std::string(ORRERY_SOURCE_DIR "/scenarios/") + scenario + " --json");
        EXPECT_EQ(r.code, 0) << r.err;
        return nlohmann::json::parse(r.out);
    };
    const auto llama = predicted("llama3-405b-16k-h100.json"), deepseek = predicted("deepseek-v3-2048-h800.json");
    const std::string tflops = fmt::format("| {:.0f} TFLOP/s a GPU |\n", llama.at("model_tflops_per_gpu").get<double>());
    EXPECT_NE(readme.find(tflops), std::string::npos) << tflops;
    const std::string seconds = fmt::format("| {:.1f} s a step |\n", deepseek.at("step_time_s").get<double>());
    EXPECT_NE(readme.find(seconds), std::string::npos) << seconds;
    const std::string figures = slurp(ORRERY_SOURCE_DIR "/VALIDATION.md");
    for (const char* rows : {"| all | step time | ", "| datasets fitted to nothing | step time | "}) {
        const auto at = figures.find(rows);
        ASSERT_NE(at, std::string::npos) << rows;
        std::istringstream cells(figures.substr(at + std::string(rows).size()));
        std::string n, bar, mean, median;
        cells >> n >> bar >> mean >> bar >> median;
        if (n.size() > 3) n.insert(n.size() - 3, ",");
        EXPECT_NE(readme.find(n), std::string::npos) << rows << n;
        EXPECT_NE(readme.find(fmt::format("{} % (median {})", mean, median)), std::string::npos) << rows << mean << " " << median;
    }
}

} // namespace
} // namespace orrery

// From files of a machine to a prediction on it, by the program: ingest, fit, run.
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <sstream>
#include <sys/wait.h>
#include <unistd.h>

namespace fs = std::filesystem;

namespace {

class IngestProgram : public testing::Test {
  protected:
    fs::path binary = fs::path(ORRERY_BINARY_DIR) / "bin" / "simrun";
    fs::path folder = fs::temp_directory_path() / ("orrery-ingest-" + std::to_string(getpid()));
    std::string files = ORRERY_SOURCE_DIR "/tests/unit/ingest/files/";
    std::string out, err;

    void SetUp() override {
        if (!fs::exists(binary)) GTEST_SKIP() << binary << " is not built";
        fs::create_directories(folder);
    }
    void TearDown() override { fs::remove_all(folder); }

    std::string slurp(const char* name) const {
        std::ifstream in(folder / name, std::ios::binary);
        std::stringstream text;
        text << in.rdbuf();
        return text.str();
    }
    void write(const char* name, const std::string& text) const { std::ofstream(folder / name) << text; }
    int run(const std::string& arguments) {
        const std::string command =
            fmt::format("cd '{}' && '{}' {} >out.txt 2>err.txt </dev/null", folder.string(), binary.string(), arguments);
        const int status = std::system(command.c_str());
        out = slurp("out.txt"), err = slurp("err.txt");
        return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    }
    double step_time(const std::string& arguments) {
        EXPECT_EQ(run("job.json --json " + arguments), 0) << err;
        return nlohmann::json::parse(out).at("step_time_s").get<double>();
    }
};

// All-reduces of eight ranks on a slow fabric.
std::string slow_all_reduce() {
    std::string log = "# all_reduce_perf\n#       size         count      type   redop    root     time   algbw   busbw #wrong     time   "
                      "algbw   busbw #wrong\n";
    for (double bytes = 65536; bytes < 5e9; bytes *= 4) {
        const double us = 200 + bytes / 10e3, bw = bytes / us / 1e3; // 10 GB/s: a tenth of what the NICs could do
        log += fmt::format("{:.0f} {:.0f} float sum -1 {:.1f} {:.2f} {:.2f} 0 {:.1f} {:.2f} {:.2f} 0\n", bytes, bytes / 4, us, bw,
                           bw * 1.75, us, bw, bw * 1.75);
    }
    return log;
}

} // namespace

TEST_F(IngestProgram, WritesAClusterThatAScenarioNames) {
    ASSERT_EQ(run("ingest " + files + "node.xml " + files + "fabric.txt -o site.json"), 0) << err;
    EXPECT_NE(err.find("4 hosts below 2 + 2 switches"), std::string::npos) << err;
    EXPECT_NE(err.find("note: NICs left out"), std::string::npos) << err;
    write("job.json", R"({"model": "gpt2-124m", "cluster": "site.json", "strategy": {"framework": "ddp"},
                          "training": {"global_batch_size": 64, "micro_batch_size": 1, "sequence_length": 1024}})");
    const double before = step_time("");
    // The site's own all-reduces are slow: what they calibrate is slower too.
    write("all_reduce.log", slow_all_reduce());
    ASSERT_EQ(run("fit all_reduce.log --cluster site.json --nodes 4 -o fabric.json"), 0) << err;
    EXPECT_NE(err.find("sizes left out"), std::string::npos) << err;
    EXPECT_GT(step_time("--calibration fabric.json"), 1.05 * before);
    ASSERT_EQ(run("fit all_reduce.log --cluster site.json --nodes 4 --calibration fabric.json --check"), 0) << err;
    EXPECT_NE(out.find("predicted us"), std::string::npos) << out;
}

TEST_F(IngestProgram, DamageIsOneLineAndExitOne) {
    write("cut.xml", "<system version=\"1\">\n<cpu numaid=\"0\">\n");
    EXPECT_EQ(run("ingest cut.xml"), 1);
    EXPECT_EQ(err.find("simrun: error: cut.xml:3: "), 0u) << err;
    EXPECT_EQ(std::count(err.begin(), err.end(), '\n'), 1);
    EXPECT_TRUE(out.empty());
    EXPECT_EQ(run("ingest nothing.xml"), 1);
    EXPECT_EQ(run("ingest " + files + "node.xml --from fortran"), 1);
    EXPECT_NE(err.find("is no format"), std::string::npos) << err;
    write("cut.log", slow_all_reduce() + "4294967296 1073741824 float sum -1 100.0\n");
    EXPECT_EQ(run("fit cut.log --cluster dgx-h100"), 1);
    EXPECT_NE(err.find("cut.log:12: "), std::string::npos) << err;
    write("some.log", slow_all_reduce());
    EXPECT_EQ(run("fit some.log"), 1);
    EXPECT_NE(err.find("add --cluster"), std::string::npos) << err;
}

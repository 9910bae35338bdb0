// Do input pipelines wait as those measured did?
#include "sim/report/input_pipeline.hpp"
#include "sim/scenario/parse.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace orrery {
namespace {

// From the bandwidth that a result reached at its storage: the share of time in which accelerators compute. Eight of 78 results computed
// longer than their mean bandwidth says, all of UNet3D, whose few large files warm up longest: their reports' bandwidth counts the warm-up.
TEST(InputPipelines, MlperfStoragesUtilisation) {
    std::ifstream in(ORRERY_SOURCE_DIR "/tests/unit/job/data/mlperf_storage.csv");
    std::string line;
    std::getline(in, line);
    int rows = 0, beyond = 0;
    while (std::getline(in, line)) {
        std::vector<std::string> cell(1);
        bool quoted = false;
        for (const char c : line) {
            if (c == '"')
                quoted = !quoted;
            else if (c == ',' && !quoted)
                cell.emplace_back();
            else
                cell.back() += c;
        }
        const auto number = [&](std::size_t i) { return std::stod(cell.at(i)); };
        InputPipeline data;
        data.bytes_per_sample = number(8);
        InputSupply supply;
        supply.devices = number(4);
        supply.storage = number(10) * 1048576;
        const double compute = number(7), samples = number(4) * number(6);
        const double stall = input_stall(data, compute, input_period(data, samples, supply).seconds);
        const double error = compute / (compute + stall) / (number(11) / 100) - 1;
        ++rows;
        if (std::abs(error) <= 0.05) continue;
        ++beyond;
        EXPECT_EQ(cell[2], "unet3d") << line;
        EXPECT_LT(error, 0) << line;
        EXPECT_GT(error, -0.18) << line;
    }
    EXPECT_EQ(rows, 78);
    EXPECT_LE(beyond, 8);
}

TEST(InputPipelines, TheSlowestPartLimits) {
    InputPipeline data;
    data.bytes_per_sample = 1e6;
    data.cpu_ms_per_sample = 10;
    data.workers = 2;
    const InputSupply supply{8, 1, 1e9, 0};
    EXPECT_NEAR(input_period(data, 1600, supply).seconds, 1.6, 1e-9);
    EXPECT_STREQ(input_period(data, 1600, supply).limit, "storage");
    data.cpu_ms_per_sample = 100;
    EXPECT_NEAR(input_period(data, 1600, supply).seconds, 10, 1e-9);
    data.workers = 4; // never slower with more
    EXPECT_NEAR(input_period(data, 1600, supply).seconds, 5, 1e-9);
    EXPECT_EQ(input_stall(data, 6, 5), 0);
    EXPECT_EQ(input_stall(data, 4, 5), 1);
    data.workers = 0;
    EXPECT_EQ(input_stall(data, 6, 5), 5) << "nobody reads ahead";
}

TEST(InputPipelines, StallAStepAndAreNamed) {
    const auto report = [](const std::vector<std::string>& fields) {
        ParseOptions options;
        options.overrides = fields;
        const ParseResult parsed = parse_scenario(
            R"({"model": {"layers": 2, "hidden_size": 1024, "attention_heads": 16, "vocab_size": 32000}, "cluster": {"preset": "dgx-a100-80gb", "nodes": 1},
            "training": {"global_batch_size": 64, "sequence_length": 1024}, "strategy": {"framework": "ddp"}})",
            options);
        EXPECT_TRUE(parsed.scenario) << to_text(parsed.problems);
        return predict(*parsed.scenario).report;
    };
    const Report none = report({}), text = report({"training.data={\"bytes_per_sample\": 4096}"}),
                 slow = report({"training.data={\"bytes_per_sample\": 1e9}", "cluster.storage.read_gb_per_s=10"});
    EXPECT_EQ(none.step_time_s, text.step_time_s) << "text needs nothing";
    EXPECT_NEAR(slow.step_time_s, 6.4, 1e-6);
    EXPECT_NEAR(slow.tokens_per_s * slow.step_time_s, none.tokens_per_s * none.step_time_s, 1e-6 * 65536);
    double sum = 0;
    for (const double part : slow.breakdown_s) sum += part;
    EXPECT_NEAR(sum, slow.step_time_s, 1e-6);
    EXPECT_NE(slow.notes.back().find("storage limits"), std::string::npos);
}

} // namespace
} // namespace orrery

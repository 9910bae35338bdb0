// Do predictions with different constants of users keep apart, side by side in one process?
#include "sim/cost/own_constants.hpp"
#include "sim/report/report.hpp"
#include "sim/scenario/parse.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace orrery::test {
namespace {

using Json = nlohmann::json;
using Constants = std::shared_ptr<const OwnConstants>;

// The H100's built-in constants with another share of the memory's bandwidth.
Constants with_memory(double fused) {
    for (const EmbeddedFile& f : calibration_files()) {
        if (f.name != "kernels_h100-sxm-80gb") continue;
        Json file{{"device", "h100-sxm-80gb"}, {"memory", Json::parse(f.text).at("memory")}};
        file["memory"]["fused"] = fused;
        auto own = std::make_shared<OwnConstants>();
        own->add(file.dump());
        return own;
    }
    return nullptr;
}

double step_time(const Constants& constants) {
    ParseOptions parsing;
    parsing.constants = constants;
    const ParseResult parsed = parse_scenario(R"({"model": "gpt2-124m", "cluster": {"preset": "dgx-h100", "nodes": 1},
        "training": {"global_batch_size": 64, "micro_batch_size": 4, "sequence_length": 1024}, "strategy": {"framework": "ddp"}})",
                                              parsing);
    return predict(parsed.scenario.value()).report.step_time_s;
}

TEST(OwnConstants, TwoCalibrationsInTwoThreads) {
    const std::vector<Constants> all = {with_memory(0.4), with_memory(0.9), nullptr};
    std::vector<double> alone;
    for (const Constants& c : all) alone.push_back(step_time(c));
    EXPECT_GT(alone[0], 1.05 * alone[1]) << "less of the bandwidth takes longer";
    EXPECT_NE(alone[1], alone[2]);
    std::vector<std::vector<double>> together(all.size());
    {
        std::vector<std::jthread> threads;
        for (std::size_t i = 0; i < all.size(); ++i)
            threads.emplace_back([&, i] {
                for (int n = 0; n < 5; ++n) together[i].push_back(step_time(all[i]));
            });
    }
    for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ(together[i], std::vector<double>(5, alone[i]));
}

TEST(OwnConstants, KnowWhichDevicesWereAskedFor) {
    const Constants own = with_memory(0.5);
    EXPECT_TRUE(own->not_asked_for().empty()) << "nothing was predicted";
    kernel_tables(find_device("a100-sxm-80gb").value(), {}, own.get());
    EXPECT_EQ(own->not_asked_for(), std::vector<std::string>{"h100-sxm-80gb"});
    step_time(own);
    EXPECT_TRUE(own->not_asked_for().empty());
}

} // namespace
} // namespace orrery::test

// Do predictions with different constants of users keep apart, side by side in one process?
#include "sim/cost/own_constants.hpp"
#include "sim/report/report.hpp"
#include "sim/scenario/parse.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include <algorithm>
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

double uncounted_in(const std::string& strategy, int devices, const std::string& device = R"("preset": "dgx-h100", "nodes": 1)") {
    const ParseResult parsed = parse_scenario(R"({"model": "gpt2-124m", "cluster": {)" + device + R"(, "devices_per_node": )" +
                                              std::to_string(devices) + R"(}, "training": {"global_batch_size": 64, "micro_batch_size": 4,
        "sequence_length": 1024}, )" + strategy +
                                              "}");
    return uncounted_of(parsed.scenario.value())[CostGroup::memory];
}

// What software does beside the kernels that are counted: not Megatron's modules, not one device, not what is measured or is the plan
// itself.
TEST(Uncounted, IsOfPyTorchsOwnSoftwareAndXlasOnSeveralDevices) {
    const double factor = uncounted().memory;
    EXPECT_GT(factor, 1);
    for (const char* framework : {"ddp", "fsdp", "fsdp2", "torchtitan", "jax", "nanotron", "internlm"})
        EXPECT_EQ(uncounted_in(R"("strategy": {"framework": ")" + std::string(framework) + R"("})", 8), factor) << framework;
    for (const char* framework : {"megatron", "nemo", "te", "deepspeed", "composer"})
        EXPECT_EQ(uncounted_in(R"("strategy": {"framework": ")" + std::string(framework) + R"("})", 8), 1) << framework;
    const std::string ddp = R"("strategy": {"framework": "ddp"})";
    EXPECT_EQ(uncounted_in(ddp, 1), 1);
    EXPECT_EQ(uncounted_in(ddp + R"(, "runtime": {"allocator": "plan"})", 8), 1) << "simexec runs the plan's ops and nothing else";
    EXPECT_EQ(uncounted_in(ddp, 2, R"("device": "cpu", "nodes": 1)"), 1);
}

// The report names the factor where it is in the step, and nowhere else.
TEST(Uncounted, IsSaidWhereItCounts) {
    const auto report_of = [](const char* framework, int devices) {
        const std::string cluster = R"("cluster": {"preset": "dgx-h100", "nodes": 1, "devices_per_node": )" + std::to_string(devices) + "}",
                          strategy = R"("strategy": {"framework": ")" + std::string(framework) + R"(", "zero_stage": )" +
                                     (devices > 1 ? "3" : "0") + "}";
        const ParseResult parsed = parse_scenario(R"({"model": "gpt2-124m", "training": {"global_batch_size": 64, "micro_batch_size": 4,
            "sequence_length": 1024}, )" + cluster +
                                                  ", " + strategy + "}");
        return predict(parsed.scenario.value()).report;
    };
    const auto said = [](const Report& r) {
        return std::ranges::count(r.provenance, std::string("what is not counted"), &Provenance::what);
    };
    EXPECT_EQ(said(report_of("fsdp", 8)), 1);
    EXPECT_EQ(said(report_of("fsdp", 1)), 0);
    EXPECT_EQ(said(report_of("composer", 8)), 0);
    EXPECT_EQ(said(report_of("megatron", 8)), 0);
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

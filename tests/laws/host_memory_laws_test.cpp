// What is offloaded, and the host's memory: of two kinds where there is CXL, and behind PCIe switches that devices share.
#include "sim/report/report.hpp"
#include "sim/scenario/parse.hpp"
#include "tests/laws/whatif.hpp"
#include "topology/cluster.hpp"

#include <gtest/gtest.h>

namespace orrery::laws {
namespace {

Json job() {
    return {{"model", {{"layers", 4}, {"hidden_size", 2048}, {"attention_heads", 32}, {"vocab_size", 32000}}},
            {"cluster",
             {{"preset", "dgx-a100-80gb"}, {"nodes", 1}, {"host", {{"memory_gb", 512}, {"memory_gb_per_s", 300}, {"pcie_gb_per_s", 25}}}}},
            {"training", {{"global_batch_size", 16}, {"micro_batch_size", 2}, {"sequence_length", 512}}},
            {"strategy", {{"framework", "deepspeed"}, {"zero_stage", 2}, {"offload", {{"optimizer", "cpu"}}}}}};
}

Report report(const Json& text) {
    const ParseResult parsed = parse_scenario(text.dump(), {});
    EXPECT_TRUE(parsed.scenario) << to_text(parsed.problems);
    return parsed.scenario ? predict(*parsed.scenario).report : Report{};
}

double with(Json text, double cxl_gb, double cxl_gb_per_s) {
    text["cluster"]["host"]["cxl_gb"] = cxl_gb;
    text["cluster"]["host"]["cxl_gb_per_s"] = cxl_gb_per_s;
    return report(text).step_time_s;
}

// FSDP on the host without fp32 masters: moments of 16 bits are half of those of 32, and the update is no slower.
TEST(HostMemory, HasMomentsLikeTheirParameters) {
    Json wide = job();
    wide["training"]["master_weights"] = false, wide["training"]["precision"] = "bf16", wide["training"]["moment_dtype"] = "fp32";
    wide["strategy"] = {{"framework", "fsdp2"}, {"offload", {{"optimizer", "cpu"}, {"gradients", "cpu"}, {"parameters", "cpu"}}}};
    Json narrow = wide;
    narrow["training"].erase("moment_dtype");
    const auto states = [](const Report& r) { return r.memory.host.used.by_kind[MemoryKind::optimizer_states].count; };
    const Report a = report(wide), b = report(narrow);
    EXPECT_GT(states(b), 0);
    EXPECT_EQ(states(a), 2 * states(b));
    EXPECT_LE(b.step_time_s, a.step_time_s);
    narrow["strategy"]["framework"] = "deepspeed", narrow["strategy"]["zero_stage"] = 3;
    const ParseResult refused = parse_scenario(narrow.dump(), {});
    ASSERT_FALSE(refused.scenario);
    EXPECT_EQ(refused.problems.front().where, "/training/moment_dtype");
}

TEST(HostMemory, OfTwoKindsIsReadFromBothAtOnce) {
    Host h;
    h.memory = Bytes::gigabytes(300), h.memory_bandwidth = BytesPerSecond::gigabytes(300);
    EXPECT_EQ(memory_rate(h).gigabytes(), 300);
    h.cxl = Bytes::gigabytes(100), h.cxl_bandwidth = BytesPerSecond::gigabytes(100); // the same rate a byte: both are done together
    EXPECT_DOUBLE_EQ(memory_rate(h).gigabytes(), 400);
    h.cxl_bandwidth = BytesPerSecond::gigabytes(50); // its quarter of the bytes takes longest
    EXPECT_DOUBLE_EQ(memory_rate(h).gigabytes(), 200);
    h.cxl_bandwidth = BytesPerSecond::gigabytes(1000);
    EXPECT_DOUBLE_EQ(memory_rate(h).gigabytes(), 400);
}

TEST(HostMemory, SlowerBehindCxlMakesOffloadSlower) {
    const double without = report(job()).step_time_s;
    double last = 0;
    for (const double rate : {1000.0, 300.0, 100.0, 30.0}) {
        const double step = with(job(), 512, rate);
        EXPECT_GE(step, last) << rate;
        last = step;
    }
    EXPECT_LT(with(job(), 512, 300), without); // as fast as the memory: twice the rate together
    EXPECT_GT(with(job(), 512, 30), without);
}

TEST(HostMemory, CxlMakesRoom) {
    Json small = job();
    small["cluster"]["host"]["memory_gb"] = 2;
    EXPECT_FALSE(report(small).memory.fits);
    small["cluster"]["host"]["cxl_gb"] = 100;
    small["cluster"]["host"]["cxl_gb_per_s"] = 100;
    EXPECT_TRUE(report(small).memory.fits);
}

// All devices of a node copy at the same time: those under one switch share its way to the host bridge.
TEST(HostMemory, CopiesShareTheSwitchesAboveThem) {
    Json flat = job();
    flat["cluster"]["host"]["memory_gb_per_s"] = 100000;
    const auto step = [&](int devices_per_switch, double bridge) {
        Json tree = flat;
        tree["cluster"]["intra_node"] = {{"kind", "pcie"}, {"gb_per_s", 25}};
        tree["cluster"]["intra_node"]["pcie_tree"] = {{"devices_per_switch", devices_per_switch}, {"bridge_gb_per_s", bridge}};
        return report(tree).step_time_s;
    };
    EXPECT_DOUBLE_EQ(step(2, 50), step(4, 100)); // 25 GB/s a device
    EXPECT_DOUBLE_EQ(step(2, 100), step(1, 50)); // its slot limits
    EXPECT_GT(step(4, 25), 1.05 * step(2, 25));
    EXPECT_GT(step(2, 25), 1.05 * step(2, 50));
}

} // namespace
} // namespace orrery::laws

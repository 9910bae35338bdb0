// Does "cluster" mean the same in each of its forms, and do overrides land where they say?
#include "sim/scenario/parse.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

using namespace orrery;

namespace {

ParseResult on(const std::string& cluster, const ParseOptions& options = {}) {
    return parse_scenario(
        R"({"model": "gpt2-124m", "training": {"global_batch_size": 64, "sequence_length": 1024}, "cluster": )" + cluster + "}", options);
}

Cluster cluster_of(const ParseResult& read) {
    EXPECT_TRUE(read.scenario) << to_text(read.problems);
    return read.scenario ? read.scenario->cluster : Cluster{};
}

} // namespace

TEST(ClusterText, APresetTakesOverrides) {
    const Cluster c = cluster_of(on(
        R"({"preset": "dgx-h100", "nodes": 2, "inter_node": {"gbit_per_s": 200}, "device": {"preset": "h100-sxm-80gb", "power_w": 500}})"));
    EXPECT_EQ(c.name, "dgx-h100");
    EXPECT_EQ(c.devices(), 16);
    EXPECT_DOUBLE_EQ(c.inter.nic_bandwidth.gigabytes(), 25);
    EXPECT_EQ(c.inter.nics_per_node, 8);
    EXPECT_EQ(c.inter.latency, Time::microseconds(1.0));
    EXPECT_DOUBLE_EQ(c.device.power_limit_w, 500);
    EXPECT_DOUBLE_EQ(c.device.power_w, 700);
    EXPECT_EQ(c.device.memory, Bytes::mebibytes(81559));
}

TEST(ClusterText, ANamedPresetIsOneNode) { EXPECT_EQ(cluster_of(on("\"dgx-a100-80gb\"")).devices(), 8); }

TEST(ClusterText, AnInlineClusterGetsItsDevicesLinksAndTheLatencyOfTheKind) {
    const ParseResult read =
        on(R"({"device": "a100-sxm-80gb", "nodes": 2, "inter_node": {"kind": "roce", "gbit_per_s": 100, "nics_per_node": 4}})");
    const Cluster c = cluster_of(read);
    EXPECT_DOUBLE_EQ(c.intra.bandwidth.gigabytes(), 300);
    EXPECT_EQ(c.inter.latency, Time::microseconds(3));
    EXPECT_TRUE(read.scenario->defaults.contains("/cluster/inter_node/latency_us"));
    EXPECT_FALSE(read.scenario->defaults.contains("/cluster/inter_node/gbit_per_s"));
}

TEST(ClusterText, AnotherKindOfNetworkHasAnotherLatencyThanThePreset) {
    EXPECT_EQ(cluster_of(on(R"({"preset": "dgx-h100", "nodes": 2, "inter_node": {"kind": "ethernet"}})")).inter.latency,
              Time::microseconds(30));
}

// A preset's node keeps its network and its host, whatever number of devices it is given: a note says so where they count.
TEST(ClusterText, APartOfAPresetsNodeIsNamed) {
    const auto noted = [](const std::string& fields) {
        const ParseResult read = on(R"({"preset": "gb200-nvl72", "devices_per_node": 4, )" + fields + "}");
        EXPECT_TRUE(read.scenario) << to_text(read.problems);
        return read.scenario && std::ranges::any_of(read.scenario->notes, [](const std::string& note) {
                   return note.starts_with("cluster.devices_per_node = 4 instead of gb200-nvl72's 72: a node keeps 72 network ports, 18 a "
                                           "device, its host and the 33600 W that it draws besides");
               });
    };
    EXPECT_TRUE(noted(R"("nodes": 4)"));
    EXPECT_FALSE(noted(R"("nodes": 4, "inter_node": {"nics_per_node": 4})"));
    EXPECT_FALSE(noted(R"("nodes": 1)"));
}

TEST(ClusterText, APathHoldsWhatWouldStandHere) {
    const auto folder = std::filesystem::temp_directory_path() / "orrery_cluster_test";
    std::filesystem::create_directories(folder);
    std::ofstream(folder / "mine.json") << R"({"name": "mine", "device": "h100-sxm-80gb", "nodes": 1, "devices_per_node": 4})";
    ParseOptions options;
    options.base_dir = folder.string();
    const Cluster c = cluster_of(on("\"mine.json\"", options));
    EXPECT_EQ(c.name, "mine");
    EXPECT_EQ(c.devices(), 4);
    std::filesystem::remove_all(folder);
}

TEST(ClusterText, ADeviceOfOnesOwnNeedsNoPreset) {
    const Cluster c = cluster_of(
        on(R"({"nodes": 1, "devices_per_node": 2, "device": {"name": "x1", "processors": 64, "memory_gb": 32, "memory_gb_per_s": 1000,
        "peak_tflops": {"bf16": 200}, "scale_up_gb_per_s": 100, "power_w": 300}})"));
    EXPECT_EQ(c.device.name, "x1");
    EXPECT_EQ(c.device.memory.count, 32'000'000'000);
    EXPECT_DOUBLE_EQ(c.device.peak.at("bf16").value, 200e12);
    EXPECT_DOUBLE_EQ(c.intra.bandwidth.gigabytes(), 100);
}

// Three devices on one switch, one of them by a slower link, and one link of one direction only.
TEST(ClusterText, AnExplicitGraphIsReadAsItIs) {
    const ParseResult read =
        parse_scenario(R"({"model": "gpt2-124m", "training": {"global_batch_size": 64, "micro_batch_size": 1, "sequence_length": 1024},
        "cluster": {"device": "h100-sxm-80gb", "graph": {
            "vertices": [{"name": "a", "kind": "device", "node": 0}, {"name": "b", "kind": "device", "node": 1}, {"name": "s", "kind": "switch"}],
            "links": [{"from": "a", "to": "s", "gb_per_s": 100, "latency_us": 1}, {"from": "b", "to": "s", "gbit_per_s": 400, "latency_us": 2},
                      {"from": "a", "to": "b", "gb_per_s": 10, "duplex": false}]}}})");
    const Cluster c = cluster_of(read);
    ASSERT_TRUE(c.graph);
    EXPECT_EQ(c.devices(), 2);
    EXPECT_EQ(c.nodes, 2);
    ASSERT_EQ(c.graph->edges.size(), 5u);
    EXPECT_DOUBLE_EQ(c.graph->edges[2].bandwidth.gigabytes(), 50);
    EXPECT_EQ(c.graph->edges[2].latency, Time::microseconds(2));
    EXPECT_EQ(c.graph->edges[4].from, 0);
    EXPECT_EQ(c.graph->edges[4].to, 1);
}

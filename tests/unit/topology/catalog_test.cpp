// Does every preset load, say where each of its numbers is from, and hold together?
#include "topology/catalog.hpp"
#include "topology/fabric.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace orrery {
namespace {

using Json = nlohmann::json;

// JSON paths ("intra_node.gb_per_s") of all numbers but those in "sources".
void numbers(const Json& json, const std::string& prefix, std::vector<std::string>& out) {
    for (const auto& [key, value] : json.items()) {
        const std::string path = prefix.empty() ? key : prefix + "." + key;
        if (value.is_object()) {
            if (key != "sources") numbers(value, path, out);
        } else if (value.is_number()) {
            out.push_back(path);
        }
    }
}

void expect_sourced(const EmbeddedFile& file) {
    const Json json = Json::parse(file.text);
    EXPECT_EQ(json.at("name"), file.name);
    const Json& sources = json.at("sources");
    std::vector<std::string> paths;
    numbers(json, "", paths);
    EXPECT_FALSE(paths.empty());
    for (const auto& path : paths)
        EXPECT_TRUE(sources.contains(path) || sources.contains(path.substr(0, path.find('.'))))
            << file.name << ": " << path << " has no source";
    for (const auto& [path, text] : sources.items()) {
        EXPECT_TRUE(json.contains(Json::json_pointer("/" +
                                                     [&] {
                                                         auto p = path;
                                                         std::replace(p.begin(), p.end(), '.', '/');
                                                         return p;
                                                     }())))
            << file.name << ": a source for " << path << ", which is not there";
        const std::string said = text;
        const auto kind = said.substr(0, said.find(':'));
        EXPECT_TRUE(kind == "datasheet" || kind == "driver" || kind == "published" || kind == "measured" || kind == "assumed" ||
                    kind == "convention")
            << file.name << ": " << path << ": \"" << said << "\" does not begin with what kind of source it is";
    }
}

TEST(Catalog, EveryNumberOfEveryDeviceHasASource) {
    for (const auto& file : device_files()) expect_sourced(file);
}

TEST(Catalog, EveryNumberOfEveryClusterHasASource) {
    for (const auto& file : cluster_files()) expect_sourced(file);
}

TEST(Catalog, AllPresetsAreThere) {
    for (const char* name : {"v100-sxm2-16gb",
                             "v100-sxm2-32gb",
                             "a100-sxm-40gb",
                             "a100-sxm-80gb",
                             "a100-pcie-80gb",
                             "h100-sxm-80gb",
                             "h100-pcie-80gb",
                             "h800-sxm-80gb",
                             "h200-sxm-141gb",
                             "b200-192gb",
                             "b300-288gb",
                             "gb200",
                             "gb300",
                             "l40s",
                             "rtx-4090",
                             "mi250x",
                             "mi300x",
                             "mi325x",
                             "mi355x",
                             "tpu-v4",
                             "tpu-v5p",
                             "tpu-v5e",
                             "tpu-v6e",
                             "tpu-v7x",
                             "a800-sxm-80gb",
                             "h20-sxm-96gb",
                             "l20",
                             "rtx-3090",
                             "cpu"})
        EXPECT_TRUE(find_device(name)) << name;
    for (const char* name :
         {"dgx-v100",           "dgx-a100-40gb", "dgx-a100-80gb", "dgx-h100",    "dgx-h200",     "dgx-b200",    "gb200-nvl72",
          "gb300-nvl72",        "aws-p4d",       "aws-p5",        "azure-ndv4",  "azure-ndv5",   "gcp-a3",      "h800-deepseek",
          "azure-nd-mi300x-v5", "frontier",      "tpu-v4-pod",    "tpu-v5p-pod", "tpu-v5e-pod",  "tpu-v6e-pod", "tpu-v7x-pod",
          "local-cpu",          "aws-p5en",      "aws-p6-b200",   "gcp-a3-mega", "gcp-a3-ultra", "gcp-a4",      "azure-ndv5-h200"})
        EXPECT_TRUE(find_cluster(name)) << name;
    EXPECT_FALSE(find_device("h100"));
    EXPECT_FALSE(find_cluster("dgx"));
    EXPECT_FALSE(find_cluster("h100-sxm-80gb"));
}

TEST(Catalog, DevicesArePlausible) {
    for (const auto& name : device_names()) {
        const Device d = *find_device(name);
        SCOPED_TRACE(name);
        EXPECT_FALSE(d.title.empty());
        EXPECT_GT(d.processors, 0);
        EXPECT_GE(d.memory.gigabytes(), 15);
        EXPECT_GT(d.memory_bandwidth.gigabytes(), 10);
        EXPECT_GT(d.l2_cache.count, 0);
        EXPECT_GT(d.scale_up.value, 0);
        ASSERT_TRUE(d.peak.contains("fp32"));
        // Narrower types are never slower, and a chip is a few FLOPs to a few thousand a byte, not a unit slip away from that.
        double before = d.peak.at("fp32").value;
        for (const char* precision : {"tf32", "bf16", "fp8", "nvfp4"})
            if (const auto it = d.peak.find(precision); it != d.peak.end() && d.vendor != "cpu") {
                EXPECT_GE(it->second.value, before) << precision;
                before = it->second.value;
            }
        EXPECT_GT(before / d.memory_bandwidth.value, 2);
        EXPECT_LT(before / d.memory_bandwidth.value, 3000);
    }
}

TEST(Catalog, MemoryIsWhatTheDriverShows) {
    EXPECT_EQ(find_device("h100-sxm-80gb")->memory, Bytes::mebibytes(81559));
    EXPECT_EQ(find_device("a100-sxm-80gb")->memory, Bytes::mebibytes(81920));
    EXPECT_EQ(find_device("gb200")->memory, Bytes::mebibytes(189471));
}

TEST(Catalog, H800IsAnH100WithLessNvlink) {
    const Device h100 = *find_device("h100-sxm-80gb"), h800 = *find_device("h800-sxm-80gb");
    EXPECT_EQ(h800.peak, h100.peak);
    EXPECT_EQ(h800.memory_bandwidth, h100.memory_bandwidth);
    EXPECT_EQ(h800.scale_up, BytesPerSecond::gigabytes(200));
    EXPECT_EQ(h100.scale_up, BytesPerSecond::gigabytes(450));
}

TEST(Catalog, ClustersBuildAtOneNodeAndAtFour) {
    for (const auto& name : cluster_names())
        for (const int nodes : {1, 4}) {
            SCOPED_TRACE(name);
            Cluster c = *find_cluster(name);
            c.nodes = nodes;
            ASSERT_TRUE(cluster_problems(c).empty());
            const Fabric fabric(c);
            EXPECT_EQ(fabric.devices(), nodes * c.devices_per_node);
            EXPECT_GT(fabric.bisection_bandwidth().value, 0);
            for (int b = 1; b < fabric.devices(); b += 3) {
                EXPECT_GT(fabric.narrowest(0, b).value, 0);
                EXPECT_LE(fabric.narrowest(0, b).value, c.device.scale_up.value * 1.001);
                EXPECT_GT(fabric.latency(0, b), Time{});
            }
        }
}

TEST(Catalog, AClusterAgreesWithItsDevice) {
    for (const auto& name : cluster_names()) {
        const Cluster c = *find_cluster(name);
        EXPECT_EQ(c.intra.bandwidth, c.device.scale_up) << name;
        EXPECT_EQ(c.nodes, 1) << name;
    }
}

} // namespace
} // namespace orrery

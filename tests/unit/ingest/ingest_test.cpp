// Is what importers make of a file what the file says, and does simrun take it? Small files of each format stand in files/; real ones are
// read where they are at hand.
#include "sim/scenario/parse.hpp"
#include "topology/fabric.hpp"
#include "topology/ingest/compose.hpp"
#include "topology/ingest/text.hpp"
#include "topology/ingest/xml.hpp"
#include "topology/ingest/yaml.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <fstream>
#include <sstream>

using namespace orrery;
using namespace orrery::ingest;
namespace fs = std::filesystem;
using Json = nlohmann::json;

namespace {

const fs::path files = ORRERY_SOURCE_DIR "/tests/unit/ingest/files";
const fs::path real_files = ORRERY_SOURCE_DIR "/../shared/samples";

InputFile input(const fs::path& path) {
    std::ifstream stream(path, std::ios::binary);
    std::stringstream text;
    text << stream.rdbuf();
    return {path.filename().string(), text.str()};
}

Ingested ingest_files(std::vector<std::string> names, IngestOptions options = {}) {
    std::vector<InputFile> inputs;
    for (const std::string& name : names) inputs.push_back(input(files / name));
    return orrery::ingest::ingest(inputs, options);
}

IngestOptions with_device(const char* device) {
    IngestOptions options;
    options.device = device;
    return options;
}

// The scenario parser's word on a cluster's text.
ParseResult scenario_on(const std::string& text) {
    const Json cluster = Json::parse(text);
    int devices = cluster.value("nodes", 0) * cluster.value("devices_per_node", 0);
    if (cluster.contains("graph"))
        for (const Json& v : cluster.at("graph").at("vertices")) devices += v.at("kind") == "device" ? 1 : 0;
    const Json scenario{{"model", "gpt2-124m"},
                        {"cluster", cluster},
                        {"training", {{"global_batch_size", devices}, {"micro_batch_size", 1}, {"sequence_length", 1024}}},
                        {"strategy", {{"framework", "fsdp"}}}};
    return parse_scenario(scenario.dump(), {});
}

Cluster accepted(const Ingested& ingested) {
    const ParseResult read = scenario_on(ingested.cluster);
    EXPECT_TRUE(read.scenario) << to_text(read.problems) << ingested.cluster;
    return read.scenario ? read.scenario->cluster : Cluster{};
}

std::string error_of(const std::string& text, const char* from = "") {
    IngestOptions options = with_device("h100-sxm-80gb");
    options.from = from;
    const InputFile file{"f", text};
    try {
        (void)orrery::ingest::ingest(std::span(&file, 1), options);
    } catch (const IngestError& e) { return e.what(); }
    return "";
}

bool assumes(const Ingested& i, const std::string& field) {
    return std::any_of(i.assumed.begin(), i.assumed.end(), [&](const Assumption& a) { return a.field == field; });
}

} // namespace

TEST(Ingest, NcclDumpSaysDeviceLinksAndTheNicsNearItsGpus) {
    const Ingested i = ingest_files({"node.xml"});
    const Cluster c = accepted(i);
    EXPECT_EQ(c.device.name, "h100-sxm-80gb");
    EXPECT_EQ(c.nodes, 1);
    EXPECT_EQ(c.devices_per_node, 2);
    EXPECT_EQ(c.intra.kind, IntraKind::nvswitch);
    EXPECT_DOUBLE_EQ(c.intra.bandwidth.value, 18 * 25e9);
    EXPECT_EQ(c.inter.kind, InterKind::infiniband);
    EXPECT_EQ(c.inter.nics_per_node, 2) << "the card outside the GPUs' PCIe switches is left out";
    EXPECT_DOUBLE_EQ(c.inter.nic_bandwidth.value, 400e9 / 8);
    EXPECT_DOUBLE_EQ(c.host.pcie_bandwidth.value, 64e9);
    EXPECT_FALSE(assumes(i, "device"));
    EXPECT_TRUE(assumes(i, "nodes"));
    EXPECT_TRUE(assumes(i, "inter_node.topology"));
}

TEST(Ingest, EveryAssumptionIsMarkedInTheFileToo) {
    for (const char* name : {"node.xml", "matrix.txt", "fabric.txt", "topology.conf", "network.yml", "simai.topo"}) {
        const Ingested i = ingest_files({name}, with_device("h100-sxm-80gb"));
        const Json sources = Json::parse(i.cluster).at("sources");
        std::size_t marked = 0;
        for (const auto& [field, text] : sources.items()) marked += text.get<std::string>().starts_with("assumed: ") ? 1 : 0;
        EXPECT_EQ(marked, i.assumed.size()) << name;
        for (const Assumption& a : i.assumed) EXPECT_EQ(sources.at(a.field), "assumed: " + a.why) << name;
        // A number in the file is stated by a source, one way or the other.
        for (const char* section : {"intra_node", "inter_node"}) {
            const Json stated = Json::parse(i.cluster).value(section, Json::object());
            for (const auto& [key, value] : stated.items())
                EXPECT_TRUE(sources.contains(std::string(section) + "." + key) || sources.contains(section))
                    << name << " " << section << "." << key;
        }
    }
}

TEST(Ingest, ANodeAndItsFabricTogether) {
    const Ingested i = ingest_files({"node.xml", "fabric.txt"});
    const Cluster c = accepted(i);
    EXPECT_EQ(c.nodes, 4);
    EXPECT_EQ(c.devices_per_node, 2);
    EXPECT_EQ(c.inter.topology, InterTopology::rail_optimized);
    EXPECT_EQ(c.inter.nodes_per_leaf, 4);
    EXPECT_DOUBLE_EQ(c.inter.oversubscription, 2.0) << "four ports of 400 down, two up";
    EXPECT_TRUE(i.assumed.empty());
}

TEST(Ingest, TheGraphHasThePcieTreeAndTheSwitchesOfTheFabric) {
    IngestOptions options;
    options.graph = true;
    const Cluster c = accepted(ingest_files({"node.xml", "fabric.txt"}, options));
    ASSERT_TRUE(c.graph);
    EXPECT_EQ(c.devices(), 8);
    int nics = 0, switches = 0, hosts = 0;
    for (const auto& v : c.graph->vertices) {
        nics += v.kind == ExplicitGraph::VertexKind::nic ? 1 : 0;
        switches += v.kind == ExplicitGraph::VertexKind::switch_ ? 1 : 0;
        hosts += v.kind == ExplicitGraph::VertexKind::host ? 1 : 0;
    }
    EXPECT_EQ(nics, 8);
    EXPECT_EQ(hosts, 8) << "two sockets a node";
    EXPECT_EQ(switches, 4 + 4 * (2 + 1)) << "four of the fabric; in each node two PCIe switches and the NVSwitch";
    const Fabric fabric(c);
    EXPECT_DOUBLE_EQ(fabric.narrowest(0, 2).value, 400e9 / 8) << "from node to node on one rail, as fast as a NIC";
    EXPECT_DOUBLE_EQ(fabric.narrowest(0, 1).value, 450e9);
}

TEST(Ingest, HwlocStatesMemoryModelAndNvlinks) {
    const Cluster c = accepted(ingest_files({"lstopo.xml"}));
    EXPECT_EQ(c.device.name, "a100-sxm-80gb");
    EXPECT_DOUBLE_EQ(c.intra.bandwidth.value, 300e9);
    EXPECT_EQ(c.intra.kind, IntraKind::nvlink_mesh) << "the two GPUs are joined to each other, no switch is listed";
    EXPECT_DOUBLE_EQ(c.host.memory.gigabytes(), 512);
    EXPECT_NEAR(c.host.pcie_bandwidth.value, 32e9, 1e6) << "before the encoding, as everywhere here";
}

TEST(Ingest, MatrixWithEscapesAndLegend) {
    const InputFile file = input(files / "matrix.txt");
    const NodeFacts node = read_nvidia_smi(file);
    EXPECT_EQ(node.count(Part::Kind::gpu), 4);
    EXPECT_EQ(node.count(Part::Kind::socket), 2);
    EXPECT_EQ(node.count(Part::Kind::bridge), 2) << "two GPUs and a NIC below each";
    EXPECT_EQ(node.parts.back().name, "mlx5_3");
    const Ingested i = ingest_files({"matrix.txt"});
    EXPECT_EQ(accepted(i).intra.kind, IntraKind::nvswitch);
    EXPECT_TRUE(assumes(i, "device"));
    EXPECT_TRUE(assumes(i, "inter_node.gbit_per_s"));
}

// Two rings are a torus of that shape, whose rows close; on fewer nodes it has the usual one.
TEST(Ingest, TwoRingsAreATorusOfTheirShape) {
    const Cluster torus = accepted(ingest_files({"torus.yml"}, with_device("tpu-v4")));
    EXPECT_EQ(torus.devices(), 32);
    EXPECT_EQ(torus.inter.shape, (std::vector<int>{4, 8}));
    EXPECT_EQ(torus.inter.wrap, (std::vector<bool>{true, true}));
    EXPECT_DOUBLE_EQ(Fabric(torus).narrowest(0, 1).gigabytes(), 50) << "a link as the file has it";
    IngestOptions fewer = with_device("tpu-v4");
    fewer.nodes = 2;
    EXPECT_TRUE(accepted(ingest_files({"torus.yml"}, fewer)).inter.shape.empty());
}

TEST(Ingest, SlurmTreesAndBlocks) {
    const Cluster tree = accepted(ingest_files({"topology.conf"}, with_device("h100-sxm-80gb")));
    EXPECT_EQ(tree.nodes, 42);
    EXPECT_EQ(tree.inter.nodes_per_leaf, 16);
    const Cluster blocks = accepted(ingest_files({"blocks.conf"}, with_device("gb200")));
    EXPECT_EQ(blocks.nodes, 36);
    EXPECT_EQ(blocks.devices_per_node, 4);
    EXPECT_EQ(blocks.intra.domain_nodes, 18) << "a block of trays is a rack, and its devices share its switches";
    const Cluster leaves = accepted(ingest_files({"blocks.conf"}, with_device("h100-sxm-80gb")));
    EXPECT_EQ(leaves.inter.nodes_per_leaf, 18);
    EXPECT_EQ(leaves.intra.domain_nodes, 1);
    const Cluster yaml = accepted(ingest_files({"topology.yaml"}, with_device("h100-sxm-80gb")));
    EXPECT_EQ(yaml.nodes, 8);
    EXPECT_EQ(yaml.inter.nodes_per_leaf, 4);
}

TEST(Ingest, SimulatorsFiles) {
    const Cluster astra = accepted(ingest_files({"network.yml"}, with_device("h100-sxm-80gb")));
    EXPECT_EQ(astra.nodes, 4);
    EXPECT_DOUBLE_EQ(astra.intra.bandwidth.value, 400e9);
    EXPECT_DOUBLE_EQ(astra.inter.nic_bandwidth.value, 50e9);
    EXPECT_EQ(astra.inter.latency, Time::microseconds(2));
    const Cluster simai = accepted(ingest_files({"simai.topo"}));
    EXPECT_EQ(simai.device.name, "a100-sxm-80gb");
    EXPECT_EQ(simai.nodes, 2);
    EXPECT_EQ(simai.devices_per_node, 4);
    EXPECT_DOUBLE_EQ(simai.intra.bandwidth.value, 300e9);
    EXPECT_EQ(simai.inter.nics_per_node, 4);
    EXPECT_DOUBLE_EQ(simai.inter.oversubscription, 2.0);
}

TEST(Ingest, WhatTheUserStatesComesFirst) {
    IngestOptions options = with_device("h200-sxm-141gb");
    options.nodes = 16, options.nic_gbit = 800, options.network = "roce";
    const Ingested i = ingest_files({"node.xml"}, options);
    const Cluster c = accepted(i);
    EXPECT_EQ(c.device.name, "h200-sxm-141gb");
    EXPECT_EQ(c.nodes, 16);
    EXPECT_EQ(c.inter.kind, InterKind::roce);
    EXPECT_DOUBLE_EQ(c.inter.nic_bandwidth.value, 100e9);
    EXPECT_FALSE(assumes(i, "nodes"));
}

TEST(Ingest, TwoNodesOrTwoFabricsAreRefused) {
    EXPECT_THROW((void)ingest_files({"node.xml", "lstopo.xml"}), IngestError);
    EXPECT_THROW((void)ingest_files({"fabric.txt", "topology.conf"}), IngestError);
}

TEST(Ingest, XmlReadsNothingOutsideTheFileAndHasLimits) {
    EXPECT_NE(error_of("<!DOCTYPE system [<!ENTITY a \"aaaa\">]>\n<system version=\"1\">&a;</system>").find("an entity is declared"),
              std::string::npos);
    EXPECT_NE(error_of("<!DOCTYPE system [<!ENTITY a SYSTEM \"file:///etc/passwd\">]><system>&a;</system>").find("an entity is declared"),
              std::string::npos);
    std::string deep;
    for (int i = 0; i < 100'000; ++i) deep += "<system>";
    EXPECT_NE(error_of(deep).find("nested more than 64 deep"), std::string::npos);
    EXPECT_NE(error_of("<system><cpu></system>").find("f:1: the XML is damaged or cut off"), std::string::npos);
}

TEST(Ingest, YamlSubset) {
    const InputFile file{"f", "a: [1, {b: \"x, y\", c: n[1-3,5]}]  # note\nd:\n- e: 1\n  f:\n    - 2\n- g\n"};
    const YamlValue y = read_yaml(file);
    ASSERT_NE(y.field("a"), nullptr);
    EXPECT_EQ(y.field("a")->items.at(0).text, "1");
    EXPECT_EQ(y.field("a")->items.at(1).field("b")->text, "x, y");
    EXPECT_EQ(y.field("a")->items.at(1).field("c")->text, "n[1-3,5]");
    EXPECT_EQ(y.field("d")->items.at(0).field("f")->items.at(0).text, "2");
    EXPECT_EQ(y.field("d")->items.at(1).text, "g");
    EXPECT_EQ(y.field("d")->items.at(0).line, 3);
    EXPECT_THROW((void)read_yaml({"f", "a: &x 1\nb: *x\n"}), IngestError);
    EXPECT_THROW((void)read_yaml({"f", "a: [1, 2\n"}), IngestError);
    EXPECT_THROW((void)read_yaml({"f", "a: " + std::string(100'000, '[') + std::string(100'000, ']')}), IngestError);
}

TEST(Ingest, HostLists) {
    const auto names = host_list("n[08-11]x,m1,r[1-2]c[1,3]");
    ASSERT_TRUE(names);
    EXPECT_EQ(*names, (std::vector<std::string>{"n08x", "n09x", "n10x", "n11x", "m1", "r1c1", "r1c3", "r2c1", "r2c3"}));
    for (const char* bad : {"", "n[", "n[1-", "n]1[", "n[3-1]", "n[1-9999999]", "n[[1]]", "a,,b", "n[1-1000000]m[1-1000000]"})
        EXPECT_FALSE(host_list(bad)) << bad;
}

// Counts taken by another program from real files.
TEST(Ingest, RealFilesHoldWhatTheyAreCountedToHold) {
    if (!fs::exists(real_files / "expected.json")) GTEST_SKIP() << "no real files at hand";
    const Json expected = Json::parse(input(real_files / "expected.json").text);
    int met = 0;
    for (const auto& [name, counts] : expected.items()) {
        const InputFile file = input(real_files / name);
        SCOPED_TRACE(name);
        if (name.starts_with("nccl_xml/")) {
            if (counts.at("root") != "system" || counts.at("classes").contains("null")) {
                EXPECT_THROW((void)read_nccl_xml(file), IngestError);
            } else {
                const NodeFacts node = read_nccl_xml(file);
                const auto has = [&](const char* what) { return node.counts.contains(what) ? node.counts.at(what) : 0; };
                EXPECT_EQ(has("cpu"), counts.at("cpus"));
                EXPECT_EQ(has("pci"), counts.at("pci"));
                EXPECT_EQ(has("gpu"), counts.at("gpu_elements"));
                EXPECT_EQ(has("net"), counts.at("net_elements"));
                EXPECT_EQ(has("nvlink"), counts.at("nvlink"));
                EXPECT_EQ(has("xgmi"), counts.at("xgmi"));
                EXPECT_EQ(has("nvlink_sum"), counts.value("nvlink_count_sum", 0));
                for (const auto& [type, n] : counts.at("classes").items()) EXPECT_EQ(has(("class " + type).c_str()), n) << type;
            }
            ++met;
        } else if (name.starts_with("hwloc_xml/")) {
            if (name.find("cxl") != std::string::npos) { // no GPU
                EXPECT_THROW((void)read_hwloc_xml(file), IngestError);
                continue;
            }
            const NodeFacts node = read_hwloc_xml(file);
            for (const auto& [type, n] : counts.at("objects").items()) EXPECT_EQ(node.counts.at(type), n) << type;
            ++met;
        } else if (name.starts_with("ibnetdiscover/")) {
            const FabricFacts f = read_ibnetdiscover(file);
            EXPECT_EQ(f.counts.at("switch"), counts.at("switches"));
            EXPECT_EQ(f.counts.at("ca"), counts.at("cas"));
            EXPECT_EQ(f.counts.at("aggregation"), counts.at("aggregation_cas"));
            EXPECT_EQ(f.counts.at("link_ends"), counts.at("link_ends"));
            // The count there takes the first word of each adapter's name, so cards that name no host are one host more.
            EXPECT_EQ(f.counts.at("host") + 1, counts.at("hosts"));
            EXPECT_DOUBLE_EQ(f.nic_gbit, 400);
            ++met;
        } else if (name.starts_with("simai/")) {
            const SystemFacts s = read_simai(file);
            EXPECT_EQ(s.fabric->counts.at("links"), counts.at("links"));
            EXPECT_EQ(s.fabric->counts.at("nvswitches"), counts.at("nvswitches"));
            EXPECT_EQ(s.fabric->counts.at("switches"), counts.at("switches"));
            EXPECT_EQ(s.node->count(Part::Kind::gpu), counts.at("gpus_per_server"));
            ++met;
        }
    }
    EXPECT_GE(met, 20);
}

// Every real file that can be read gives a cluster that simrun takes, in both forms.
TEST(Ingest, RealFilesGiveClustersThatAreTaken) {
    if (!fs::exists(real_files)) GTEST_SKIP() << "no real files at hand";
    int taken = 0;
    for (const char* folder : {"nccl_xml", "hwloc_xml", "nvidia_smi_topo", "ibnetdiscover", "slurm_topology", "astra_sim", "simai"})
        for (const auto& entry : fs::directory_iterator(real_files / folder)) {
            const InputFile file = input(entry.path());
            for (const bool graph : {false, true}) {
                IngestOptions options = with_device("h100-sxm-80gb");
                options.graph = graph;
                try {
                    (void)accepted(orrery::ingest::ingest(std::span(&file, 1), options));
                    ++taken;
                } catch (const IngestError& e) { EXPECT_TRUE(std::string(e.what()).starts_with(file.name)) << e.what(); }
            }
        }
    EXPECT_GE(taken, 40);
}

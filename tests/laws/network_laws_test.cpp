// Networks in depth: is what is drawn another way the same, does a group run at the slowest, are folded and unfolded runs alike, and do
// collisions and bad links cost what was published?
#include "sim/cost/collectives.hpp"
#include "sim/report/report.hpp"
#include "tests/laws/scenarios.hpp"
#include "tests/laws/simulations.hpp"
#include "topology/catalog.hpp"

#include <fmt/format.h>

namespace orrery::laws {
namespace {

// A job of data, tensor and pipeline parallelism on this cluster.
Scenario job(const std::string& cluster, int devices, int tp = 2, int pp = 2, const std::string& strategy = "") {
    Gpt g;
    g.tp = tp;
    g.pp = pp;
    g.dp = devices / tp / pp;
    g.zero = 1;
    g.hidden = 2048;
    g.cluster = cluster;
    g.extra_strategy = strategy;
    Scenario s = g.make();
    s.runtime.year = 2022; // before the host's calls are known: with them a model this small waits for its host alone
    return s;
}

void expect_folds(const Scenario& s, const std::string& what) {
    PredictOptions flat;
    flat.simulate.fold = false;
    const double unfolded = predict(s, flat).report.step_time_s;
    EXPECT_NEAR(step_of(s), unfolded, 1e-9 * unfolded) << what;
}

// Time of one collective alone, us.
double alone(const Cluster& c, CollectiveKind kind, double bytes, const std::vector<int>& ranks,
             CollectiveAlgorithm wish = CollectiveAlgorithm::ring, std::string* algorithm = nullptr) {
    Scenario s;
    s.cluster = c;
    s.strategy.collective_algorithm = wish;
    const Fabric fabric(c);
    const CostModel model(s, fabric);
    const CommCost cost = model.collective({kind, 0, {static_cast<std::int64_t>(bytes)}, DType::bf16}, ranks);
    if (algorithm) *algorithm = cost.algorithm;
    return cost.latency.seconds() * 1e6 + cost.payload / cost.cap.value * 1e6;
}

std::vector<int> all_of(const Cluster& c) {
    std::vector<int> ranks;
    for (int r = 0; r < c.devices(); ++r) ranks.push_back(r);
    return ranks;
}

TEST(NetworkLaws, FoldedAsUnfolded) {
    const char* clusters[] = {
        R"({"preset": "dgx-h100", "nodes": 8, "inter_node": {"topology": "dual-plane", "nodes_per_leaf": 2}})",
        R"({"preset": "dgx-h100", "nodes": 8, "inter_node": {"topology": "dual-plane", "nodes_per_leaf": 2, "routing": "ecmp", "queue_pairs": 4}})",
        R"({"preset": "dgx-h100", "nodes": 8, "inter_node": {"topology": "fat-tree", "nodes_per_leaf": 2, "routing": "planned", "down": [{"leaf": 1, "uplinks": 3}]}})",
        R"({"preset": "dgx-h100", "nodes": 8, "inter_node": {"topology": "fat-tree", "nodes_per_leaf": 2, "routing": "adaptive", "down": [{"leaf": 1, "uplinks": 12, "share": 0.9}]}})",
        R"({"preset": "dgx-h100", "nodes": 8, "inter_node": {"down": [{"node": 3, "nic": 5}]}})",
        R"({"preset": "dgx-h100", "nodes": 8, "inter_node": {"ports_per_nic": 2, "down": [{"node": 3, "nic": 5, "port": 1}]}})",
        R"({"preset": "dgx-h100", "nodes": 8, "inter_node": {"down": [{"node": 0, "nic": 0, "flaps_per_hour": 60, "flap_s": 20}]}})",
        R"({"preset": "dgx-h100", "nodes": 8, "intra_node": {"kind": "pcie", "gb_per_s": 64, "pcie_tree": {"devices_per_switch": 2, "sockets": 2}}})",
        R"({"preset": "dgx-h100", "nodes": 8, "intra_node": {"kind": "pcie", "gb_per_s": 64, "pcie_tree": {"devices_per_switch": 2, "sockets": 2, "near_nics": false}}})",
        R"({"preset": "dgx-h100", "nodes": 16, "devices_per_node": 4, "inter_node": {"nics_per_node": 4}, "intra_node": {"domain_nodes": 2}})",
        R"({"preset": "dgx-h100", "nodes": 8, "others": [{"nodes": 3, "device": "a100-sxm-80gb"}]})",
        R"({"preset": "dgx-h100", "nodes": 8, "others": [{"nodes": 2, "device": "a100-sxm-80gb", "gbit_per_s": 200}, {"nodes": 1, "device": "h200-sxm-141gb"}]})",
    };
    for (const char* cluster : clusters) expect_folds(job(cluster, 64), cluster);
}

// Trays of a rack as nodes under one switch, or the rack as one node: the same links, so the same step.
TEST(NetworkLaws, ADomainOfNodesIsOneNodeInAllThatTakesTime) {
    const auto trays = job(R"({"preset": "dgx-h100", "nodes": 8, "devices_per_node": 4, "intra_node": {"domain_nodes": 2},
        "inter_node": {"nics_per_node": 4}})",
                           32);
    const auto nodes = job(R"({"preset": "dgx-h100", "nodes": 4, "inter_node": {"nics_per_node": 8}})", 32);
    EXPECT_NEAR(step_of(trays), step_of(nodes), 1e-9 * step_of(nodes));
    const auto apart = job(R"({"preset": "dgx-h100", "nodes": 8, "devices_per_node": 4, "inter_node": {"nics_per_node": 4}})", 32, 8, 1);
    const auto together = job(R"({"preset": "dgx-h100", "nodes": 8, "devices_per_node": 4, "intra_node": {"domain_nodes": 2},
        "inter_node": {"nics_per_node": 4}})",
                              32, 8, 1);
    EXPECT_LT(step_of(together), 0.8 * step_of(apart)) << "tensor parallelism of eight over two nodes";
}

// User buffers are mapped into all devices of one NVLink domain: tensor parallelism of eight over two trays has them as within a node.
TEST(NetworkLaws, ADomainOfNodesHasUserBuffers) {
    const auto step = [](const std::string& nodes) {
        return step_of(scenario(R"({"model": {"preset": "llama3-8b", "layers": 4},
            "training": {"global_batch_size": 16, "micro_batch_size": 1, "sequence_length": 8192, "precision": "bf16"},
            "strategy": {"framework": "nemo", "tensor_parallel": 8, "sequence_parallel": true, "zero_stage": 1}, "runtime": {"year": 2025},
            "cluster": {"preset": "gb200-nvl72", )" +
                                nodes + "}}"));
    };
    const double trays =
        step(R"("nodes": 8, "devices_per_node": 4, "inter_node": {"nics_per_node": 4}, "intra_node": {"domain_nodes": 4})");
    const double racks = step(R"("nodes": 2, "devices_per_node": 16, "inter_node": {"nics_per_node": 16})");
    EXPECT_NEAR(trays, racks, 1e-3 * racks);
}

// Synchronous groups run at the slowest: with some A100 among H100 a data-parallel step takes what A100 alone take.
TEST(NetworkLaws, UnlikeNodesRunAtTheSlowest) {
    const std::string inter = R"("inter_node": {"kind": "infiniband", "nics_per_node": 8, "gbit_per_s": 200})";
    const auto with = [&](const std::string& more, const char* device = "h100-sxm-80gb") {
        return job(fmt::format(R"({{"device": "{}", "nodes": 4, "devices_per_node": 8, {}{}}})", device, inter, more), 32, 1, 1);
    };
    const double h100 = step_of(with("")), a100 = step_of(with("", "a100-sxm-80gb"));
    const double mixed = step_of(with(R"(, "others": [{"nodes": 1, "device": "a100-sxm-80gb"}])"));
    EXPECT_GT(a100, 1.2 * h100);
    EXPECT_GE(mixed, 0.995 * a100);
    EXPECT_LE(mixed, 1.01 * a100);
    const double same = step_of(with(R"(, "others": [{"nodes": 2, "device": "h100-sxm-80gb", "gb_per_s": 450, "gbit_per_s": 200}])"));
    EXPECT_NEAR(same, h100, 1e-9 * h100);
    const Report r = predict(with(R"(, "others": [{"nodes": 2, "device": "a100-sxm-40gb"}])")).report;
    EXPECT_NEAR(r.memory.capacity.gigabytes(), find_device("a100-sxm-40gb")->memory.gigabytes(), 1e-9) << "any stage may lie there";
    EXPECT_NEAR(r.peak_tflops_per_gpu, (989.4 + 312) / 2, 1);
}

// A hop inside nodes that takes 5 us more is felt as often as data pass one after another, also where the group spans nodes.
TEST(NetworkLaws, HopsInsideNodesCountWhereAGroupSpansNodes) {
    const auto longer = [](int nodes, int stride, CollectiveKind kind, CollectiveAlgorithm wish) {
        Cluster c = *find_cluster("dgx-h100");
        c.nodes = nodes;
        std::vector<int> ranks;
        for (int r = 0; r < c.devices(); r += stride) ranks.push_back(r);
        c.intra.latency = Time::microseconds(3);
        const double before = alone(c, kind, 1e9, ranks, wish);
        c.intra.latency = Time::microseconds(8);
        return alone(c, kind, 1e9, ranks, wish) - before;
    };
    using enum CollectiveKind;
    EXPECT_NEAR(longer(1, 1, all_gather, CollectiveAlgorithm::ring), 7 * 5, 0.01);
    EXPECT_NEAR(longer(4, 1, all_gather, CollectiveAlgorithm::ring), 4 * 7 * 5, 0.01);
    EXPECT_NEAR(longer(4, 2, reduce_scatter, CollectiveAlgorithm::ring), 4 * 3 * 5, 0.01);
    EXPECT_NEAR(longer(2, 1, all_reduce, CollectiveAlgorithm::ring), 2 * 2 * 7 * 5, 0.01);
    EXPECT_NEAR(longer(4, 1, all_reduce, CollectiveAlgorithm::tree), 2 * 7 * 5, 0.01) << "a chain in each node, up and down";
    EXPECT_NEAR(longer(4, 1, all_reduce, CollectiveAlgorithm::nvls), 2 * 5, 0.01) << "to the switch and back";
    EXPECT_NEAR(longer(4, 1, all_reduce, CollectiveAlgorithm::hierarchical), 2 * 7 * 5, 0.01);
    EXPECT_NEAR(longer(4, 8, all_gather, CollectiveAlgorithm::ring), 0, 1e-9) << "one member a node";
}

// Two devices under a switch, across a host bridge, across sockets: each further apart, each slower, and what the narrow link says.
TEST(NetworkLaws, DistanceInAPcieTreeCosts) {
    Cluster c = *find_cluster("dgx-h100");
    c.nodes = 1;
    c.intra.kind = IntraKind::pcie;
    c.intra.bandwidth = BytesPerSecond::gigabytes(50);
    c.intra.tree = {2, 2, BytesPerSecond::gigabytes(16), BytesPerSecond::gigabytes(10), true};
    const double bytes = 256e6;
    const auto pair = [&](int a, int b) { return alone(c, CollectiveKind::all_gather, bytes, {a, b}); };
    EXPECT_LT(pair(0, 1), pair(0, 2));
    EXPECT_LT(pair(0, 2), pair(0, 4));
    EXPECT_NEAR(pair(0, 4), bytes / 2 / 10e9 * 1e6, 0.05 * pair(0, 4));
    // Eight on four bridges and two sockets: an all-to-all puts 16 of 56 messages on each way between sockets, a ring all it sends.
    const double ring = alone(c, CollectiveKind::all_gather, bytes, all_of(c)),
                 direct = alone(c, CollectiveKind::all_to_all, bytes, all_of(c));
    EXPECT_NEAR(ring, bytes * 7 / 8 / 10e9 * 1e6, 0.06 * ring);
    EXPECT_NEAR(direct, bytes * 16 / 8 / 10e9 * 1e6, 0.06 * direct);
}

// Boards of PCIe: two and four devices share a socket, eight have two of them, unless the scenario says otherwise; NCCL 2.31 on L40S.
TEST(NetworkLaws, DevicesOnPcieHaveTwoSocketsBeyondFour) {
    const auto board = [](int devices, const std::string& more = "") {
        return job(fmt::format(R"({{"device": "l40s", "nodes": 1, "devices_per_node": {}{}}})", devices, more), devices, 1, 1).cluster;
    };
    const auto bus = [&](const Cluster& c, CollectiveKind kind) {
        const double bytes = 256 * 1048576.0;
        return bytes / alone(c, kind, bytes, all_of(c)) * 1e-3 * volume(kind, c.devices_per_node);
    };
    const auto reduce = CollectiveKind::all_reduce, direct = CollectiveKind::all_to_all;
    EXPECT_NEAR(bus(board(2), reduce), 21.5, 0.1 * 21.5);
    EXPECT_NEAR(bus(board(4), reduce), 21.7, 0.1 * 21.7);
    EXPECT_NEAR(bus(board(8), reduce), 14.4, 0.1 * 14.4);
    EXPECT_NEAR(bus(board(4), direct), 20.0, 0.15 * 20.0);
    EXPECT_NEAR(bus(board(8), direct), 7.0, 0.1 * 7.0);
    EXPECT_GE(bus(board(2), reduce), 0.98 * bus(board(4), reduce));
    EXPECT_GT(bus(board(4), reduce), bus(board(8), reduce));
    const Cluster one = board(8, R"(, "intra_node": {"kind": "pcie", "pcie_tree": {"sockets": 1}})"),
                  two = board(8, R"(, "intra_node": {"kind": "pcie", "pcie_tree": {"sockets": 2}})");
    EXPECT_GT(bus(one, direct), 2 * bus(two, direct)) << "sockets count without switches";
    EXPECT_EQ(bus(two, direct), bus(board(8), direct));
    EXPECT_EQ(board(4).intra.tree.sockets, 1);
    const Cluster slow = board(8, R"(, "intra_node": {"kind": "pcie", "pcie_tree": {"socket_gb_per_s": 5}})");
    EXPECT_EQ(slow.intra.tree.sockets, 2) << "the rate of the way between them says nothing of their number";
    EXPECT_LT(bus(slow, direct), bus(two, direct));
}

TEST(NetworkLaws, NearNicsAreNeverSlower) {
    const auto with = [](const char* near_nics) {
        return step_of(job(fmt::format(R"({{"preset": "dgx-h100", "nodes": 4, "intra_node": {{"kind": "pcie", "gb_per_s": 64,
            "pcie_tree": {{"devices_per_switch": 2, "sockets": 2, "bridge_gb_per_s": 20, "near_nics": {}}}}}}})",
                                       near_nics),
                           32, 2, 1));
    };
    EXPECT_LT(with("true"), with("false"));
}

// Where one member a node gathers, aggregated trees have log2(n) hops instead of n - 1, and the ring's bytes.
TEST(NetworkLaws, AggregatedTreesGatherInFewHops) {
    Cluster c = *find_cluster("dgx-h100");
    c.nodes = 64;
    c.inter.topology = InterTopology::single_switch;
    std::vector<int> ranks;
    for (int node = 0; node < c.nodes; ++node) ranks.push_back(node * 8);
    std::string used;
    const double pat = alone(c, CollectiveKind::all_gather, 65536, ranks, CollectiveAlgorithm::pat, &used);
    EXPECT_EQ(used, "pat");
    EXPECT_LT(pat, 0.6 * alone(c, CollectiveKind::all_gather, 65536, ranks));
    const double large = alone(c, CollectiveKind::all_gather, 8e9, ranks, CollectiveAlgorithm::pat);
    EXPECT_NEAR(large, 8e9 * 63 / 64 / 50e9 / 0.92 * 1e6, 0.03 * large);
    alone(c, CollectiveKind::all_gather, 65536, all_of(c), CollectiveAlgorithm::pat, &used);
    EXPECT_TRUE(used.starts_with("ring")) << "several members a node: " << used;
    alone(c, CollectiveKind::all_reduce, 65536, ranks, CollectiveAlgorithm::pat, &used);
    EXPECT_NE(used, "pat") << "it does not reduce for all";
}

// Reductions in switches: as many groups as there are trees, no further apart than the levels that reduce, no 8-bit numbers.
TEST(NetworkLaws, SwitchesReduceWithinTheirLimits) {
    Cluster c = *find_cluster("dgx-h100");
    c.nodes = 16;
    c.inter.topology = InterTopology::fat_tree;
    c.inter.nodes_per_leaf = 4;
    const std::vector<int> all = all_of(c), leaf(all.begin(), all.begin() + 32);
    const auto used = [&](const std::vector<int>& ranks) {
        std::string algorithm;
        alone(c, CollectiveKind::all_reduce, 1e8, ranks, CollectiveAlgorithm::sharp, &algorithm);
        return algorithm;
    };
    EXPECT_EQ(used(all), "sharp");
    EXPECT_EQ(used(leaf), "sharp");
    c.inter.sharp.levels = 1;
    EXPECT_EQ(used(leaf), "sharp");
    EXPECT_EQ(used(all), "ring/Simple");
    c.inter.sharp = {3, 0};
    EXPECT_EQ(used(leaf), "ring/Simple") << "four such groups, three trees";
    c.inter.sharp.trees = 4;
    EXPECT_EQ(used(leaf), "sharp");
    // NICs x delivered, or what the node's inside lets through: with 8 x 400 Gb/s the inside of an H100 binds (CoreWeave: algbw 195).
    const double algbw = 8e9 / alone(c, CollectiveKind::all_reduce, 8e9, leaf, CollectiveAlgorithm::sharp) * 1e-3;
    EXPECT_NEAR(algbw, 195, 0.06 * 195);
}

// Over PCIe a second node never makes an all-reduce faster: what a tree's devices pass on inside is as slow as a ring's.
TEST(NetworkLaws, NodesOfPcieAreNoFasterTogether) {
    for (const double gb_per_s : {16.0, 32.0, 64.0}) {
        Cluster c = *find_cluster("dgx-h100");
        c.intra.kind = IntraKind::pcie;
        c.intra.bandwidth = {gb_per_s * 1e9};
        double before = 0;
        for (const int nodes : {1, 2, 4, 8}) {
            c.nodes = nodes;
            const double us = alone(c, CollectiveKind::all_reduce, 4e9, all_of(c));
            EXPECT_GE(us, before) << nodes << " nodes, " << gb_per_s;
            before = us;
        }
    }
}

// Devices that are all joined in pairs are a mesh, whether a graph says so or the short form.
TEST(NetworkLaws, AGraphOfAMeshIsAMesh) {
    std::string vertices, edges;
    for (int i = 0; i < 8; ++i) {
        vertices += fmt::format(R"({}{{"name": "d{}", "kind": "device", "node": 0}})", i ? ", " : "", i);
        for (int j = i + 1; j < 8; ++j)
            edges += fmt::format(R"({}{{"from": "d{}", "to": "d{}", "gb_per_s": 64, "latency_us": 1}})", edges.empty() ? "" : ", ", i, j);
    }
    const auto cluster = [&](const std::string& links) {
        return parse_scenario(
                   fmt::format(R"({{"model": "llama3-8b", "cluster": {{"device": "mi300x", {}}}, "training": {{"global_batch_size": 8,
            "sequence_length": 1024}}, "strategy": {{"framework": "fsdp2"}}}})",
                               links))
            .scenario.value()
            .cluster;
    };
    const Cluster pairs =
        cluster(R"("nodes": 1, "devices_per_node": 8, "intra_node": {"kind": "infinity-fabric", "gb_per_s": 448, "latency_us": 1})");
    const Cluster graph = cluster(fmt::format(R"("graph": {{"vertices": [{}], "links": [{}]}})", vertices, edges));
    for (const CollectiveKind kind : {CollectiveKind::all_reduce, CollectiveKind::all_gather, CollectiveKind::all_to_all}) {
        const double meant = alone(pairs, kind, 4e9, all_of(pairs));
        EXPECT_NEAR(alone(graph, kind, 4e9, all_of(graph)), meant, 0.02 * meant) << static_cast<int>(kind);
    }
}

// NCCL on 5 to 8 H100 by multicast: algbw 258, 265, 270, 273 GB/s printed (NVIDIA/nccl issue 1455).
TEST(NetworkLaws, MulticastReducesAsPrinted) {
    Cluster c = *find_cluster("dgx-h100");
    c.nodes = 1;
    const double printed[] = {258, 265, 270, 273};
    for (int n = 5; n <= 8; ++n) {
        std::vector<int> ranks;
        for (int r = 0; r < n; ++r) ranks.push_back(r);
        const double algbw = 4e9 / alone(c, CollectiveKind::all_reduce, 4e9, ranks, CollectiveAlgorithm::automatic) * 1e-3;
        EXPECT_NEAR(algbw, printed[n - 5], 0.04 * printed[n - 5]) << n;
    }
}

// All-reduce bandwidth of sixteen nodes, each under a leaf of its own with another job's (fragmented placement), against even paths.
struct Fragmented {
    Cluster c = *find_cluster("dgx-h100");
    std::vector<int> ranks;
    Fragmented() {
        c.nodes = 32;
        c.inter.kind = InterKind::roce;
        c.inter.topology = InterTopology::fat_tree;
        c.inter.nodes_per_leaf = 2;
        for (int node = 0; node < 32; node += 2)
            for (int d = 0; d < 8; ++d) ranks.push_back(node * 8 + d);
    }
    double us() const { return alone(c, CollectiveKind::all_reduce, 1e9, ranks); }
    double loss() const { // of bandwidth, against the same cluster whole and even
        Fragmented whole;
        return 1 - whole.us() / us();
    }
};

// Meta's RoCE fabric (SIGCOMM 2024): plain ECMP cost more than 30 %; 16 queue pairs and twice the uplinks reach line rate.
TEST(Congestion, CollisionsCostWhatMetaSaw) {
    Fragmented f;
    f.c.inter.routing = Routing::ecmp;
    EXPECT_GT(f.loss(), 0.3);
    const double one = f.loss();
    f.c.inter.queue_pairs = 4;
    const double four = f.loss();
    f.c.inter.queue_pairs = 16;
    const double sixteen = f.loss();
    EXPECT_LT(four, one);
    EXPECT_LT(sixteen, four);
    f.c.inter.oversubscription = 0.5;
    EXPECT_LT(f.loss(), 0.1);
}

// Several links down: hashing on queue pairs loses 20 to 52 % (Meta's simulation, spines of 1:1.125), and planned paths less.
TEST(Congestion, LinksDownCostHashedPathsMore) {
    Fragmented f;
    f.c.inter.oversubscription = 1 / 1.125;
    f.c.inter.queue_pairs = 4;
    for (int leaf = 0; leaf < 16; leaf += 4) {
        LinkDown down;
        down.leaf = leaf, down.uplink = leaf / 2, down.uplinks = 3;
        f.c.inter.down.push_back(down);
    }
    f.c.inter.routing = Routing::ecmp;
    const double hashed = f.loss();
    EXPECT_GT(hashed, 0.2);
    EXPECT_LT(hashed, 0.65);
    f.c.inter.routing = Routing::planned;
    const double planned = f.loss();
    f.c.inter.routing = Routing::adaptive;
    const double adaptive = f.loss();
    EXPECT_LT(planned, hashed);
    EXPECT_LE(adaptive, planned + 1e-9);
}

// Links that deliver a part of their rate: without adaptive routing 50 to 75 % of the bandwidth is gone (Meta RSC), with it almost none.
TEST(Congestion, BadLinksNeedAdaptiveRouting) {
    Fragmented f;
    LinkDown bad;
    bad.leaf = 3, bad.uplink = 2, bad.uplinks = 2, bad.share = 0.85;
    f.c.inter.down = {bad};
    f.c.inter.routing = Routing::spray;
    EXPECT_GT(f.loss(), 0.5);
    EXPECT_LT(f.loss(), 0.75);
    f.c.inter.routing = Routing::adaptive;
    EXPECT_LT(f.loss(), 0.05);
}

// A dual-homed NIC that loses a port loses half of its rate; a lost NIC shares its neighbour's; a flapping link loses its share of time.
TEST(Congestion, ARingRunsAtItsSlowestNic) {
    Cluster c = *find_cluster("dgx-h100");
    c.nodes = 8;
    const auto us = [&] { return alone(c, CollectiveKind::all_gather, 4e9, all_of(c)); };
    const double whole = us();
    c.inter.ports_per_nic = 2;
    LinkDown d;
    d.node = 3, d.nic = 5, d.port = 0;
    c.inter.down = {d};
    const double port = us();
    c.inter.down[0].port = -1;
    const double nic = us();
    c.inter.down[0].share = 0.1;
    const double flapping = us();
    EXPECT_LT(whole, flapping);
    EXPECT_LT(flapping, port);
    EXPECT_LE(port, nic * (1 + 1e-9));
    EXPECT_GT(nic, 1.1 * whole);
}

// A synchronous ring goes at the pace of its slowest NIC: one node with slow ones costs what all of them do, whatever share of a NIC its
// protocol reaches.
TEST(Congestion, OneSlowNodeCostsARingWhatAllWould) {
    const auto step = [](const std::string& perturb) {
        return step_of(scenario(fmt::format(R"({{"model": {{"preset": "llama3-8b", "layers": 8}},
            "cluster": {{"preset": "dgx-h100", "nodes": 8, "inter_node": {{"gbit_per_s": 100}}}},
            "training": {{"global_batch_size": 64, "micro_batch_size": 1, "sequence_length": 4096, "precision": "bf16"}},
            "strategy": {{"framework": "fsdp2"}}{}}})",
                                            perturb)));
    };
    const double whole = step("");
    for (const double factor : {1.1, 1.3, 2.0}) {
        const double one = step(fmt::format(R"(, "perturb": [{{"slow": {}, "link": "nic", "node": 3}}])", factor)),
                     all = step(fmt::format(R"(, "perturb": [{{"slow": {}, "link": "nic"}}])", factor));
        EXPECT_GT(all, whole * (1 + 0.5 * (factor - 1))) << factor << ": links bind";
        EXPECT_NEAR(one, all, 0.03 * all) << factor;
    }
    const double one = step(R"(, "perturb": [{"background": 0.2, "link": "nic", "node": 3}])"),
                 all = step(R"(, "perturb": [{"background": 0.2, "link": "nic"}])");
    EXPECT_NEAR(one, all, 0.03 * all);
}

// Eight rings of one member a node, over eight NICs or fewer that are as much faster: what they have together is the same.
TEST(Congestion, RingsThatShareNicsGainNothing) {
    for (const char* kind : {"infiniband", "ethernet"}) {
        const auto step = [&](int nics) {
            return step_of(scenario(fmt::format(R"({{"model": {{"preset": "llama3-8b", "layers": 8}},
                "cluster": {{"preset": "dgx-h100", "nodes": 4, "inter_node": {{"kind": "{}", "nics_per_node": {}, "gbit_per_s": {}}}}},
                "training": {{"global_batch_size": 4, "micro_batch_size": 1, "sequence_length": 2048, "precision": "bf16"}},
                "strategy": {{"framework": "megatron", "tensor_parallel": 8, "zero_stage": 1,
                    "overlap": {{"grad_reduce": false, "param_gather": false}}}}}})",
                                                kind, nics, 200 / nics)));
        };
        const double own = step(8);
        for (const int nics : {4, 2, 1}) {
            EXPECT_GE(step(nics), 0.995 * own) << kind << nics;
            EXPECT_LE(step(nics), 1.05 * own) << kind << nics;
        }
    }
}

} // namespace
} // namespace orrery::laws

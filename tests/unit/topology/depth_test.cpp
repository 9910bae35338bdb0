// Planes, links that are down, PCIe trees, domains of several nodes, unlike nodes: are the links and routes those one would draw by hand?
#include "tests/unit/topology/fabrics.hpp"
#include "topology/catalog.hpp"
#include "topology/fabric.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include <map>

namespace orrery {
namespace {

// Shares of a route on links whose name holds the text.
std::map<std::string, double> shares(const Fabric& f, int a, int b, const std::string& text) {
    std::map<std::string, double> out;
    for (const auto& [link, share] : f.route(a, b))
        if (f.link_name(link).find(text) != std::string::npos) out[f.link_name(link)] += share;
    return out;
}

TEST(DualPlane, ANicHasAPortInEachPlane) {
    const Fabric f(dgx(128, InterTopology::dual_plane));
    const Fabric one(dgx(128, InterTopology::rail_optimized));
    // Ports of half the rate: a leaf has twice as many, 64 nodes instead of 32.
    EXPECT_EQ(names(f, 3, 63 * 8 + 3), (Names{"node0.gpu3 > pcie3", "node0.nic3 > plane0.leaf3", "plane0.leaf3 > node63.nic3",
                                              "node0.nic3 > plane1.leaf3", "plane1.leaf3 > node63.nic3", "node63.pcie3 > gpu3"}));
    for (const auto& [name, share] : shares(f, 3, 63 * 8 + 3, "nic")) EXPECT_DOUBLE_EQ(share, 0.5) << name;
    EXPECT_DOUBLE_EQ(gb(f.narrowest(3, 63 * 8 + 3)), 50);
    EXPECT_DOUBLE_EQ(gb(f.narrowest(3, 127 * 8 + 3)), gb(one.narrowest(3, 127 * 8 + 3)));
    EXPECT_DOUBLE_EQ(gb(f.bisection_bandwidth()), gb(one.bisection_bandwidth()));
    EXPECT_DOUBLE_EQ(gb(f.endpoint_bandwidth(0)), 50);
}

// One queue pair is hashed to one port; many fill both.
TEST(DualPlane, HashesPickThePort) {
    Cluster c = dgx(256, InterTopology::dual_plane);
    c.inter.routing = Routing::ecmp;
    EXPECT_DOUBLE_EQ(gb(Fabric(c).narrowest(0, 8)), 25);
    c.inter.queue_pairs = 64;
    EXPECT_GT(gb(Fabric(c).narrowest(0, 8)), 40);
    double both = 0;
    const Fabric f(c);
    for (const auto& [name, share] : shares(f, 0, 200 * 8, "node0.nic0 >")) both += share;
    EXPECT_NEAR(both, 1, 1e-12);
}

TEST(DualPlane, APortThatIsDownHalvesItsNic) {
    Cluster c = dgx(64, InterTopology::dual_plane);
    LinkDown port;
    port.node = 2, port.nic = 1, port.port = 0;
    c.inter.down = {port};
    const Fabric f(c);
    EXPECT_DOUBLE_EQ(gb(f.narrowest(2 * 8 + 1, 5 * 8 + 1)), 25);
    EXPECT_DOUBLE_EQ(gb(f.narrowest(2 * 8, 5 * 8)), 50);
    EXPECT_DOUBLE_EQ(gb(f.endpoint_bandwidth(2 * 8 + 1)), 25);
    EXPECT_EQ(shares(f, 17, 41, "nic1").size(), 2u) << "all by the other plane";
}

TEST(LinksDown, DevicesOfALostNicTakeTheNext) {
    Cluster c = dgx(4, InterTopology::rail_optimized);
    LinkDown nic;
    nic.node = 1, nic.nic = 7;
    c.inter.down = {nic};
    const Fabric f(c);
    EXPECT_EQ(f.nic_of(8 + 7), 0);
    EXPECT_EQ(f.nic_of(16 + 7), 7);
    EXPECT_EQ(names(f, 8 + 7, 7)[1], "node1.nic0 > leaf0");
    c.inter.ports_per_nic = 2;
    c.inter.down[0].port = 1;
    const Fabric half(c);
    EXPECT_EQ(half.nic_of(8 + 7), 7);
    EXPECT_DOUBLE_EQ(gb(half.narrowest(8 + 7, 7)), 25);
}

// Four nodes under each of two leaves: 32 uplinks of 50 GB/s. Two are down at one leaf.
TEST(LinksDown, RoutingDecidesWhoCarriesWhatALinkCarried) {
    Cluster c = dgx(8, InterTopology::fat_tree);
    LinkDown two;
    two.leaf = 0, two.uplink = 3, two.uplinks = 2;
    c.inter.down = {two};
    const auto load = [&](Routing routing) {
        c.inter.routing = routing;
        const Fabric f(c);
        return shares(f, 0, 32, "leaf0 > spine");
    };
    for (const Routing routing : {Routing::even, Routing::spray, Routing::adaptive}) {
        const auto even = load(routing);
        EXPECT_EQ(even.size(), 30u);
        for (const auto& [name, share] : even) EXPECT_NEAR(share, 1.0 / 30, 1e-12) << name;
    }
    const auto planned = load(Routing::planned);
    EXPECT_EQ(planned.size(), 30u);
    int two_flows = 0;
    for (const auto& [link, share] : planned) {
        EXPECT_TRUE(std::abs(share - 1.0 / 32) < 1e-12 || std::abs(share - 2.0 / 32) < 1e-12) << link << ": whole flows";
        two_flows += share > 1.5 / 32;
    }
    EXPECT_EQ(two_flows, 2) << "those of the two that are down, dealt over the others";
    EXPECT_FALSE(planned.contains("leaf0 > spine3"));
    EXPECT_EQ(load(Routing::ecmp).size(), 1u);

    // A link at a quarter of its rate: only adaptive routing sees it.
    c.inter.down[0].share = 0.75;
    EXPECT_NEAR(load(Routing::even).at("leaf0 > spine3"), 1.0 / 32, 1e-12);
    EXPECT_NEAR(load(Routing::adaptive).at("leaf0 > spine3"), 0.25 / 30.5, 1e-12);
    c.inter.routing = Routing::even;
    EXPECT_DOUBLE_EQ(gb(Fabric(c).narrowest(0, 32)), 50);
}

TEST(LinksDown, WhatIsNotThereOrCutsTheClusterIsRefused) {
    Cluster c = dgx(8, InterTopology::fat_tree);
    const auto problem = [&](const LinkDown& d) {
        c.inter.down = {d};
        const auto found = cluster_problems(c);
        return found.empty() ? std::string() : found[0];
    };
    LinkDown d;
    d.leaf = 2;
    EXPECT_EQ(problem(d), "inter_node.down[0]: leaf 2 is not among the 2 there are (0 to 1)");
    d.leaf = 1, d.uplink = 31, d.uplinks = 2;
    EXPECT_EQ(problem(d), "inter_node.down[0]: uplinks 31 to 32 are not among the 32 of a leaf");
    d.uplink = 0, d.uplinks = 32;
    EXPECT_EQ(problem(d), "inter_node.down leaves leaf 1 without an uplink");
    d = {};
    d.node = 3, d.nic = 8;
    EXPECT_EQ(problem(d), "inter_node.down[0]: nic 8 is not among the 8 of a node");
    d.nic = 7;
    EXPECT_EQ(problem(d), "");
    c.inter.nics_per_node = 1;
    d.nic = 0;
    EXPECT_EQ(problem(d), "inter_node.down leaves node 3 without a NIC");
}

Cluster box(bool near_nics) {
    Cluster c = *find_cluster("dgx-h100");
    c.nodes = 2;
    c.intra.kind = IntraKind::pcie;
    c.intra.bandwidth = BytesPerSecond::gigabytes(32);
    c.inter.topology = InterTopology::fat_tree;
    c.inter.nics_per_node = 2;
    c.intra.tree = {2, 2, BytesPerSecond::gigabytes(28), BytesPerSecond::gigabytes(16), near_nics};
    return c;
}

TEST(PcieTree, DevicesMeetAtASwitchAHostBridgeOrAcrossSockets) {
    const Fabric f(box(true));
    EXPECT_EQ(names(f, 0, 1), (Names{"node0.gpu0 > pcie0", "node0.pcie0 > gpu1"}));
    EXPECT_EQ(names(f, 0, 2), (Names{"node0.gpu0 > pcie0", "node0.pcie0 > socket0", "node0.socket0 > pcie1", "node0.pcie1 > gpu2"}));
    EXPECT_EQ(names(f, 0, 7), (Names{"node0.gpu0 > pcie0", "node0.pcie0 > socket0", "node0.socket0 > socket1", "node0.socket1 > pcie3",
                                     "node0.pcie3 > gpu7"}));
    EXPECT_DOUBLE_EQ(gb(f.narrowest(0, 1)), 32);
    EXPECT_DOUBLE_EQ(gb(f.narrowest(0, 2)), 28);
    EXPECT_DOUBLE_EQ(gb(f.narrowest(0, 7)), 16);
    EXPECT_LT(f.latency(0, 1), f.latency(0, 2));
    EXPECT_LT(f.latency(0, 2), f.latency(0, 7));
    const auto copy = f.copy_route(5, true);
    ASSERT_EQ(copy.size(), 3u);
    EXPECT_EQ(f.link_name(copy[2].link), "node0.socket1 > host");
}

TEST(PcieTree, NicsAreNearOrFar) {
    // Two NICs, the first for the first four devices: on the switch of device 0, or on the first socket's bridge.
    const Fabric near(box(true)), far(box(false));
    EXPECT_EQ(names(near, 0, 8), (Names{"node0.gpu0 > pcie0", "node0.nic0 > leaf0", "leaf0 > node1.nic0", "node1.pcie0 > gpu0"}));
    EXPECT_EQ(names(near, 2, 8)[1], "node0.pcie1 > socket0");
    EXPECT_EQ(names(near, 2, 8)[2], "node0.socket0 > pcie0");
    EXPECT_EQ(names(far, 0, 8), (Names{"node0.gpu0 > pcie0", "node0.pcie0 > socket0", "node0.nic0 > leaf0", "leaf0 > node1.nic0",
                                       "node1.socket0 > pcie0", "node1.pcie0 > gpu0"}));
}

TEST(Domain, NodesUnderOneSwitchAreOneDomain) {
    Cluster c = *find_cluster("gb200-nvl72");
    c.nodes = 36;
    c.devices_per_node = 4;
    c.inter.nics_per_node = 4;
    c.intra.domain_nodes = 18;
    const Fabric f(c);
    EXPECT_EQ(f.nodes(), 36);
    EXPECT_EQ(f.domain_of(71), 0);
    EXPECT_EQ(f.domain_of(72), 1);
    EXPECT_EQ(names(f, 0, 71), (Names{"node0.gpu0 > domain0.nvswitch", "domain0.nvswitch > node17.gpu3"}));
    EXPECT_DOUBLE_EQ(gb(f.narrowest(0, 71)), 900);
    EXPECT_DOUBLE_EQ(gb(f.narrowest(0, 72)), 50);
    EXPECT_EQ(names(f, 3, 72).front(), "node0.gpu3 > pcie3");
}

TEST(UnlikeNodes, HaveLinksOfTheirOwn) {
    Cluster c = dgx(4, InterTopology::rail_optimized);
    c.others = {{2, *find_device("a100-sxm-80gb"), BytesPerSecond::gigabytes(300), BytesPerSecond::gigabits(200)}};
    ASSERT_TRUE(cluster_problems(c).empty());
    const Fabric f(c);
    EXPECT_DOUBLE_EQ(gb(f.narrowest(0, 1)), 450);
    EXPECT_DOUBLE_EQ(gb(f.narrowest(24, 25)), 300);
    EXPECT_DOUBLE_EQ(gb(f.narrowest(0, 8)), 50);
    EXPECT_DOUBLE_EQ(gb(f.narrowest(0, 24)), 25);
    EXPECT_DOUBLE_EQ(gb(f.scale_up_bandwidth(31)), 300);
    EXPECT_EQ(c.kind_of_node(1), 0);
    EXPECT_EQ(c.kind_of_node(2), 1);
    c.others[0].nodes = 4;
    EXPECT_FALSE(cluster_problems(c).empty());
}

// A NIC's rate is what its devices have, however many share it: 6 NICs of 8 devices are not 9.
TEST(Endpoints, HaveTheRateOfTheirNics) {
    for (const int nics : {1, 2, 3, 4, 5, 6, 7, 8, 12, 16}) {
        Cluster c = dgx(2, InterTopology::fat_tree);
        c.inter.nics_per_node = nics;
        const Fabric f(c);
        std::map<int, double> rates;
        for (int d = 0; d < 8; ++d) rates[f.nic_of(d)] = gb(f.endpoint_bandwidth(d));
        double sum = 0;
        for (const auto& [nic, rate] : rates) sum += rate;
        EXPECT_NEAR(sum, 50.0 * nics, 1e-9) << nics;
    }
}

} // namespace
} // namespace orrery

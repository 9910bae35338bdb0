// Are explicit graphs routed by latency, then hops, with equal paths sharing, and cut where they are thinnest?
#include "tests/unit/topology/fabrics.hpp"
#include "topology/fabric.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace orrery {
namespace {

using Kind = ExplicitGraph::VertexKind;

Cluster custom(ExplicitGraph graph, int nodes, int per_node) {
    Cluster c;
    c.name = "custom";
    c.nodes = nodes;
    c.devices_per_node = per_node;
    c.graph = std::move(graph);
    return c;
}

ExplicitGraph::Edge edge(int from, int to, double gb, double us) {
    return {from, to, BytesPerSecond::gigabytes(gb), Time::microseconds(us)};
}

// Two devices on two switches; down from b to a is a quarter as wide as up.
TEST(Graph, DirectionsAreApart) {
    const ExplicitGraph g{{{"a", Kind::device, 0}, {"b", Kind::device, 1}, {"s", Kind::switch_, -1}},
                          {edge(0, 2, 40, 1), edge(2, 1, 40, 1), edge(1, 2, 10, 2), edge(2, 0, 40, 1)}};
    const Fabric f(custom(g, 2, 1));
    EXPECT_DOUBLE_EQ(gb(f.narrowest(0, 1)), 40);
    EXPECT_DOUBLE_EQ(gb(f.narrowest(1, 0)), 10);
    EXPECT_EQ(f.latency(0, 1), Time::microseconds(2));
    EXPECT_EQ(f.latency(1, 0), Time::microseconds(3));
    EXPECT_DOUBLE_EQ(gb(f.bisection_bandwidth()), 10) << "the least direction counts";
    EXPECT_EQ(f.link_name(0), "a > s");
}

TEST(Graph, EqualPathsShareAndLongerOnesAreLeft) {
    // a to b by s1, s2 (equal) or s3 (as quick, but one hop more).
    const ExplicitGraph g{{{"a", Kind::device},
                           {"b", Kind::device},
                           {"s1", Kind::switch_},
                           {"s2", Kind::switch_},
                           {"s3", Kind::switch_},
                           {"s4", Kind::switch_}},
                          {edge(0, 2, 10, 1), edge(2, 1, 10, 1), edge(0, 3, 10, 1), edge(3, 1, 10, 1), edge(0, 4, 100, 1),
                           edge(4, 5, 100, 0.5), edge(5, 1, 100, 0.5), edge(1, 0, 10, 1)}};
    const Fabric f(custom(g, 1, 2));
    const auto route = f.route(0, 1);
    ASSERT_EQ(route.size(), 4u);
    for (const auto& [link, share] : route) {
        EXPECT_LT(link, 4);
        EXPECT_DOUBLE_EQ(share, 0.5);
    }
    EXPECT_DOUBLE_EQ(gb(f.narrowest(0, 1)), 20);
    EXPECT_EQ(f.latency(0, 1), Time::microseconds(2));

    Cluster hashed = custom(g, 1, 2);
    hashed.inter.routing = Routing::ecmp;
    const auto one = Fabric(hashed).route(0, 1);
    ASSERT_EQ(one.size(), 2u);
    EXPECT_DOUBLE_EQ(one[0].share, 1);
}

TEST(Graph, LatencyBeatsHops) {
    const ExplicitGraph g{{{"a", Kind::device}, {"b", Kind::device}, {"s", Kind::switch_}},
                          {edge(0, 1, 1, 5), edge(0, 2, 10, 1), edge(2, 1, 10, 1), edge(1, 0, 1, 5)}};
    const Fabric f(custom(g, 1, 2));
    EXPECT_EQ(f.route(0, 1).size(), 2u);
    EXPECT_EQ(f.route(1, 0).size(), 1u);
}

// Two pairs of devices, wide inside, joined by one thin edge: the cut must find it whatever the order they are listed in.
TEST(Graph, BisectionFindsTheThinPlace) {
    const auto two_pairs = [](int a, int b, int c, int d) {
        ExplicitGraph g;
        for (int i = 0; i < 4; ++i) g.vertices.push_back({fmt::format("d{}", i), Kind::device, 0});
        for (const auto& [x, y, width] : {std::tuple{a, b, 100.0}, std::tuple{c, d, 100.0}, std::tuple{b, c, 7.0}}) {
            g.edges.push_back(edge(x, y, width, 1));
            g.edges.push_back(edge(y, x, width, 1));
        }
        return g;
    };
    EXPECT_DOUBLE_EQ(gb(Fabric(custom(two_pairs(0, 1, 2, 3), 1, 4)).bisection_bandwidth()), 7);
    EXPECT_DOUBLE_EQ(gb(Fabric(custom(two_pairs(0, 2, 1, 3), 1, 4)).bisection_bandwidth()), 7);
    EXPECT_DOUBLE_EQ(gb(Fabric(custom(two_pairs(3, 0, 2, 1), 1, 4)).bisection_bandwidth()), 7);
}

TEST(Graph, BisectionOfALargeGraphFindsItsTwoIslands) {
    // 2 switches of 10 devices each, joined by 30 GB/s one way and 20 the other; devices are listed alternately.
    ExplicitGraph g;
    for (int i = 0; i < 20; ++i) g.vertices.push_back({fmt::format("d{}", i), Kind::device, 0});
    g.vertices.push_back({"s0", Kind::switch_, -1});
    g.vertices.push_back({"s1", Kind::switch_, -1});
    for (int i = 0; i < 20; ++i) {
        g.edges.push_back(edge(i, 20 + i % 2, 10, 1));
        g.edges.push_back(edge(20 + i % 2, i, 10, 1));
    }
    g.edges.push_back(edge(20, 21, 30, 1));
    g.edges.push_back(edge(21, 20, 20, 1));
    EXPECT_DOUBLE_EQ(gb(Fabric(custom(g, 1, 20)).bisection_bandwidth()), 20);
}

TEST(Graph, NicsAndHostsAreKnownByTheirKind) {
    // A node: two devices, each with its NIC; a host behind the first device.
    ExplicitGraph g{{{"d0", Kind::device, 0},
                     {"d1", Kind::device, 0},
                     {"n0", Kind::nic, 0},
                     {"n1", Kind::nic, 0},
                     {"h", Kind::host, 0},
                     {"net", Kind::switch_, -1}},
                    {}};
    for (const auto& [x, y, width] : {std::tuple{0, 1, 300.0}, std::tuple{0, 3, 32.0}, std::tuple{1, 2, 32.0}, std::tuple{0, 4, 16.0},
                                      std::tuple{2, 5, 25.0}, std::tuple{3, 5, 50.0}}) {
        g.edges.push_back(edge(x, y, width, 1));
        g.edges.push_back(edge(y, x, width, 1));
    }
    const Fabric f(custom(g, 1, 2));
    EXPECT_EQ(f.nic_of(0), 1);
    EXPECT_EQ(f.nic_of(1), 0);
    EXPECT_DOUBLE_EQ(gb(f.scale_up_bandwidth(0)), 300);
    EXPECT_DOUBLE_EQ(gb(f.nic_bandwidth(0)), 75.0 / 2);
    EXPECT_EQ(f.devices_per_nic(), 1);
    const auto copy = f.copy_route(1, true);
    ASSERT_EQ(copy.size(), 2u);
    EXPECT_EQ(f.link_name(copy[1].link), "d0 > h");
    EXPECT_EQ(f.links()[copy[1].link].kind, LinkKind::copy);
    EXPECT_EQ(f.copy_route(1, false).size(), 2u);
}

TEST(Graph, ProblemsSayWhatAndWhere) {
    ExplicitGraph g{{{"a", Kind::device}, {"b", Kind::device}}, {edge(0, 1, 10, 1)}};
    auto problems = graph_problems(g);
    ASSERT_EQ(problems.size(), 1u);
    EXPECT_EQ(problems[0], "b cannot reach a: edges are one-way, add the edges back");
    g.edges.push_back(edge(1, 0, 0, 1));
    g.edges.push_back(edge(1, 7, 1, 1));
    EXPECT_EQ(graph_problems(g).size(), 2u);
    EXPECT_EQ(graph_problems({}).size(), 1u);
    Cluster c = custom({{{"a", Kind::device}}, {}}, 2, 1);
    ASSERT_EQ(cluster_problems(c).size(), 1u);
    EXPECT_THROW(Fabric{c}, std::invalid_argument);
}

} // namespace
} // namespace orrery

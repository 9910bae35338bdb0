// Fabric::find_moves: where it says that two groups lie alike, every route among the one is that among the other, link by link moved.
#include "topology/catalog.hpp"
#include "topology/fabric.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace orrery {
namespace {

std::vector<Cluster> clusters() {
    std::vector<Cluster> out;
    for (const char* name :
         {"dgx-h100", "dgx-a100-80gb", "dgx-v100", "gb200-nvl72", "azure-nd-mi300x-v5", "frontier", "tpu-v4-pod", "gcp-a3"}) {
        Cluster c = find_cluster(name).value();
        c.nodes = 128;
        out.push_back(std::move(c));
    }
    const auto add = [&](auto&& change) {
        Cluster c = out.front();
        c.nodes = 96;
        change(c);
        out.push_back(std::move(c));
    };
    add([](Cluster&) {});
    add([](Cluster& c) { c.inter.topology = InterTopology::rail_only; });
    add([](Cluster& c) { c.inter.oversubscription = 3; });
    add([](Cluster& c) { c.inter.nics_per_node = 4; });
    add([](Cluster& c) { c.inter.nics_per_node = 12; });
    add([](Cluster& c) { c.inter.planes = 2; });
    add([](Cluster& c) { c.inter.routing = Routing::ecmp; });
    add([](Cluster& c) { c.nodes = 2048; });
    return out;
}

bool same_route(const Fabric& f, const LinkMoves& moves, int a, int b, int a_to, int b_to) {
    const auto here = f.route(a, b), there = f.route(a_to, b_to);
    return std::equal(here.begin(), here.end(), there.begin(), there.end(),
                      [&](const LinkShare& x, const LinkShare& y) { return moves(x.link) == y.link && x.share == y.share; });
}

TEST(Moves, RoutesOfGroupsThatLieAlikeAreTheSameMoved) {
    std::mt19937 random(7);
    const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
    int alike = 0, unlike = 0;
    for (const Cluster& c : clusters()) {
        const Fabric f(c);
        for (int round = 0; round < 400; ++round) {
            const int steps[] = {1, c.devices_per_node, 4 * c.devices_per_node, 32 * c.devices_per_node};
            const int step = steps[below(4)], size = 2 + below(12), move = steps[below(4)] * (1 + below(8));
            const int first = below(f.devices());
            if (first + (size - 1) * step + move >= f.devices()) continue;
            std::vector<int> from, to;
            for (int i = 0; i < size; ++i) from.push_back(first + i * step), to.push_back(from.back() + move);
            LinkMoves moves;
            if (!f.find_moves(from, to, moves)) {
                ++unlike;
                continue;
            }
            ++alike;
            EXPECT_EQ(moves.device, move);
            for (std::size_t i = 0; i < from.size(); ++i)
                for (std::size_t k = 0; k < from.size(); ++k) {
                    if (i == k) continue;
                    ASSERT_TRUE(same_route(f, moves, from[i], from[k], to[i], to[k]))
                        << c.name << ": " << from[i] << " > " << from[k] << " moved by " << move;
                }
            for (std::size_t i = 0; i < from.size(); ++i) {
                EXPECT_EQ(f.endpoint_bandwidth(from[i]).value, f.endpoint_bandwidth(to[i]).value);
                for (std::size_t k = 0; k < from.size(); ++k) { // who shares a NIC, and who a rail
                    EXPECT_EQ(f.nic_of(from[i]) == f.nic_of(from[k]), f.nic_of(to[i]) == f.nic_of(to[k]));
                    EXPECT_EQ(f.local_index(from[i]) == f.local_index(from[k]), f.local_index(to[i]) == f.local_index(to[k]));
                }
            }
        }
    }
    EXPECT_GT(alike, 300);
    EXPECT_GT(unlike, 300);
}

TEST(Moves, AGroupThatIsTornApartDoesNotLieAlike) {
    Cluster c = *find_cluster("dgx-h100");
    c.nodes = 64; // two groups of 32 nodes under leaves of their own
    const Fabric f(c);
    LinkMoves moves;
    const std::vector<int> together{0, 8}, further{16, 24}, apart{248, 256}, other{0, 16};
    EXPECT_TRUE(f.find_moves(together, further, moves));
    EXPECT_FALSE(f.find_moves(together, apart, moves)); // the second pair is under two leaves
    EXPECT_FALSE(f.find_moves(together, other, moves));
    EXPECT_FALSE(f.find_moves(together, std::vector<int>{8}, moves));
}

} // namespace
} // namespace orrery

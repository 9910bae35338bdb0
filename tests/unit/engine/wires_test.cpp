// What do perturbations of a scenario become?
#include "sim/engine/machine.hpp"

#include <gtest/gtest.h>

#include <stdexcept>

namespace orrery {

namespace {

Scenario two_nodes() {
    Scenario s;
    s.cluster.nodes = 2;
    s.cluster.devices_per_node = 4;
    s.cluster.intra = {IntraKind::nvswitch, BytesPerSecond::gigabytes(300), Time::microseconds(1)};
    s.cluster.inter.nics_per_node = 4;
    s.cluster.inter.nic_bandwidth = BytesPerSecond::gigabits(200);
    s.strategy.data_parallel = 8;
    return s;
}

TEST(Wires, a_slow_node_slows_its_ranks_alone) {
    Scenario s = two_nodes();
    s.perturb = {{Perturbation::Kind::slow_node, 1.25, 1, ""}, {Perturbation::Kind::slow_rank, 2, 5, ""}};
    Wires w = wires_of(s, Fabric(s.cluster));
    ASSERT_EQ(w.slowness.size(), 8u);
    EXPECT_EQ(w.slowness, (std::vector<double>{1, 1, 1, 1, 1.25, 2.5, 1.25, 1.25}));
}

TEST(Wires, a_slow_link_is_one_link_and_background_a_class) {
    Scenario s = two_nodes();
    Fabric fabric(s.cluster);
    std::size_t nic = 0, nics = 0;
    for (std::size_t l = 0; l < fabric.links().size(); ++l)
        if (fabric.links()[l].kind == LinkKind::nic) {
            nic = l;
            ++nics;
        }
    ASSERT_GT(nics, 1u);
    s.perturb = {{Perturbation::Kind::slow_link, 4, -1, fabric.link_name(static_cast<LinkId>(nic))},
                 {Perturbation::Kind::background, 0.5, -1, "nic"}};
    Wires w = wires_of(s, fabric);
    for (std::size_t l = 0; l < w.capacity.size(); ++l) {
        double whole = fabric.links()[l].capacity.value;
        EXPECT_DOUBLE_EQ(w.capacity[l], l == nic ? whole / 8 : fabric.links()[l].kind == LinkKind::nic ? whole / 2 : whole);
    }
}

TEST(Wires, links_of_one_node) {
    Scenario s = two_nodes();
    const Fabric fabric(s.cluster);
    s.perturb = {{Perturbation::Kind::slow_link, 4, 1, "nic"}};
    const Wires w = wires_of(s, fabric);
    int slowed = 0;
    for (std::size_t l = 0; l < w.capacity.size(); ++l) {
        const Link& link = fabric.links()[l];
        const bool meant = link.kind == LinkKind::nic && link.node == 1;
        slowed += meant;
        EXPECT_DOUBLE_EQ(w.capacity[l], link.capacity.value / (meant ? 4 : 1)) << fabric.link_name(static_cast<LinkId>(l));
    }
    EXPECT_GT(slowed, 0);
}

TEST(Wires, a_link_that_is_not_there_is_an_error_that_names_one_that_is) {
    Scenario s = two_nodes();
    Fabric fabric(s.cluster);
    s.perturb = {{Perturbation::Kind::jitter, 0.1, -1, ""}, {Perturbation::Kind::slow_link, 4, -1, "node9.nic9"}};
    try {
        wires_of(s, fabric);
        FAIL() << "accepted";
    } catch (const std::runtime_error& e) {
        std::string text = e.what();
        EXPECT_NE(text.find("/perturb/1"), std::string::npos) << text;
        EXPECT_NE(text.find("node9.nic9"), std::string::npos) << text;
        EXPECT_NE(text.find(fabric.link_name(0)), std::string::npos) << text;
    }
}

} // namespace

} // namespace orrery

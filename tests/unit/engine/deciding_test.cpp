// Do the links that are left out of sharing never hold anything back, and are enough left out?
#include "sim/engine/deciding.hpp"
#include "sim/engine/sharing.hpp"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace orrery {
namespace {

struct Use {
    std::int32_t link;
    double taken;
};

// One cost a bundle.
Machine machine_of(const std::vector<double>& capacities, const std::vector<std::vector<Use>>& bundles) {
    Machine m;
    m.shared_capacity = capacities;
    for (const std::vector<Use>& uses : bundles) {
        BundleCost cost;
        cost.shared_begin = static_cast<std::int32_t>(m.shared.size());
        for (const Use& use : uses) m.shared.push_back({use.link, use.taken, use.taken});
        cost.shared_end = static_cast<std::int32_t>(m.shared.size());
        m.bundle_costs.push_back(cost);
    }
    return m;
}

std::vector<double> rates_of(const Machine& m, const std::vector<double>& caps, const std::vector<bool>& moving) {
    Sharing sharing(m.shared_capacity);
    std::vector<std::int32_t> ids;
    for (std::size_t k = 0; k < m.bundle_costs.size(); ++k) {
        if (!moving[k]) continue;
        std::vector<Sharing::Use> uses;
        for (std::int32_t u = m.bundle_costs[k].shared_begin; u < m.bundle_costs[k].shared_end; ++u)
            uses.push_back({m.shared[static_cast<std::size_t>(u)].link, m.shared[static_cast<std::size_t>(u)].taken});
        ids.push_back(sharing.add(uses, caps[k]));
    }
    sharing.update();
    std::vector<double> rates;
    for (const std::int32_t id : ids) rates.push_back(sharing.rate(id));
    return rates;
}

// Drawn so that links often lie one behind another, as a device's PCIe, its NIC and the uplinks of its switch do; now and then so near to
// each other that either may be full first.
TEST(DecidingLinks, RatesAreTheSameToTheBit) {
    std::mt19937 random(7);
    const auto real = [&](double from, double to) { return std::uniform_real_distribution(from, to)(random); };
    int left_out = 0; // uplinks that all devices share are drawn too, which no single NIC covers
    for (int round = 0; round < 3000; ++round) {
        const std::size_t devices = 1 + random() % 4, count = 1 + random() % 10;
        std::vector<double> capacities;
        std::vector<std::vector<Use>> bundles(count);
        std::vector<double> caps(count);
        for (std::size_t d = 0; d < devices; ++d) {
            const double near = real(1e9, 1e11), further = near * (random() % 4 == 0 ? 1 + real(-1e-8, 1e-8) : real(0.3, 3));
            const auto link = static_cast<std::int32_t>(capacities.size());
            capacities.insert(capacities.end(), {near, further, further * 64});
            for (std::vector<Use>& uses : bundles) {
                if (random() % 3 == 0) continue;
                const double taken = real(0.5, 2);
                uses.push_back({link, taken});
                uses.push_back({link + 1, random() % 3 == 0 ? taken * real(0.9, 1.1) : taken});
                if (random() % 2 == 0) uses.push_back({link + 2, 64 * taken * real(0.5, 1)});
            }
        }
        const auto uplink = static_cast<std::int32_t>(capacities.size());
        capacities.push_back(real(1e9, 4e11));
        for (std::vector<Use>& uses : bundles)
            if (!uses.empty()) uses.push_back({uplink, uses.front().taken * real(0.1, 1)});
        for (double& cap : caps) cap = real(1e8, 2e11);
        const Machine all = machine_of(capacities, bundles);
        Machine few = all;
        keep_deciding_links(few);
        left_out += static_cast<int>(capacities.size() - few.shared_capacity.size());
        for (int draw = 0; draw < 4; ++draw) {
            std::vector<bool> moving(count);
            for (std::size_t k = 0; k < count; ++k) moving[k] = random() % 3 != 0;
            ASSERT_EQ(rates_of(few, caps, moving), rates_of(all, caps, moving)) << "round " << round;
        }
    }
    EXPECT_GT(left_out, 5000);
}

TEST(DecidingLinks, WhatLiesBehindSlowerLinksIsLeftOut) {
    const std::vector<std::vector<Use>> bundles{{{0, 1.0}, {1, 1.25}, {2, 32}}, {{0, 1.0}, {1, 1.4}}};
    Machine m = machine_of({6.4e10, 5e10, 1.6e12}, bundles);
    keep_deciding_links(m);
    EXPECT_EQ(m.shared_capacity, std::vector<double>{5e10});
    for (const BundleCost& cost : m.bundle_costs) EXPECT_EQ(cost.shared_end - cost.shared_begin, 1);
}

// An uplink that two devices' NICs fill to nine tenths together; a third makes it decide.
TEST(DecidingLinks, WhatSeveralCannotFillIsLeftOut) {
    std::vector<std::vector<Use>> bundles{{{0, 1}, {3, 1}}, {{1, 1}, {3, 1}}};
    Machine two = machine_of({9e9, 9e9, 9e9, 2e10}, bundles);
    bundles.push_back({{2, 1}, {3, 1}});
    Machine three = machine_of({9e9, 9e9, 9e9, 2e10}, bundles);
    keep_deciding_links(two);
    keep_deciding_links(three);
    EXPECT_EQ(two.shared_capacity, (std::vector<double>{9e9, 9e9}));
    EXPECT_EQ(three.shared_capacity, (std::vector<double>{9e9, 2e10, 9e9, 9e9}));
}

// One that another bundle crosses alone, one that is as full as another, and one that only some of the bundles fill less.
TEST(DecidingLinks, WhatMayBeFullFirstStays) {
    Machine own = machine_of({6.4e10, 5e10}, {{{0, 1}, {1, 1}}, {{0, 1}}});
    Machine alike = machine_of({5e10, 5e10}, {{{0, 1}, {1, 1}}});
    Machine crossed = machine_of({5e10, 5e10}, {{{0, 1}, {1, 2}}, {{0, 2}, {1, 1}}});
    for (Machine* m : {&own, &alike, &crossed}) {
        keep_deciding_links(*m);
        EXPECT_EQ(m->shared_capacity.size(), 2U);
    }
}

// The order of what is left says nothing of the links' numbers.
TEST(DecidingLinks, AnotherOrderOfLinksComesToTheSame) {
    Machine a = machine_of({5e10, 4e10, 1e12}, {{{0, 1}, {2, 1}}, {{1, 1}, {2, 1}}, {{0, 1}, {1, 1}}});
    Machine b = machine_of({1e12, 4e10, 5e10}, {{{0, 1}, {2, 1}}, {{0, 1}, {1, 1}}, {{1, 1}, {2, 1}}});
    keep_deciding_links(a);
    keep_deciding_links(b);
    EXPECT_EQ(a.shared_capacity, b.shared_capacity);
    EXPECT_EQ(a.shared, b.shared);
    EXPECT_EQ(a.bundle_costs, b.bundle_costs);
}

} // namespace
} // namespace orrery

// Do values kept in runs and in pages come back as they were put in?
#include "topology/fabric.hpp"
#include "topology/pages.hpp"
#include "topology/runs.hpp"

#include <gtest/gtest.h>

#include <random>

namespace orrery {
namespace {

bool same(const Link& a, const Link& b) {
    return a.kind == b.kind && a.capacity.value == b.capacity.value && a.latency.ps == b.latency.ps && a.node == b.node;
}

void expect_kept(const std::vector<Link>& all) {
    Links links;
    for (const Link& l : all) links.push_back(l);
    ASSERT_EQ(links.size(), all.size());
    std::size_t i = 0, counted = 0;
    for (const Link& l : links) {
        EXPECT_TRUE(same(l, all[i])) << i;
        EXPECT_TRUE(same(links[static_cast<LinkId>(i)], all[i])) << i;
        ++i;
    }
    links.each_run([&](const Link& first, LinkId count) {
        EXPECT_TRUE(same(first, all[counted]));
        counted += static_cast<std::size_t>(count);
    });
    EXPECT_EQ(counted, all.size());
}

Link link(LinkKind kind, double rate, int node) { return {kind, {rate}, Time{5}, node}; }

TEST(Links, ComeBackWhateverNodesTheyAreOf) {
    for (const std::vector<int>& nodes : {std::vector{0, 0, 1, 1, 2, 2},
                                          {0, 1, 2, 3},
                                          {0, 0, 1, 2, 2},
                                          {0, 1, 1, 2},
                                          {-1, -1, 0, 0, 1, 1},
                                          {3, 3, 3},
                                          {0, 0, 0, 1},
                                          {5, 4, 3},
                                          {-1, 0, 1, 1},
                                          {}}) {
        std::vector<Link> all;
        for (const int n : nodes) all.push_back(link(LinkKind::nic, 1e9, n));
        expect_kept(all);
    }
}

TEST(Links, ComeBackAtRandom) {
    std::mt19937 draw(7);
    for (int round = 0; round < 300; ++round) {
        std::vector<Link> all;
        int node = 0;
        for (int i = 0; i < 60; ++i) {
            node += static_cast<int>(draw() % 5 == 0);
            all.push_back(
                link(draw() % 9 == 0 ? LinkKind::pcie : LinkKind::nic, draw() % 11 == 0 ? 2e9 : 1e9, draw() % 13 == 0 ? -1 : node));
        }
        expect_kept(all);
    }
}

TEST(Runs, ComeBackAndChange) {
    std::mt19937 draw(3);
    Runs<double> runs;
    std::vector<double> all;
    for (int i = 0; i < 500; ++i) {
        const double value = static_cast<double>(draw() % 3);
        const std::size_t count = draw() % 4;
        runs.push_back(value, count);
        all.insert(all.end(), count, value);
    }
    EXPECT_EQ(runs.all(), all);
    runs.change([](std::size_t i, double v) { return i % 7 == 0 ? v + 1 : v; });
    ASSERT_EQ(runs.size(), all.size());
    for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ(runs[i], i % 7 == 0 ? all[i] + 1 : all[i]) << i;
}

TEST(Pages, ComeBackWhereTheyAreNotZero) {
    constexpr std::size_t page = Pages<int>::page;
    Pages<int> pages(5 * page + 3);
    std::vector<std::pair<std::size_t, int>> put{{0, 4}, {page - 1, 5}, {page, 6}, {4 * page + 9, 7}, {5 * page + 2, 8}}, found;
    for (const auto& [at, value] : put) pages[at] += value;
    pages.each([&](std::size_t i, int value) { found.emplace_back(i, value); });
    EXPECT_EQ(found, put);
    pages.each([](std::size_t, int& value) { value *= 2; });
    EXPECT_EQ(pages[page], 12);
    EXPECT_EQ(pages[2 * page], 0);
}

} // namespace
} // namespace orrery

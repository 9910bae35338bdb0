// Routing: who is chosen, what experts get, and the way back.
#include "tests/unit/kernels/arrays.hpp"

namespace orrery::test {
namespace {

struct Routed {
    Array scores;
    Flags map;
    Integers counts;
};

Routed route(const Rank& rank, std::vector<double> logits, std::int64_t experts, int top_k, int groups = 1, bool sigmoid = false,
             std::vector<double> bias = {}) {
    const std::int64_t tokens = static_cast<std::int64_t>(logits.size()) / experts;
    Array x = zeros({tokens, experts}), b = zeros({experts}, MemoryKind::parameters);
    x.data = std::move(logits);
    Routed r{zeros({tokens, experts}), Flags({tokens, experts}), Integers(std::vector<std::int64_t>(static_cast<std::size_t>(experts)))};
    std::vector<Arg> in{x};
    if (!bias.empty()) {
        b.data = std::move(bias);
        in.emplace_back(b);
    }
    rank.run(Router{Direction::forward, tokens, experts, top_k, sigmoid, groups, true}, in, {r.scores, r.map, r.counts});
    return r;
}

TEST(Router, TakesTheBestAndOfEqualsTheFirst) {
    const Routed r = route(Rank(), {1, 3, 2, 0, 5, 5, 5, 5}, 4, 2);
    EXPECT_EQ(r.map.data, (std::vector<unsigned char>{0, 1, 1, 0, 1, 1, 0, 0}));
    EXPECT_EQ(r.counts.data, (std::vector<std::int64_t>{1, 2, 1, 0}));
    EXPECT_NEAR(r.scores[1], std::exp(3) / (std::exp(0) + std::exp(1) + std::exp(2) + std::exp(3)), 1e-15);
}

TEST(Router, StaysInTheBestGroups) {
    Rank rank;
    rank.facts.moe.group_limit = 1;
    // The best expert is in the first group, but the two best of the second add up to more.
    const Routed r = route(rank, {2, -9, 1.5, 1.4}, 4, 2, 2, true);
    EXPECT_EQ(r.map.data, (std::vector<unsigned char>{0, 0, 1, 1}));
    EXPECT_NEAR(r.scores[0], 1 / (1 + std::exp(-2.0)), 1e-15);
}

TEST(Router, ItsBiasChoosesButDoesNotWeigh) {
    const Routed r = route(Rank(), {2, 1, 0, -1}, 4, 1, 1, true, {0, 0, 0, 5});
    EXPECT_EQ(r.map.data, (std::vector<unsigned char>{0, 0, 0, 1}));
    EXPECT_NEAR(r.scores[3], 1 / (1 + std::exp(1.0)), 1e-15);
}

TEST(Permute, BringsRowsToTheirExpertsAndBack) {
    Rank rank;
    rank.facts.moe.top_k = 2;
    constexpr std::int64_t tokens = 3, experts = 3, cols = 2;
    Routed r = route(rank, {5, 4, 0, 0, 4, 5, 5, 0, 4}, experts, 2);
    Array x = random_array({tokens, cols}, 1), rows = zeros({6, cols}), p = zeros({6, 1}), y = zeros({tokens, cols});
    rank.run(Permute{Permute::Part::gather, Direction::forward, tokens, 6, cols, true}, {x, r.map, r.scores}, {rows, p});
    const std::int64_t token_of_row[] = {0, 2, 0, 1, 1, 2}; // expert 0: tokens 0, 2; 1: 0, 1; 2: 1, 2
    for (std::int64_t i = 0; i < 6; ++i)
        for (std::int64_t j = 0; j < cols; ++j) EXPECT_EQ(rows[i * cols + j], x[token_of_row[i] * cols + j]);
    EXPECT_NEAR(p[0] + p[2], 1, 1e-15); // a token's weights add up to one
    EXPECT_NEAR(p[0] / p[2], std::exp(1), 1e-14);
    rank.run(Permute{Permute::Part::scatter, Direction::forward, tokens, 6, cols, true}, {rows, r.map}, {y});
    for (std::size_t i = 0; i < y.data.size(); ++i) EXPECT_EQ(y.data[i], 2 * x.data[i]);
}

TEST(Permute, DropsWhatAFullExpertHasNoRoomFor) {
    Rank rank;
    rank.facts.moe.top_k = 1;
    rank.facts.moe.capacity_factor = 1;
    Routed r = route(rank, {1, 0, 1, 0, 1, 0, 0, 1}, 2, 1); // three tokens to expert 0, one to expert 1, two rows each
    Array x = random_array({4, 1}, 1), rows = zeros({4, 1}), p = zeros({4, 1}), y = zeros({4, 1});
    rank.run(Permute{Permute::Part::gather, Direction::forward, 4, 4, 1, true}, {x, r.map, r.scores}, {rows, p});
    EXPECT_EQ(rows.data, (std::vector<double>{x[0], x[1], x[3], 0}));
    EXPECT_EQ(p[3], 0);
    rank.run(Permute{Permute::Part::scatter, Direction::forward, 4, 4, 1, true}, {rows, r.map}, {y});
    EXPECT_EQ(y.data, (std::vector<double>{x[0], x[1], 0, x[3]}));
}

// Without padding the rows stand close together, and the counts are of what is left; its weight is that of all it chose.
TEST(Permute, LeavesNoEmptyRowsWhereACapacityDoesNotPad) {
    Rank rank;
    rank.facts.moe.top_k = 1;
    rank.facts.moe.capacity_factor = 1;
    rank.facts.moe.pad_to_capacity = false;
    rank.facts.moe.experts = 2;
    Routed r = route(rank, {1, 0, 1, 0, 1, 0, 0, 1}, 2, 1); // three tokens to expert 0, one to expert 1, room for two each
    EXPECT_EQ(r.counts.data, (std::vector<std::int64_t>{2, 1}));
    Array x = random_array({4, 1}, 1), rows = zeros({3, 1}), p = zeros({3, 1}), y = zeros({4, 1});
    rank.run(Permute{Permute::Part::gather, Direction::forward, 4, 3, 1, true}, {x, r.map, r.scores}, {rows, p});
    EXPECT_EQ(rows.data, (std::vector<double>{x[0], x[1], x[3]}));
    rank.run(Permute{Permute::Part::scatter, Direction::forward, 4, 3, 1, true}, {rows, r.map}, {y});
    EXPECT_EQ(y.data, (std::vector<double>{x[0], x[1], 0, x[3]}));
}

// Rows of two senders for two experts here, two rows each: by sender, then by expert.
TEST(Permute, SortsSendersRowsByExpertAndBack) {
    Rank rank;
    rank.plan.expert_mesh = rank.plan.mesh;
    rank.plan.expert_mesh.size[Axis::ep] = 2;
    rank.facts.moe.experts = 4;
    rank.facts.forced_routing = true;
    Array from = zeros({8, 1}), to = from, back = from;
    from.data = {0, 1, 10, 11, 2, 3, 12, 13};
    rank.run(Permute{Permute::Part::sort, Direction::forward, 8, 8, 1, true}, {from}, {to});
    EXPECT_EQ(to.data, (std::vector<double>{0, 1, 2, 3, 10, 11, 12, 13}));
    rank.run(Permute{Permute::Part::sort, Direction::backward, 8, 8, 1, true}, {to}, {back});
    EXPECT_EQ(back.data, from.data);
}

} // namespace
} // namespace orrery::test

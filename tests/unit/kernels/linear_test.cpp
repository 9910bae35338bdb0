// Linear layers and norms against loops that are their definition.
#include "tests/unit/kernels/arrays.hpp"

namespace orrery::test {
namespace {

TEST(Linear, EqualsItsDefinitionInEveryDirection) {
    constexpr std::int64_t m = 7, n = 5, k = 6, groups = 3;
    Array x = random_array({groups * m, k}, 1), w = random_array({groups, n, k}, 2, MemoryKind::parameters),
          bias = random_array({groups, n}, 3, MemoryKind::parameters), dy = random_array({groups * m, n}, 4);
    Array y = zeros({groups * m, n}), dx = zeros({groups * m, k}), g = random_array({groups, n, k}, 5), sum = g, expected_y = y,
          expected_dx = dx;
    Array expected_g = g;
    for (std::int64_t e = 0; e < groups; ++e)
        for (std::int64_t i = e * m; i < (e + 1) * m; ++i)
            for (std::int64_t j = 0; j < n; ++j) {
                expected_y[i * n + j] = bias[e * n + j];
                for (std::int64_t l = 0; l < k; ++l) {
                    expected_y[i * n + j] += x[i * k + l] * w[(e * n + j) * k + l];
                    expected_dx[i * k + l] += dy[i * n + j] * w[(e * n + j) * k + l];
                    expected_g[(e * n + j) * k + l] += dy[i * n + j] * x[i * k + l];
                }
            }
    const Rank rank;
    const auto work = [&](Direction d, bool accumulate = false) {
        return Linear{d, m, n, k, groups, DType::fp64, DType::fp64, accumulate};
    };
    rank.run(work(Direction::forward), {x, w, bias}, {y});
    EXPECT_LT(distance(y.data, expected_y.data), 1e-14);
    rank.run(work(Direction::input_gradient), {dy, w}, {dx});
    EXPECT_LT(distance(dx.data, expected_dx.data), 1e-14);
    rank.run(work(Direction::weight_gradient, true), {dy, x, sum}, {sum});
    EXPECT_LT(distance(sum.data, expected_g.data), 1e-14);
    Array alone = zeros({groups, n, k});
    rank.run(work(Direction::weight_gradient), {dy, x}, {alone});
    for (std::size_t i = 0; i < g.data.size(); ++i) ASSERT_NEAR(alone.data[i], expected_g.data[i] - g.data[i], 1e-13);
}

// Experts with other numbers of rows: the op's counts say which rows are whose.
TEST(Linear, OfExpertsGoesByTheirCounts) {
    constexpr std::int64_t n = 4, k = 3;
    Array x = random_array({6, k}, 1), w = random_array({3, n, k}, 2, MemoryKind::parameters), y = zeros({6, n});
    Integers counts({1, 0, 4}); // a row is left over
    Rank().run(Linear{Direction::forward, 2, n, k, 3, DType::fp64, DType::fp64, false}, {x, w, counts}, {y});
    const std::int64_t expert_of[] = {0, 2, 2, 2, 2};
    for (std::int64_t i = 0; i < 6; ++i)
        for (std::int64_t j = 0; j < n; ++j) {
            double expected = 0;
            for (std::int64_t l = 0; i < 5 && l < k; ++l) expected += x[i * k + l] * w[(expert_of[i] * n + j) * k + l];
            ASSERT_NEAR(y[i * n + j], expected, 1e-14);
        }
    Array g = random_array({3, n, k}, 6), before = g;
    Rank().run(Linear{Direction::weight_gradient, 2, n, k, 3, DType::fp64, DType::fp64, true}, {y, x, g, counts}, {g});
    for (std::int64_t i = 0; i < n * k; ++i) ASSERT_EQ(g[n * k + i], before[n * k + i]); // of no rows
}

// Latent attention normalises the first columns of a wider row.
TEST(Norm, OfTheFirstColumnsLeavesTheOthersAlone) {
    constexpr std::int64_t rows = 5, width = 9, n = 6;
    Array x = random_array({rows, width}, 1), w = random_array({n}, 2, MemoryKind::parameters), y = zeros({rows, n}),
          statistics = zeros({rows, 1}), dy = random_array({rows, n}, 3), gw = zeros({n}), dx = zeros({rows, width});
    Rank rank;
    rank.run(Norm{Direction::forward, NormKind::rmsnorm, rows, n, true}, {x, w}, {y, statistics});
    for (std::int64_t r = 0; r < rows; ++r) {
        double square = 0;
        for (std::int64_t i = 0; i < n; ++i) square += x[r * width + i] * x[r * width + i];
        for (std::int64_t i = 0; i < n; ++i) ASSERT_NEAR(y[r * n + i], w[i] * x[r * width + i] / std::sqrt(square / n + 1e-5), 1e-14);
    }
    for (double& v : dx.data) v = 77;
    rank.run(Norm{Direction::backward, NormKind::rmsnorm, rows, n, true}, {dy, x, statistics, w, gw}, {dx, gw});
    for (std::int64_t r = 0; r < rows; ++r)
        for (std::int64_t i = n; i < width; ++i) ASSERT_EQ(dx[r * width + i], 77);
}

} // namespace
} // namespace orrery::test

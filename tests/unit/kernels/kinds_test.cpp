// Kernels of kinds of layers one by one: each against its definition, and its adjoint against central differences, in fp64.
#include "tests/unit/kernels/arrays.hpp"

#include <functional>

namespace orrery::test {
namespace {

double dot(const Array& a, const Array& b) {
    double sum = 0;
    for (std::size_t i = 0; i < a.data.size(); ++i) sum += a.data[i] * b.data[i];
    return sum;
}

// gradient: of dot(dy, y) with respect to x, where `forward` makes y of what x holds.
void expect_derivatives(Array& x, const Array& gradient, const Array& dy, const std::function<Array()>& forward) {
    constexpr double h = 1e-5;
    for (std::size_t i = 0; i < x.data.size(); i += 1 + x.data.size() / 24) {
        const double was = x.data[i];
        x.data[i] = was + h;
        const double up = dot(dy, forward());
        x.data[i] = was - h;
        const double down = dot(dy, forward());
        x.data[i] = was;
        EXPECT_NEAR(gradient.data[i], (up - down) / (2 * h), 1e-7) << i;
    }
}

TEST(Caps, AreTangentsOfTheirInput) {
    const Rank rank;
    Array x = random_array({5, 7}, 1), dy = random_array({5, 7}, 2), dx = zeros({5, 7});
    Pointwise work{PointwiseKind::softcap, Direction::forward, 35, true};
    work.cap = 0.8;
    const auto forward = [&] {
        Array y = zeros({5, 7});
        rank.run(work, {x}, {y});
        return y;
    };
    const Array y = forward();
    for (std::size_t i = 0; i < y.data.size(); ++i) EXPECT_NEAR(y.data[i], 0.8 * std::tanh(x.data[i] / 0.8), 1e-14);
    Pointwise back = work;
    back.direction = Direction::backward;
    rank.run(back, {dy, x}, {dx});
    expect_derivatives(x, dx, dy, forward);
}

TEST(SquaredRelu, SquaresWhatIsPositive) {
    const Rank rank;
    Array x = random_array({4, 9}, 1), dy = random_array({4, 9}, 2), dx = zeros({4, 9});
    const auto forward = [&] {
        Array y = zeros({4, 9});
        rank.run(Pointwise{PointwiseKind::squared_relu, Direction::forward, 36, true}, {x}, {y});
        return y;
    };
    const Array y = forward();
    for (std::size_t i = 0; i < y.data.size(); ++i) EXPECT_EQ(y.data[i], x.data[i] > 0 ? x.data[i] * x.data[i] : 0);
    rank.run(Pointwise{PointwiseKind::squared_relu, Direction::backward, 36, true}, {dy, x}, {dx});
    expect_derivatives(x, dx, dy, forward);
}

Rank with_heads(int heads, int keys, std::int64_t dim) {
    Rank rank;
    rank.facts.micro_batch = 1;
    rank.facts.sequence = 6;
    rank.facts.heads = heads;
    rank.facts.kv_heads = keys;
    rank.facts.qk_dim = rank.facts.v_dim = rank.facts.rope_dim = dim;
    return rank;
}

// A packed row of 4 queries, 2 keys and 2 values of 4 columns: groups of two queries, a key and a value.
constexpr std::int64_t rows = 6, width = 32;
bool is_value(std::int64_t column) { return column % 16 >= 12; }
bool is_key(std::int64_t column) { return column % 16 >= 8 && !is_value(column); }

TEST(Norms, GoOverAllQueriesAndAllKeysOfARow) {
    const Rank rank = with_heads(4, 2, 4);
    Array x = random_array({rows, width}, 1), dy = random_array({rows, width}, 2), wq = random_array({16}, 3), wk = random_array({8}, 4),
          statistics = zeros({rows, 2}), dx = zeros({rows, width}), gq = zeros({16}), gk = zeros({8});
    const Norm work{Direction::forward, NormKind::rmsnorm, rows, 24, true, 6, true};
    const auto forward = [&] {
        Array y = zeros({rows, width});
        rank.run(work, {x, wq, wk}, {y, statistics});
        return y;
    };
    const Array y = forward();
    for (std::int64_t row = 0; row < rows; ++row) {
        double queries = 0, keys = 0;
        for (std::int64_t c = 0; c < width; ++c)
            if (!is_value(c)) (is_key(c) ? keys : queries) += x[row * width + c] * x[row * width + c];
        std::int64_t q = 0, k = 0;
        for (std::int64_t c = 0; c < width; ++c) {
            const double r = 1 / std::sqrt((is_key(c) ? keys / 8 : queries / 16) + rank.facts.norm_epsilon);
            const double w = is_value(c) ? 1 : is_key(c) ? wk[k++] : wq[q++];
            EXPECT_NEAR(y[row * width + c], is_value(c) ? x[row * width + c] : w * r * x[row * width + c], 1e-13) << row << " " << c;
        }
    }
    Norm back = work;
    back.direction = Direction::backward;
    rank.run(back, {dy, x, statistics, wq, wk, gq, gk}, {dx, gq, gk});
    expect_derivatives(x, dx, dy, forward);
    expect_derivatives(wq, gq, dy, forward);
    expect_derivatives(wk, gk, dy, forward);
}

// Half of each head is rotated, the first columns in pairs two apart; the rest and the values stay.
TEST(Rotations, TurnTheFirstColumnsOfAHead) {
    Rank rank = with_heads(4, 2, 4);
    rank.facts.rope_dim = 2;
    Array x = random_array({rows, width}, 1), dy = random_array({rows, width}, 2), dx = zeros({rows, width});
    const auto forward = [&] {
        Array y = zeros({rows, width});
        rank.run(Pointwise{PointwiseKind::rope, Direction::forward, 0, true}, {x}, {y});
        return y;
    };
    const Array y = forward();
    for (std::int64_t row = 0; row < rows; ++row)
        for (std::int64_t c = 0; c < width; ++c) {
            const double was = x[row * width + c], angle = static_cast<double>(row);
            double expected = was;
            if (!is_value(c) && c % 4 == 0) expected = was * std::cos(angle) - x[row * width + c + 1] * std::sin(angle);
            if (!is_value(c) && c % 4 == 1) expected = was * std::cos(angle) + x[row * width + c - 1] * std::sin(angle);
            EXPECT_NEAR(y[row * width + c], expected, 1e-13) << row << " " << c;
        }
    rank.run(Pointwise{PointwiseKind::rope, Direction::backward, 0, true}, {dy}, {dx});
    expect_derivatives(x, dx, dy, forward);
}

TEST(Attention, GradientsOfCappedScoresAreDerivatives) {
    Rank rank = with_heads(4, 2, 4);
    rank.facts.score_cap = 0.6;
    Array x = random_array({rows, width}, 1), dy = random_array({rows, 16}, 2), dx = zeros({rows, width}), lse = zeros({rows, 4});
    Attention work{};
    work.batch = 1;
    work.heads = 4;
    work.kv_heads = 2;
    work.qk_dim = work.v_dim = 4;
    work.causal = true;
    const auto forward = [&] {
        Array o = zeros({rows, 16});
        rank.run(work, {x}, {o, lse});
        return o;
    };
    Array o = forward();
    Attention back = work;
    back.direction = Direction::backward;
    rank.run(back, {dy, x, o, lse}, {dx});
    expect_derivatives(x, dx, dy, forward);
}

TEST(Embedding, RowsAreScaledWhereTheyAreLookedUp) {
    Rank rank;
    rank.facts.embedding_scale = 3;
    Integers tokens({2, 0, 2}, Role::batch);
    Array table = random_array({4, 5}, 1, MemoryKind::parameters), dy = random_array({3, 5}, 2), gradient = zeros({4, 5});
    const auto forward = [&] {
        Array y = zeros({3, 5});
        rank.run(orrery::Embedding{Direction::forward, 3, 5, 4}, {tokens, table}, {y});
        return y;
    };
    EXPECT_NEAR(forward()[0], 3 * table[10], 1e-15);
    rank.run(orrery::Embedding{Direction::weight_gradient, 3, 5, 4}, {tokens, dy, gradient}, {gradient});
    expect_derivatives(table, gradient, dy, forward);
}

} // namespace
} // namespace orrery::test

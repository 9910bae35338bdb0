// Embedding and cross-entropy with the vocabulary over tensor-parallel ranks, padded: is it what one rank has?
#include "tests/unit/kernels/arrays.hpp"

#include <algorithm>

namespace orrery::test {
namespace {

constexpr std::int64_t tokens = 6, vocabulary = 13, padded = 16, hidden = 5;
constexpr int ranks = 4; // the last holds padding, all but one column of it

Rank rank_of(int r, int of) {
    Rank rank;
    rank.on(Axis::tp, of, r);
    rank.facts.vocabulary = vocabulary;
    rank.facts.loss_tokens = 24;
    return rank;
}

Array columns_of(const Array& a, int r, int of) {
    const std::int64_t all = a.buffer.shape[1], n = all / of;
    Array part = zeros({a.buffer.shape[0], n});
    part.buffer.placement.set(Axis::tp, PlacementKind::sharded, 1);
    for (std::int64_t i = 0; i < a.buffer.shape[0]; ++i)
        for (std::int64_t j = 0; j < n; ++j) part[i * n + j] = a[i * all + r * n + j];
    return part;
}

struct Loss {
    std::vector<double> loss, gradient;
};

Loss cross_entropy(const Array& logits, int of, bool in_place = false) {
    const auto part = [](CrossEntropy::Part p) { return CrossEntropy{p, tokens, padded, true}; };
    Integers labels({3, 12, 0, 7, -1, 4});
    std::vector<Array> x, max, e, sums;
    for (int r = 0; r < of; ++r) {
        x.push_back(columns_of(logits, r, of));
        max.push_back(zeros({tokens, 1}));
        e.push_back(zeros(x.back().buffer.shape));
        e.back().buffer.placement = x.back().buffer.placement;
        sums.push_back(zeros({tokens, 2}));
        rank_of(r, of).run(part(CrossEntropy::Part::maximum), {x.back()}, {max.back()});
    }
    for (std::int64_t i = 0; i < tokens; ++i) {
        double top = max[0][i];
        for (int r = 1; r < of; ++r) top = std::max(top, max[r][i]);
        for (int r = 0; r < of; ++r) max[r][i] = top;
    }
    for (std::size_t r = 0; r < x.size(); ++r) {
        rank_of(static_cast<int>(r), of).run(part(CrossEntropy::Part::sums), {x[r], max[r], labels}, {in_place ? x[r] : e[r], sums[r]});
        if (in_place) e[r] = x[r];
    }
    Array total = zeros({tokens, 2}), loss = zeros({tokens, 1});
    for (const Array& s : sums)
        for (std::size_t i = 0; i < s.data.size(); ++i) total.data[i] += s.data[i];
    rank_of(0, of).run(part(CrossEntropy::Part::loss), {total}, {loss});
    Loss out{loss.data, std::vector<double>(tokens * padded)};
    for (int r = 0; r < of; ++r) {
        Array dx = zeros(x[r].buffer.shape);
        dx.buffer.placement = x[r].buffer.placement;
        Array& kept = e[r];
        rank_of(r, of).run(part(CrossEntropy::Part::gradient), {kept, total, labels}, {in_place ? kept : dx}, "loss.grad",
                           Phase::backward_input, -1);
        if (in_place) dx = kept;
        const std::int64_t n = padded / of;
        for (std::int64_t i = 0; i < tokens; ++i)
            for (std::int64_t j = 0; j < n; ++j) out.gradient[i * padded + r * n + j] = dx[i * n + j];
    }
    return out;
}

TEST(CrossEntropy, OfAVocabularyInPartsIsThatOfTheWhole) {
    Array logits = random_array({tokens, padded}, 1);
    for (std::int64_t i = 0; i < tokens; ++i) logits[i * padded + 15] = 100; // padding must not be seen
    const Loss one = cross_entropy(logits, 1), four = cross_entropy(logits, ranks);
    EXPECT_LT(distance(four.loss, one.loss), 1e-14);
    EXPECT_LT(distance(four.gradient, one.gradient), 1e-14);
}

// The gradient may be made in the logits' own place, by way of what is kept of them.
TEST(CrossEntropy, IsTheSameInPlace) {
    const Array logits = random_array({tokens, padded}, 1);
    for (int of : {1, ranks}) {
        const Loss apart = cross_entropy(logits, of), over = cross_entropy(logits, of, true);
        EXPECT_EQ(over.loss, apart.loss) << of;
        EXPECT_EQ(over.gradient, apart.gradient) << of;
    }
}

TEST(CrossEntropy, EqualsItsDefinition) {
    const Array logits = random_array({tokens, padded}, 1);
    const Loss l = cross_entropy(logits, 1);
    const std::int64_t labels[] = {3, 12, 0, 7, -1, 4};
    for (std::int64_t i = 0; i < tokens; ++i) {
        double sum = 0;
        for (std::int64_t j = 0; j < vocabulary; ++j) sum += std::exp(logits[i * padded + j]);
        if (labels[i] >= 0) { EXPECT_NEAR(l.loss[i], std::log(sum) - logits[i * padded + labels[i]], 1e-14); }
        for (std::int64_t j = 0; j < padded; ++j) {
            const double p = j < vocabulary ? std::exp(logits[i * padded + j]) / sum : 0;
            const double expected = labels[i] < 0 ? 0 : (p - (j == labels[i] ? 1 : 0)) / 24;
            EXPECT_NEAR(l.gradient[i * padded + j], expected, 1e-15);
        }
    }
}

TEST(Embedding, OfATableInPartsSumsToThatOfTheWhole) {
    Array table = random_array({padded, hidden}, 2, MemoryKind::parameters), x = zeros({tokens, hidden}),
          dy = random_array({tokens, hidden}, 3), g = zeros({padded, hidden});
    Integers ids({3, 12, 0, 7, 7, 4});
    const auto work = [](Direction d, std::int64_t rows) { return Embedding{d, tokens, hidden, rows}; };
    rank_of(0, 1).run(work(Direction::forward, padded), {ids, table}, {x});
    rank_of(0, 1).run(work(Direction::weight_gradient, padded), {ids, dy, g}, {g});
    for (std::int64_t j = 0; j < hidden; ++j) EXPECT_EQ(g[7 * hidden + j], dy[3 * hidden + j] + dy[4 * hidden + j]);
    std::vector<double> sum(x.data.size(), 0.0);
    constexpr std::int64_t rows = padded / ranks;
    for (int r = 0; r < ranks; ++r) {
        Array part = zeros({rows, hidden}, MemoryKind::parameters), y = zeros({tokens, hidden}), gp = zeros({rows, hidden});
        std::copy_n(table.data.begin() + r * rows * hidden, rows * hidden, part.data.begin());
        for (Array* a : {&part, &gp}) a->buffer.placement.set(Axis::tp, PlacementKind::sharded, 0);
        rank_of(r, ranks).run(work(Direction::forward, rows), {ids, part}, {y});
        rank_of(r, ranks).run(work(Direction::weight_gradient, rows), {ids, dy, gp}, {gp});
        for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += y.data[i];
        for (std::int64_t i = 0; i < rows * hidden; ++i) EXPECT_EQ(gp[i], g[r * rows * hidden + i]);
    }
    EXPECT_EQ(sum, x.data);
}

// Every strategy starts from the same values: a shard is its part of the tensor, padding is nothing.
TEST(Initialise, GivesShardsOfOneTensor) {
    enum Id : TensorId { embedding, proj, norm1, bias1 };
    const std::vector<LogicalTensor> tensors{{"embedding.weight", TensorUse::embedding, Initial::normal},
                                             {"l0.proj.weight", TensorUse::weight, Initial::output},
                                             {"l0.norm1.weight", TensorUse::weight, Initial::one},
                                             {"l0.norm1.bias", TensorUse::weight, Initial::zero}};
    const auto rank = [&](int r, int of) {
        Rank made = rank_of(r, of);
        made.plan.tensors = tensors;
        return made;
    };
    const auto of = [](Array a, TensorId tensor) {
        a.buffer.tensor = tensor;
        return a;
    };
    Array whole = of(zeros({padded, hidden}, MemoryKind::parameters), embedding);
    const Rank one = rank(0, 1), second = rank(1, 2);
    initialise(Arg(whole).operand, one.context());
    for (std::int64_t i = vocabulary * hidden; i < padded * hidden; ++i) EXPECT_EQ(whole[i], 0);
    constexpr std::int64_t rows = padded / ranks;
    for (int r = 0; r < ranks; ++r) {
        Array part = of(zeros({rows, hidden}, MemoryKind::parameters), embedding);
        part.buffer.placement.set(Axis::tp, PlacementKind::sharded, 0);
        const Rank holder = rank(r, ranks);
        initialise(Arg(part).operand, holder.context());
        for (std::int64_t i = 0; i < rows * hidden; ++i) EXPECT_EQ(part[i], whole[r * rows * hidden + i]);
    }
    Array columns = of(zeros({8, 4}, MemoryKind::parameters), proj), all = of(zeros({8, 8}, MemoryKind::parameters), proj);
    columns.buffer.placement.set(Axis::tp, PlacementKind::sharded, 1);
    initialise(Arg(all).operand, one.context());
    initialise(Arg(columns).operand, second.context());
    for (std::int64_t i = 0; i < 8; ++i)
        for (std::int64_t j = 0; j < 4; ++j) EXPECT_EQ(columns[i * 4 + j], all[i * 8 + 4 + j]);
    Array norm = of(zeros({8}, MemoryKind::parameters), norm1), bias = of(zeros({8}, MemoryKind::parameters), bias1);
    initialise(Arg(norm).operand, one.context());
    initialise(Arg(bias).operand, one.context());
    EXPECT_EQ(norm.data, std::vector<double>(8, 1.0));
    EXPECT_EQ(bias.data, std::vector<double>(8, 0.0));
}

} // namespace
} // namespace orrery::test

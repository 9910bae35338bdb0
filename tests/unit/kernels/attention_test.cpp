// Attention against a loop that is the definition, and in parts: does a ring of context ranks give what one rank gives?
#include "tests/unit/kernels/arrays.hpp"

#include <limits>

namespace orrery::test {
namespace {

struct Shape {
    std::string name;
    std::int64_t heads, kv_heads, qk_dim, v_dim;
    bool causal;
    int window;
    bool alibi;
    std::int64_t document = 0;
    double cap = 0;
    friend std::ostream& operator<<(std::ostream& out, const Shape& s) { return out << s.name; }
};

const std::vector<Shape> shapes{{"causal", 2, 2, 8, 8, true, 0, false},
                                {"full", 2, 2, 8, 8, false, 0, false},
                                {"grouped", 4, 2, 8, 8, true, 0, false},
                                {"latent", 2, 2, 12, 8, true, 0, false},
                                {"window", 2, 1, 8, 8, true, 5, false},
                                {"alibi", 4, 4, 8, 8, true, 0, true},
                                {"capped", 4, 2, 8, 8, true, 0, false, 0, 0.7},
                                {"capped_window", 2, 1, 8, 8, true, 5, false, 0, 0.7},
                                {"documents", 4, 2, 8, 8, true, 0, false, 24},
                                {"full_documents", 2, 2, 8, 8, false, 0, false, 48},
                                {"window_in_documents", 2, 1, 8, 8, true, 5, false, 16}};

constexpr std::int64_t batch = 2, sequence = 144;

Rank rank_for(const Shape& s, int ranks = 1, int r = 0) {
    Rank rank;
    rank.on(Axis::cp, ranks, r);
    rank.facts.micro_batch = batch;
    rank.facts.sequence = sequence;
    rank.facts.context_ranks = ranks;
    rank.facts.heads = static_cast<int>(s.heads);
    rank.facts.kv_heads = static_cast<int>(s.kv_heads);
    rank.facts.qk_dim = s.qk_dim;
    rank.facts.v_dim = s.v_dim;
    rank.facts.causal = s.causal;
    rank.facts.window = s.window;
    rank.facts.alibi = s.alibi;
    rank.facts.score_cap = s.cap;
    rank.facts.document = s.document;
    rank.facts.deals_documents = ranks > 1 && s.document > 0;
    return rank;
}

Attention work(const Shape& s, Direction d, int behind = 0) {
    Attention a{};
    a.direction = d;
    a.batch = batch;
    a.heads = s.heads;
    a.kv_heads = s.kv_heads;
    a.qk_dim = s.qk_dim;
    a.v_dim = s.v_dim;
    a.causal = s.causal;
    a.behind = static_cast<std::int16_t>(behind);
    return a;
}

struct Whole {
    Array q, kv, dy, o, lse;
};

Whole whole(const Shape& s) {
    const std::int64_t rows = batch * sequence;
    return {random_array({rows, s.heads * s.qk_dim}, 1), random_array({rows, s.kv_heads * (s.qk_dim + s.v_dim)}, 2),
            random_array({rows, s.heads * s.v_dim}, 3), zeros({rows, s.heads * s.v_dim}), zeros({rows, s.heads})};
}

double slope(const Shape& s, std::int64_t h) {
    return s.alibi ? std::pow(2.0, -8.0 * static_cast<double>(h + 1) / static_cast<double>(s.heads)) : 0;
}

// o and log-sum-exp of every query by the definition.
void reference(const Shape& s, Whole& w) {
    const std::int64_t keys = s.kv_heads * s.qk_dim, width = keys + s.kv_heads * s.v_dim;
    for (std::int64_t b = 0; b < batch; ++b)
        for (std::int64_t h = 0; h < s.heads; ++h)
            for (std::int64_t i = 0; i < sequence; ++i) {
                const std::int64_t g = h * s.kv_heads / s.heads, row = b * sequence + i;
                std::vector<double> p;
                double sum = 0;
                for (std::int64_t j = 0; j < sequence; ++j) {
                    double dot = 0;
                    for (std::int64_t d = 0; d < s.qk_dim; ++d)
                        dot += w.q[row * s.heads * s.qk_dim + h * s.qk_dim + d] * w.kv[(b * sequence + j) * width + g * s.qk_dim + d];
                    const bool together = s.document == 0 || i / s.document == j / s.document,
                               seen = together && (!s.causal || (j <= i && (s.window == 0 || i - j < s.window)));
                    double score = dot / std::sqrt(static_cast<double>(s.qk_dim));
                    if (s.cap > 0) score = s.cap * std::tanh(score / s.cap);
                    p.push_back(seen ? std::exp(score + slope(s, h) * static_cast<double>(j - i)) : 0);
                    sum += p.back();
                }
                w.lse[row * s.heads + h] = std::log(sum);
                for (std::int64_t d = 0; d < s.v_dim; ++d) {
                    double o = 0;
                    for (std::int64_t j = 0; j < sequence; ++j) o += p[j] / sum * w.kv[(b * sequence + j) * width + keys + g * s.v_dim + d];
                    w.o[row * s.heads * s.v_dim + h * s.v_dim + d] = o;
                }
            }
}

class Attentions : public testing::TestWithParam<Shape> {};

TEST_P(Attentions, EqualTheirDefinition) {
    const Shape& s = GetParam();
    Whole expected = whole(s);
    reference(s, expected);
    Whole w = whole(s);
    rank_for(s).run(work(s, Direction::forward), {w.q, w.kv}, {w.o, w.lse});
    EXPECT_LT(distance(w.o.data, expected.o.data), 1e-13);
    EXPECT_LT(distance(w.lse.data, expected.lse.data), 1e-13);
}

// Rows of `a` that context rank r holds.
Array rows_of(const Array& a, const KernelFacts& f, int r) {
    const std::int64_t cols = a.buffer.shape[1], rows = tokens_of_rank(f);
    Array part = zeros({rows, cols});
    for (std::int64_t i = 0; i < rows; ++i) {
        const Token t = token_of(f, r, i);
        for (std::int64_t j = 0; j < cols; ++j) part[i * cols + j] = a[(t.sequence * sequence + t.position) * cols + j];
    }
    return part;
}

void expect_ring(const Shape& s, int ranks, bool contiguous) {
    Whole w = whole(s);
    rank_for(s).run(work(s, Direction::forward), {w.q, w.kv}, {w.o, w.lse});
    Array dq = zeros(w.q.buffer.shape), dkv = zeros(w.kv.buffer.shape);
    rank_for(s).run(work(s, Direction::backward), {w.dy, w.q, w.kv, w.o, w.lse}, {dq, dkv});
    std::vector<Array> home; // gradients of each rank's keys and values
    for (int r = 0; r < ranks; ++r) home.push_back(zeros({batch * sequence / ranks, w.kv.buffer.shape[1]}));
    KernelFacts f;
    for (int r = 0; r < ranks; ++r) {
        Rank rank = rank_for(s, ranks, r);
        rank.facts.context_contiguous = contiguous;
        f = rank.facts;
        Array q = rows_of(w.q, f, r), dy = rows_of(w.dy, f, r), o = zeros(dy.buffer.shape), lse = zeros({q.buffer.shape[0], s.heads}),
              part_o = o, part_lse = lse;
        for (int step = 0; step < ranks; ++step) {
            Array kv = rows_of(w.kv, f, (r - step + ranks) % ranks);
            rank.run(work(s, Direction::forward, step), {q, kv}, {part_o, part_lse});
            if (step == 0)
                o = part_o, lse = part_lse;
            else
                rank.run(Pointwise{PointwiseKind::merge, Direction::forward, elements(o.buffer), true}, {o, lse, part_o, part_lse},
                         {o, lse});
        }
        EXPECT_LT(distance(o.data, rows_of(w.o, f, r).data), 1e-13) << "rank " << r;
        EXPECT_LT(distance(lse.data, rows_of(w.lse, f, r).data), 1e-13) << "rank " << r;
        std::vector<double> sum(q.data.size(), 0.0);
        for (int step = 0; step < ranks; ++step) {
            const int from = (r - step + ranks) % ranks;
            Array kv = rows_of(w.kv, f, from), part_q = zeros(q.buffer.shape), part_kv = zeros(kv.buffer.shape);
            rank.run(work(s, Direction::backward, step), {dy, q, kv, o, lse}, {part_q, part_kv});
            for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += part_q.data[i];
            for (std::size_t i = 0; i < part_kv.data.size(); ++i) home[from].data[i] += part_kv.data[i];
        }
        EXPECT_LT(distance(sum, rows_of(dq, f, r).data), 1e-12) << "rank " << r;
    }
    for (int r = 0; r < ranks; ++r) EXPECT_LT(distance(home[r].data, rows_of(dkv, f, r).data), 1e-12) << "rank " << r;
}

TEST_P(Attentions, AreTheSameInARing) {
    expect_ring(GetParam(), 2, false);
    expect_ring(GetParam(), 4, false);
    expect_ring(GetParam(), 3, true);
}

// Packed, in two and in three parts.
TEST_P(Attentions, AreTheSameHoweverTheirInputIsPacked) {
    const Shape& s = GetParam();
    Whole w = whole(s);
    const std::int64_t rows = batch * sequence, keys = s.kv_heads * s.qk_dim, values = s.kv_heads * s.v_dim;
    Rank rank = rank_for(s);
    rank.run(work(s, Direction::forward), {w.q, w.kv}, {w.o, w.lse});
    Array packed = zeros({rows, s.heads * s.qk_dim + keys + values}), k = zeros({rows, keys}), v = zeros({rows, values}),
          q = zeros(w.q.buffer.shape), o = w.o, lse = w.lse;
    rank.run(Pointwise{PointwiseKind::split, Direction::backward, 0, true}, {w.q, w.kv}, {packed});
    rank.run(Pointwise{PointwiseKind::split, Direction::forward, 0, true}, {packed}, {q, k, v});
    EXPECT_EQ(q.data, w.q.data);
    rank.run(work(s, Direction::forward), {packed}, {o, lse});
    EXPECT_EQ(o.data, w.o.data);
    rank.run(work(s, Direction::forward), {q, k, v}, {o, lse});
    EXPECT_EQ(o.data, w.o.data);
}

// Heads for tokens: each rank packs, blocks are exchanged, each attends with its heads, and the way back.
TEST_P(Attentions, AreTheSameByHeads) {
    const Shape& s = GetParam();
    constexpr int ranks = 2;
    Whole w = whole(s);
    rank_for(s).run(work(s, Direction::forward), {w.q, w.kv}, {w.o, w.lse});
    const std::int64_t rows = batch * sequence / ranks, kv_heads = std::max<std::int64_t>(s.kv_heads, ranks);
    const std::int64_t widths[] = {s.heads * s.qk_dim, kv_heads * s.qk_dim, kv_heads * s.v_dim};
    std::vector<std::vector<Array>> sent; // by rank: q, k, v, packed
    std::vector<KernelFacts> facts;
    for (int r = 0; r < ranks; ++r) {
        const Rank rank = rank_for(s, ranks, r);
        facts.push_back(rank.facts);
        Array q = rows_of(w.q, rank.facts, r), kv = rows_of(w.kv, rank.facts, r),
              packed = zeros({rows, w.q.buffer.shape[1] + w.kv.buffer.shape[1]}), k = zeros({rows, s.kv_heads * s.qk_dim}),
              v = zeros({rows, s.kv_heads * s.v_dim});
        rank.run(Pointwise{PointwiseKind::split, Direction::backward, 0, true}, {q, kv}, {packed});
        rank.run(Pointwise{PointwiseKind::split, Direction::forward, 0, true}, {packed}, {q, k, v});
        sent.emplace_back();
        Array* parts[] = {&q, &k, &v};
        for (int i = 0; i < 3; ++i) {
            sent.back().push_back(zeros({rows, widths[i]}));
            rank.run(Pointwise{PointwiseKind::pack, Direction::forward, 0, true}, {*parts[i]}, {sent.back().back()});
            Array back = zeros(parts[i]->buffer.shape);
            rank.run(Pointwise{PointwiseKind::unpack, Direction::forward, 0, true}, {sent.back().back()}, {back});
            const double copies = static_cast<double>(widths[i]) / static_cast<double>(parts[i]->buffer.shape[1]);
            for (std::size_t j = 0; j < back.data.size(); ++j) ASSERT_EQ(back.data[j], copies * parts[i]->data[j]);
        }
    }
    std::vector<Array> outputs;
    for (int r = 0; r < ranks; ++r) {
        std::vector<Array> got;
        for (std::size_t i = 0; i < 3; ++i) {
            got.push_back(zeros({rows * ranks, widths[i] / ranks}));
            const std::int64_t part = rows * widths[i] / ranks;
            for (int from = 0; from < ranks; ++from)
                for (std::int64_t j = 0; j < part; ++j) got[i][from * part + j] = sent[from][i][r * part + j];
        }
        Shape mine = s;
        mine.heads /= ranks;
        mine.kv_heads = kv_heads / ranks;
        Array o = zeros({rows * ranks, mine.heads * s.v_dim}), lse = zeros({rows * ranks, mine.heads});
        rank_for(s, ranks, r).run(work(mine, Direction::forward), {got[0], got[1], got[2]}, {o, lse});
        outputs.push_back(o);
    }
    for (int r = 0; r < ranks; ++r) {
        Array back = zeros({rows, s.heads * s.v_dim}), o = back;
        const std::int64_t part = elements(back.buffer) / ranks;
        for (int from = 0; from < ranks; ++from)
            for (std::int64_t j = 0; j < part; ++j) back[from * part + j] = outputs[from][r * part + j];
        rank_for(s, ranks, r).run(Pointwise{PointwiseKind::unpack, Direction::forward, 0, true}, {back}, {o});
        EXPECT_LT(distance(o.data, rows_of(w.o, facts[0], r).data), 1e-13);
    }
}

INSTANTIATE_TEST_SUITE_P(Shapes, Attentions, testing::ValuesIn(shapes), [](const auto& instance) { return instance.param.name; });

TEST(Attention, OfNoKeysIsZeroAndMergesAway) {
    const Shape s = shapes[0];
    Rank rank = rank_for(s, 2, 0);
    rank.facts.context_contiguous = true; // rank 0 sees nothing of rank 1's keys
    const std::int64_t rows = batch * sequence / 2;
    Array q = random_array({rows, 16}, 1), kv = random_array({rows, 32}, 2), o = random_array({rows, 16}, 3), lse = zeros({rows, 2}),
          before = random_array({rows, 16}, 4), before_lse = random_array({rows, 2}, 5), merged = before, merged_lse = before_lse;
    rank.run(work(s, Direction::forward, 1), {q, kv}, {o, lse});
    for (double x : o.data) ASSERT_EQ(x, 0);
    for (double x : lse.data) ASSERT_EQ(x, -std::numeric_limits<double>::infinity());
    rank.run(Pointwise{PointwiseKind::merge, Direction::forward, rows * 16, true}, {before, before_lse, o, lse}, {merged, merged_lse});
    EXPECT_EQ(merged.data, before.data);
    EXPECT_EQ(merged_lse.data, before_lse.data);
}

} // namespace
} // namespace orrery::test

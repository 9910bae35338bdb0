#include "exec/kernels/tokens.hpp"

#include "topology/check.hpp"

#include <algorithm>

namespace orrery {

std::int64_t tokens_of_rank(const KernelFacts& f) { return f.micro_batch * f.sequence / f.context_ranks; }

Token token_of(const KernelFacts& f, int rank, std::int64_t row) {
    const std::int64_t local = f.sequence / f.context_ranks, i = row % local;
    Token t{row / local, 0};
    if (f.context_contiguous) {
        t.position = rank * local + i;
        return t;
    }
    const std::int64_t whole = f.deals_documents ? f.document : f.sequence, part = whole / f.context_ranks, half = part / 2, j = i % part,
                       chunk = j < half ? rank : 2 * f.context_ranks - 1 - rank;
    t.position = i / part * whole + chunk * half + j % half;
    return t;
}

std::vector<Token> tokens_of(const KernelContext& c, const Buffer& value, std::int64_t rows) {
    const KernelFacts& f = c.facts;
    const std::int64_t own = tokens_of_rank(f);
    const int rank = c.at[Axis::cp];
    std::vector<Token> tokens;
    tokens.reserve(rows);
    if (rows == own * f.context_ranks) {
        for (int r = 0; r < f.context_ranks; ++r)
            for (std::int64_t i = 0; i < own; ++i) tokens.push_back(token_of(f, f.context_ranks > 1 ? r : rank, i));
        return tokens;
    }
    std::int64_t begin = 0;
    if (value.placement.on(Axis::tp) == PlacementKind::sharded && value.placement.dim[Axis::tp] == 0) begin = c.at[Axis::tp] * rows;
    require(begin + rows <= own, "a value has more rows than its rank has tokens");
    for (std::int64_t i = 0; i < rows; ++i) tokens.push_back(token_of(f, rank, begin + i));
    return tokens;
}

std::vector<Token> tokens_met(const KernelContext& c, const Buffer& value, std::int64_t rows, int behind) {
    if (behind == 0) return tokens_of(c, value, rows);
    const int ranks = c.facts.context_ranks, from = (c.at[Axis::cp] - behind + ranks) % ranks;
    std::vector<Token> tokens;
    for (std::int64_t i = 0; i < rows; ++i) tokens.push_back(token_of(c.facts, from, i));
    return tokens;
}

std::vector<std::vector<TokenRow>> rows_by_sequence(const std::vector<Token>& tokens, std::int64_t sequences) {
    std::vector<std::vector<TokenRow>> rows(static_cast<std::size_t>(sequences));
    for (std::size_t i = 0; i < tokens.size(); ++i) rows[tokens[i].sequence].push_back({static_cast<std::int64_t>(i), tokens[i].position});
    const auto before = [](const TokenRow& a, const TokenRow& b) { return a.position < b.position; };
    for (auto& list : rows)
        if (!std::is_sorted(list.begin(), list.end(), before)) std::sort(list.begin(), list.end(), before);
    return rows;
}

} // namespace orrery

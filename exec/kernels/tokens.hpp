// Which token stands in which row of a rank's activations.
//
// A microbatch is `micro_batch` sequences; a context rank holds its part of each of them, sequence by sequence; sequence parallelism
// cuts these rows into equal consecutive parts. Balanced context parallelism cuts a sequence into 2c chunks: rank r holds r and 2c-1-r;
// where documents are packed, a ring and an all-gather cut each document so.
#pragma once

#include "exec/kernels/kernel.hpp"

namespace orrery {

struct Token {
    std::int64_t sequence, position;
}; // sequence: in the microbatch

// The token of row `row` among context rank `rank`'s own tokens, before sequence parallelism.
Token token_of(const KernelFacts& facts, int rank, std::int64_t row);
std::int64_t tokens_of_rank(const KernelFacts& facts); // how many a context rank has of a microbatch

// The token of each row of a value with `rows` rows on this rank: its own tokens, its part of them (sequence parallelism, told by the
// placement), or those of all context ranks, gathered.
std::vector<Token> tokens_of(const KernelContext& context, const Buffer& value, std::int64_t rows);

// The same for the keys that attention meets: those of the context rank `behind` ranks before this one.
std::vector<Token> tokens_met(const KernelContext& context, const Buffer& value, std::int64_t rows, int behind);

// Rows of each sequence in the order of their positions.
struct TokenRow {
    std::int64_t row, position;
};
std::vector<std::vector<TokenRow>> rows_by_sequence(const std::vector<Token>& tokens, std::int64_t sequences);

} // namespace orrery

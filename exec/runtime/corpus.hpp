// Training data: sequences of token ids by global index, the same whatever rank asks. Text as bytes, or a synthetic language.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace orrery {

struct Corpus {
    std::string text; // of bytes, drawn from at places that follow from the seed; empty: synthetic
    std::int64_t vocabulary = 256;
    std::uint64_t seed = 0;
};

// The index-th sequence of the whole training run; its labels are the same, one further. Synthetic: each token follows from the one
// before but for one in eight, which is any. Needs a text longer than the sequence.
void read_sequence(const Corpus& corpus, std::int64_t index, std::span<std::int64_t> tokens);

} // namespace orrery

// Training data: sequences of token ids by global index, the same whatever rank asks. Text as bytes, token ids, or a synthetic language.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace orrery {

struct Corpus {
    std::string_view text; // drawn from at places that follow from the seed; empty: synthetic
    std::int64_t vocabulary = 256;
    std::uint64_t seed = 0;
    int width = 1;         // bytes of a token of the text, little-endian: 1, 2 or 4
    std::int64_t held = 0; // tokens at the text's end that training never sees
    bool holding = false;  // sequences are those of the held part, one behind the other; synthetic: other ones than training's
};

// The index-th sequence of the whole training run; its labels are the same, one further. Synthetic: each token follows from the one
// before but for one in eight, which is any. Needs a text longer than the sequence. Throws std::runtime_error for a token that the
// vocabulary has not.
void read_sequence(const Corpus& corpus, std::int64_t index, std::span<std::int64_t> tokens);

// Throws the same where a token of the text is none of the vocabulary. In a text that takes longer than a moment to read, only the places
// are checked that a run of `sequences` sequences of `length` tokens reads: the first ones.
void require_vocabulary(const Corpus& corpus, std::int64_t length, std::int64_t sequences);

} // namespace orrery

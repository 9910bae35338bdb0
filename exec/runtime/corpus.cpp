#include "exec/runtime/corpus.hpp"

#include "exec/kernels/random.hpp"
#include "topology/check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <stdexcept>
#include <vector>

namespace orrery {

namespace {

constexpr std::size_t read_in_a_moment = 512u << 20; // bytes
constexpr std::int64_t most_looked_at = 32 << 20;    // tokens of a longer text

[[noreturn]] void refuse(const Corpus& corpus, std::int64_t place, std::uint32_t token) {
    throw std::runtime_error(fmt::format("token {} of the text is {}, and model.vocab_size is {}: it is of another vocabulary, "
                                         "or --token-type is another",
                                         place, token, corpus.vocabulary));
}

template <class Token> void require_all(const Corpus& corpus) {
    constexpr std::size_t at_once = 4096;
    std::array<Token, at_once> tokens{};
    const std::size_t count = corpus.text.size() / sizeof(Token);
    for (std::size_t begin = 0; begin < count; begin += at_once) {
        const std::size_t n = std::min(at_once, count - begin);
        std::memcpy(tokens.data(), corpus.text.data() + begin * sizeof(Token), n * sizeof(Token));
        Token largest = 0;
        for (std::size_t i = 0; i < n; ++i) largest = std::max(largest, tokens[i]);
        if (largest < corpus.vocabulary) continue;
        const auto first = std::find_if(tokens.begin(), tokens.end(), [&](Token t) { return t >= corpus.vocabulary; });
        refuse(corpus, static_cast<std::int64_t>(begin) + (first - tokens.begin()), *first);
    }
}

} // namespace

void require_vocabulary(const Corpus& corpus, std::int64_t length, std::int64_t sequences) {
    if (corpus.text.size() <= read_in_a_moment) {
        if (corpus.width == 2) require_all<std::uint16_t>(corpus);
        if (corpus.width == 4) require_all<std::uint32_t>(corpus);
        if (corpus.width != 1) return;
    }
    if (corpus.width == 1 && corpus.vocabulary >= 256) return; // every byte is one of it
    std::vector<std::int64_t> tokens(static_cast<std::size_t>(length));
    for (std::int64_t i = 0; i < sequences && i * length < most_looked_at; ++i) read_sequence(corpus, i, tokens);
}

void read_sequence(const Corpus& corpus, std::int64_t index, std::span<std::int64_t> tokens) {
    const auto draw = [&](std::int64_t i, std::int64_t below) {
        const std::uint64_t stream = name_key(corpus.holding ? "held" : "corpus") + static_cast<std::uint64_t>(index);
        return static_cast<std::int64_t>(uniform(corpus.seed, stream, static_cast<std::uint64_t>(i)) * static_cast<double>(below));
    };
    const std::int64_t n = static_cast<std::int64_t>(tokens.size());
    if (!corpus.text.empty()) {
        const auto width = static_cast<std::int64_t>(corpus.width), all = static_cast<std::int64_t>(corpus.text.size()) / width;
        const std::int64_t places = all - corpus.held - n + 1;
        require(places > 0 && (!corpus.holding || (index + 1) * n <= corpus.held), "a text shorter than its sequences");
        const std::int64_t at = corpus.holding ? all - corpus.held + index * n : draw(0, places);
        for (std::int64_t i = 0; i < n; ++i) {
            std::uint32_t token = 0;
            std::memcpy(&token, corpus.text.data() + (at + i) * width, static_cast<std::size_t>(width));
            if (token >= corpus.vocabulary) refuse(corpus, at + i, token);
            tokens[i] = token;
        }
        return;
    }
    std::int64_t token = draw(0, corpus.vocabulary);
    for (std::int64_t i = 0; i < n; ++i) {
        tokens[i] = token;
        token = draw(2 * i + 1, 8) == 0 ? draw(2 * i + 2, corpus.vocabulary) : (token * 5 + 3) % corpus.vocabulary;
    }
}

} // namespace orrery

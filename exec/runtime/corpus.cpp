#include "exec/runtime/corpus.hpp"

#include "exec/kernels/random.hpp"
#include "topology/check.hpp"

#include <fmt/format.h>

#include <cstring>
#include <stdexcept>

namespace orrery {

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
            if (token >= corpus.vocabulary)
                throw std::runtime_error(fmt::format("token {} of the text is {}, and model.vocab_size is {}: it is of another vocabulary, "
                                                     "or --token-type is another",
                                                     at + i, token, corpus.vocabulary));
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

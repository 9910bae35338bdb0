#include "exec/runtime/corpus.hpp"

#include "exec/kernels/random.hpp"
#include "topology/check.hpp"

namespace orrery {

void read_sequence(const Corpus& corpus, std::int64_t index, std::span<std::int64_t> tokens) {
    const auto draw = [&](std::int64_t i, std::int64_t below) {
        const std::uint64_t stream = name_key("corpus") + static_cast<std::uint64_t>(index);
        return static_cast<std::int64_t>(uniform(corpus.seed, stream, static_cast<std::uint64_t>(i)) * static_cast<double>(below));
    };
    const std::int64_t n = static_cast<std::int64_t>(tokens.size());
    if (!corpus.text.empty()) {
        const std::int64_t places = static_cast<std::int64_t>(corpus.text.size()) - n + 1;
        require(places > 0 && corpus.vocabulary >= 256, "a text shorter than its sequences, or fewer tokens than bytes");
        const std::int64_t at = draw(0, places);
        for (std::int64_t i = 0; i < n; ++i)
            tokens[static_cast<std::size_t>(i)] = static_cast<unsigned char>(corpus.text[static_cast<std::size_t>(at + i)]);
        return;
    }
    std::int64_t token = draw(0, corpus.vocabulary);
    for (std::int64_t i = 0; i < n; ++i) {
        tokens[static_cast<std::size_t>(i)] = token;
        token = draw(2 * i + 1, 8) == 0 ? draw(2 * i + 2, corpus.vocabulary) : (token * 5 + 3) % corpus.vocabulary;
    }
}

} // namespace orrery

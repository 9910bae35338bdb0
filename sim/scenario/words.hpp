// Closed sets: an enum whose values scenarios spell as words has one table of them, in the order of its values. Behind the parser there are
// values only; name() spells one for a message.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace orrery {

template <class E> struct Spelling; // specialised beside the enum, with `static constexpr const char* all[]`
template <class E>
concept Worded = requires {
    Spelling<E>::all;
};

template <Worded E> constexpr const char* name(E value) { return Spelling<E>::all[static_cast<std::size_t>(value)]; }

// The value of a word; none where it is no word of the set.
template <Worded E> std::optional<E> named(std::string_view word) {
    const auto found = std::find(std::begin(Spelling<E>::all), std::end(Spelling<E>::all), word);
    if (found == std::end(Spelling<E>::all)) return std::nullopt;
    return static_cast<E>(found - std::begin(Spelling<E>::all));
}

template <Worded E> std::vector<std::string> words() { return {std::begin(Spelling<E>::all), std::end(Spelling<E>::all)}; }

template <Worded E> constexpr auto values() {
    std::array<E, std::size(Spelling<E>::all)> all{};
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<E>(i);
    return all;
}

} // namespace orrery

// Words for error messages: the nearest known name, lists, the divisors of a number.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace orrery {

// Edits (insert, delete, replace, swap of neighbours) from a to b; letters' case and the kind of '-', '_' do not count.
int edit_distance(std::string_view a, std::string_view b);

// The nearest of `known`, where it is near enough to be what was meant: at most a third of the word's length of edits, or one word begins
// the other.
std::optional<std::string> nearest(std::string_view word, const std::vector<std::string>& known);

std::string join(const std::vector<std::string>& words, std::string_view separator = ", ");

// Divisors common to both, smallest first, at most `count` (0 for b: divisors of a alone).
std::vector<std::int64_t> common_divisors(std::int64_t a, std::int64_t b = 0, std::size_t count = 8);
std::string join(const std::vector<std::int64_t>& numbers);

} // namespace orrery

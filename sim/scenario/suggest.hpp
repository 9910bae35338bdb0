// Words for error messages: the nearest known name, lists, the divisors of a number.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace orrery {

// Edits (insert, delete, replace, swap of neighbours) from a to b; letters' case and the kind of '-', '_' do not count.
int edit_distance(std::string_view a, std::string_view b);

// The nearest of `known`, where it is near enough to be what was meant: at most a third of the word's length of edits, or one word begins
// the other.
std::optional<std::string> nearest(std::string_view word, const std::vector<std::string>& known);

// ": did you mean \"a\"?" with the nearest of `known`, else with up to four that contain the word ("70b"); "" where nothing fits.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& known);

// The scenario's field, dotted, that a usual short name stands for ("tp": strategy.tensor_parallel); "" where it stands for none.
std::string_view field_of_short_name(std::string_view word);
std::vector<std::pair<std::string_view, std::string_view>> short_names(); // all of them, with their fields

std::string join(const std::vector<std::string>& words, std::string_view separator = ", ");

// Divisors common to both, smallest first, at most `count` (0 for b: divisors of a alone).
std::vector<std::int64_t> common_divisors(std::int64_t a, std::int64_t b = 0, std::size_t count = 8);
std::string join(const std::vector<std::int64_t>& numbers);

} // namespace orrery

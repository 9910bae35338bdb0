// Words for error messages: the nearest known name, lists, the divisors of a number.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
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
std::string_view remark_on_short_name(std::string_view word);             // a sentence on how the field differs; "": as the name says

// Another tool's word for what a field takes, and what that is called here, in quotes ("megatron-bridge" of strategy.framework: "nemo").
struct OtherWord {
    std::string_view field, word, meant;
};
std::span<const OtherWord> other_words();
std::string_view meant_by_other_word(std::string_view field, std::string_view word); // "" where it is none

// ": did you mean \"a\"?" by another tool's word, else the nearest of the field's own; "." where nothing fits.
std::string did_you_mean_value(std::string_view field, std::string_view word, const std::vector<std::string>& known);

std::string join(const std::vector<std::string>& words, std::string_view separator = ", ");

// Divisors common to both, smallest first, at most `count` (0 for b: divisors of a alone).
std::vector<std::int64_t> common_divisors(std::int64_t a, std::int64_t b = 0, std::size_t count = 8);
std::string join(const std::vector<std::int64_t>& numbers);

} // namespace orrery

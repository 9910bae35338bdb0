// Where things stand in a JSON text, and edits that leave everything else as the user wrote it: a form that changes one field keeps
// comments, order and line breaks. No Qt here. Comments are allowed, as in scenarios.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace orrery {

// Byte offsets, [begin, end). key_begin == key_end: an element of an array, or the whole text.
struct JsonPlace {
    std::size_t key_begin = 0, key_end = 0;
    std::size_t begin = 0, end = 0;
    char kind = 0;                      // the value's first character: { [ " t f n - or a digit
    std::vector<std::string> members{}; // of an object or array: the pointers of what is in it, in order
};

// By JSON pointer; "" is the whole value. Where the text is not JSON, `error_at` says where it stops making sense and the places before
// it are there.
struct JsonPlaces {
    std::map<std::string, JsonPlace> places;
    std::optional<std::size_t> error_at;
};
JsonPlaces json_places(std::string_view text);

// The value's text, or nothing.
std::optional<std::string> value_at(std::string_view text, const std::string& pointer);

// The text with `value` (JSON) at the pointer. Objects on the way are made; a text in the way (a preset's name) becomes
// {"preset": text, ..}. Nothing where the text is not JSON or an array or number is in the way.
std::optional<std::string> with_value(std::string_view text, const std::string& pointer, std::string_view value);

// The text without the pointer's member; as it was where there is none.
std::optional<std::string> without_value(std::string_view text, const std::string& pointer);

// The place to show for a problem at `pointer`: its value, or that of the nearest parent that is there.
std::optional<JsonPlace> nearest_place(const JsonPlaces& places, std::string pointer);

// One step of a pointer, escaped or plain (RFC 6901).
std::string escaped_step(std::string_view key);
std::string last_step(std::string_view pointer); // plain: "/a/b~1c" -> "b/c"
std::string parent_of(std::string_view pointer); // "/a/b" -> "/a"

} // namespace orrery

// Files that users name: what can be read as one, and its text.
#pragma once

#include <cstdint>
#include <string>

namespace orrery {

// Inputs are regular files of at most this size: a device or a pipe may never end.
inline constexpr std::uintmax_t largest_input = std::uintmax_t{1} << 28;
std::string unreadable(const std::string& path); // why a file cannot be an input ("is a folder; .."), "" where it can

// The text of a file, or false where it cannot be an input.
bool read_file(const std::string& path, std::string& text);

} // namespace orrery

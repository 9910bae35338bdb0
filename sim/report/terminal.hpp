// Text for a terminal or a pipe: colours where they are wanted, bars, numbers with their thousands, tables that line up.
#pragma once

#include "sim/report/report.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace orrery {

enum class Ink { plain, bold, dim, red, green, yellow, blue, magenta, cyan };

// `text` in that ink where the style has colour, else as it is.
std::string paint(std::string_view text, Ink ink, const TextStyle& style);

// A bar of `width` columns, filled to `share` (0 .. 1) with eighths of a block, or with '#'.
std::string bar(double share, int width, Ink ink, const TextStyle& style);

// Columns a text takes on a terminal: UTF-8 letters count one, escape sequences none.
int columns(std::string_view text);
std::string pad_left(std::string_view text, int width); // right-aligned
std::string pad_right(std::string_view text, int width);
// At most `width` columns, the end cut off with "..".
std::string clip(std::string_view text, int width);
// Words of a long line over as many lines as they need, the later ones indented; each ends in a line break.
std::string wrapped(const std::string& text, int width, const std::string& first, const std::string& rest);

std::string grouped(std::int64_t n);                                      // "16,384"
std::string metric(double value, int digits, std::string_view unit = ""); // `digits` significant digits: "11.79 PFLOP", "384 k", "16"
std::string seconds_text(double s);                                       // "12.56 s", "3.21 ms"
std::string span_text(double s);                                          // the same of long times: "20.6 min", "7.5 h", "3.2 days"

// A table: first row is the header; numeric columns to the right.
struct Table {
    std::vector<std::string> header;
    std::vector<bool> right; // by column
    std::vector<std::vector<std::string>> rows;
    bool last_beneath = false; // the last cell of a row goes beneath it where the table is wider than the terminal
};
std::string to_text(const Table& table, const TextStyle& style);

} // namespace orrery

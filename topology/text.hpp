// Text from files and command lines that is printed: names cannot steer a terminal, and cells of tables cannot be formulas.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace orrery {

// Control characters (but line breaks and tabs) and bytes that are no UTF-8 become "\x1b" and the like. colour: sequences that set ink
// ("\x1b[31m") stay as they are.
std::string printable(std::string_view text, bool colour = false);
bool is_printable(std::string_view text); // printable() leaves it as it is

// A cell of a CSV file, quoted where it must be. A text that begins as formulas do (= + - @) and is no number gets an apostrophe in front,
// so that spreadsheets show it instead of computing it.
std::string csv_cell(std::string_view text);

std::vector<std::string_view> words_of(std::string_view text); // separated by blanks, tabs and carriage returns; the text must outlive them

} // namespace orrery

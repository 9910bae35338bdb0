// Small readers of text that the importers share. Internal to topology/ingest.
#pragma once

#include "topology/ingest/facts.hpp"
#include "topology/text.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace orrery::ingest {

struct TextLine {
    int number = 0; // from 1
    std::string_view text;
};
std::vector<TextLine> lines_of(std::string_view text); // without line ends; the text must outlive them
std::string_view trimmed(std::string_view text);
std::string lower(std::string_view text);
std::string shown(std::string_view text); // for a message: at most 60 characters, nothing unprintable

// The whole text as a number, or nothing. Neither accepts what is not finite.
std::optional<double> number_of(std::string_view text);
std::optional<int> whole_number_of(std::string_view text); // at least 0, below 2e9

// "n[1-3,7]x,m1" as names: n1x n2x n3x n7x m1. Nothing where the text is no host list or names more than a million.
std::optional<std::vector<std::string>> host_list(std::string_view text);

// "n <thing>" with an s where n is not 1.
std::string counted(std::size_t n, std::string_view thing);

} // namespace orrery::ingest

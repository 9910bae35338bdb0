// The part of YAML that network and topology files use: mappings, lists (in lines or in brackets), plain and quoted text, comments.
// Anchors, tags, block text and several documents are refused by name: none of the formats read here uses them, and a reader of this size
// needs no library, expands nothing and knows the line of every value. Internal to topology/ingest.
#pragma once

#include "topology/ingest/facts.hpp"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace orrery::ingest {

struct YamlValue {
    enum class Kind { text, list, mapping };
    Kind kind = Kind::text;
    std::string text;                                      // of a text; "" where nothing stands there
    std::vector<YamlValue> items;                          // of a list
    std::vector<std::pair<std::string, YamlValue>> fields; // of a mapping, in the file's order
    int line = 0;

    const YamlValue* field(std::string_view key) const; // nullptr where there is none
};

// Refuses damage with its line, and more than 32 levels.
YamlValue read_yaml(const InputFile& file);

} // namespace orrery::ingest

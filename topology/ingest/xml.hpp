// XML as a tree of elements with their lines, read by Expat. Internal to topology/ingest.
#pragma once

#include "topology/ingest/facts.hpp"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace orrery::ingest {

struct XmlElement {
    std::string name;
    std::vector<std::pair<std::string, std::string>> attributes;
    std::string text; // of the element itself, children left out
    std::vector<XmlElement> children;
    int line = 0;

    std::string_view attribute(std::string_view key) const; // "" where it has none
};

// The root element. Refuses what is not well-formed, entity declarations (nothing outside the file is ever read), more than 64 levels and
// more than two million elements. A DOCTYPE that only names a DTD is passed over.
XmlElement read_xml(const InputFile& file);

} // namespace orrery::ingest

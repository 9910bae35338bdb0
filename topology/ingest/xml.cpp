// Expat's events to a tree, with limits.
#include "topology/ingest/xml.hpp"

#include <expat.h>
#include <fmt/format.h>

#include <memory>
#include <optional>

namespace orrery::ingest {

namespace {

constexpr std::size_t most_levels = 64, most_elements = 2'000'000, most_text = 1u << 26;

// The tree as far as it is read. Handlers are called by C: none may throw, so the first problem is kept and the parser stopped.
struct XmlReading {
    XML_Parser parser = nullptr;
    XmlElement top;                // its only child is the root
    std::vector<XmlElement*> open; // the elements that are not closed yet
    std::size_t elements = 0, text = 0;
    std::optional<std::pair<int, std::string>> problem;

    void stop(std::string what) {
        if (!problem) problem = {static_cast<int>(XML_GetCurrentLineNumber(parser)), std::move(what)};
        XML_StopParser(parser, XML_FALSE);
    }
};

void on_start(void* data, const XML_Char* name, const XML_Char** attributes) {
    XmlReading& r = *static_cast<XmlReading*>(data);
    if (r.problem) return;
    if (r.open.size() > most_levels) return r.stop(fmt::format("elements are nested more than {} deep: this is no such file", most_levels));
    if (++r.elements > most_elements) return r.stop(fmt::format("there are more than {} elements: this is no such file", most_elements));
    XmlElement& element = r.open.back()->children.emplace_back();
    element.name = name;
    element.line = static_cast<int>(XML_GetCurrentLineNumber(r.parser));
    for (; *attributes != nullptr; attributes += 2) element.attributes.emplace_back(attributes[0], attributes[1]);
    r.open.push_back(&element);
}

void on_end(void* data, const XML_Char*) {
    XmlReading& r = *static_cast<XmlReading*>(data);
    if (!r.problem) r.open.pop_back();
}

void on_text(void* data, const XML_Char* text, int length) {
    XmlReading& r = *static_cast<XmlReading*>(data);
    if (r.problem) return;
    r.text += static_cast<std::size_t>(length);
    if (r.text > most_text) return r.stop("the text is longer than 64 MiB: this is no such file");
    r.open.back()->text.append(text, static_cast<std::size_t>(length));
}

void on_entity(void* data, const XML_Char*, int, const XML_Char*, int, const XML_Char*, const XML_Char*, const XML_Char*, const XML_Char*) {
    static_cast<XmlReading*>(data)->stop("an entity is declared, which topology files never need: remove the declaration");
}

} // namespace

std::string_view XmlElement::attribute(std::string_view key) const {
    for (const auto& [known, value] : attributes)
        if (known == key) return value;
    return {};
}

XmlElement read_xml(const InputFile& file) {
    XmlReading r;
    const std::unique_ptr<XML_ParserStruct, decltype(&XML_ParserFree)> parser(XML_ParserCreate(nullptr), &XML_ParserFree);
    if (!parser) throw std::bad_alloc();
    r.parser = parser.get();
    r.open = {&r.top};
    XML_SetUserData(r.parser, &r);
    XML_SetElementHandler(r.parser, on_start, on_end);
    XML_SetCharacterDataHandler(r.parser, on_text);
    XML_SetEntityDeclHandler(r.parser, on_entity);
    const XML_Status status = XML_Parse(r.parser, file.text.data(), static_cast<int>(file.text.size()), XML_TRUE);
    if (r.problem) refuse(file, r.problem->first, r.problem->second);
    if (status != XML_STATUS_OK || r.top.children.empty())
        refuse(file, static_cast<int>(XML_GetCurrentLineNumber(r.parser)),
               fmt::format("the XML is damaged or cut off ({}): write the file again", XML_ErrorString(XML_GetErrorCode(r.parser))));
    return std::move(r.top.children.front());
}

} // namespace orrery::ingest

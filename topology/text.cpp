#include "topology/text.hpp"

#include <algorithm>
#include <cstdlib>
#include <fmt/format.h>

namespace orrery {
namespace {

bool continues(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

// Bytes of the character that begins here; 0: none that may be printed. Overlong forms, surrogates and control characters of two bytes
// (0x80 to 0x9f: some terminals obey them) are none.
std::size_t length_of(std::string_view text) {
    const auto first = static_cast<unsigned char>(text[0]);
    if (first < 0x80) return first >= 0x20 && first != 0x7F ? 1 : first == '\n' || first == '\t' ? 1 : 0;
    const std::size_t n = first >= 0xC2 && first < 0xE0 ? 2 : first >= 0xE0 && first < 0xF0 ? 3 : first >= 0xF0 && first < 0xF5 ? 4 : 0;
    if (n == 0 || text.size() < n || !std::all_of(text.begin() + 1, text.begin() + static_cast<std::ptrdiff_t>(n), continues)) return 0;
    const auto second = static_cast<unsigned char>(text[1]);
    if ((first == 0xC2 && second < 0xA0) || (first == 0xE0 && second < 0xA0) || (first == 0xED && second >= 0xA0) ||
        (first == 0xF0 && second < 0x90) || (first == 0xF4 && second >= 0x90))
        return 0;
    return n;
}

// Bytes of a sequence that sets ink, as paint() writes it; 0: none begins here.
std::size_t ink_of(std::string_view text) {
    if (!text.starts_with("\x1b[")) return 0;
    const std::size_t end = text.find_first_not_of("0123456789;", 2);
    return end != std::string_view::npos && text[end] == 'm' ? end + 1 : 0;
}

} // namespace

std::string printable(std::string_view text, bool colour) {
    std::string out;
    out.reserve(text.size());
    for (std::size_t i = 0; i < text.size();) {
        std::size_t n = length_of(text.substr(i));
        if (n == 0 && colour) n = ink_of(text.substr(i));
        if (n == 0) {
            out += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[i++]));
            continue;
        }
        out += text.substr(i, n);
        i += n;
    }
    return out;
}

bool is_printable(std::string_view text) {
    for (std::size_t i = 0; i < text.size();) {
        const std::size_t n = length_of(text.substr(i));
        if (n == 0) return false;
        i += n;
    }
    return true;
}

std::string csv_cell(std::string_view text) {
    std::string out = printable(text);
    if (!out.empty() && std::string_view("=+-@\t").find(out.front()) != std::string_view::npos) {
        char* end = nullptr;
        std::strtod(out.c_str(), &end);
        if (end == out.c_str() || *end != 0) out.insert(0, "'");
    }
    if (out.find_first_of(",\"\n") == std::string::npos) return out;
    for (std::size_t at = 0; (at = out.find('"', at)) != std::string::npos; at += 2) out.insert(at, "\"");
    return "\"" + out + "\"";
}

std::vector<std::string_view> words_of(std::string_view text) {
    std::vector<std::string_view> out;
    for (std::size_t at = text.find_first_not_of(" \t\r"); at != std::string_view::npos;) {
        const std::size_t end = text.find_first_of(" \t\r", at);
        out.push_back(text.substr(at, end == std::string_view::npos ? end : end - at));
        at = end == std::string_view::npos ? end : text.find_first_not_of(" \t\r", end);
    }
    return out;
}

} // namespace orrery

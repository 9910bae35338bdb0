// Lines by indentation, and brackets inside a line.
#include "topology/ingest/yaml.hpp"
#include "topology/ingest/text.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace orrery::ingest {

namespace {

constexpr int most_indents = 32;

struct Logical {
    int line, indent;
    std::string text;
};

// Where the comment of a line begins, quotes respected; also the depth of brackets at its end.
std::size_t end_of_content(std::string_view text, int& depth) {
    char quote = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const char c = text[i];
        if (quote) {
            if (c == '\\' && quote == '"')
                ++i;
            else if (c == quote)
                quote = 0;
        } else if ((c == '"' || c == '\'') && (i == 0 || std::string_view(" [{,:-\t").find(text[i - 1]) != std::string_view::npos)) {
            quote = c;
        } else if (c == '#' && (i == 0 || text[i - 1] == ' ' || text[i - 1] == '\t')) {
            return i;
        } else {
            depth += c == '[' || c == '{' ? 1 : c == ']' || c == '}' ? -1 : 0;
        }
    }
    return text.size();
}

class YamlReading {
  public:
    explicit YamlReading(const InputFile& input) : file(input) {}

    const InputFile& file;
    std::vector<Logical> lines;
    std::size_t at = 0;

    void split() {
        int depth = 0;
        for (const TextLine& line : lines_of(file.text)) {
            const std::string_view content = line.text.substr(0, end_of_content(line.text, depth));
            const std::string_view text = trimmed(content);
            if (text.empty() || (lines.empty() && text == "---")) continue;
            if (text == "---" || text == "...") refuse(file, line.number, "a second document begins here: give a file with one");
            const std::size_t indent = content.find_first_not_of(" \t");
            if (content.substr(0, indent).find('\t') != std::string_view::npos)
                refuse(file, line.number, "a tab indents the line, which YAML forbids: use blanks");
            if (joined_)
                lines.back().text += " " + std::string(text);
            else
                lines.push_back({line.number, static_cast<int>(indent), std::string(text)});
            joined_ = depth > 0;
            if (depth < 0) refuse(file, line.number, "a bracket closes that was never opened");
        }
        if (depth != 0) refuse(file, lines.empty() ? 0 : lines.back().line, "a bracket is never closed: the file is cut off");
    }

    YamlValue block(int depth);
    YamlValue value(std::string_view text, int line, int depth);
    YamlValue flow(std::string_view& text, int line, int depth);
    void read_list(YamlValue& out, int indent, int depth);
    void read_mapping(YamlValue& out, int indent, int depth);

  private:
    bool joined_ = false;
};

// The end of a key in "key: value"; npos where the text is no such pair.
std::size_t end_of_key(std::string_view text) {
    if (!text.empty() && (text[0] == '"' || text[0] == '\'')) {
        const std::size_t close = text.find(text[0], 1);
        return close != std::string_view::npos && close + 1 < text.size() && text[close + 1] == ':' ? close + 1 : std::string_view::npos;
    }
    for (std::size_t i = 0; i < text.size(); ++i)
        if (text[i] == ':' && (i + 1 == text.size() || text[i + 1] == ' ')) return i;
    return std::string_view::npos;
}

std::string unquoted(std::string_view text) {
    text = trimmed(text);
    if (text.size() >= 2 && (text[0] == '"' || text[0] == '\'') && text.back() == text[0])
        return std::string(text.substr(1, text.size() - 2));
    return std::string(text);
}

bool is_item(std::string_view text) { return text == "-" || text.starts_with("- "); }

// Where an item between brackets ends. A host list has brackets of its own: node[1-3,5].
std::size_t end_of_item(std::string_view text, char close) {
    std::size_t end = 0;
    if (!text.empty() && (text[0] == '"' || text[0] == '\'')) end = std::min(text.find(text[0], 1), text.size());
    for (int inner = 0; end < text.size(); ++end) {
        if (inner == 0 && (text[end] == ',' || text[end] == close)) break;
        inner += text[end] == '[' ? 1 : text[end] == ']' ? -1 : 0;
    }
    return std::min(end, text.size());
}

YamlValue YamlReading::flow(std::string_view& text, int line, int depth) {
    if (depth > most_indents) refuse(file, line, fmt::format("brackets are nested more than {} deep", most_indents));
    YamlValue out;
    out.line = line;
    const char close = text[0] == '[' ? ']' : '}';
    out.kind = close == ']' ? YamlValue::Kind::list : YamlValue::Kind::mapping;
    text.remove_prefix(1);
    for (;;) {
        text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
        if (text.empty()) refuse(file, line, "a bracket is never closed");
        if (text[0] == close) return text.remove_prefix(1), out;
        std::string key;
        if (close == '}') {
            const std::size_t end = end_of_key(text);
            if (end == std::string_view::npos) refuse(file, line, "expected key: value between braces");
            key = unquoted(text.substr(0, end));
            text.remove_prefix(end + 1);
            text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
        }
        YamlValue item;
        item.line = line;
        if (!text.empty() && (text[0] == '[' || text[0] == '{')) {
            item = flow(text, line, depth + 1);
        } else {
            const std::size_t end = end_of_item(text, close);
            item.text = unquoted(text.substr(0, end));
            text.remove_prefix(std::min(end, text.size()));
        }
        if (close == '}')
            out.fields.emplace_back(std::move(key), std::move(item));
        else
            out.items.push_back(std::move(item));
        text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
        if (!text.empty() && text[0] == ',')
            text.remove_prefix(1);
        else if (text.empty() || text[0] != close)
            refuse(file, line, "expected a comma or the closing bracket");
    }
}

YamlValue YamlReading::value(std::string_view text, int line, int depth) {
    YamlValue out;
    out.line = line;
    if (text.empty()) return out;
    if (std::string_view("&*!|>%@`").find(text[0]) != std::string_view::npos)
        refuse(file, line, fmt::format("\"{}\": anchors, tags and block text are not read: write the value out", shown(text)));
    if (text[0] == '[' || text[0] == '{') {
        out = flow(text, line, depth);
        if (!trimmed(text).empty()) refuse(file, line, fmt::format("\"{}\" stands after the closing bracket", shown(trimmed(text))));
        return out;
    }
    out.text = unquoted(text);
    return out;
}

void YamlReading::read_list(YamlValue& out, int indent, int depth) {
    out.kind = YamlValue::Kind::list;
    while (at < lines.size() && lines[at].indent == indent && is_item(lines[at].text)) {
        Logical& here = lines[at];
        const std::size_t rest = here.text.find_first_not_of(' ', 1);
        if (rest == std::string::npos) {
            ++at;
            const bool nested = at < lines.size() && lines[at].indent > indent;
            out.items.push_back(nested ? block(depth + 1) : YamlValue{});
        } else if (is_item(std::string_view(here.text).substr(rest)) ||
                   (here.text[rest] != '[' && here.text[rest] != '{' &&
                    end_of_key(std::string_view(here.text).substr(rest)) != std::string::npos)) {
            here.indent += static_cast<int>(rest); // the item is a block that begins behind the dash
            here.text.erase(0, rest);
            out.items.push_back(block(depth + 1));
        } else {
            out.items.push_back(value(std::string_view(here.text).substr(rest), here.line, depth + 1));
            ++at;
        }
    }
}

void YamlReading::read_mapping(YamlValue& out, int indent, int depth) {
    out.kind = YamlValue::Kind::mapping;
    while (at < lines.size() && lines[at].indent == indent && !is_item(lines[at].text)) {
        const Logical& here = lines[at];
        const std::size_t end = end_of_key(here.text);
        if (end == std::string::npos) refuse(file, here.line, fmt::format("\"{}\" is no \"key: value\"", shown(here.text)));
        std::string key = unquoted(std::string_view(here.text).substr(0, end));
        if (out.field(key)) refuse(file, here.line, fmt::format("the key {} stands twice", shown(key)));
        const std::string_view rest = trimmed(std::string_view(here.text).substr(end + 1));
        ++at;
        if (!rest.empty()) {
            YamlValue v = value(rest, here.line, depth + 1);
            out.fields.emplace_back(std::move(key), std::move(v));
        } else if (at < lines.size() && (lines[at].indent > indent || (lines[at].indent == indent && is_item(lines[at].text)))) {
            YamlValue v = block(depth + 1);
            out.fields.emplace_back(std::move(key), std::move(v));
        } else {
            YamlValue v;
            v.line = here.line;
            out.fields.emplace_back(std::move(key), std::move(v));
        }
    }
}

YamlValue YamlReading::block(int depth) {
    if (depth > most_indents) refuse(file, lines[at].line, fmt::format("values are nested more than {} deep", most_indents));
    YamlValue out;
    out.line = lines[at].line;
    const int indent = lines[at].indent;
    if (is_item(lines[at].text))
        read_list(out, indent, depth);
    else
        read_mapping(out, indent, depth);
    if (at < lines.size() && lines[at].indent > indent) refuse(file, lines[at].line, "the line is indented more than those before it");
    return out;
}

} // namespace

const YamlValue* YamlValue::field(std::string_view key) const {
    for (const auto& [name, value] : fields)
        if (name == key) return &value;
    return nullptr;
}

YamlValue read_yaml(const InputFile& file) {
    YamlReading r(file);
    r.split();
    if (r.lines.empty()) refuse(file, 0, "the file is empty");
    YamlValue out = r.block(0);
    if (r.at < r.lines.size()) refuse(file, r.lines[r.at].line, "the line's indentation fits none before it");
    return out;
}

} // namespace orrery::ingest

#include "gui/editor/json_place.hpp"

#include <algorithm>
#include <cctype>

namespace orrery {
namespace {

constexpr int deepest = 200;

class Scanner {
  public:
    explicit Scanner(std::string_view text) : text_(text) {}

    JsonPlaces run() {
        if (!value("", 0, 0, 0) || !only_blanks_left()) out_.error_at = at_;
        return std::move(out_);
    }

  private:
    // Blanks and comments.
    void skip() {
        while (at_ < text_.size()) {
            if (std::isspace(static_cast<unsigned char>(text_[at_])) != 0) {
                ++at_;
            } else if (text_.substr(at_, 2) == "//") {
                at_ = std::min(text_.size(), text_.find('\n', at_));
            } else if (text_.substr(at_, 2) == "/*") {
                const std::size_t close = text_.find("*/", at_ + 2);
                at_ = close == std::string_view::npos ? text_.size() : close + 2;
            } else {
                return;
            }
        }
    }

    bool only_blanks_left() {
        skip();
        return at_ == text_.size();
    }

    bool next_is(char c) {
        skip();
        if (at_ >= text_.size() || text_[at_] != c) return false;
        ++at_;
        return true;
    }

    bool string() {
        if (at_ >= text_.size() || text_[at_] != '"') return false;
        for (std::size_t i = at_ + 1; i < text_.size(); ++i) {
            if (text_[i] == '\\') {
                ++i;
            } else if (text_[i] == '"') {
                at_ = i + 1;
                return true;
            } else if (text_[i] == '\n') {
                return false;
            }
        }
        return false;
    }

    bool word() {
        const std::size_t begin = at_;
        while (at_ < text_.size() &&
               (std::isalnum(static_cast<unsigned char>(text_[at_])) != 0 || text_[at_] == '+' || text_[at_] == '-' || text_[at_] == '.'))
            ++at_;
        return at_ > begin;
    }

    bool value(const std::string& pointer, std::size_t key_begin, std::size_t key_end, int depth) {
        skip();
        if (at_ >= text_.size() || depth > deepest) return false;
        JsonPlace place{key_begin, key_end, at_, at_, text_[at_]};
        bool good = false;
        switch (place.kind) {
        case '{':
            good = object(pointer, place, depth);
            break;
        case '[':
            good = array(pointer, place, depth);
            break;
        case '"':
            good = string();
            break;
        default:
            good = word();
            break;
        }
        place.end = at_;
        if (good) out_.places[pointer] = std::move(place);
        return good;
    }

    bool object(const std::string& pointer, JsonPlace& place, int depth) {
        ++at_;
        if (next_is('}')) return true;
        do {
            skip();
            const std::size_t key = at_;
            if (!string()) return false;
            const std::size_t key_end = at_;
            const std::string name = pointer + "/" + escaped_step(unquoted(text_.substr(key, key_end - key)));
            if (!next_is(':') || !value(name, key, key_end, depth + 1)) return false;
            place.members.push_back(name);
        } while (next_is(','));
        return next_is('}');
    }

    bool array(const std::string& pointer, JsonPlace& place, int depth) {
        ++at_;
        if (next_is(']')) return true;
        do {
            const std::string name = pointer + "/" + std::to_string(place.members.size());
            if (!value(name, 0, 0, depth + 1)) return false;
            place.members.push_back(name);
        } while (next_is(','));
        return next_is(']');
    }

    // A key without quotes; of escapes only those a field's name could need.
    static std::string unquoted(std::string_view quoted) {
        std::string out;
        for (std::size_t i = 1; i + 1 < quoted.size(); ++i) {
            if (quoted[i] == '\\' && i + 2 < quoted.size()) ++i;
            out += quoted[i];
        }
        return out;
    }

    std::string_view text_;
    std::size_t at_ = 0;
    JsonPlaces out_;
};

std::string json_text(std::string_view plain) {
    std::string out = "\"";
    for (char c : plain) {
        if (c == '"' || c == '\\') out += '\\';
        out += c;
    }
    return out + '"';
}

// `value` wrapped in an object for each step left: "/b/c" and 1 -> {"b": {"c": 1}}, with the first step kept apart as the key.
std::string wrapped(std::string_view rest, std::string_view value) {
    if (rest.empty()) return std::string(value);
    const std::size_t next = rest.find('/', 1);
    const std::string step = last_step(rest.substr(0, next));
    return "{" + json_text(step) + ": " + wrapped(next == std::string_view::npos ? std::string_view{} : rest.substr(next), value) + "}";
}

std::size_t line_begin(std::string_view text, std::size_t at) {
    const std::size_t end = at == 0 ? std::string_view::npos : text.rfind('\n', at - 1);
    return end == std::string_view::npos ? 0 : end + 1;
}

bool starts_its_line(std::string_view text, std::size_t at) {
    const std::size_t begin = line_begin(text, at);
    return std::all_of(text.begin() + static_cast<std::ptrdiff_t>(begin), text.begin() + static_cast<std::ptrdiff_t>(at),
                       [](unsigned char c) { return std::isspace(c) != 0; });
}

constexpr std::size_t widest_line = 120;

// A new last member of the object at `place`, laid out as its neighbours are.
std::string with_member(std::string_view text, const JsonPlaces& places, const JsonPlace& place, const std::string& member) {
    std::string out(text);
    if (place.members.empty()) return out.replace(place.begin, place.end - place.begin, "{" + member + "}");
    const JsonPlace& last = places.places.at(place.members.back());
    const JsonPlace& first = places.places.at(place.members.front());
    const std::size_t column = first.key_begin - line_begin(text, first.key_begin);
    const bool own_line = starts_its_line(text, last.key_begin) && starts_its_line(text, first.key_begin);
    const bool too_wide = last.end - line_begin(text, last.end) + member.size() + 2 > widest_line;
    return out.insert(last.end, own_line || too_wide ? ",\n" + std::string(column, ' ') + member : ", " + member);
}

} // namespace

std::string escaped_step(std::string_view key) {
    std::string out;
    for (char c : key) {
        if (c == '~')
            out += "~0";
        else if (c == '/')
            out += "~1";
        else
            out += c;
    }
    return out;
}

std::string last_step(std::string_view pointer) {
    const std::size_t slash = pointer.rfind('/');
    std::string out;
    for (std::size_t i = slash == std::string_view::npos ? 0 : slash + 1; i < pointer.size(); ++i) {
        if (pointer[i] == '~' && i + 1 < pointer.size())
            out += pointer[++i] == '1' ? '/' : '~';
        else
            out += pointer[i];
    }
    return out;
}

std::string parent_of(std::string_view pointer) {
    const std::size_t slash = pointer.rfind('/');
    return slash == std::string_view::npos ? std::string{} : std::string(pointer.substr(0, slash));
}

JsonPlaces json_places(std::string_view text) { return Scanner(text).run(); }

std::optional<std::string> value_at(std::string_view text, const std::string& pointer) {
    const JsonPlaces places = json_places(text);
    const auto it = places.places.find(pointer);
    if (it == places.places.end()) return std::nullopt;
    return std::string(text.substr(it->second.begin, it->second.end - it->second.begin));
}

std::optional<std::string> with_value(std::string_view text, const std::string& pointer, std::string_view value) {
    const JsonPlaces places = json_places(text);
    if (places.error_at) return std::nullopt;
    std::string there = pointer;
    while (!there.empty() && !places.places.contains(there)) there = parent_of(there);
    const JsonPlace& place = places.places.at(there);
    const std::string_view rest = std::string_view(pointer).substr(there.size());
    std::string out(text);
    if (rest.empty()) return out.replace(place.begin, place.end - place.begin, value);
    const std::string object = wrapped(rest, value);                // {"b": {"c": 1}}
    const std::string member = object.substr(1, object.size() - 2); // "b": {"c": 1}
    if (place.kind == '{') return with_member(text, places, place, member);
    if (place.kind != '"') return std::nullopt;
    const std::string preset(text.substr(place.begin, place.end - place.begin));
    return out.replace(place.begin, place.end - place.begin, "{\"preset\": " + preset + ", " + member + "}");
}

std::optional<std::string> without_value(std::string_view text, const std::string& pointer) {
    const JsonPlaces places = json_places(text);
    if (places.error_at || pointer.empty()) return std::nullopt;
    const auto it = places.places.find(pointer);
    if (it == places.places.end()) return std::string(text);
    const JsonPlace& parent = places.places.at(parent_of(pointer));
    const auto me = std::find(parent.members.begin(), parent.members.end(), pointer);
    std::string out(text);
    const std::size_t begin = it->second.key_end > it->second.key_begin ? it->second.key_begin : it->second.begin;
    if (parent.members.size() == 1) return out.erase(begin, it->second.end - begin);
    if (me != parent.members.begin()) { // from the end of the one before, its comma included
        const std::size_t from = places.places.at(*(me - 1)).end;
        return out.erase(from, it->second.end - from);
    }
    const JsonPlace& next = places.places.at(*(me + 1));
    const std::size_t to = next.key_end > next.key_begin ? next.key_begin : next.begin;
    return out.erase(begin, to - begin);
}

std::optional<JsonPlace> nearest_place(const JsonPlaces& places, std::string pointer) {
    while (true) {
        if (const auto it = places.places.find(pointer); it != places.places.end()) return it->second;
        if (pointer.empty()) return std::nullopt;
        pointer = parent_of(pointer);
    }
}

} // namespace orrery

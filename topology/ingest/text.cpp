// Lines, words, numbers and host lists.
#include "topology/ingest/text.hpp"

#include <fmt/format.h>

#include <cctype>
#include <charconv>
#include <cmath>

namespace orrery::ingest {

void refuse(const InputFile& file, int line, const std::string& what) {
    throw IngestError(line > 0 ? fmt::format("{}:{}: {}", file.name, line, what) : fmt::format("{}: {}", file.name, what));
}

std::vector<TextLine> lines_of(std::string_view text) {
    std::vector<TextLine> out;
    for (int number = 1; !text.empty(); ++number) {
        const std::size_t end = text.find('\n');
        std::string_view line = text.substr(0, end);
        if (line.ends_with('\r')) line.remove_suffix(1);
        out.push_back({number, line});
        text = end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
    }
    return out;
}

std::string_view trimmed(std::string_view text) {
    const std::size_t begin = text.find_first_not_of(" \t\r");
    if (begin == std::string_view::npos) return {};
    return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

std::string lower(std::string_view text) {
    std::string out(text);
    for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return out;
}

std::string shown(std::string_view text) {
    std::string out;
    for (const char c : text.substr(0, 60)) out += c >= ' ' && c <= '~' ? c : '?';
    return text.size() > 60 ? out + ".." : out;
}

std::optional<double> number_of(std::string_view text) {
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (text.empty() || error != std::errc{} || end != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
    return value;
}

std::optional<int> whole_number_of(std::string_view text) {
    int value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (text.empty() || error != std::errc{} || end != text.data() + text.size() || value < 0 || value >= 2'000'000'000)
        return std::nullopt;
    return value;
}

namespace {

constexpr std::size_t most_hosts = 1'000'000;

// The numbers of "1-3,7" with their leading zeros kept.
std::optional<std::vector<std::string>> range_list(std::string_view text) {
    std::vector<std::string> out;
    for (;;) {
        const std::size_t comma = text.find(',');
        const std::string_view part = trimmed(text.substr(0, comma));
        const std::size_t dash = part.find('-');
        const std::string_view first = part.substr(0, dash), last = dash == std::string_view::npos ? first : part.substr(dash + 1);
        const auto from = whole_number_of(first), to = whole_number_of(last);
        if (!from || !to || *to < *from || static_cast<std::size_t>(*to - *from) >= most_hosts) return std::nullopt;
        for (int i = *from; i <= *to; ++i) out.push_back(fmt::format("{:0{}}", i, first.size()));
        if (out.size() > most_hosts) return std::nullopt;
        if (comma == std::string_view::npos) return out;
        text.remove_prefix(comma + 1);
    }
}

// One name with any number of brackets: "r[1-2]n[1-4]".
bool expand(std::string_view name, std::vector<std::string>& out) {
    std::vector<std::string> begun{""};
    while (!name.empty()) {
        const std::size_t open = name.find('['), close = name.find(']');
        if (close < open) return false;
        for (std::string& b : begun) b += name.substr(0, open);
        if (open == std::string_view::npos) break;
        if (close == std::string_view::npos) return false;
        const auto numbers = range_list(name.substr(open + 1, close - open - 1));
        if (!numbers || begun.size() * numbers->size() > most_hosts) return false;
        std::vector<std::string> longer;
        for (const std::string& b : begun)
            for (const std::string& n : *numbers) longer.push_back(b + n);
        begun = std::move(longer);
        name.remove_prefix(close + 1);
    }
    out.insert(out.end(), begun.begin(), begun.end());
    return out.size() <= most_hosts;
}

} // namespace

std::optional<std::vector<std::string>> host_list(std::string_view text) {
    std::vector<std::string> out;
    while (!text.empty()) {
        std::size_t end = 0;
        for (int depth = 0; end < text.size() && (text[end] != ',' || depth > 0); ++end) {
            depth += text[end] == '[' ? 1 : text[end] == ']' ? -1 : 0;
            if (depth < 0 || depth > 1) return std::nullopt;
        }
        const std::string_view name = trimmed(text.substr(0, end));
        if (name.empty() || !expand(name, out)) return std::nullopt;
        if (end == text.size()) return out;
        text.remove_prefix(end + 1);
    }
    return std::nullopt;
}

std::string counted(std::size_t n, std::string_view thing) {
    const bool es = thing.ends_with("ch") || thing.ends_with("x");
    return fmt::format("{} {}{}", n, thing, n == 1 ? "" : es ? "es" : "s");
}

} // namespace orrery::ingest

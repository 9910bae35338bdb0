#include "sim/report/terminal.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

namespace orrery {

std::string paint(std::string_view text, Ink ink, const TextStyle& style) {
    if (!style.colour || ink == Ink::plain) return std::string(text);
    static constexpr std::array<const char*, 9> codes{"0", "1", "2", "31", "32", "33", "34", "35", "36"};
    return fmt::format("\x1b[{}m{}\x1b[0m", codes[static_cast<std::size_t>(ink)], text);
}

std::string bar(double share, int width, Ink ink, const TextStyle& style) {
    const double filled = std::clamp(share, 0.0, 1.0) * width;
    if (!style.unicode) {
        const int n = static_cast<int>(std::lround(filled));
        return std::string(static_cast<std::size_t>(n), '#') + std::string(static_cast<std::size_t>(width - n), ' ');
    }
    static constexpr std::array<const char*, 8> eighths{"", "\u258f", "\u258e", "\u258d", "\u258c", "\u258b", "\u258a", "\u2589"};
    const int parts = static_cast<int>(std::lround(filled * 8)), whole = parts / 8;
    std::string text;
    for (int i = 0; i < whole; ++i) text += "\u2588";
    const bool rest = parts % 8 != 0;
    text += eighths[parts % 8];
    return paint(text, ink, style) + std::string(static_cast<std::size_t>(width - whole - (rest ? 1 : 0)), ' ');
}

int columns(std::string_view text) {
    int n = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] == '\x1b') {
            while (i < text.size() && text[i] != 'm') ++i;
        } else if ((static_cast<unsigned char>(text[i]) & 0xC0) != 0x80) {
            ++n;
        }
    }
    return n;
}

std::string pad_left(std::string_view text, int width) {
    return std::string(static_cast<std::size_t>(std::max(0, width - columns(text))), ' ') + std::string(text);
}

std::string pad_right(std::string_view text, int width) {
    return std::string(text) + std::string(static_cast<std::size_t>(std::max(0, width - columns(text))), ' ');
}

std::string clip(std::string_view text, int width) {
    if (columns(text) <= width || width < 3) return std::string(text);
    std::string out;
    int n = 0;
    for (char c : text) {
        const bool starts = (static_cast<unsigned char>(c) & 0xC0) != 0x80;
        if (starts && n++ == width - 2) break;
        out += c;
    }
    return out + "..";
}

std::string grouped(std::int64_t n) {
    std::string digits = std::to_string(n < 0 ? -n : n);
    for (std::size_t at = digits.size(); at > 3;) digits.insert(at -= 3, ",");
    return n < 0 ? "-" + digits : digits;
}

std::string metric(double value, int digits, std::string_view unit) {
    static constexpr std::array<const char*, 7> prefixes{"", "k", "M", "G", "T", "P", "E"};
    std::size_t i = 0;
    while (std::abs(value) >= 999.5 && i + 1 < prefixes.size()) value /= 1000, ++i;
    const double size = std::abs(value);
    const int decimals = i == 0 && value == std::floor(value) ? 0
                         : size >= 100                        ? std::max(0, digits - 3)
                         : size >= 10                         ? std::max(0, digits - 2)
                                                              : digits - 1;
    const std::string suffix = prefixes[i] + std::string(unit);
    return fmt::format("{:.{}f}{}{}", value, decimals, suffix.empty() ? "" : " ", suffix);
}

std::string seconds_text(double s) {
    const double a = std::abs(s);
    if (a >= 100) return fmt::format("{:.1f} s", s);
    if (a >= 1) return fmt::format("{:.2f} s", s);
    if (a >= 1e-3) return fmt::format("{:.2f} ms", s * 1e3);
    if (a > 0) return fmt::format("{:.1f} us", s * 1e6);
    return "0 s";
}

std::string span_text(double s) {
    constexpr double hour = 3600, day = 24 * hour, year = 365.25 * day;
    if (s >= 1000 * year) return metric(s / year, 3) + " years";
    if (s >= 2 * year) return fmt::format("{:.3g} years", s / year);
    if (s >= 2 * day) return fmt::format("{:.1f} days", s / day);
    if (s >= 2 * hour) return fmt::format("{:.1f} h", s / hour);
    return s >= 120 ? fmt::format("{:.1f} min", s / 60) : seconds_text(s);
}

std::string to_text(const Table& table, const TextStyle& style) {
    std::vector<int> width;
    for (const std::string& h : table.header) width.push_back(columns(h));
    for (const auto& row : table.rows) {
        for (std::size_t c = 0; c < row.size() && c < width.size(); ++c) width[c] = std::max(width[c], columns(row[c]));
    }
    const int whole = std::accumulate(width.begin(), width.end(), 2 * std::max(0, static_cast<int>(width.size()) - 1));
    const bool beneath = table.last_beneath && whole > style.width && width.size() > 1;
    const auto line = [&](const std::vector<std::string>& cells) {
        std::string out;
        for (std::size_t c = 0; c < cells.size() && c < width.size(); ++c) {
            if (beneath && c + 1 == width.size()) {
                out = out.substr(0, out.find_last_not_of(' ') + 1) + "\n" + std::string(static_cast<std::size_t>(width[0]) + 2, ' ') +
                      cells[c];
                continue;
            }
            const bool last = c + 1 == width.size(), right = c < table.right.size() && table.right[c];
            if (c > 0) out += "  ";
            out += right ? pad_left(cells[c], width[c]) : last ? cells[c] : pad_right(cells[c], width[c]);
        }
        return out.substr(0, out.find_last_not_of(' ') + 1);
    };
    std::string text = paint(line(table.header), Ink::bold, style) + "\n";
    for (const auto& row : table.rows) text += line(row) + "\n";
    return text;
}

std::string wrapped(const std::string& text, int width, const std::string& first, const std::string& rest) {
    std::string out, line = first;
    std::size_t at = 0;
    bool fresh = true;
    while (at < text.size()) {
        const std::size_t space = std::min(text.find(' ', at), text.size());
        const std::string word = text.substr(at, space - at);
        if (!fresh && columns(line) + 1 + columns(word) > width) out += line + "\n", line = rest, fresh = true;
        line += (fresh ? "" : " ") + word;
        fresh = false;
        at = space + 1;
    }
    return out + line + "\n";
}

} // namespace orrery

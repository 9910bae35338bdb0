// Edit distance by the usual table (Damerau's variant with swaps of neighbours), and small list texts.
#include "sim/scenario/suggest.hpp"

#include <algorithm>
#include <cctype>
#include <numeric>

namespace orrery {
namespace {

char folded(char c) {
    if (c == '_' || c == ' ') return '-';
    return static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
}

} // namespace

int edit_distance(std::string_view a, std::string_view b) {
    std::vector<std::vector<int>> d(a.size() + 1, std::vector<int>(b.size() + 1));
    for (std::size_t i = 0; i <= a.size(); ++i) d[i][0] = static_cast<int>(i);
    for (std::size_t j = 0; j <= b.size(); ++j) d[0][j] = static_cast<int>(j);
    for (std::size_t i = 1; i <= a.size(); ++i) {
        for (std::size_t j = 1; j <= b.size(); ++j) {
            const char x = folded(a[i - 1]), y = folded(b[j - 1]);
            d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (x != y)});
            if (i > 1 && j > 1 && x == folded(b[j - 2]) && folded(a[i - 2]) == y) d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
        }
    }
    return d[a.size()][b.size()];
}

std::optional<std::string> nearest(std::string_view word, const std::vector<std::string>& known) {
    std::optional<std::string> best;
    int least = 0;
    for (const std::string& candidate : known) {
        int distance = edit_distance(word, candidate);
        const bool begins = word.size() >= 3 && (candidate.starts_with(word) || (candidate.size() >= 3 && word.starts_with(candidate)));
        const int allowed = std::max<int>(1, static_cast<int>(std::max(word.size(), candidate.size())) / 3);
        if (begins) distance = std::min(distance, allowed);
        if (distance <= allowed && (!best || distance < least)) best = candidate, least = distance;
    }
    return best;
}

std::string join(const std::vector<std::string>& words, std::string_view separator) {
    std::string text;
    for (const std::string& word : words) {
        if (!text.empty()) text += separator;
        text += word;
    }
    return text;
}

std::vector<std::int64_t> common_divisors(std::int64_t a, std::int64_t b, std::size_t count) {
    const std::int64_t g = std::gcd(a, b);
    std::vector<std::int64_t> low, high;
    for (std::int64_t d = 1; d * d <= g; ++d) {
        if (g % d != 0) continue;
        low.push_back(d);
        if (d * d != g) high.push_back(g / d);
    }
    low.insert(low.end(), high.rbegin(), high.rend());
    if (low.size() > count) low.resize(count);
    return low;
}

std::string join(const std::vector<std::int64_t>& numbers) {
    std::string text;
    for (const std::int64_t n : numbers) text += (text.empty() ? "" : ", ") + std::to_string(n);
    return text;
}

} // namespace orrery

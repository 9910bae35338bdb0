#include "sim/fit/table.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <zlib.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <stdexcept>

namespace orrery {

namespace {

// gzread gives plain files as they are.
std::string contents(const std::string& path) {
    gzFile file = gzopen(path.c_str(), "rb");
    if (file == nullptr) throw std::runtime_error(path + ": cannot be read");
    std::string text;
    char block[1 << 16];
    int got = 0;
    while ((got = gzread(file, block, sizeof block)) > 0) text.append(block, static_cast<std::size_t>(got));
    const bool broken = got < 0;
    gzclose(file);
    if (broken) throw std::runtime_error(path + ": is cut short or no gzip file");
    return text;
}

std::vector<std::string> cells(const std::string& line) {
    std::vector<std::string> out(1);
    bool quoted = false;
    for (char c : line) {
        if (c == '"')
            quoted = !quoted;
        else if (c == ',' && !quoted)
            out.emplace_back();
        else if (c != '\r')
            out.back() += c;
    }
    return out;
}

} // namespace

double MeasuredTable::number(std::size_t row, const char* name) const { return std::strtod(text(row, name).c_str(), nullptr); }

MeasuredTable parse_table(const std::string& name, const std::string& csv) {
    MeasuredTable t;
    t.file = name;
    const auto under = name.find('_'), dot = name.find(".csv");
    if (under != std::string::npos && dot != std::string::npos && under < dot) t.device = name.substr(under + 1, dot - under - 1);
    std::istringstream lines(csv);
    std::string line;
    if (!std::getline(lines, line)) throw std::runtime_error(name + ": is empty");
    const auto header = cells(line);
    for (std::size_t i = 0; i < header.size(); ++i) t.column[header[i]] = i;
    for (std::size_t n = 2; std::getline(lines, line); ++n) {
        if (line.empty()) continue;
        t.rows.push_back(cells(line));
        if (t.rows.back().size() != header.size())
            throw std::runtime_error(
                fmt::format("{}, line {}: {} cells where the header has {}", name, n, t.rows.back().size(), header.size()));
    }
    return t;
}

MeasuredTable parse_json_table(const std::string& name, const std::string& text) {
    const auto j = nlohmann::ordered_json::parse(text, nullptr, false);
    const auto& list = j.is_object() && j.contains("rows") ? j.at("rows") : j;
    if (!list.is_array()) throw std::runtime_error(name + ": is no JSON list of rows");
    MeasuredTable t;
    t.file = name;
    for (const auto& row : list)
        for (const auto& [key, value] : row.items()) t.column.try_emplace(key, t.column.size());
    for (const auto& row : list) {
        t.rows.emplace_back(t.column.size());
        for (const auto& [key, value] : row.items())
            t.rows.back()[t.column.at(key)] = value.is_string() ? value.get<std::string>() : value.dump();
    }
    return t;
}

MeasuredTable read_table(const std::string& path) {
    if (path.ends_with(".json")) return parse_json_table(std::filesystem::path(path).filename().string(), contents(path));
    return parse_table(std::filesystem::path(path).filename().string(), contents(path));
}

} // namespace orrery

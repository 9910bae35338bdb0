#include "sim/fit/table.hpp"

#include "sim/scenario/csv.hpp"
#include "sim/scenario/input_file.hpp"
#include "sim/scenario/parse.hpp"
#include "topology/text.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <zlib.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <stdexcept>

namespace orrery {

namespace {

constexpr std::size_t most_bytes = 512 << 20, most_cells = 50'000'000;

// gzread gives plain files as they are.
std::string contents(const std::string& path) {
    if (const std::string why = unreadable(path); !why.empty()) throw std::runtime_error(path + " " + why);
    gzFile file = gzopen(path.c_str(), "rb");
    if (file == nullptr) throw std::runtime_error(path + ": cannot be read");
    std::string text;
    char block[1 << 16];
    int got = 0;
    while ((got = gzread(file, block, sizeof block)) > 0) {
        text.append(block, static_cast<std::size_t>(got));
        if (text.size() <= most_bytes) continue;
        gzclose(file);
        throw std::runtime_error(fmt::format("{}: unpacked it has more than {} bytes: split the table", path, most_bytes));
    }
    const bool broken = got < 0;
    gzclose(file);
    if (broken) throw std::runtime_error(path + ": is cut short or no gzip file");
    return text;
}

} // namespace

const std::string& MeasuredTable::text(std::size_t row, const char* name) const {
    const auto at = column.find(name);
    if (at == column.end()) throw std::runtime_error(fmt::format("{}: has no column \"{}\", which tables like it have", file, name));
    return rows[row][at->second];
}

// Cells that are empty or hold JSON's true, false and null count as 0; a remark in parentheses may stand after a number ("60 (RDMA)").
double MeasuredTable::number(std::size_t row, const char* name) const {
    const std::string& cell = text(row, name);
    char* end = nullptr;
    const double value = std::strtod(cell.c_str(), &end);
    while (*end == ' ') ++end;
    const bool remark = *end == '(' && cell.back() == ')';
    if ((*end == 0 || remark) && !cell.empty() && std::isfinite(value)) return value;
    if (cell.empty() || cell == "true" || cell == "false" || cell == "null") return 0;
    throw std::runtime_error(fmt::format("{}: row {}, column {}: \"{}\" is no number", file, row + 1, name, cell.substr(0, 40)));
}

MeasuredTable parse_table(const std::string& name, const std::string& csv) {
    MeasuredTable t;
    t.file = printable(name);
    const auto under = name.find('_'), dot = name.find(".csv");
    if (under != std::string::npos && dot != std::string::npos && under < dot) t.device = name.substr(under + 1, dot - under - 1);
    const bool clean = is_printable(csv);
    std::istringstream lines(csv);
    std::string line;
    if (csv.find_first_not_of(" \t\r\n") == std::string::npos || !std::getline(lines, line)) throw std::runtime_error(name + ": is empty");
    const auto header = csv_cells(line);
    for (std::size_t i = 0; i < header.size(); ++i) t.column[header[i]] = i;
    for (std::size_t n = 2; std::getline(lines, line); ++n) {
        if (line.empty()) continue;
        t.rows.push_back(csv_cells(line));
        if (!clean)
            for (std::string& c : t.rows.back()) c = printable(c);
        if (t.rows.back().size() != header.size())
            throw std::runtime_error(
                fmt::format("{}, line {}: {} cells where the header has {}", name, n, t.rows.back().size(), header.size()));
    }
    return t;
}

MeasuredTable parse_json_table(const std::string& name, const std::string& text) {
    if (const std::vector<Problem> wrong = json_problems(text); !wrong.empty())
        throw std::runtime_error(name + ": " + problem_text(wrong.front()));
    const auto j = nlohmann::ordered_json::parse(text, nullptr, false, true);
    const auto& list = j.is_object() && j.contains("rows") ? j.at("rows") : j;
    if (!list.is_array()) throw std::runtime_error(name + ": is no JSON list of rows");
    MeasuredTable t;
    t.file = printable(name);
    for (const auto& row : list) {
        if (!row.is_object()) throw std::runtime_error(fmt::format("{}: row {} is no object of columns", name, &row - &list.front() + 1));
        for (const auto& [key, value] : row.items()) t.column.try_emplace(key, t.column.size());
    }
    if (list.size() * t.column.size() > most_cells)
        throw std::runtime_error(fmt::format("{}: {} rows of {} columns are more than {} cells: split the table", name, list.size(),
                                             t.column.size(), most_cells));
    for (const auto& row : list) {
        t.rows.emplace_back(t.column.size());
        for (const auto& [key, value] : row.items())
            t.rows.back()[t.column.at(key)] = value.is_string() ? printable(value.get<std::string>()) : value.dump();
    }
    return t;
}

MeasuredTable read_table(const std::string& path) {
    if (path.ends_with(".json")) return parse_json_table(std::filesystem::path(path).filename().string(), contents(path));
    return parse_table(std::filesystem::path(path).filename().string(), contents(path));
}

} // namespace orrery

// See whole_run_text.hpp: forms of their own.
#include "sim/scenario/whole_run_text.hpp"
#include "sim/scenario/csv.hpp"

#include "sim/scenario/input_file.hpp"
#include "sim/scenario/suggest.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <fstream>

namespace orrery {
namespace {

constexpr std::size_t most_outages = 1'000'000;

std::string trimmed(const std::string& text) {
    const auto from = text.find_first_not_of(" \t");
    return from == std::string::npos ? "" : text.substr(from, text.find_last_not_of(" \t") - from + 1);
}

bool number_of(const std::string& cell, double& out) {
    const std::string text = trimmed(cell);
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
    return error == std::errc() && end == text.data() + text.size() && std::isfinite(out);
}

// The columns of a trace by their names in its first line; -1: there is none.
struct Columns {
    int node = -1, begin = -1, end = -1;
    explicit Columns(const std::vector<std::string>& head) {
        for (std::size_t i = 0; i < head.size(); ++i) {
            const std::string name = trimmed(head[i]);
            if (name == "node") node = static_cast<int>(i);
            if (name == "start_day") begin = static_cast<int>(i);
            if (name == "end_day") end = static_cast<int>(i);
        }
    }
    bool all() const { return node >= 0 && begin >= 0 && end >= 0; }
    std::size_t last() const { return static_cast<std::size_t>(std::max({node, begin, end})); }
};

// "" or why a line is no outage.
std::string outage_of(const std::vector<std::string>& cell, const Columns& at, WholeRun::Outage& out) {
    if (cell.size() <= at.last()) return "has too few columns";
    double node = 0, begin = 0, end = 0;
    if (!number_of(cell[at.node], node) || node < 0 || node > 1e6 || node != std::floor(node))
        return "has no node number from 0 to 1000000";
    if (!number_of(cell[at.begin], begin) || !number_of(cell[at.end], end)) return "has a start_day or end_day that is no number";
    if (begin < 0 || end < begin || end > 36500) return "must have 0 <= start_day <= end_day <= 36500";
    out = {static_cast<int>(node), begin * 86400, end * 86400};
    return "";
}

// The next line, cut off where it is too long to be an outage's; false: there is none.
bool next_line(std::ifstream& in, std::string& line) {
    constexpr std::size_t longest = 10'000;
    line.clear();
    std::streambuf& from = *in.rdbuf();
    int c = from.sbumpc();
    if (c == std::ifstream::traits_type::eof()) return false;
    for (; c != std::ifstream::traits_type::eof() && c != '\n'; c = from.sbumpc())
        if (line.size() < longest) line += static_cast<char>(c);
    return true;
}

} // namespace

void read_save_interval(Reading& reading, const Json& value, const std::string& where) {
    WholeRun::Checkpoint& c = reading.scenario.run->checkpoint;
    c.every_steps = 0;
    c.every_seconds = 0;
    if (value == "auto") return;
    const std::string form = " must be \"auto\", {\"steps\": n} or {\"seconds\": s}";
    if (!value.is_object() || value.size() != 1) return reading.problem(where, dotted(where) + " = " + short_text(value) + form);
    const std::string key = value.begin().key();
    const Json& item = value.begin().value();
    const double x = item.is_number() ? item.get<double>() : 0;
    if (key == "steps" && item.is_number() && x >= 1 && x <= 1e12 && x == std::floor(x))
        c.every_steps = static_cast<std::int64_t>(x);
    else if (key == "seconds" && x >= 0.001 && x <= 1e9)
        c.every_seconds = x;
    else
        reading.problem(where, dotted(where) + " = " + short_text(value) + form + ", n a whole number from 1, s from 0.001 to 1000000000");
}

void read_repair_deciles(Reading& reading, const Json& value, const std::string& where) {
    std::vector<double> days;
    bool fine = value.is_array() && value.size() == 9;
    for (std::size_t i = 0; fine && i < 9; ++i) {
        fine = value[i].is_number() && value[i].get<double>() >= (days.empty() ? 0 : days.back()) && value[i].get<double>() <= 1e4;
        if (fine) days.push_back(value[i].get<double>());
    }
    if (!fine)
        return reading.problem(where, dotted(where) + " = " + short_text(value) +
                                          " must be nine numbers of days from 0 to 10000, none below the one before: 10, 20 .. 90 % of "
                                          "repairs are shorter");
    reading.scenario.run->repair.days = days;
}

void read_fault_trace(Reading& reading, const Json& value, const std::string& where) {
    if (!value.is_string()) return reading.problem(where, dotted(where) + " = " + short_text(value) + " must be a file's path");
    WholeRun::Failures& f = reading.scenario.run->failures;
    f.file = value.get<std::string>();
    if (!is_name(f.file)) return reading.problem(where, dotted(where) + " holds a control character");
    const std::filesystem::path path =
        reading.options.base_dir.empty() ? std::filesystem::path(f.file) : std::filesystem::path(reading.options.base_dir) / f.file;
    if (const std::string why = unreadable(path.string()); !why.empty())
        return reading.problem(where, dotted(where) + " = \"" + f.file + "\" cannot be read: it " + why);
    std::ifstream lines(path, std::ios::binary); // line by line: it may be far larger than what is taken of it
    std::string line;
    next_line(lines, line);
    if (line.starts_with("\xef\xbb\xbf")) line.erase(0, 3); // the mark that some programs begin a file with
    const Columns at(csv_cells(line));
    if (!at.all())
        return reading.problem(where, dotted(where) + " = \"" + f.file +
                                          "\" must begin with a line of column names, node, start_day and end_day among them");
    for (int n = 2; next_line(lines, line); ++n) {
        if (line.empty() || line == "\r") continue;
        WholeRun::Outage outage;
        const std::string why = f.trace.size() < most_outages ? outage_of(csv_cells(line), at, outage) : "is beyond 1000000 failures";
        if (!why.empty()) return reading.problem(where, dotted(where) + " = \"" + f.file + "\": line " + std::to_string(n) + " " + why);
        f.trace.push_back(outage);
    }
    if (f.trace.empty()) return reading.problem(where, dotted(where) + " = \"" + f.file + "\" holds no failure");
    if (std::ranges::max(f.trace, {}, &WholeRun::Outage::end_s).end_s <= 0)
        return reading.problem(where, dotted(where) + " = \"" + f.file +
                                          "\" covers no time: its last end_day is 0, so that it cannot be repeated");
    std::ranges::stable_sort(f.trace, {}, &WholeRun::Outage::begin_s);
}

} // namespace orrery

#include "sim/fit/nccl_tests.hpp"

#include "topology/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <map>
#include <set>
#include <stdexcept>

namespace orrery {

namespace {

const std::map<std::string_view, CollectiveKind> programs = {{"all_reduce", CollectiveKind::all_reduce},
                                                             {"all_gather", CollectiveKind::all_gather},
                                                             {"reduce_scatter", CollectiveKind::reduce_scatter},
                                                             {"alltoall", CollectiveKind::all_to_all},
                                                             {"broadcast", CollectiveKind::broadcast}};

double number(std::string_view text) { // NaN: it is none
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc{} && end == text.data() + text.size() ? value : std::nan("");
}

// Without "[1,0]<stdout>:" and "0: ".
std::string_view without_prefix(std::string_view line) {
    const std::size_t begin = std::min(line.find_first_not_of(" \t"), line.size());
    if (const std::size_t tag = line.find("<stdout>:"); tag != std::string_view::npos && line.substr(begin).starts_with('['))
        return line.substr(tag + 9);
    if (const std::size_t tag = line.find("<stderr>:"); tag != std::string_view::npos && line.substr(begin).starts_with('['))
        return line.substr(tag + 9);
    const std::size_t colon = line.find_first_not_of("0123456789", begin);
    return colon != std::string_view::npos && colon > begin && line[colon] == ':' ? line.substr(colon + 1) : line;
}

// "all_reduce" of a line with "./build/all_reduce_perf -b 8" or a file "all_reduce_16.log"; "" where none is named.
std::string program_in(std::string_view text, bool with_perf) {
    for (const char* name :
         {"all_reduce", "all_gather", "reduce_scatter", "alltoall", "broadcast", "sendrecv", "gather", "scatter", "reduce", "hypercube"})
        if (text.find(with_perf ? fmt::format("{}_perf", name) : std::string(name)) != std::string_view::npos) return name;
    return "";
}

bool is_row(const std::vector<std::string_view>& w) {
    if (w.size() < 6) return false;
    const auto digits = [](std::string_view s) { return !s.empty() && s.find_first_not_of("0123456789") == std::string_view::npos; };
    static const std::set<std::string_view> types = {"int8", "char",  "uint8",  "int32",    "int",      "uint32",   "int64",  "uint64",
                                                     "half", "float", "double", "bfloat16", "fp8_e4m3", "fp8_e5m2", "f8e4m3", "f8e5m2"};
    return digits(w[0]) && digits(w[1]) && types.contains(w[2]);
}

// Times and bandwidths of a row, and what it tells of its collective.
struct RowRead {
    NcclRow row;
    double busbw = 0, algbw = 0;
    std::string_view type, op;
    bool rooted = false;
};

RowRead read_row(const std::string& file, int line, const std::vector<std::string_view>& w) {
    const auto wrong = [&](const std::string& what) { throw std::runtime_error(fmt::format("{}:{}: {}", file, line, what)); };
    RowRead r;
    r.row.line = line, r.row.bytes = number(w[0]), r.type = w[2];
    std::size_t at = 3;
    if (std::isnan(number(w[at])) && w[at] != "N/A") r.op = w[at++];
    std::size_t left = w.size() - at;
    if (left == 5 || left == 9) { // a root before four or eight columns
        r.rooted = number(w[at]) >= 0;
        ++at, --left;
    }
    if (left != 3 && left != 4 && left != 8 && left != 6)
        wrong(fmt::format("a row of {} columns: nccl-tests prints time, algbw, busbw and #wrong, once or twice. The line is cut off",
                          w.size()));
    r.row.out_of_place_us = number(w[at]), r.algbw = number(w[at + 1]), r.busbw = number(w[at + 2]);
    if (left >= 6) r.row.in_place_us = number(w[at + left / 2]);
    for (const double v : {r.row.out_of_place_us, r.algbw, r.busbw})
        if (!(v >= 0) || v > 1e12) wrong("time, algbw and busbw must be numbers: the line is damaged");
    if (!(r.row.in_place_us >= 0)) r.row.in_place_us = 0; // N/A
    if (r.row.bytes > 0 && r.row.out_of_place_us <= 0) wrong("the time is 0: the line is damaged");
    const double implied = r.row.bytes / r.row.out_of_place_us / 1e3;
    if (r.row.bytes > 0 && std::abs(implied - r.algbw) > 0.011 + 0.02 * implied)
        wrong(fmt::format("size / time is {:.2f} GB/s, and algbw says {:.2f}: the line is damaged", implied, r.algbw));
    return r;
}

// n of busbw / algbw: 2(n-1)/n, (n-1)/n or 1. 0: cannot be told.
int ranks_of(CollectiveKind kind, double ratio) {
    if (kind == CollectiveKind::broadcast) return 0;
    const double share = kind == CollectiveKind::all_reduce ? ratio / 2 : ratio;
    return share > 0 && share < 0.99995 ? static_cast<int>(std::lround(1 / (1 - share))) : 0;
}

struct NcclReading {
    const std::string& file;
    std::vector<std::string>& skipped;
    std::vector<NcclCurve> curves{};
    std::string program{};         // the last one named
    std::set<std::string> hosts{}; // of the "# Rank" lines before a table
    int rank_lines = 0;
    std::string device{};
    double best_algbw = 0, ratio = 0; // of the largest bandwidth of the table
    bool open = false, rooted = false;
    std::string type{}, op{};

    void close();
    void rank_line(std::string_view line);
    void row(const RowRead& r);
};

// "#  Rank  3 Group  0 Pid 42 on host01 device  3 [0x53] NVIDIA H100 80GB HBM3"
void NcclReading::rank_line(std::string_view line) {
    const auto w = words_of(line);
    const auto on = std::find(w.begin(), w.end(), "on");
    if (on == w.end() || on + 1 == w.end()) return;
    hosts.emplace(*(on + 1));
    ++rank_lines;
    if (const std::size_t bracket = line.find(']'); bracket != std::string_view::npos && bracket + 2 < line.size()) {
        device = line.substr(bracket + 2);
        device.erase(device.find_last_not_of(" \r") + 1);
    }
}

void NcclReading::row(const RowRead& r) {
    if (open && !curves.back().rows.empty() && r.row.bytes <= curves.back().rows.back().bytes && r.row.bytes > 0) close();
    if (!open) {
        curves.emplace_back();
        curves.back().file = file;
        open = true, best_algbw = 0, ratio = 0;
    }
    type = r.type, op = r.op, rooted = r.rooted;
    if (r.algbw > best_algbw) best_algbw = r.algbw, ratio = r.busbw / r.algbw;
    if (r.row.bytes > 0) curves.back().rows.push_back(r.row);
}

// The table's collective: by the program's name, else the file's, else the columns.
void NcclReading::close() {
    if (!open) return;
    open = false;
    NcclCurve& c = curves.back();
    c.program = program;
    if (c.program.empty() && !(c.program = program_in(file, false)).empty()) c.assumed = "the collective, by the file's name";
    if (c.program.empty()) {
        const bool reduces = op == "sum" || op == "prod" || op == "max" || op == "min" || op == "avg";
        c.program = reduces ? (ratio >= 1 ? "all_reduce" : "reduce_scatter") : rooted ? "broadcast" : "all_gather";
        c.assumed = fmt::format("the collective ({}), by the columns", c.program);
    }
    const auto kind = programs.find(c.program);
    if (kind == programs.end() || c.rows.empty()) {
        skipped.push_back(kind == programs.end() ? fmt::format("{}: {} is no collective of the plan's", file, c.program)
                                                 : fmt::format("{}: a table without sizes", file));
        curves.pop_back();
        return;
    }
    c.kind = kind->second;
    c.ranks = rank_lines > 0 ? rank_lines : ranks_of(c.kind, ratio);
    if (rank_lines > 0) c.nodes = static_cast<int>(hosts.size());
    c.device = device;
    c.one_byte = type == "int8" || type == "uint8" || type == "char" || type.starts_with("f8") || type.starts_with("fp8");
}

} // namespace

bool looks_like_nccl_tests(std::string_view text) {
    const std::string_view head = text.substr(0, 1u << 18);
    return head.find("algbw") != std::string_view::npos && head.find("busbw") != std::string_view::npos &&
           head.find("redop") != std::string_view::npos;
}

std::vector<NcclCurve> parse_nccl_tests(const std::string& file, std::string_view text, std::vector<std::string>& skipped) {
    NcclReading r{file, skipped};
    bool ranks_begin = true;
    int line = 0;
    while (!text.empty()) {
        const std::size_t end = text.find('\n');
        const std::string_view whole = text.substr(0, end), content = without_prefix(whole);
        text = end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
        ++line;
        const auto w = words_of(content);
        if (is_row(w)) {
            r.row(read_row(file, line, w));
            ranks_begin = true;
            continue;
        }
        if (const std::string named = program_in(whole, true); !named.empty()) r.close(), r.program = named;
        if (content.find("Rank") != std::string_view::npos && content.find(" on ") != std::string_view::npos &&
            content.find("device") != std::string_view::npos) {
            if (ranks_begin) r.close(), r.hosts.clear(), r.rank_lines = 0, r.device.clear(); // of another program
            ranks_begin = false;
            r.rank_line(content);
        }
        if (content.find("Avg bus bandwidth") != std::string_view::npos) r.close();
    }
    r.close();
    if (r.curves.empty() && skipped.empty())
        throw std::runtime_error(file + ": no table of nccl-tests in it: give the whole output of all_reduce_perf or its like");
    return std::move(r.curves);
}

} // namespace orrery

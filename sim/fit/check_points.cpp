// Single published points of bus bandwidth as rows of a table of collectives.
#include "sim/fit/laws.hpp"

#include <fmt/format.h>

#include <string_view>

namespace orrery {

namespace {

// nccl-tests' bus bandwidth is that of a ring: what a device sends, over the time.
double bus_share(std::string_view op, double n) {
    if (op == "all_reduce") return 2 * (n - 1) / n;
    return op == "all_gather" || op == "reduce_scatter" || op == "alltoall" ? (n - 1) / n : 1;
}

} // namespace

MeasuredTable collectives_of(const MeasuredTable& points, std::vector<std::string>& skipped) {
    MeasuredTable t;
    t.file = points.file;
    t.constants = points.constants;
    for (const char* c : {"system", "devices", "nodes", "op", "variant", "bytes", "us"}) t.column.emplace(c, t.column.size());
    const auto cell = [&](std::size_t row, const char* c) { return points.has(c) ? points.text(row, c) : std::string(); };
    for (std::size_t i = 0; i < points.rows.size(); ++i) {
        const std::string gpu = cell(i, "gpu"), said = cell(i, "op"), op = said.substr(0, said.find(' ')), inter = cell(i, "inter");
        const double n = std::atof(cell(i, "gpus").c_str()), bytes = std::atof(cell(i, "bytes").c_str());
        const double nodes = std::max(1.0, std::atof(cell(i, "nodes").c_str()));
        if (cell(i, "notes").find("do not use") != std::string::npos || said.find(" vs ") != std::string::npos || n < 2 || bytes <= 0) {
            skipped.push_back(fmt::format("{}: {} {} is no point of one collective, or its source calls it odd", points.file, gpu, said));
            continue;
        }
        const std::string system =
            gpu + (inter.empty() ? "" : "; " + inter) + (inter.find("HDR") == std::string::npos ? "" : " InfiniBand");
        const auto add = [&](const char* column, const char* variant) {
            const double rate = std::atof(cell(i, column).c_str());
            if (rate > 0)
                t.rows.push_back({system, fmt::format("{}", n), fmt::format("{}", nodes), op, variant, fmt::format("{}", bytes),
                                  fmt::format("{}", bytes * bus_share(op, n) / rate * 1e-3)});
        };
        add("busbw_GBps", said.ends_with("NVLS off") ? "no multicast" : "half");
        add("busbw_nvls_off_GBps", "no multicast");
    }
    return t;
}

} // namespace orrery

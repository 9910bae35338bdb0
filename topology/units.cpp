// The text forms of units. Parsing is strict: one number, one known unit, nothing else. Printing keeps three significant digits.
#include "topology/units.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <fmt/format.h>
#include <span>

namespace orrery {
namespace {

struct Unit {
    std::string_view name;
    double factor;
};

constexpr double ki = 1024;
constexpr Unit byte_units[] = {{"B", 1},
                               {"kB", 1e3},
                               {"KB", 1e3},
                               {"MB", 1e6},
                               {"GB", 1e9},
                               {"TB", 1e12},
                               {"PB", 1e15},
                               {"KiB", ki},
                               {"MiB", ki* ki},
                               {"GiB", ki* ki* ki},
                               {"TiB", ki* ki* ki* ki},
                               {"PiB", ki* ki* ki* ki* ki}};
constexpr Unit rate_units[] = {{"b/s", 0.125},      {"kb/s", 1e3 / 8},     {"Mb/s", 1e6 / 8},
                               {"Gb/s", 1e9 / 8},   {"Tb/s", 1e12 / 8},    {"kbit/s", 1e3 / 8},
                               {"Mbit/s", 1e6 / 8}, {"Gbit/s", 1e9 / 8},   {"Tbit/s", 1e12 / 8},
                               {"Mbps", 1e6 / 8},   {"Gbps", 1e9 / 8},     {"Tbps", 1e12 / 8},
                               {"B/s", 1},          {"kB/s", 1e3},         {"MB/s", 1e6},
                               {"GB/s", 1e9},       {"TB/s", 1e12},        {"KiB/s", ki},
                               {"MiB/s", ki* ki},   {"GiB/s", ki* ki* ki}, {"TiB/s", ki* ki* ki* ki}};
constexpr Unit time_units[] = {{"ps", 1e-12}, {"ns", 1e-9}, {"us", 1e-6}, {"\u00b5s", 1e-6},
                               {"ms", 1e-3},  {"s", 1},     {"min", 60},  {"h", 3600}};

struct Quantity {
    double number;
    std::string_view unit;
};

std::string_view trim(std::string_view text) {
    while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
    while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
    return text;
}

// Splits "400 Gb/s" into 400 and "Gb/s". A sign, an infinity or a NaN is no quantity of ours.
std::optional<Quantity> split(std::string_view text) {
    text = trim(text);
    if (text.empty() || text.front() < '0' || text.front() > '9') return std::nullopt;
    Quantity q{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), q.number);
    if (error != std::errc{} || !std::isfinite(q.number)) return std::nullopt;
    q.unit = trim(text.substr(static_cast<std::size_t>(end - text.data())));
    return q;
}

std::optional<double> factor(std::span<const Unit> units, std::string_view name) {
    for (const Unit& unit : units)
        if (unit.name == name) return unit.factor;
    return std::nullopt;
}

std::optional<std::int64_t> whole(double value) {
    if (!(value < 9.2e18)) return std::nullopt;
    return static_cast<std::int64_t>(std::llround(value));
}

// `value` in the largest of `names` (each 1/`step` of the one before it) in which it is at least 1, to three significant digits.
std::string scaled(double value, std::span<const char* const> names, double step, double smallest) {
    if (value == 0) return fmt::format("0 {}", names.back());
    if (!std::isfinite(value)) return "unbounded";
    const char* sign = value < 0 ? "-" : "";
    value = std::abs(value);
    double unit = smallest;
    std::size_t i = 0;
    // 999.5 would be printed with four digits: it belongs to the next unit.
    while (i + 1 < names.size() && value / unit >= step - step * 0.0005) {
        unit *= step;
        ++i;
    }
    const double x = value / unit;
    const int decimals = x < 9.995 ? 2 : x < 99.95 ? 1 : 0;
    return fmt::format("{}{:.{}f} {}", sign, x, decimals, names[i]);
}

// Whole counts below `step` need no decimals: "512 B".
std::string scaled_count(std::int64_t count, std::span<const char* const> names, double step) {
    if (count > -static_cast<std::int64_t>(step) && count < static_cast<std::int64_t>(step))
        return fmt::format("{} {}", count, names.front());
    return scaled(static_cast<double>(count), names, step, 1);
}

} // namespace

std::optional<Bytes> parse_bytes(std::string_view text) {
    const auto q = split(text);
    if (!q) return std::nullopt;
    if (q->unit.empty() && q->number != std::floor(q->number)) return std::nullopt;
    const auto f = q->unit.empty() ? std::optional<double>(1) : factor(byte_units, q->unit);
    if (!f) return std::nullopt;
    const auto count = whole(q->number * *f);
    return count ? std::optional(Bytes{*count}) : std::nullopt;
}

std::optional<BytesPerSecond> parse_rate(std::string_view text) {
    const auto q = split(text);
    const auto f = q ? factor(rate_units, q->unit) : std::nullopt;
    return f ? std::optional(BytesPerSecond{q->number * *f}) : std::nullopt;
}

std::optional<Time> parse_time(std::string_view text) {
    const auto q = split(text);
    const auto f = q ? factor(time_units, q->unit) : std::nullopt;
    const auto ps = f ? whole(q->number * *f * 1e12) : std::nullopt;
    return ps ? std::optional(Time{*ps}) : std::nullopt;
}

std::string format(Time t) {
    constexpr std::array names{"ps", "ns", "us", "ms", "s"};
    if (t == Time::never()) return "never";
    return scaled(static_cast<double>(t.ps), names, 1000, 1);
}

std::string format(Bytes b) {
    constexpr std::array names{"B", "kB", "MB", "GB", "TB", "PB", "EB"};
    return scaled_count(b.count, names, 1000);
}

std::string format_binary(Bytes b) {
    constexpr std::array names{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    return scaled_count(b.count, names, 1024);
}

std::string format(BytesPerSecond r) {
    constexpr std::array names{"B/s", "kB/s", "MB/s", "GB/s", "TB/s", "PB/s"};
    return r.value == 0 ? "0 B/s" : scaled(r.value, names, 1000, 1);
}

std::string format(Flops f) {
    constexpr std::array names{"FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP", "EFLOP", "ZFLOP", "YFLOP"};
    return f.count == 0 ? "0 FLOP" : scaled(f.count, names, 1000, 1);
}

} // namespace orrery

// Strong units: a bandwidth cannot be passed for a size. Simulated time is an integer count of picoseconds.
// Text forms ("400Gb/s", "80GB", "81559MiB", "5us") are parsed and printed in units.cpp.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace orrery {

// An instant or a duration; 2^63 ps is 106 days. Sums and multiples that pass either end stay at that end: a time never wraps round to a
// short or negative one. Simulations end with an error long before (sim/engine/clock.hpp).
struct Time {
    std::int64_t ps = 0;

    // 9.2e6 s or more, infinity and what is no number are never(); -9.2e6 s or less is its opposite.
    static constexpr Time seconds(double s) {
        if (!(s < 9.2e6)) return never();
        return s <= -9.2e6 ? Time{-INT64_MAX} : Time{static_cast<std::int64_t>(s * 1e12 + (s < 0 ? -0.5 : 0.5))};
    }
    static constexpr Time microseconds(double us) { return seconds(us * 1e-6); }
    static constexpr Time never() { return {INT64_MAX}; }
    constexpr double seconds() const { return static_cast<double>(ps) * 1e-12; }

    friend constexpr auto operator<=>(Time, Time) = default;
    friend constexpr Time operator+(Time a, Time b) {
        std::int64_t sum = 0;
        return __builtin_add_overflow(a.ps, b.ps, &sum) ? end(b.ps < 0) : Time{sum};
    }
    friend constexpr Time operator-(Time a, Time b) {
        std::int64_t rest = 0;
        return __builtin_sub_overflow(a.ps, b.ps, &rest) ? end(b.ps > 0) : Time{rest};
    }
    friend constexpr Time operator*(Time a, std::int64_t n) {
        std::int64_t product = 0;
        return __builtin_mul_overflow(a.ps, n, &product) ? end((a.ps < 0) != (n < 0)) : Time{product};
    }
    constexpr Time& operator+=(Time o) { return *this = *this + o; }
    constexpr Time& operator-=(Time o) { return *this = *this - o; }

  private:
    static constexpr Time end(bool negative) { return {negative ? -INT64_MAX : INT64_MAX}; }
};

// A size in bytes, never a rate.
struct Bytes {
    std::int64_t count = 0;

    static constexpr Bytes gigabytes(double gb) { return {static_cast<std::int64_t>(gb * 1e9 + 0.5)}; }
    static constexpr Bytes mebibytes(double mib) { return {static_cast<std::int64_t>(mib * 1048576.0 + 0.5)}; }
    constexpr double gigabytes() const { return static_cast<double>(count) * 1e-9; }

    friend constexpr auto operator<=>(Bytes, Bytes) = default;
    friend constexpr Bytes operator+(Bytes a, Bytes b) { return {a.count + b.count}; }
    friend constexpr Bytes operator-(Bytes a, Bytes b) { return {a.count - b.count}; }
    friend constexpr Bytes operator*(Bytes a, std::int64_t n) { return {a.count * n}; }
    constexpr Bytes& operator+=(Bytes o) {
        count += o.count;
        return *this;
    }
    constexpr Bytes& operator-=(Bytes o) {
        count -= o.count;
        return *this;
    }
};

// Floating-point operations (a multiply and an add are two).
struct Flops {
    double count = 0;
    friend constexpr auto operator<=>(Flops, Flops) = default;
    friend constexpr Flops operator+(Flops a, Flops b) { return {a.count + b.count}; }
    constexpr Flops& operator+=(Flops o) {
        count += o.count;
        return *this;
    }
};

struct BytesPerSecond {
    double value = 0;
    static constexpr BytesPerSecond gigabytes(double gb) { return {gb * 1e9}; }
    static constexpr BytesPerSecond gigabits(double gbit) { return {gbit * 1e9 / 8}; }
    constexpr double gigabytes() const { return value * 1e-9; }
    friend constexpr auto operator<=>(BytesPerSecond, BytesPerSecond) = default;
    friend constexpr BytesPerSecond operator*(BytesPerSecond a, double f) { return {a.value * f}; }
};

struct FlopsPerSecond {
    double value = 0;
    static constexpr FlopsPerSecond tera(double t) { return {t * 1e12}; }
    friend constexpr auto operator<=>(FlopsPerSecond, FlopsPerSecond) = default;
    friend constexpr FlopsPerSecond operator*(FlopsPerSecond a, double f) { return {a.value * f}; }
};

constexpr Time operator/(Bytes b, BytesPerSecond r) { return Time::seconds(static_cast<double>(b.count) / r.value); }
constexpr Time operator/(Flops f, FlopsPerSecond r) { return Time::seconds(f.count / r.value); }

// "80GB", "81559 MiB", "1.5 TB", "512" (bytes). Nothing where the text is not a size.
std::optional<Bytes> parse_bytes(std::string_view text);
// "400Gb/s" (bits), "450 GB/s" (bytes). Nothing where the text is not a rate.
std::optional<BytesPerSecond> parse_rate(std::string_view text);
// "5us", "1.2 ms", "3s". Nothing where the text is not a time.
std::optional<Time> parse_time(std::string_view text);

std::string format(Time t);           // "12.6 s", "3.21 ms", "450 us"
std::string format(Bytes b);          // decimal: "68.7 GB"
std::string format_binary(Bytes b);   // "64.0 GiB"
std::string format(BytesPerSecond r); // "450 GB/s"
std::string format(Flops f);          // "3.1 PFLOP"

} // namespace orrery

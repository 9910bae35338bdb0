#include "exec/kernels/random.hpp"

#include <cmath>
#include <numbers>

namespace orrery {
namespace {

constexpr std::uint32_t multiplier0 = 0xD2511F53, multiplier1 = 0xCD9E8D57, weyl0 = 0x9E3779B9, weyl1 = 0xBB67AE85;

std::array<std::uint32_t, 4> draw(std::uint64_t seed, std::uint64_t stream, std::uint64_t index) {
    const std::uint64_t key = seed ^ (stream * 0x9E3779B97F4A7C15ull);
    return philox({static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32), static_cast<std::uint32_t>(stream), static_cast<std::uint32_t>(stream >> 32)},
                  {static_cast<std::uint32_t>(key), static_cast<std::uint32_t>(key >> 32)});
}

double fraction(std::uint32_t high, std::uint32_t low) {
    return static_cast<double>(((static_cast<std::uint64_t>(high) << 32) | low) >> 11) * 0x1p-53;
}

} // namespace

std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> c, std::array<std::uint32_t, 2> k) {
    for (int round = 0; round < 10; ++round) {
        const std::uint64_t p0 = static_cast<std::uint64_t>(multiplier0) * c[0], p1 = static_cast<std::uint64_t>(multiplier1) * c[2];
        c = {static_cast<std::uint32_t>(p1 >> 32) ^ c[1] ^ k[0], static_cast<std::uint32_t>(p1), static_cast<std::uint32_t>(p0 >> 32) ^ c[3] ^ k[1], static_cast<std::uint32_t>(p0)};
        k[0] += weyl0;
        k[1] += weyl1;
    }
    return c;
}

std::uint64_t name_key(std::string_view name) {
    std::uint64_t h = 0xcbf29ce484222325ull;
    for (const char c : name) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
    return h;
}

double uniform(std::uint64_t seed, std::uint64_t stream, std::uint64_t index) {
    const auto r = draw(seed, stream, index);
    return fraction(r[0], r[1]);
}

double normal(std::uint64_t seed, std::uint64_t stream, std::uint64_t index) {
    const auto r = draw(seed, stream, index);
    const double u = 1 - fraction(r[0], r[1]), v = fraction(r[2], r[3]);   // u in (0, 1]
    return std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * v);
}

} // namespace orrery

// Counter-based random numbers: Philox 4x32-10 (Salmon et al., SC 2011), so that a number depends on its key and index alone, never on
// which rank draws it or in what order. constexpr, so that a GPU's kernels draw the very same.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace orrery {

constexpr std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> c, std::array<std::uint32_t, 2> k) {
    for (int round = 0; round < 10; ++round) {
        const std::uint64_t p0 = std::uint64_t{0xD2511F53} * c[0], p1 = std::uint64_t{0xCD9E8D57} * c[2];
        c = {static_cast<std::uint32_t>(p1 >> 32) ^ c[1] ^ k[0], static_cast<std::uint32_t>(p1),
             static_cast<std::uint32_t>(p0 >> 32) ^ c[3] ^ k[1], static_cast<std::uint32_t>(p0)};
        k[0] += 0x9E3779B9;
        k[1] += 0xBB67AE85;
    }
    return c;
}

constexpr std::array<std::uint32_t, 4> draw(std::uint64_t seed, std::uint64_t stream, std::uint64_t index) {
    const std::uint64_t key = seed ^ (stream * 0x9E3779B97F4A7C15ull);
    return philox({static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32), static_cast<std::uint32_t>(stream),
                   static_cast<std::uint32_t>(stream >> 32)},
                  {static_cast<std::uint32_t>(key), static_cast<std::uint32_t>(key >> 32)});
}

constexpr double fraction(std::uint32_t high, std::uint32_t low) {
    return static_cast<double>(((static_cast<std::uint64_t>(high) << 32) | low) >> 11) * 0x1p-53;
}

// In [0, 1): 53 bits.
constexpr double uniform(std::uint64_t seed, std::uint64_t stream, std::uint64_t index) {
    const auto r = draw(seed, stream, index);
    return fraction(r[0], r[1]);
}

constexpr std::uint64_t name_key(std::string_view name) { // FNV-1a, 64 bits
    std::uint64_t h = 0xcbf29ce484222325ull;
    for (const char c : name) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
    return h;
}

double normal(std::uint64_t seed, std::uint64_t stream, std::uint64_t index); // of mean 0 and deviation 1 (Box-Muller)

} // namespace orrery

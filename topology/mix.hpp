// A hash of 64 bits (the finaliser of splitmix64, Steele and others 2014): equal hashes of states are taken for equal states.
#pragma once

#include <cstdint>

namespace orrery {

constexpr std::uint64_t mix(std::uint64_t x) {
    x += 0x9e3779b97f4a7c15ull;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}
constexpr std::uint64_t mix(std::uint64_t a, std::uint64_t b) { return mix(a ^ (b * 0x9e3779b97f4a7c15ull + 0x7f4a7c15ull)); }

} // namespace orrery

// Counter-based random numbers: Philox 4x32-10 (Salmon et al., SC 2011), so that a number depends on its key and index alone, never on
// which rank draws it or in what order.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace orrery {

std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key);

std::uint64_t name_key(std::string_view name);   // FNV-1a, 64 bits

double uniform(std::uint64_t seed, std::uint64_t stream, std::uint64_t index);   // in [0, 1): 53 bits
double normal(std::uint64_t seed, std::uint64_t stream, std::uint64_t index);    // of mean 0 and deviation 1 (Box-Muller)

} // namespace orrery

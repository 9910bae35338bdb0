// A signed index, as the standard library's containers take it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace orrery {

constexpr std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

} // namespace orrery

// Shared by the writer and the reader of trace files. The layout is described in README.md.
#pragma once

#include "sim/trace/trace.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace orrery::trace_file {

inline constexpr std::string_view magic{"\x89ORT\r\n\x1a\n", 8}; // not text, and any conversion of line ends breaks it
inline constexpr std::uint32_t version = 4;
inline constexpr std::size_t header_bytes = 8 + 4 + 8 + 8; // magic, version, size and checksum of what follows

// Every step is a bijection of the sum so far: changes within one 8-byte word never go unseen.
std::uint64_t checksum(std::string_view bytes);

// Empty, or what in the trace refers to nothing or is out of order.
std::string problem(const Trace& trace);

} // namespace orrery::trace_file

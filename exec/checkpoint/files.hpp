// Shared by the writer and the reader of checkpoints.
#pragma once

#include "exec/checkpoint/checkpoint.hpp"

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <string_view>

namespace orrery::checkpoint_file {

inline constexpr std::string_view magic{"\x89ORC\r\n\x1a\n", 8};
inline constexpr int version = 1;
inline constexpr const char* state_name = "state.json";

// The index of a checkpoint as text, and the key of the checksum of that text without it.
inline constexpr const char* checksum_key = "checksum";
std::string index_text(const nlohmann::ordered_json& index);

std::string part_name(int part);            // "part-3"
std::string folder_name(std::int64_t step); // "step-00000200"
// The step of such a folder's name; -1: it is none.
std::int64_t step_of(const std::string& name);
std::int64_t elements(std::span<const std::int64_t> shape);

} // namespace orrery::checkpoint_file

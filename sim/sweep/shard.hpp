// A part of a sweep for one machine. Points go to parts by their hash, so that a sweep that gains a value keeps what its parts have.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace orrery {

struct Shard {
    std::int64_t index = 1, count = 1; // index: 1 to count
    bool whole() const { return count == 1; }
    bool has(std::string_view point_hash) const; // 16 hex digits
};

// "3/8"; "slurm": from the variables of a Slurm array, whose tasks may have any numbers in even steps. `variable`: the value of an
// environment variable, nullptr where it is not set. Throws std::runtime_error that says what is wrong and what to write.
Shard parse_shard(const std::string& text, const std::function<const char*(const char*)>& variable);

} // namespace orrery

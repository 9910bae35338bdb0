// How many rows a router sends to experts is known only as a plan runs: what happens when they do not fit.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

namespace orrery {

// Routing sends a rank's experts more rows than the plan's buffers hold. The message says what to do.
struct NoRoom : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// Throws it where they do not.
inline void check_room(std::int64_t rows, std::int64_t room) {
    if (rows > room)
        throw NoRoom("a rank's experts are sent " + std::to_string(rows) + " rows where the plan has room for " + std::to_string(room) +
                     ": raise runtime.expert_room (as large as strategy.expert_parallel it has room for all), or set "
                     "model.moe.capacity_factor, which bounds them");
}

} // namespace orrery

// How many rows a router sends to experts is known only as a plan runs: what happens when they do not fit.
#pragma once

#include <cstdint>
#include <stdexcept>

namespace orrery {

// Routing sends a rank's experts more rows than the plan's buffers hold. The message says what to do.
struct NoRoom : std::runtime_error {
    using std::runtime_error::runtime_error;
};

void check_room(std::int64_t rows, std::int64_t room); // throws it

} // namespace orrery

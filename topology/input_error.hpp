// What ends a program and is no bug of ours.
#pragma once

#include <stdexcept>

namespace orrery {

// A user's mistake that shows only while something is computed. Programs print it and end as for any bad input (exit 1).
struct InputError : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// A plan whose ranks wait for one another without end (exit 3).
struct CannotRun : std::runtime_error {
    using std::runtime_error::runtime_error;
};

} // namespace orrery

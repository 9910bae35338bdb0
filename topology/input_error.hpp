// A user's mistake that shows only while something is computed. Programs print it and end as for any bad input (exit 1).
#pragma once

#include <stdexcept>

namespace orrery {

struct InputError : std::runtime_error {
    using std::runtime_error::runtime_error;
};

} // namespace orrery

// Always-on checks of our own invariants: they print what was broken and abort, and no user input can reach them.
#pragma once

#include <string_view>

namespace orrery {

[[noreturn]] void broken(std::string_view what);

inline void require(bool holds, std::string_view what) {
    if (!holds) broken(what);
}

} // namespace orrery

// Where a broken invariant ends the program.
#include "topology/check.hpp"

#include <cstdio>
#include <cstdlib>

namespace orrery {

void broken(std::string_view what) {
    std::fprintf(stderr, "orrery: internal error: %.*s\n", static_cast<int>(what.size()), what.data());
    std::abort();
}

} // namespace orrery

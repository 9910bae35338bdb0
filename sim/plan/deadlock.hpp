// The answer where nothing can happen any more: the same from the simulator and from every executor.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace orrery {

struct Blocked {
    std::int32_t rank;
    std::string op;
    std::string waits_for;
};
struct Deadlock {
    std::vector<Blocked> blocked;
}; // each blocked rank (of ranks alike, one) and what it waits for
std::string to_text(const Deadlock& d);

} // namespace orrery

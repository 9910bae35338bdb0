#include "sim/plan/deadlock.hpp"

namespace orrery {

std::string to_text(const Deadlock& d) {
    std::string text = "deadlock: nobody can go on\n";
    for (const Blocked& b : d.blocked) text += "  rank " + std::to_string(b.rank) + ": " + b.op + " waits for " + b.waits_for + "\n";
    return text;
}

} // namespace orrery

// placeholder for rules on placements
#include "sim/plan/verify_parts.hpp"
namespace orrery::verification {
void check_placements(const Plan&, const Facts&, Findings&) {}
} // namespace orrery::verification

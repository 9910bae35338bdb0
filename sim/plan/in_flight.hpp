// The plan as the runtime carries it out: what is in flight is bounded by the memory that the plan says it takes (in_flight.cpp says how).
#pragma once

#include "sim/plan/plan.hpp"

namespace orrery {

// A lowered plan, with waits for memory that is used again. Its ops, and their order on every queue, are the same. Not part of lower():
// it takes longer than all passes together, and simulated software has limits of its own.
Plan bound_flight(Plan plan);

} // namespace orrery

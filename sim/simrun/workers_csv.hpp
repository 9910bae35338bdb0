// What workers that never meet all at once do, and the clients of federated rounds, as tables.
#pragma once

#include "sim/federated/federated.hpp"
#include "sim/loose/record.hpp"

#include <string>

namespace orrery::simrun {

std::string to_csv(const LooseRecord& record);       // a line a span; empty cells where it has no such figure
std::string to_csv(const FederatedExample& example); // a line a client's task

} // namespace orrery::simrun

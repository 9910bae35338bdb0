// Bytes that a step moves, by the kind of way: what leaves nodes, and what passes between devices, their hosts and NVMe; and what lives
// elsewhere than on the devices.
#pragma once

#include "sim/engine/simulate.hpp"
#include "sim/plan/plan.hpp"
#include "sim/report/report.hpp"

#include <span>

namespace orrery {

// A step's bytes on all devices; the mean of a round's steps.
Traffic traffic_of(const Plan& plan, const Fabric& fabric, const Simulation& simulation);
// Bytes that leave nodes: of what each link carries, by its id. A byte between two nodes passes one NIC out and one in.
double between_nodes(const Fabric& fabric, std::span<const double> by_link);

Away away_of(const Plan& plan);
// Notes where that is nothing, or another share than strategy.offload asks for.
void note_away(Report& report, const Scenario& scenario);

} // namespace orrery

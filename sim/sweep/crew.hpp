// Points of a search on processes that mpirun started: rank 0 searches, and deals the points of each batch to whoever is free, one group
// after another; the others compute. The points that are simulated are the same with any number of ranks.
#pragma once

#include "sim/ranks/transport.h"
#include "sim/sweep/sweep.hpp"

#include <string>
#include <vector>

namespace orrery {

// Scenarios that have one plan or nearly: computed by one rank, one after another.
using PointGroup = std::vector<std::string>;
using EvaluateText = std::function<SweepRow(const std::string& json, ReadyPlans& kept)>;

// Rank 0. Rows by group, in the order of their scenarios; it computes too. Throws std::runtime_error where a rank answers otherwise than
// it was asked.
std::vector<std::vector<SweepRow>> deal_groups(const std::vector<PointGroup>& groups, const EvaluateText& evaluate,
                                               const OrreryTransport& transport);
void dismiss_crew(const OrreryTransport& transport); // there will be no more
// The other ranks, until they are dismissed.
void work_for_search(const EvaluateText& evaluate, const OrreryTransport& transport);

} // namespace orrery

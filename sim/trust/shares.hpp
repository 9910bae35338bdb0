// Which constants a predicted step rests on: the share of each group of constants in the time of the step.
//
// Slow every duration of one group down by a small factor (1 + e), and the step grows by the factor (1 + share * e): a share is the
// sensitivity d ln(step) / d ln(durations of the group). All durations together scale the step, so that shares add up to 1 (Euler).
// They are read off the simulated step, nothing is simulated again: time that computes counts by the kernels that it runs, an exposed
// transfer by the links its ranks meet on, a wait for the host as the host, and a pipeline bubble as the work that it waits for. That
// treats what hides behind something longer as of no weight, as a small change is. tests/unit/trust compares shares with simulations
// whose rates were changed.
#pragma once

#include "sim/cost/cost.hpp"
#include "sim/engine/simulate.hpp"

#include <array>
#include <cstdint>

namespace orrery {

// Groups of constants that are wrong together: the tables of one law, on one device or link.
enum class CostGroup : std::uint8_t {
    products,      // matrix products: GEMM tables and sustained clocks
    experts,       // products of a mixture's experts
    attention,     // fused or unfused attention
    memory,        // kernels that move bytes: norms, activations, copies, loss, optimizer
    host,          // launches, calls of modules, synchronisation
    links_inside,  // collectives and transfers between devices of one node
    links_between, // those that leave the node
};
inline constexpr int cost_group_count = 7;
const char* name(CostGroup g);     // "links-between", as files have it
const char* in_words(CostGroup g); // "networks between nodes", as reports have it

using CostShares = std::array<double, cost_group_count>; // by group; they add up to 1, or are all 0 where nothing was simulated

CostShares cost_shares(const Plan& plan, const Scenario& scenario, const Simulation& simulation, const CostModel& cost);

} // namespace orrery

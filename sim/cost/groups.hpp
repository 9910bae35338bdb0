// Groups of constants that are wrong together: the tables of one law, on one device or link. Uncertainty, sensitivities and what is learned
// from measured steps are said by group.
#pragma once

#include "sim/plan/work.hpp"
#include "topology/indexed.hpp"

#include <array>
#include <cstdint>

namespace orrery {

enum class CostGroup : std::uint8_t {
    products,      // matrix products: GEMM tables and sustained clocks
    experts,       // products of a mixture's experts
    attention,     // fused or unfused attention
    memory,        // kernels that move bytes: norms, activations, copies, loss, optimizer
    host,          // launches, calls of modules, synchronisation, host work and copies
    links_inside,  // collectives and transfers between devices of one node
    links_between, // those that leave the node
};
inline constexpr int cost_group_count = 7;
const char* name(CostGroup g);        // "links-between", as files have it
const char* in_words(CostGroup g);    // "networks between nodes", as reports have it
CostGroup group_of(const Work& work); // of a kernel or work of the host; a collective's depends on its ranks

using CostFactors = ByEnum<CostGroup, double, cost_group_count>; // on durations, by group
inline constexpr CostFactors no_factors{1, 1, 1, 1, 1, 1, 1};

} // namespace orrery

// From a strategy of the usual split on: layers moved between stages, fewer layers recomputed on single stages, as long as that is faster.
#pragma once

#include "sim/search/search.hpp"

#include <functional>
#include <string>
#include <vector>

namespace orrery {

struct Refinement {
    std::vector<int> layers;     // a chunk
    std::vector<int> recomputed; // a stage; empty: all layers, or none where nothing is recomputed
    std::string words() const;   // "layers 5 4x2 3, recomputed 5 0x3"
};

// The points of these refinements of one strategy, in their order; one that cannot be has the status of its row.
using EvaluateRefinements = std::function<std::vector<SearchPoint>(const std::vector<Refinement>&)>;

struct RefineFields { // that the scenario leaves free
    bool layers = true, recompute = true;
};

// Hill climbing by simulation: of all moves of one layer to or from the ends of the model, and of less recomputation on one stage or on
// all, the best is made, at most `rounds` times. A point that fits surely stays so. The last point is the best; empty: no move is better by
// more than half a thousandth.
std::vector<SearchPoint> refine(const Scenario& from, const SearchPoint& point, RefineFields fields, const EvaluateRefinements& evaluate,
                                int rounds = 6);

// How much of a step a refinement leaves at least: the work of the pipeline's stages in equal parts, its filling and draining, and nothing
// recomputed. An estimate (communication may change too) that says which strategies are worth refining; `row` is the strategy's own.
double least_share(const Scenario& from, const SweepRow& row, RefineFields fields);

} // namespace orrery

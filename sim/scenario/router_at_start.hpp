// How a mixture's router spreads rows before it has learned: model.moe.imbalance = untrained.
#pragma once

#include "sim/scenario/scenario.hpp"

#include <cstdint>
#include <vector>

namespace orrery {

// Shares of the rows that the experts of a mixture layer get (counted as in mixture_layers()), in the order of their places: about one in
// sum. sequence: tokens.
std::vector<double> load_at_start(const Model& model, std::int64_t sequence, int mixture);
// The same for every mixture layer, also those that predict further tokens.
std::vector<std::vector<double>> loads_at_start(const Model& model, std::int64_t sequence);

} // namespace orrery

// The models of such files as their own library computes them, from tensors by their names: written down plainly, in doubles, to say
// whether ours computes the same.
#pragma once

#include "written.hpp"

#include "sim/scenario/scenario.hpp"

namespace orrery::test {

// Tensors of small random values, all that a model of that kind has.
HandMadeTensors random_model(const Model& model, const std::string& family);

// Mean loss of a batch: of each sequence its tokens and, one further, their labels.
double reference_loss(const Model& model, const std::string& family, const HandMadeTensors& tensors,
                      const std::vector<std::vector<std::int64_t>>& sequences);

} // namespace orrery::test

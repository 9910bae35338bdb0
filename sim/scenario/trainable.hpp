// The parts of a model that fine-tuning trains (Model::trainable).
#pragma once

#include "sim/scenario/scenario.hpp"

#include <cstdint>
#include <optional>
#include <string_view>

namespace orrery {

// Whether the model's own parameters of this part are trained. layer: -1 outside the layers; those that predict further tokens count on.
bool trains(const Model& m, ModelPart part, int layer);

bool of_experts(LoraTarget target);                        // every expert has a matrix of its own
bool has(const Model& m, LoraTarget target);               // some layer has this linear
bool adapts(const Model& m, LoraTarget target, int layer); // it has an adapter in this layer

// Parameters of one adapter, A and B, of all experts' together; 0: there is none.
struct AdapterSize {
    std::int64_t down = 0, up = 0;
    std::int64_t all() const { return down + up; }
};
AdapterSize adapter_size(const Model& m, LoraTarget target, int layer);

std::optional<std::int64_t> trained_parameters(const Model& m); // of the model, the vocabulary not padded; nothing: all are trained

} // namespace orrery

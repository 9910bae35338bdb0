// config.json of a model's folder: does it describe the scenario's model, and the one that goes with exported weights.
#pragma once

#include "exec/weights/names.hpp"

#include <filesystem>
#include <string>
#include <vector>

namespace orrery {

// A line for each thing in which the file's model is another than the scenario's, or that kernels here do not compute. Empty: none.
std::vector<std::string> mismatches(const std::filesystem::path& config_json, const Model& model);

// Its text. sequence: tokens that the model was trained on at most; type: "float32" or "bfloat16".
std::string config_text(const Model& model, WeightFamily family, std::int64_t sequence, const char* type);

} // namespace orrery

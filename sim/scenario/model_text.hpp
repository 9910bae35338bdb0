// "model" in its four forms, and the catalog of presets for `simrun list models`.
#pragma once

#include "sim/scenario/parse.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace orrery {

// A file of scenarios/models. published is exact where rounded_to is 0, else good to rounded_to.
struct ModelPreset {
    std::string name;
    Model model;
    std::string title;
    std::string source;              // where the architecture's figures are from
    double published_parameters = 0; // 0: none given
    double rounded_to = 0;
    std::string published_source;
    std::string note;
};

std::vector<std::string> model_names();
std::optional<ModelPreset> find_model(std::string_view name);

} // namespace orrery

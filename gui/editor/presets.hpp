// Strategies to begin with: what the field does by name, as changes of a scenario's strategy.
#pragma once

#include <QString>

#include <string>
#include <vector>

namespace orrery {

struct Preset {
    const char* id; // "fsdp"
    QString title, tip;
};
std::vector<Preset> presets();

// The strategy (JSON) that the preset makes of the one the scenario's text has; empty where the text is no JSON object. devices_per_node:
// what tensor parallelism is to fill.
std::string with_preset(const std::string& text, const std::string& id, int devices_per_node);

} // namespace orrery

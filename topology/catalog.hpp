// Presets by name: devices and clusters from the embedded JSON files.
#pragma once

#include "topology/cluster.hpp"

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace orrery {

// A file compiled into the program (see cmake/embed.cmake): its stem and its text.
struct EmbeddedFile {
    std::string_view name;
    std::string_view text;
};

std::vector<std::string> device_names();
std::vector<std::string> cluster_names();
std::span<const EmbeddedFile> device_files();
std::span<const EmbeddedFile> cluster_files();
std::optional<Device> find_device(std::string_view name);   // nothing where no preset has this name
std::optional<Cluster> find_cluster(std::string_view name); // one node of it; the scenario sets nodes

} // namespace orrery

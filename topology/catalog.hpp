// Presets by name: devices, clusters and the networks of single sites, from the embedded JSON files.
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

// A network as one site has it: what was measured there (scenarios/fabrics; the cost model reads its constants), which need not hold for
// others of its kind. inter_node.fabric names it.
struct SiteFabric {
    std::string name, title;
    InterKind kind = InterKind::infiniband;
};

std::vector<std::string> device_names();
std::vector<std::string> cluster_names();
std::span<const EmbeddedFile> device_files();
std::span<const EmbeddedFile> cluster_files();
std::optional<SiteFabric> find_fabric(std::string_view name);
std::vector<std::string> fabric_names();
std::span<const EmbeddedFile> fabric_files();
std::optional<Device> find_device(std::string_view name);   // nothing where no preset has this name
std::optional<Cluster> find_cluster(std::string_view name); // one node of it; the scenario sets nodes

} // namespace orrery

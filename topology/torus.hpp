// The grid of a torus whose rows run through nodes, for who draws it.
#pragma once

#include "topology/cluster.hpp"

#include <array>
#include <optional>

namespace orrery {

// Device u stands at (u % rows[0], u / rows[0] % rows[1], u / rows[0] / rows[1]); rows ascend, unused dimensions are 1. nullopt: the
// devices of this cluster form no torus over its nodes.
std::optional<std::array<int, 3>> torus_rows(const Cluster& cluster);

} // namespace orrery

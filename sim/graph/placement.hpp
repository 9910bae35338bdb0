// How a tensor is spread over the axes of a mesh of ranks.
#pragma once

#include "sim/graph/mesh.hpp"
#include "topology/indexed.hpp"

#include <array>
#include <cstdint>

namespace orrery {

// Where a value stands along one mesh axis. invariant: the same on all, and so is its gradient. varying: the same on all, its
// gradient is partial. sharded: each holds a part along `dim`. partial: each holds a summand.
enum class PlacementKind : std::uint8_t { invariant, varying, sharded, partial };
struct Placement {
    ByEnum<Axis, PlacementKind, axis_count> kind{};
    ByEnum<Axis, std::int8_t, axis_count> dim{}; // of a sharded axis: which dimension of the shape
    PlacementKind on(Axis a) const { return kind[a]; }
    void set(Axis a, PlacementKind k, int d = 0) {
        kind[a] = k;
        dim[a] = static_cast<std::int8_t>(d);
    }
    friend bool operator==(const Placement&, const Placement&) = default;
};

} // namespace orrery

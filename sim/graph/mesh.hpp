// The grid of ranks: how many along each axis, and which global rank stands where (rank_order).
#pragma once

#include "topology/indexed.hpp"

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace orrery {

// Data parallelism has three parts: dp shards (the HSDP group), dpr copies of these that share every step, dpw workers that meet between
// steps. dp x dpr x dpw is strategy.data_parallel.
enum class Axis : std::uint8_t { tp, cp, ep, dp, dpr, dpw, pp };
inline constexpr int axis_count = 7;
const char* name(Axis axis);

using AxisMask = std::uint8_t;
constexpr AxisMask mask(Axis a) { return static_cast<AxisMask>(1u << static_cast<unsigned>(a)); }

using Coordinates = ByEnum<Axis, int, axis_count>;

using RankOrder = std::vector<Axis>; // every axis once

struct Mesh {
    ByEnum<Axis, int, axis_count> size{1, 1, 1, 1, 1, 1, 1};
    RankOrder order; // fastest-varying first, every axis once

    int extent(Axis a) const { return size[a]; }
    int ranks() const;
    int rank_of(const Coordinates& c) const;
    Coordinates coordinates(int rank) const;
    int stride(Axis a) const;          // between neighbours along it
    int stride_in_stage(Axis a) const; // the same, counting one stage's ranks alone
};

// "tp-cp-ep-dp-pp" as axes, fastest first; dpr and dpw follow dp. Throws std::invalid_argument naming the first bad word.
RankOrder parse_rank_order(std::string_view text);

} // namespace orrery

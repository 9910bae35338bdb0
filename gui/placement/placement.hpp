// The contents of each device under a plan: its place on every axis, its layers, its share of weights, data and experts. From the plan
// alone, so that any strategy a plan can express can be drawn. No Qt here.
#pragma once

#include "sim/plan/plan.hpp"

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace orrery {

constexpr std::size_t at(Axis a) { return static_cast<std::size_t>(a); }

// Layers a chunk computes, ends included; first > last: none. ends: what stands before or behind the layers.
struct ChunkLayers {
    int chunk = 0;
    int first = 0, last = -1;
    bool embedding = false, loss = false;
};

// The bytes that live from step to step on each rank of a stage. axes: what it is split over (a mask of the mesh's axes).
struct Holding {
    Bytes bytes;
    AxisMask axes = 0;
};
struct StageHoldings {
    std::vector<ChunkLayers> chunks;
    Holding parameters, expert_parameters, gradients, optimizer;
};

struct DevicePlace {
    int rank = 0, node = 0, slot = 0; // slot: inside its node
    Coordinates at{};                 // on the plan's mesh
    int expert_group = 0;             // its place among the expert-parallel ranks
};

struct Placements {
    Mesh mesh, expert_mesh;
    int devices_per_node = 1;
    int experts = 0;                                // of a layer; 0: the model has none
    std::int64_t microbatches = 1, micro_batch = 1; // of each data-parallel rank
    std::vector<StageHoldings> stages;
    std::vector<DevicePlace> devices; // by rank

    int data_ranks() const { return mesh.extent(Axis::dp) * mesh.extent(Axis::dpr) * mesh.extent(Axis::dpw); }
    int data_rank(const DevicePlace& d) const; // which data it sees, 0 .. data_ranks() - 1
    int stage(const DevicePlace& d) const { return d.at[Axis::pp]; }
    int first_expert(const DevicePlace& d) const; // the experts of its group: [first, first + experts_each())
    int experts_each() const;
};

Placements placements(const Plan& plan, const Scenario& scenario);

// "0-7, 64-71": chunks whose layers follow each other joined; "" where a stage has none.
std::string layer_numbers(const StageHoldings& stage);

} // namespace orrery

#include "sim/plan/plan.hpp"

#include <algorithm>

namespace orrery {

const char* name(MemoryKind k) {
    switch (k) {
    case MemoryKind::parameters: return "parameters";
    case MemoryKind::gradients: return "gradients";
    case MemoryKind::optimizer_states: return "optimizer_states";
    case MemoryKind::activations: return "activations";
    case MemoryKind::communication: return "communication";
    case MemoryKind::workspace: return "workspace";
    }
    return "?";
}

const char* name(Phase p) {
    switch (p) {
    case Phase::forward: return "forward";
    case Phase::recompute: return "recompute";
    case Phase::backward_input: return "backward";
    case Phase::backward_weight: return "weight-gradient";
    case Phase::exchange: return "exchange";
    case Phase::gradient_reduce: return "gradient-reduce";
    case Phase::param_gather: return "param-gather";
    case Phase::optimizer: return "optimizer";
    case Phase::offload: return "offload";
    }
    return "?";
}

BufferId storage(const Plan& plan, BufferId b) {
    while (plan.buffers[static_cast<std::size_t>(b)].storage >= 0) b = plan.buffers[static_cast<std::size_t>(b)].storage;
    return b;
}

const Mesh& mesh_of(const Plan& plan, const Communicator& comm) { return comm.expert ? plan.expert_mesh : plan.mesh; }

std::vector<int> steps_along(const Plan& plan, const Communicator& comm, Axis axis) {
    const Mesh& mesh = mesh_of(plan, comm);
    std::vector<int> steps;
    if (axis == Axis::pp) {
        const int stride = plan.mesh.stride(Axis::pp);
        if (comm.stages.empty()) for (int s = 0; s < plan.mesh.extent(Axis::pp); ++s) steps.push_back(s * stride);
        else for (std::int16_t s : comm.stages) steps.push_back(s * stride);
        return steps;
    }
    const int stride = mesh.stride_in_stage(axis), inside = plan.mesh.stride(Axis::pp), stages = plan.mesh.extent(Axis::pp);
    for (int i = 0; i < mesh.extent(axis); ++i) {
        const int at = i * stride;   // among the stage's ranks: those before the pipeline axis stay neighbours
        steps.push_back(at % inside + at / inside * inside * stages);
    }
    return steps;
}

std::vector<int> members(const Plan& plan, CommId c, int rank) {
    const Communicator& comm = plan.communicators[static_cast<std::size_t>(c)];
    const auto in_mask = [&](Axis a) { return (comm.axes & mask(a)) != 0; };
    const int pp_stride = plan.mesh.stride(Axis::pp), stages = plan.mesh.extent(Axis::pp), stage = rank / pp_stride % stages;
    if (!comm.stages.empty() && std::find(comm.stages.begin(), comm.stages.end(), stage) == comm.stages.end()) return {};
    // The first member: rank, less its own steps along the axes of the mask. Fastest-varying first, so that neighbours in the mesh
    // are neighbours in the communicator; stages last.
    const Mesh& mesh = mesh_of(plan, comm);
    const int in_stage = rank % pp_stride + rank / pp_stride / stages * pp_stride;
    std::vector<int> ranks{rank};
    const auto spread = [&](Axis a, int self) {
        const std::vector<int> steps = steps_along(plan, comm, a);
        std::vector<int> wider;
        for (int step : steps)
            for (int r : ranks) wider.push_back(r + step - self);
        ranks = std::move(wider);
    };
    for (Axis a : mesh.order)
        if (a != Axis::pp && in_mask(a)) spread(a, steps_along(plan, comm, a)[static_cast<std::size_t>(in_stage / mesh.stride_in_stage(a) % mesh.extent(a))]);
    if (in_mask(Axis::pp)) spread(Axis::pp, stage * pp_stride);
    return ranks;
}

int size(const Plan& plan, CommId c) {
    const Communicator& comm = plan.communicators[static_cast<std::size_t>(c)];
    const Mesh& mesh = mesh_of(plan, comm);
    int n = 1;
    for (Axis a : mesh.order) {
        if ((comm.axes & mask(a)) == 0) continue;
        n *= a == Axis::pp && !comm.stages.empty() ? static_cast<int>(comm.stages.size()) : mesh.extent(a);
    }
    return n;
}

} // namespace orrery

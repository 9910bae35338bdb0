#include "sim/plan/plan.hpp"

#include <algorithm>

namespace orrery {

const char* name(MemoryKind k) {
    switch (k) {
    case MemoryKind::parameters:
        return "parameters";
    case MemoryKind::gradients:
        return "gradients";
    case MemoryKind::optimizer_states:
        return "optimizer_states";
    case MemoryKind::activations:
        return "activations";
    case MemoryKind::communication:
        return "communication";
    case MemoryKind::workspace:
        return "workspace";
    }
    return "?";
}

const char* name(Phase p) {
    switch (p) {
    case Phase::forward:
        return "forward";
    case Phase::recompute:
        return "recompute";
    case Phase::backward_input:
        return "backward";
    case Phase::backward_weight:
        return "weight-gradient";
    case Phase::exchange:
        return "exchange";
    case Phase::gradient_reduce:
        return "gradient-reduce";
    case Phase::param_gather:
        return "param-gather";
    case Phase::optimizer:
        return "optimizer";
    case Phase::offload:
        return "offload";
    }
    return "?";
}

BufferId storage(const Plan& plan, BufferId b) {
    while (plan.buffers[b].storage >= 0) b = plan.buffers[b].storage;
    return b;
}

const Mesh& mesh_of(const Plan& plan, const Communicator& comm) { return comm.expert ? plan.expert_mesh : plan.mesh; }

int stage_major(const Plan& plan, int rank) {
    const int inside = plan.mesh.stride(Axis::pp), stages = plan.mesh.extent(Axis::pp), outside = inside * stages;
    return rank / inside % stages * (plan.mesh.ranks() / stages) + rank / outside * inside + rank % inside;
}

int rank_at(const Plan& plan, int stage_major) { return Places(plan).rank(stage_major); }

Places::Places(const Plan& plan)
    : inside_(plan.mesh.stride(Axis::pp)), stages_(plan.mesh.extent(Axis::pp)), of_a_stage_(plan.mesh.ranks() / stages_) {}

int Places::rank(int stage_major) const {
    const int place = stage_major % of_a_stage_;
    return place / inside_ * inside_ * stages_ + stage_major / of_a_stage_ * inside_ + place % inside_;
}

std::vector<int> steps_along(const Plan& plan, const Communicator& comm, Axis axis) {
    const Mesh& mesh = mesh_of(plan, comm);
    const int step = axis == Axis::pp ? plan.mesh.ranks() / plan.mesh.extent(Axis::pp) : mesh.stride_in_stage(axis);
    std::vector<int> steps;
    if (axis == Axis::pp && !comm.stages.empty())
        for (std::int16_t s : comm.stages) steps.push_back(s * step);
    else
        for (int i = 0; i < mesh.extent(axis); ++i) steps.push_back(i * step);
    return steps;
}

std::vector<int> members(const Plan& plan, CommId c, int rank) {
    const Communicator& comm = plan.communicators[c];
    const int self = stage_major(plan, rank), of_a_stage = plan.mesh.ranks() / plan.mesh.extent(Axis::pp);
    const int stage = self / of_a_stage, place = self % of_a_stage;
    if (!comm.stages.empty() && std::find(comm.stages.begin(), comm.stages.end(), stage) == comm.stages.end()) return {};
    // Fastest-varying axis first, so that neighbours in the mesh are neighbours in the communicator; stages last.
    const Mesh& mesh = mesh_of(plan, comm);
    std::vector<int> ranks{self};
    const auto spread = [&](Axis a, int own) {
        if ((comm.axes & mask(a)) == 0) return;
        std::vector<int> wider;
        for (int step : steps_along(plan, comm, a))
            for (int r : ranks) wider.push_back(r + step - own);
        ranks = std::move(wider);
    };
    for (Axis a : mesh.order)
        if (a != Axis::pp) spread(a, place / mesh.stride_in_stage(a) % mesh.extent(a) * mesh.stride_in_stage(a));
    spread(Axis::pp, stage * of_a_stage);
    const Places places(plan);
    for (int& r : ranks) r = places.rank(r);
    return ranks;
}

int size(const Plan& plan, CommId c) {
    const Communicator& comm = plan.communicators[c];
    const Mesh& mesh = mesh_of(plan, comm);
    int n = 1;
    for (Axis a : mesh.order) {
        if ((comm.axes & mask(a)) == 0) continue;
        n *= a == Axis::pp && !comm.stages.empty() ? static_cast<int>(comm.stages.size()) : mesh.extent(a);
    }
    return n;
}

} // namespace orrery

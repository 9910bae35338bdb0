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

std::vector<int> members(const Plan& plan, CommId c, int rank) {
    const Communicator& comm = plan.communicators[static_cast<std::size_t>(c)];
    const auto in_mask = [&](Axis a) { return (comm.axes & mask(a)) != 0; };
    const Coordinates self = plan.mesh.coordinates(rank);
    const std::int16_t stage = static_cast<std::int16_t>(self[static_cast<std::size_t>(Axis::pp)]);
    std::vector<int> stages;
    if (!comm.stages.empty()) {
        if (std::find(comm.stages.begin(), comm.stages.end(), stage) == comm.stages.end()) return {};
    }
    if (in_mask(Axis::pp)) {
        if (comm.stages.empty()) for (int s = 0; s < plan.mesh.extent(Axis::pp); ++s) stages.push_back(s);
        else stages.assign(comm.stages.begin(), comm.stages.end());
    } else {
        stages.push_back(stage);
    }
    std::vector<int> out;
    for (int s : stages) {
        // The other axes of the mask, fastest-varying first, so that neighbours in the mesh are neighbours in the communicator.
        std::vector<int> ranks;
        Coordinates c0 = self;
        c0[static_cast<std::size_t>(Axis::pp)] = s;
        for (Axis a : plan.mesh.order)
            if (a != Axis::pp && in_mask(a)) c0[static_cast<std::size_t>(a)] = 0;
        ranks.push_back(plan.mesh.rank_of(c0));
        int stride = 1;
        for (Axis a : plan.mesh.order) {
            const int extent = plan.mesh.extent(a);
            if (a != Axis::pp && in_mask(a)) {
                const std::size_t have = ranks.size();
                for (int i = 1; i < extent; ++i)
                    for (std::size_t j = 0; j < have; ++j) ranks.push_back(ranks[j] + i * stride);
            }
            stride *= extent;
        }
        out.insert(out.end(), ranks.begin(), ranks.end());
    }
    return out;
}

int size(const Plan& plan, CommId c) {
    const Communicator& comm = plan.communicators[static_cast<std::size_t>(c)];
    int n = 1;
    for (Axis a : plan.mesh.order) {
        if ((comm.axes & mask(a)) == 0) continue;
        n *= a == Axis::pp && !comm.stages.empty() ? static_cast<int>(comm.stages.size()) : plan.mesh.extent(a);
    }
    return n;
}

} // namespace orrery

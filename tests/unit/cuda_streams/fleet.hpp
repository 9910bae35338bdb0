// Ranks on stand-ins of GPUs: exec/cuda's streams and NCCL communicators as they are, with the processor's kernels.
#pragma once

#include "exec/queues/executor.hpp"
#include "tests/agree/agree.hpp"
#include "tests/fakes/gpu.hpp"

#include <gtest/gtest.h>

namespace orrery::test {

// A device a rank of this process, with memory of its own.
inline Fleet stand_ins(const World& world, double patience = 20) {
    Fleet fleet;
    fleet.name = "cuda";
    for (const auto& rank : world.ranks)
        if (rank) fleet.devices.push_back(std::make_unique<StandInGpu>(static_cast<int>(fleet.devices.size()), world.machine));
    fleet.world_id = [first = fleet.devices[0].get()] {
        WorldId id{};
        const Status s = first->world_id(id);
        if (!s.ok()) throw std::runtime_error(s.message);
        return id;
    };
    fleet.separate_memory = true;
    fleet.patience = patience;
    return fleet;
}

} // namespace orrery::test

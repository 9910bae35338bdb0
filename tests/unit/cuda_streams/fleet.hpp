// Ranks on stand-ins of GPUs: exec/cuda's streams and NCCL communicators as they are, with the processor's kernels.
#pragma once

#include "exec/cuda/streams.hpp"
#include "exec/queues/executor.hpp"
#include "tests/agree/agree.hpp"
#include "tests/fakes/fakes.hpp"

#include <gtest/gtest.h>

#include <thread>

namespace orrery::test {

class StandInGpu final : public cuda::Streams {
  public:
    StandInGpu(int device, const Backend& machine) : Streams(device), kernel_(machine.kernel) {}
    std::string name() const override { return "a stand-in"; }
    Status delay(std::int64_t ns, QueueId queue) override {
        return cuda::guarded([&] {
            use();
            fake::launch(stream(queue), [ns] { std::this_thread::sleep_for(std::chrono::nanoseconds(ns)); });
        });
    }
    Status run(const Op& op, std::span<const Operand> in, std::span<const Operand> out, const KernelContext& context,
               QueueId queue) override {
        return cuda::guarded([&] {
            use();
            fake::launch(stream(queue), [this, &op, i = std::vector<Operand>(in.begin(), in.end()),
                                         o = std::vector<Operand>(out.begin(), out.end()), context] { kernel_(op, i, o, context); });
        });
    }

  private:
    std::function<void(const Op&, std::span<const Operand>, std::span<const Operand>, const KernelContext&)> kernel_;
};

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

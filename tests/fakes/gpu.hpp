// A GPU of the stand-ins: exec/cuda's streams and communicators as they are, with the processor's kernels.
#pragma once

#include "exec/cuda/streams.hpp"
#include "exec/kernels/machine.hpp"
#include "tests/fakes/fakes.hpp"

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

} // namespace orrery::test

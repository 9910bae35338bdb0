// The processor as devices with streams: a worker thread a queue serves it in order, events are promises, a communicator's calls move data
// when the last of those they need has come. Sums are made member by member, as the serial executor makes them. What proves an executor's
// order of things without any GPU.
#pragma once

#include "exec/queues/device.hpp"

#include <exception>
#include <functional>
#include <memory>

namespace orrery {

using CpuKernel = std::function<void(const Op&, std::span<const Operand>, std::span<const Operand>, const KernelContext&)>;

// Devices of one process, and what happens between them.
class CpuFabric {
  public:
    explicit CpuFabric(CpuKernel kernel);
    ~CpuFabric(); // after all of its devices and communicators
    CpuFabric(const CpuFabric&) = delete;
    CpuFabric& operator=(const CpuFabric&) = delete;

    std::unique_ptr<StreamDevice> device();
    std::exception_ptr failure() const; // what a kernel threw; null: nothing
    bool stands_still() const;          // all streams and hosts wait, and none can go on

    struct State;

  private:
    std::shared_ptr<State> state_;
};

} // namespace orrery

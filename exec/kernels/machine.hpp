// Where ranks' memory is and who runs their kernels: this process, or a device whose memory the host can read.
#pragma once

#include "exec/kernels/kernel.hpp"

#include <functional>
#include <memory>
#include <string>

namespace orrery {

struct Backend {
    std::string name;
    // Address space of that many bytes; pages are backed when they are touched. Throws std::bad_alloc.
    std::function<std::shared_ptr<std::byte>(std::int64_t bytes)> reserve;
    // Runs a computation; its results are there when it returns.
    std::function<void(const Op&, std::span<const Operand> in, std::span<const Operand> out, const KernelContext&)> kernel;
    double room = 4;     // address space reserved for each byte that is planned: plenty, where it costs nothing
    bool zeroed = false; // what it reserves reads as zero until it is written
};

Backend cpu_machine();

} // namespace orrery

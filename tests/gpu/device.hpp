// The GPU that the tests here run on, or why there is none.
#pragma once

#include "exec/cuda/plugin.hpp"

#include <memory>
#include <string>

namespace orrery::test {

struct Gpu {
    std::string why_not;
    std::shared_ptr<StreamDevice> device;
};

inline Gpu open_gpu() {
    Gpu gpu;
    gpu.device = open_cuda(0, gpu.why_not);
    return gpu;
}

} // namespace orrery::test

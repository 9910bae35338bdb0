// The GPU that the tests here run on, or why there is none.
#pragma once

#include "exec/cuda/plugin.hpp"

#include <memory>
#include <string>

namespace orrery::test {

struct Gpu {
    std::shared_ptr<CudaDevice> device;
    std::string why_not;
};

inline Gpu open_gpu() {
    Gpu gpu;
    const CudaPlugin* plugin = load_cuda(gpu.why_not);
    if (!plugin) return gpu;
    if (plugin->devices(gpu.why_not) == 0) {
        gpu.why_not = "no GPU: " + gpu.why_not + " (" + plugin->versions() + ")";
        return gpu;
    }
    std::unique_ptr<CudaDevice> device;
    gpu.why_not = plugin->open(0, device).message;
    gpu.device = std::move(device);
    return gpu;
}

} // namespace orrery::test

// The plugin without CUDA, for tests that start simexec as launchers do: as many GPUs as ORRERY_STAND_INS says (8), NCCL between
// processes over the loopback. ORRERY_STAND_IN_FAILS="cudaMemcpyAsync 999": this process's next such call fails so.
#include "exec/cuda/plugin.hpp"
#include "exec/cuda/nccl.hpp"
#include "tests/fakes/gpu.hpp"

#include <cstdlib>
#include <sstream>

namespace orrery::test {
namespace {

int gpus() {
    const char* const text = std::getenv("ORRERY_STAND_INS");
    return text ? std::atoi(text) : 8;
}

int devices(std::string& /*why_none*/) { return gpus(); }

Status open(int device, std::unique_ptr<StreamDevice>& out) {
    return cuda::guarded([&] {
        static const bool first = [] { return fake::reset(gpus()), true; }();
        if (const char* const fails = std::getenv("ORRERY_STAND_IN_FAILS"); first && fails) {
            std::istringstream in(fails);
            std::string call;
            int result = 0;
            in >> call >> result;
            fake::fail_call(call, -1, result);
        }
        out = std::make_unique<StandInGpu>(device, cpu_machine());
    });
}

std::string versions() { return "stand-ins of CUDA and NCCL"; }

} // namespace
} // namespace orrery::test

namespace orrery {

const CudaPlugin* load_cuda(std::string&) {
    static const CudaPlugin plugin{cuda_plugin_abi, test::devices, test::open, test::versions};
    return &plugin;
}

std::shared_ptr<StreamDevice> open_cuda(int device, std::string& why_not) {
    std::unique_ptr<StreamDevice> opened;
    why_not = load_cuda(why_not)->open(device, opened).message;
    return opened;
}

} // namespace orrery

// The interface of the CUDA plugin (exec_cuda.so, loaded at run time): GPUs as devices with streams, communicators over NCCL. No CUDA
// header is needed here, and no exception leaves the plugin: every call returns a status. Built of the same sources by the same compiler as
// the program that loads it, which the ABI number stands for.
#pragma once

#include "exec/kernels/machine.hpp"
#include "exec/queues/executor.hpp"
#include "exec/queues/launch.hpp"

#include <memory>
#include <optional>
#include <string>

namespace orrery {

inline constexpr int cuda_plugin_abi = 5;

struct CudaPlugin {
    int abi;
    int (*devices)(std::string& why_none); // how many; 0: why
    Status (*open)(int device, std::unique_ptr<StreamDevice>& out);
    std::string (*versions)(); // CUDA runtime and driver, cuBLASLt, NCCL, cuDNN
};

// Null and why where there is no plugin, or one of another ABI. Looks beside the program and where the loader looks.
const CudaPlugin* load_cuda(std::string& why_not);

// The GPU of that number, or null and why there is none.
std::shared_ptr<StreamDevice> open_cuda(int device, std::string& why_not);

// The device as a machine for virtual ranks: memory that host and device share, every op waited for. Collectives between ranks of one
// process are the host's; times mean nothing. Throws std::runtime_error where the device reports an error.
Backend cuda_machine(std::shared_ptr<StreamDevice> device);

// Sets the environment that the driver and NCCL read at their first calls; a user's own settings stand. cuda_fleet() begins with it, before
// there are threads of devices.
void prepare_cuda();

// A GPU for each of the world's ranks that are here: one process with as many GPUs as ranks, or, where a launcher says so, one rank on the
// GPU of its local number, the others found through rank 0's store. Throws std::runtime_error with what is missing.
Fleet cuda_fleet(const World& world, const std::optional<LaunchedRank>& launched, double patience);

} // namespace orrery

extern "C" const orrery::CudaPlugin* orrery_cuda_plugin();

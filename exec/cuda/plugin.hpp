// What the CUDA plugin (exec_cuda.so, loaded at run time) offers: devices that run a plan's computations, and communicators over NCCL.
// No CUDA header is needed here, and no exception leaves the plugin: every call returns a status. Built of the same sources by the same
// compiler as the program that loads it, which the ABI number stands for.
#pragma once

#include "exec/kernels/machine.hpp"

#include <chrono>
#include <memory>
#include <string>

namespace orrery {

inline constexpr int cuda_plugin_abi = 1;

struct CudaStatus {
    std::string message; // empty: all is well
    bool ok() const { return message.empty(); }
};

// One member of a communicator. Calls enqueue on the stream of `queue` and return; what went wrong later is seen by poll().
class CudaCommunicator {
  public:
    virtual ~CudaCommunicator() = default;
    virtual CudaStatus begin_group() = 0;
    virtual CudaStatus end_group() = 0;
    virtual CudaStatus all_reduce(const void* in, void* out, std::int64_t elements, DType dtype, bool maximum, QueueId queue) = 0;
    virtual CudaStatus reduce_scatter(const void* in, void* out, std::int64_t elements_out, DType dtype, QueueId queue) = 0;
    virtual CudaStatus all_gather(const void* in, void* out, std::int64_t elements_in, DType dtype, QueueId queue) = 0;
    virtual CudaStatus broadcast(const void* in, void* out, std::int64_t elements, DType dtype, int root, QueueId queue) = 0;
    virtual CudaStatus send(const void* data, std::int64_t elements, DType dtype, int peer, QueueId queue) = 0;
    virtual CudaStatus receive(void* data, std::int64_t elements, DType dtype, int peer, QueueId queue) = 0;
    virtual CudaStatus poll() = 0; // of what runs asynchronously
    virtual CudaStatus split(int color, int key, const std::string& name,
                             std::unique_ptr<CudaCommunicator>& out) = 0; // color < 0: not a member
    virtual void abort() = 0; // every rank's, when one has failed; nothing else may be called then
};

using NcclId = std::array<char, 128>;

// A GPU. A queue of the plan is a stream, made when first used; communication streams have the higher priority. One host thread only.
class CudaDevice {
  public:
    virtual ~CudaDevice() = default;
    virtual std::string name() const = 0;
    virtual CudaStatus allocate(std::int64_t bytes, bool managed, std::byte** out) = 0; // managed: the host may read it too
    virtual CudaStatus release(std::byte* memory) = 0;
    virtual CudaStatus copy(void* to, const void* from, std::int64_t bytes, QueueId queue) = 0; // between any spaces
    virtual CudaStatus run(const Op& op, std::span<const Operand> in, std::span<const Operand> out, const KernelContext& context,
                           QueueId queue) = 0;
    // An event behind what the queue has so far; timed ones can be told apart by time.
    virtual CudaStatus record(QueueId queue, std::int32_t& event) = 0;
    virtual CudaStatus wait(QueueId queue, std::int32_t event) = 0;
    virtual CudaStatus recycle(std::int32_t event) = 0;
    virtual CudaStatus milliseconds(std::int32_t from, std::int32_t to, float& out) = 0; // both must have happened
    virtual CudaStatus synchronise(std::chrono::milliseconds deadline) = 0;              // of all queues; a deadline passed is an error
    virtual CudaStatus memory(std::int64_t& free, std::int64_t& total) = 0;
    virtual CudaStatus connect(const NcclId& id, int ranks, int rank, const std::string& name, std::unique_ptr<CudaCommunicator>& out) = 0;
};

struct CudaPlugin {
    int abi;
    int (*devices)(std::string& why_none); // how many; 0: why
    CudaStatus (*open)(int device, std::unique_ptr<CudaDevice>& out);
    CudaStatus (*nccl_id)(NcclId& out); // made by one rank, handed to all
    std::string (*versions)();          // CUDA runtime and driver, cuBLASLt, NCCL
};

// Null and why where there is no plugin, or one of another ABI. Looks beside the program and where the loader looks.
const CudaPlugin* load_cuda(std::string& why_not);

// The GPU of that number, or null and why there is none.
std::shared_ptr<CudaDevice> open_cuda(int device, std::string& why_not);

// The device as a machine for virtual ranks: memory that host and device share, every op waited for. Collectives between ranks of one
// process are the host's; times mean nothing. Throws std::runtime_error where the device reports an error.
Machine cuda_machine(std::shared_ptr<CudaDevice> device);

} // namespace orrery

extern "C" const orrery::CudaPlugin* orrery_cuda_plugin();

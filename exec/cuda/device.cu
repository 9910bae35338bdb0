// The device and its streams, the plugin's table, and dispatch by work.
#include "exec/cuda/device.cuh"
#include "exec/cuda/nccl.hpp"
#include "exec/cuda/plugin.hpp"

namespace orrery::cuda {
namespace {

void check_lt(cublasStatus_t s, const char* what) {
    if (s != CUBLAS_STATUS_SUCCESS) throw LibraryFailed(std::string(what) + ": " + cublasLtGetStatusString(s), Cause::device);
}

constexpr std::size_t scratch_step = 2u << 20; // bytes: what the driver maps at a time

// One thread that looks at the device's clock: takes no memory traffic and next to no room.
__global__ void spin(std::uint64_t ns) {
    std::uint64_t begin = 0, now = 0;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin));
    do asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    while (now - begin < ns);
}

class Device final : public Streams {
  public:
    explicit Device(int device) : Streams(device) {
        check(cudaGetDeviceProperties(&properties_, device), "cudaGetDeviceProperties");
        gpu_.multiprocessors = properties_.multiProcessorCount;
        check_lt(cublasLtCreate(&gpu_.lt), "cublasLtCreate");
        gpu_.given_up = [this] { return given_up(); };
    }
    ~Device() override {
        cudaSetDevice(device());
        cublasLtDestroy(gpu_.lt);
    }
    std::string name() const override { return properties_.name; }

    Status delay(std::int64_t ns, QueueId queue) override {
        return guarded([&] {
            use();
            spin<<<1, 1, 0, stream(queue)>>>(static_cast<std::uint64_t>(std::max<std::int64_t>(ns, 0)));
            check(cudaGetLastError(), "launch of a delay");
        });
    }
    Status run(const Op& op, std::span<const Operand> in, std::span<const Operand> out, const KernelContext& context,
               QueueId queue) override {
        Status status = guarded([&] {
            use();
            Workspace& w = gpu_.workspaces[queue];
            if (!w.stream) {
                w.stream = stream(queue);
                w.gemm = DeviceMemory(gemm_workspace);
            }
            const Launch launch{gpu_, w, op, in, out, context};
            std::visit(
                [&]<class W>(const W& work) {
                    if constexpr (requires { orrery::cuda::run(work, launch); })
                        orrery::cuda::run(work, launch);
                    else
                        throw std::runtime_error("is the executor's, not a kernel's");
                },
                op.work);
        });
        if (!status.ok()) status.message = op.name + ": " + status.message;
        return status;
    }

    // When all queues are done nobody uses what a workspace has outgrown.
    Status synchronise(Milliseconds at_most, bool& done) override {
        Status status = Streams::synchronise(at_most, done);
        if (status.ok() && done)
            for (auto& [queue, w] : gpu_.workspaces) w.outgrown.clear();
        return status;
    }

  private:
    Gpu gpu_;
    cudaDeviceProp properties_{};
};

int devices(std::string& why_none) {
    int count = 0;
    const cudaError_t e = cudaGetDeviceCount(&count);
    if (e != cudaSuccess) why_none = cudaGetErrorString(e);
    return e == cudaSuccess ? count : 0;
}

Status open(int device, std::unique_ptr<StreamDevice>& out) {
    return guarded([&] { out = std::make_unique<Device>(device); });
}

std::string versions() {
    int runtime = 0, driver = 0;
    cudaRuntimeGetVersion(&runtime);
    cudaDriverGetVersion(&driver);
    return "CUDA runtime " + std::to_string(runtime) + ", driver " + (driver == 0 ? "none" : std::to_string(driver)) + ", cuBLASLt " +
           std::to_string(cublasLtGetVersion()) + ", NCCL " + nccl_version() + ", cuDNN " + cudnn_version();
}

} // namespace

void* Launch::scratch(std::size_t bytes) const {
    if (bytes > queue.scratch.bytes) {
        if (queue.scratch.data)
            queue.outgrown.push_back(std::move(queue.scratch)); // freeing waits for the whole device, which may wait for a peer
        queue.scratch = DeviceMemory();
        queue.scratch = DeviceMemory((bytes + scratch_step - 1) / scratch_step * scratch_step);
    }
    return queue.scratch.data;
}

float* Launch::overflow() const {
    if (!context.scaling) return nullptr;
    const std::string name = "overflow " + std::to_string(context.plan.mesh.rank_of(context.at));
    return const_cast<float*>(gpu.table<float>(name, [] { return std::vector<float>(1, 0.0f); }));
}

const Token* Launch::tokens(const Buffer& value, std::int64_t rows) const {
    const Placement& p = value.placement;
    const bool cut = p.on(Axis::tp) == PlacementKind::sharded && p.dim[Axis::tp] == 0;
    const std::string name = "tokens " + std::to_string(rows) + " " + std::to_string(coordinate(Axis::cp)) +
                             (cut ? " " + std::to_string(coordinate(Axis::tp)) : "");
    return gpu.table<Token>(name, [&] { return tokens_of(context, value, rows); });
}

} // namespace orrery::cuda

extern "C" __attribute__((visibility("default"))) const orrery::CudaPlugin* orrery_cuda_plugin() {
    static const orrery::CudaPlugin plugin{orrery::cuda_plugin_abi, orrery::cuda::devices, orrery::cuda::open, orrery::cuda::versions};
    return &plugin;
}

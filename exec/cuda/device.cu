// The device and its streams, the plugin's table, and dispatch by work.
#include "exec/cuda/device.cuh"
#include "exec/cuda/nccl.hpp"

#include <thread>

namespace orrery::cuda {
namespace {

void check_lt(cublasStatus_t s, const char* what) {
    if (s != CUBLAS_STATUS_SUCCESS) throw std::runtime_error(std::string(what) + ": " + cublasLtGetStatusString(s));
}

// No exception leaves the plugin.
template <class F> CudaStatus guarded(F&& f) {
    try {
        f();
        return {};
    } catch (const std::exception& e) { return {e.what()}; }
}

class Device final : public CudaDevice {
  public:
    explicit Device(int device) {
        gpu_.device = device;
        check(cudaSetDevice(device), "cudaSetDevice");
        check(cudaGetDeviceProperties(&properties_, device), "cudaGetDeviceProperties");
        check_lt(cublasLtCreate(&gpu_.lt), "cublasLtCreate");
    }
    ~Device() override {
        cudaSetDevice(gpu_.device);
        for (auto& e : events_) cudaEventDestroy(e);
        for (auto& [queue, s] : gpu_.streams) cudaStreamDestroy(s.stream);
        cublasLtDestroy(gpu_.lt);
    }
    std::string name() const override { return properties_.name; }

    CudaStatus allocate(std::int64_t bytes, bool managed, std::byte** out) override {
        return guarded([&] {
            use();
            void* p = nullptr;
            check(managed ? cudaMallocManaged(&p, static_cast<std::size_t>(bytes)) : cudaMalloc(&p, static_cast<std::size_t>(bytes)),
                  "allocation of the arena");
            *out = static_cast<std::byte*>(p);
        });
    }
    CudaStatus release(std::byte* memory) override {
        return guarded([&] { check(cudaFree(memory), "cudaFree"); });
    }
    CudaStatus copy(void* to, const void* from, std::int64_t bytes, QueueId queue) override {
        return guarded([&] {
            use();
            check(cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), cudaMemcpyDefault, gpu_.stream(queue).stream),
                  "cudaMemcpyAsync");
        });
    }
    CudaStatus run(const Op& op, std::span<const Operand> in, std::span<const Operand> out, const KernelContext& context,
                   QueueId queue) override {
        CudaStatus status = guarded([&] {
            use();
            Stream& s = gpu_.stream(queue);
            s.used = 0;
            const Launch launch{gpu_, s, op, in, out, context};
            std::visit(
                [&]<class W>(const W& w) {
                    if constexpr (requires { orrery::cuda::run(w, launch); })
                        orrery::cuda::run(w, launch);
                    else
                        throw std::runtime_error("is the executor's, not a kernel's");
                },
                op.work);
        });
        if (!status.ok()) status.message = op.name + ": " + status.message;
        return status;
    }
    CudaStatus record(QueueId queue, std::int32_t& event) override {
        return guarded([&] {
            use();
            if (free_events_.empty()) {
                cudaEvent_t e;
                check(cudaEventCreate(&e), "cudaEventCreate");
                free_events_.push_back(static_cast<std::int32_t>(events_.size()));
                events_.push_back(e);
            }
            event = free_events_.back();
            free_events_.pop_back();
            check(cudaEventRecord(events_[static_cast<std::size_t>(event)], gpu_.stream(queue).stream), "cudaEventRecord");
        });
    }
    CudaStatus wait(QueueId queue, std::int32_t event) override {
        return guarded([&] {
            check(cudaStreamWaitEvent(gpu_.stream(queue).stream, events_.at(static_cast<std::size_t>(event))), "cudaStreamWaitEvent");
        });
    }
    CudaStatus recycle(std::int32_t event) override {
        free_events_.push_back(event);
        return {};
    }
    CudaStatus milliseconds(std::int32_t from, std::int32_t to, float& out) override {
        return guarded([&] {
            check(cudaEventElapsedTime(&out, events_.at(static_cast<std::size_t>(from)), events_.at(static_cast<std::size_t>(to))),
                  "cudaEventElapsedTime");
        });
    }
    CudaStatus synchronise(std::chrono::milliseconds deadline) override {
        return guarded([&] {
            use();
            const auto end = std::chrono::steady_clock::now() + deadline;
            for (auto& [queue, s] : gpu_.streams)
                for (cudaError_t e; (e = cudaStreamQuery(s.stream)) != cudaSuccess;) {
                    if (e != cudaErrorNotReady) check(e, "a kernel failed");
                    if (std::chrono::steady_clock::now() > end)
                        throw std::runtime_error("queue " + std::to_string(queue) + " did not end by the deadline");
                    std::this_thread::yield();
                }
        });
    }
    CudaStatus memory(std::int64_t& free, std::int64_t& total) override {
        return guarded([&] {
            use();
            std::size_t f = 0, t = 0;
            check(cudaMemGetInfo(&f, &t), "cudaMemGetInfo");
            free = static_cast<std::int64_t>(f);
            total = static_cast<std::int64_t>(t);
        });
    }
    CudaStatus connect(const NcclId& id, int ranks, int rank, const std::string& called, std::unique_ptr<CudaCommunicator>& out) override {
        return guarded([&] {
            use();
            out = connect_nccl(id, ranks, rank, called, [this](QueueId q) { return gpu_.stream(q).stream; });
        });
    }

  private:
    void use() const { check(cudaSetDevice(gpu_.device), "cudaSetDevice"); }

    Gpu gpu_;
    cudaDeviceProp properties_{};
    std::vector<cudaEvent_t> events_;
    std::vector<std::int32_t> free_events_;
};

int devices(std::string& why_none) {
    int count = 0;
    const cudaError_t e = cudaGetDeviceCount(&count);
    if (e != cudaSuccess) why_none = cudaGetErrorString(e);
    return e == cudaSuccess ? count : 0;
}

CudaStatus open(int device, std::unique_ptr<CudaDevice>& out) {
    return guarded([&] { out = std::make_unique<Device>(device); });
}

CudaStatus nccl_id(NcclId& out) {
    return guarded([&] { out = make_nccl_id(); });
}

std::string versions() {
    int runtime = 0, driver = 0;
    cudaRuntimeGetVersion(&runtime);
    cudaDriverGetVersion(&driver);
    return "CUDA runtime " + std::to_string(runtime) + ", driver " + (driver == 0 ? "none" : std::to_string(driver)) + ", cuBLASLt " +
           std::to_string(cublasLtGetVersion()) + ", NCCL " + nccl_version();
}

} // namespace

Stream& Gpu::stream(QueueId q) {
    Stream& s = streams[q];
    if (!s.stream) {
        int least = 0, greatest = 0;
        check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "stream priorities");
        check(cudaStreamCreateWithPriority(&s.stream, cudaStreamNonBlocking, q >= first_comm_queue ? greatest : least), "cudaStreamCreate");
        s.gemm = DeviceMemory(gemm_workspace);
    }
    return s;
}

void* Launch::scratch(std::size_t bytes) const {
    if (bytes > queue.scratch.bytes) {
        check(cudaStreamSynchronize(queue.stream), "growing scratch memory");
        queue.scratch = DeviceMemory();
        queue.scratch = DeviceMemory(bytes);
    }
    return queue.scratch.data;
}

const Token* Launch::tokens(const Buffer& value, std::int64_t rows) const {
    const Placement& p = value.placement;
    const bool cut = p.on(Axis::tp) == PlacementKind::sharded && p.dim[static_cast<std::size_t>(Axis::tp)] == 0;
    const std::string name = "tokens " + std::to_string(rows) + " " + std::to_string(coordinate(Axis::cp)) +
                             (cut ? " " + std::to_string(coordinate(Axis::tp)) : "");
    return gpu.table<Token>(name, [&] { return tokens_of(context, value, rows); });
}

} // namespace orrery::cuda

extern "C" __attribute__((visibility("default"))) const orrery::CudaPlugin* orrery_cuda_plugin() {
    static const orrery::CudaPlugin plugin{orrery::cuda_plugin_abi, orrery::cuda::devices, orrery::cuda::open, orrery::cuda::nccl_id,
                                           orrery::cuda::versions};
    return &plugin;
}

// A GPU as the plugin sees it: streams by queue, workspaces by stream, tables of token positions, cuBLASLt. Internal.
#pragma once

#include "exec/cuda/streams.hpp"
#include "exec/cuda/view.cuh"
#include "exec/kernels/rows.hpp"
#include "exec/kernels/tokens.hpp"

#include <cublasLt.h>

#include <functional>
#include <map>
#include <tuple>
#include <vector>

namespace orrery::cuda {

struct DeviceMemory { // freed with its owner; never inside a step: cudaFree waits for the whole device
    void* data = nullptr;
    std::size_t bytes = 0;
    DeviceMemory() = default;
    explicit DeviceMemory(std::size_t n) : bytes(n) { check(cudaMalloc(&data, n), "cudaMalloc"); }
    DeviceMemory(DeviceMemory&& o) noexcept : data(std::exchange(o.data, nullptr)), bytes(o.bytes) {}
    DeviceMemory& operator=(DeviceMemory&& o) noexcept {
        std::swap(data, o.data);
        std::swap(bytes, o.bytes);
        return *this;
    }
    ~DeviceMemory() { cudaFree(data); }
};

// Of the host, which copies reach while it does something else: one into other memory returns when it has ended. Made anew for more bytes.
struct PinnedMemory {
    void* data = nullptr;
    std::size_t bytes = 0;
    PinnedMemory() = default;
    PinnedMemory(const PinnedMemory&) = delete;
    PinnedMemory& operator=(const PinnedMemory&) = delete;
    ~PinnedMemory() { cudaFreeHost(data); }
    void* room(std::size_t n) {
        if (n <= bytes) return data;
        check(cudaFreeHost(data), "cudaFreeHost");
        data = nullptr, bytes = 0;
        check(cudaHostAlloc(&data, n, cudaHostAllocDefault), "cudaHostAlloc");
        bytes = n;
        return data;
    }
};

// Scratch memory that only one queue uses: grown when an op needs more, which happens in the first step.
struct Workspace {
    cudaStream_t stream = nullptr;
    DeviceMemory scratch, gemm;
    std::vector<DeviceMemory> outgrown;
};

inline constexpr std::size_t gemm_workspace = 32u << 20;   // NVIDIA's recommendation for Hopper (cublasSetWorkspace)
inline constexpr std::size_t attention_scratch = 1u << 30; // what scores of unfused attention may take at a time

struct GemmKey {
    std::int64_t m, n, k, lda, ldb, ldc, batch, stride_a, stride_b, stride_c;
    bool ta, tb;
    Kind a, b, c;
    bool tf32, accumulate, biased;
    std::uint32_t alignment;
    bool exact; // made for these rows, not for a class of them
    auto operator<=>(const GemmKey&) const = default;
};

struct GemmPlan {
    cublasLtMatmulDesc_t work = nullptr;
    cublasLtMatrixLayout_t a = nullptr, b = nullptr, c = nullptr;
    cublasLtMatmulAlgo_t algorithm{};
};

// State of the kernels on a device between ops.
struct Gpu {
    cublasLtHandle_t lt = nullptr;
    int multiprocessors = 1;
    std::map<QueueId, Workspace> workspaces;
    std::map<GemmKey, GemmPlan> gemms;
    std::map<std::string, DeviceMemory> tables;
    std::shared_ptr<struct FusedPlans> fused; // of cuDNN, once an attention has asked for it
    PinnedMemory counts;                      // of experts' rows, on their way to the host
    std::function<bool()> given_up;           // another rank has failed: what waits for it stops

    // A table by name, made on the host when first asked for.
    template <class T, class F> const T* table(const std::string& name, F&& make) {
        auto it = tables.find(name);
        if (it == tables.end()) {
            const std::vector<T> values = make();
            DeviceMemory memory(std::max<std::size_t>(1, values.size()) * sizeof(T));
            check(cudaMemcpy(memory.data, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice), "upload of a table");
            // It may return when the host's memory is free again, before the device has the copy (CUDA's API synchronization behavior), and
            // streams that do not block never wait for the default one.
            check(cudaStreamSynchronize(nullptr), "upload of a table");
            it = tables.emplace(name, std::move(memory)).first;
        }
        return static_cast<const T*>(it->second.data);
    }
};

// One op on its way to the device.
struct Launch {
    Gpu& gpu;
    Workspace& queue;
    const Op& op;
    std::span<const Operand> in, out;
    const KernelContext& context;

    cudaStream_t stream() const { return queue.stream; }
    View input(std::size_t i) const { return view(in, i); }
    View output(std::size_t i) const { return view(out, i); }
    const Buffer& read(std::size_t i) const { return *in[i].buffer; }
    const Buffer& written(std::size_t i) const { return *out[i].buffer; }
    int coordinate(Axis a) const { return context.at[static_cast<std::size_t>(a)]; }
    void* scratch(std::size_t bytes) const;                            // until the op ends; asked for once
    const Token* tokens(const Buffer& value, std::int64_t rows) const; // of each row, on the device

    float* overflow() const; // one number of the rank: whether the gradients of a scaled loss have overflowed; null: it is not scaled

    // How many rows each rank sends to each expert, where the op reads that: the host waits for it here, as the plan's HostSync does where
    // a framework has one. Empty: rows are in equal parts.
    std::vector<std::int64_t> counts() const;
    RowGroups row_groups(std::int64_t rows, std::int64_t local) const; // of this rank's experts

  private:
    View view(std::span<const Operand> list, std::size_t i) const {
        if (i >= list.size()) throw std::runtime_error("an op has fewer operands than its kernel needs: " + op.name);
        const Buffer& b = *list[i].buffer;
        return {list[i].data, kind_of(b.dtype, context.real), elements(b), b.shape.back()};
    }
};

// C[m,n] (+)= alpha op(A) op(B), row-major, `batch` of them at fixed strides.
struct Gemm {
    bool transpose_a, transpose_b;
    std::int64_t m, n, k;
    View a;
    std::int64_t lda;
    View b;
    std::int64_t ldb;
    View c;
    std::int64_t ldc;
    bool accumulate = false;
    std::int64_t batch = 1, stride_a = 0, stride_b = 0, stride_c = 0;
    float alpha = 1;
    View bias{};            // added to each row
    bool rows_vary = false; // m, or k where a is transposed, is another in every step
};
void gemm(const Launch& l, const Gemm& g);

inline View at(View v, std::int64_t offset) { // from element `offset` on
    v.data = static_cast<std::byte*>(v.data) + offset * size_of(v.kind);
    v.count -= offset;
    return v;
}

void run(const Linear& w, const Launch& l);
void run(const Matmul& w, const Launch& l);
void run(const Attention& w, const Launch& l);
void run(const Softmax& w, const Launch& l);
void run(const Norm& w, const Launch& l);
void run(const Pointwise& w, const Launch& l);
void run(const Embedding& w, const Launch& l);
void run(const CrossEntropy& w, const Launch& l);
void run(const Router& w, const Launch& l);
void run(const Permute& w, const Launch& l);
void run(const OptimizerStep& w, const Launch& l);
void run(const GradientNorm& w, const Launch& l);

void layerwise(const OptimizerStep& w, const Launch& l); // LAMB and LARS
bool fused(const Attention& w, const Launch& l);         // by cuDNN; false: it has nothing for this op, and nothing was done
std::string cudnn_version();
void rope(const Pointwise& w, const Launch& l);
void rearrange(const Pointwise& w, const Launch& l); // split, narrow, concat, pack, unpack

} // namespace orrery::cuda

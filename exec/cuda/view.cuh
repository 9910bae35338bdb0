// Elements of a buffer whatever their type, read as and rounded from fp32, and kernels over elements and rows. Memory-bound kernels all
// look at the type at run time: the branch is the same for all threads, and one instance of each kernel keeps compiling short.
#pragma once

#include "exec/cuda/streams.hpp"
#include "exec/kernels/kernel.hpp"

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace orrery::cuda {

enum class Kind : int { fp32, bf16, int64, boolean };

struct View {
    void* data = nullptr;
    Kind kind = Kind::fp32;
    std::int64_t count = 0, cols = 1;

    __host__ __device__ std::int64_t rows() const { return count / cols; }
    __device__ float get(std::int64_t i) const {
        return kind == Kind::fp32 ? static_cast<const float*>(data)[i] : __bfloat162float(static_cast<const __nv_bfloat16*>(data)[i]);
    }
    __device__ void put(std::int64_t i, float x) const {
        if (kind == Kind::fp32)
            static_cast<float*>(data)[i] = x;
        else
            static_cast<__nv_bfloat16*>(data)[i] = __float2bfloat16(x);
    }
    __device__ void add(std::int64_t i, float x) const { // by any thread
        if (kind == Kind::fp32)
            atomicAdd(static_cast<float*>(data) + i, x);
        else
            atomicAdd(static_cast<__nv_bfloat16*>(data) + i, __float2bfloat16(x));
    }
    __device__ std::int64_t integer(std::int64_t i) const { return static_cast<const std::int64_t*>(data)[i]; }
    __device__ bool flag(std::int64_t i) const { return static_cast<const unsigned char*>(data)[i] != 0; }
    __device__ void set_flag(std::int64_t i, bool b) const { static_cast<unsigned char*>(data)[i] = b ? 1 : 0; }
    __device__ void set_integer(std::int64_t i, std::int64_t x) const { static_cast<std::int64_t*>(data)[i] = x; }
};

inline Kind kind_of(DType t, DType real) {
    if (t == DType::int64) return Kind::int64;
    if (t == DType::boolean || t == DType::uint8) return Kind::boolean;
    if (real == DType::fp64) throw std::runtime_error("double precision is the CPU's");
    if (real == DType::fp32) return Kind::fp32;
    if (t == DType::fp32 || t == DType::tf32) return Kind::fp32;
    if (t == DType::bf16) return Kind::bf16;
    throw std::runtime_error(std::string("a buffer of ") + orrery::name(t) + " cannot be run on CUDA yet: fp32 and bf16 can");
}

template <class F> __global__ void over_elements(std::int64_t n, F f) {
    for (std::int64_t i = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x; i < n;
         i += static_cast<std::int64_t>(gridDim.x) * blockDim.x)
        f(i);
}

// f(row) is called by all threads of a block together.
template <class F> __global__ void over_rows(std::int64_t n, F f) {
    for (std::int64_t row = blockIdx.x; row < n; row += gridDim.x) {
        f(row);
        __syncthreads();
    }
}

inline unsigned blocks(std::int64_t n) { return static_cast<unsigned>(std::clamp<std::int64_t>(n, 1, 1 << 20)); }

template <class F> void each(cudaStream_t stream, std::int64_t n, F f) {
    if (n == 0) return;
    over_elements<<<blocks((n + 255) / 256), 256, 0, stream>>>(n, f);
    check(cudaGetLastError(), "launch");
}

template <class F> void each_row(cudaStream_t stream, std::int64_t rows, F f) {
    if (rows == 0) return;
    over_rows<<<blocks(rows), 256, 0, stream>>>(rows, f);
    check(cudaGetLastError(), "launch");
}

// Over the threads of a block of 256; all of them get the result.
template <class F> __device__ float reduce_block(float x, F op) {
    __shared__ float warp[8];
    for (int lane = 16; lane > 0; lane >>= 1) x = op(x, __shfl_xor_sync(0xffffffffu, x, lane));
    __syncthreads();
    if (threadIdx.x % 32 == 0) warp[threadIdx.x / 32] = x;
    __syncthreads();
    x = warp[0];
    for (int w = 1; w < 8; ++w) x = op(x, warp[w]);
    return x;
}
__device__ inline float block_sum(float x) {
    return reduce_block(x, [](float a, float b) { return a + b; });
}
__device__ inline float block_max(float x) {
    return reduce_block(x, [](float a, float b) { return fmaxf(a, b); });
}

} // namespace orrery::cuda

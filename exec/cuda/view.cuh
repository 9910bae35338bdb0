// Elements of a buffer whatever their type, read as and rounded from fp32, and kernels over elements and rows. Memory-bound kernels all
// look at the type at run time: the branch is the same for all threads, and one instance of each kernel keeps compiling short.
#pragma once

#include "exec/cuda/streams.hpp"
#include "exec/kernels/kernel.hpp"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace orrery::cuda {

enum class Kind : int { fp32, bf16, fp16, int64, boolean };
constexpr std::int64_t size_of(Kind k) { return k == Kind::fp32 ? 4 : k == Kind::int64 ? 8 : k == Kind::boolean ? 1 : 2; }

// Neighbouring elements that a thread takes at once: eight are 16 bytes of bf16 or fp16, what memory moves best.
template <int N> struct Pack {
    float x[N] = {};
};
// How a kernel takes elements: N at once, and whether all of them are known to be bf16 when it is compiled: a branch on the type keeps
// loads from being on their way together. Packs of fp16 have that branch, for every kernel would be compiled once more.
template <int N, bool Short = false> struct Width { static constexpr int n = N; };
// The widest access that the operands of a launch allow.
enum class Packing { one, eight, eight_short };

struct View {
    void* data = nullptr;
    Kind kind = Kind::fp32;
    std::int64_t count = 0, cols = 1;

    __host__ __device__ std::int64_t rows() const { return count / cols; }
    __device__ float get(std::int64_t i) const {
        if (kind == Kind::fp32) return static_cast<const float*>(data)[i];
        if (kind == Kind::fp16) return __half2float(static_cast<const __half*>(data)[i]);
        return __bfloat162float(static_cast<const __nv_bfloat16*>(data)[i]);
    }
    __device__ void put(std::int64_t i, float x) const {
        if (kind == Kind::fp32)
            static_cast<float*>(data)[i] = x;
        else if (kind == Kind::fp16)
            static_cast<__half*>(data)[i] = __float2half_rn(x); // beyond 65504 infinity, as a loss's scale wants it
        else
            static_cast<__nv_bfloat16*>(data)[i] = __float2bfloat16(x);
    }
    __device__ void add(std::int64_t i, float x) const { // by any thread
        if (kind == Kind::fp32)
            atomicAdd(static_cast<float*>(data) + i, x);
        else if (kind == Kind::fp16)
            atomicAdd(static_cast<__half*>(data) + i, __float2half_rn(x));
        else
            atomicAdd(static_cast<__nv_bfloat16*>(data) + i, __float2bfloat16(x));
    }
    // N elements from the i-th on: of more than one, where packing() allows it.
    template <int N, bool Short> __device__ Pack<N> load(Width<N, Short>, std::int64_t i) const {
        Pack<N> p;
        if constexpr (N == 1) {
            p.x[0] = get(i);
        } else if (!Short && kind == Kind::fp32) {
            for (int k = 0; k < N; k += 4) {
                const float4 part = static_cast<const float4*>(data)[(i + k) / 4];
                p.x[k] = part.x, p.x[k + 1] = part.y, p.x[k + 2] = part.z, p.x[k + 3] = part.w;
            }
        } else {
            static_assert(N == 8);
            const uint4 bits = static_cast<const uint4*>(data)[i / 8];
            const unsigned word[4] = {bits.x, bits.y, bits.z, bits.w};
            for (int k = 0; k < 4; ++k) { // a bf16 is the upper half of its fp32
                if (!Short && kind == Kind::fp16) {
                    p.x[2 * k] = __half2float(__ushort_as_half(static_cast<unsigned short>(word[k] & 0xffffu)));
                    p.x[2 * k + 1] = __half2float(__ushort_as_half(static_cast<unsigned short>(word[k] >> 16)));
                    continue;
                }
                p.x[2 * k] = __uint_as_float(word[k] << 16);
                p.x[2 * k + 1] = __uint_as_float(word[k] & 0xffff0000u);
            }
        }
        return p;
    }
    template <int N, bool Short> __device__ void store(Width<N, Short>, std::int64_t i, const Pack<N>& p) const {
        if constexpr (N == 1) {
            put(i, p.x[0]);
        } else if (!Short && kind == Kind::fp32) {
            for (int k = 0; k < N; k += 4)
                static_cast<float4*>(data)[(i + k) / 4] = make_float4(p.x[k], p.x[k + 1], p.x[k + 2], p.x[k + 3]);
        } else {
            static_assert(N == 8);
            unsigned word[4];
            const bool half = !Short && kind == Kind::fp16;
            const auto bits = [half](float x) -> unsigned {
                return half ? __half_as_ushort(__float2half_rn(x)) : __bfloat16_as_ushort(__float2bfloat16(x));
            };
            for (int k = 0; k < 4; ++k) word[k] = bits(p.x[2 * k]) | bits(p.x[2 * k + 1]) << 16;
            static_cast<uint4*>(data)[i / 8] = make_uint4(word[0], word[1], word[2], word[3]);
        }
    }
    __device__ std::int64_t integer(std::int64_t i) const { return static_cast<const std::int64_t*>(data)[i]; }
    __device__ bool flag(std::int64_t i) const { return static_cast<const unsigned char*>(data)[i] != 0; }
    template <int N, bool Short> __device__ unsigned flags(Width<N, Short>, std::int64_t i) const { // a bit each
        if constexpr (N == 1) return flag(i) ? 1 : 0;
        const uint2 bytes = *reinterpret_cast<const uint2*>(static_cast<const unsigned char*>(data) + i);
        unsigned bits = 0;
        for (int k = 0; k < N; ++k) bits |= ((k < 4 ? bytes.x : bytes.y) >> 8 * (k % 4) & 1) << k;
        return bits;
    }
    template <int N, bool Short> __device__ void set_flags(Width<N, Short>, std::int64_t i, unsigned bits) const {
        if constexpr (N == 1) return set_flag(i, bits & 1);
        uint2 bytes = make_uint2(0, 0);
        for (int k = 0; k < N; ++k) (k < 4 ? bytes.x : bytes.y) |= (bits >> k & 1) << 8 * (k % 4);
        *reinterpret_cast<uint2*>(static_cast<unsigned char*>(data) + i) = bytes;
    }
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
    if (t == DType::fp16) return Kind::fp16;
    throw std::runtime_error(std::string("a buffer of ") + orrery::name(t) + " cannot be run on CUDA yet: fp32, bf16 and fp16 can");
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

// f(Width, i): elements i to i + N.
template <class W, class F> __global__ void over_packs(std::int64_t packs, F f) {
    for (std::int64_t i = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x; i < packs;
         i += static_cast<std::int64_t>(gridDim.x) * blockDim.x)
        f(W{}, i * W::n);
}

template <class W, class F> __global__ void over_rows_packed(std::int64_t n, F f) {
    for (std::int64_t row = blockIdx.x; row < n; row += gridDim.x) {
        f(W{}, row);
        __syncthreads();
    }
}

// Packs of eight: each view begins on 16 bytes, and its rows are whole packs. Flags are of no type.
inline bool aligned(const View& v) { return reinterpret_cast<std::uintptr_t>(v.data) % 16 == 0; }
template <class... V> Packing packing(const V&... views) {
    const bool whole = ((aligned(views) && views.cols % 8 == 0 && views.count % 8 == 0) && ...),
               bf16 = ((views.kind == Kind::bf16 || views.kind == Kind::boolean) && ...);
    return !whole ? Packing::one : bf16 ? Packing::eight_short : Packing::eight;
}
inline Packing operator&&(Packing p, bool also) { return also ? p : Packing::one; }

// f(Width) as the packing says.
template <class F> void with_width(Packing p, F f) {
    if (p == Packing::eight_short)
        f(Width<8, true>{});
    else if (p == Packing::eight)
        f(Width<8>{});
    else
        f(Width<1>{});
}

inline unsigned blocks(std::int64_t n) { return static_cast<unsigned>(std::clamp<std::int64_t>(n, 1, 1 << 20)); }

template <class F> void each(cudaStream_t stream, std::int64_t n, F f) {
    if (n == 0) return;
    over_elements<<<blocks((n + 255) / 256), 256, 0, stream>>>(n, f);
    check(cudaGetLastError(), "launch");
}

// f(Width, i) for all packs of n elements.
template <class F> void each_pack(cudaStream_t stream, std::int64_t n, Packing p, F f) {
    if (n == 0) return;
    with_width(p, [&](auto width) {
        using W = decltype(width);
        over_packs<W><<<blocks((n / W::n + 255) / 256), 256, 0, stream>>>(n / W::n, f);
    });
    check(cudaGetLastError(), "launch");
}

// f(Width, row), by all threads of a block together.
template <class F> void each_row_packed(cudaStream_t stream, std::int64_t rows, Packing p, F f) {
    if (rows == 0) return;
    with_width(p, [&](auto width) { over_rows_packed<decltype(width)><<<blocks(rows), 256, 0, stream>>>(rows, f); });
    check(cudaGetLastError(), "launch");
}

template <class F> void each_row(cudaStream_t stream, std::int64_t rows, F f) {
    if (rows == 0) return;
    over_rows<<<blocks(rows), 256, 0, stream>>>(rows, f);
    check(cudaGetLastError(), "launch");
}

// Over the threads of a block, of whole warps; all of them get the result.
template <class F> __device__ float reduce_block(float x, F op) {
    __shared__ float warp[32];
    const int warps = static_cast<int>(blockDim.x) / 32;
    for (int lane = 16; lane > 0; lane >>= 1) x = op(x, __shfl_xor_sync(0xffffffffu, x, lane));
    __syncthreads();
    if (threadIdx.x % 32 == 0) warp[threadIdx.x / 32] = x;
    __syncthreads();
    x = warp[0];
    for (int w = 1; w < warps; ++w) x = op(x, warp[w]);
    return x;
}
__device__ inline float block_sum(float x) {
    return reduce_block(x, [](float a, float b) { return a + b; });
}
__device__ inline float block_max(float x) {
    return reduce_block(x, [](float a, float b) { return fmaxf(a, b); });
}

} // namespace orrery::cuda

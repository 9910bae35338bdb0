// Element types of tensors.
#pragma once

#include <cstdint>

namespace orrery {

// int8, int4: whole numbers times a scale, of which each block has its own (below). nf4: sixteen levels at equal shares of a normal
// distribution, times the scale of a block of nf4_block (QLoRA, arXiv:2305.14314).
// fp4: a sign and three bits of exponent (E3M0: 0 and powers of two, seven of them), times the scale of a block.
// int1: signs; the scale they are times lies in a buffer of its own.
enum class DType : std::uint8_t {
    fp64,
    fp32,
    tf32,
    fp16,
    bf16,
    fp8,
    mxfp8,
    nvfp4,
    int8,
    int4,
    nf4,
    int64,
    int32,
    uint8,
    boolean,
    int1,
    fp4
};
// Elements of int8, int4 or fp4 that share an fp32 scale. DeepSpeed's quantiser takes blocks below 8,000 and calls 4k the best size
// (partition_parameters.py, CUDAQuantizer).
inline constexpr int quantization_block = 4096;
inline constexpr int nf4_block = 64, nf4_scale_block = 256; // a scale has 8 bits, and each block of scales a scale of its own in fp32
double bytes_per_element(DType t); // tf32 is stored as fp32; mxfp8, nvfp4, int8, int4, fp4 and nf4 include their block scales
const char* name(DType t);

// Types to compute in of 8 bits or fewer, and of more than 16.
constexpr bool is_low(DType t) { return t == DType::fp8 || t == DType::mxfp8 || t == DType::nvfp4; }
constexpr bool is_wide(DType t) { return t == DType::fp32 || t == DType::tf32; }

} // namespace orrery

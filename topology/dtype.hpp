// Element types of tensors.
#pragma once

#include <cstdint>

namespace orrery {

// int8, int4: whole numbers times a scale, of which each block has its own (below).
enum class DType : std::uint8_t { fp64, fp32, tf32, fp16, bf16, fp8, mxfp8, nvfp4, int8, int4, int64, int32, uint8, boolean };
// Elements of int8 or int4 that share an fp32 scale. DeepSpeed's quantiser takes blocks below 8,000 and calls 4k the best size
// (partition_parameters.py, CUDAQuantizer).
inline constexpr int quantization_block = 4096;
double bytes_per_element(DType t); // tf32 is stored as fp32; mxfp8, nvfp4, int8 and int4 include their block scales
const char* name(DType t);

} // namespace orrery

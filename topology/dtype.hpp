// Element types of tensors.
#pragma once

#include <cstdint>

namespace orrery {

enum class DType : std::uint8_t { fp64, fp32, tf32, fp16, bf16, fp8, mxfp8, nvfp4, int64, int32, uint8, boolean };
double bytes_per_element(DType t); // tf32 is stored as fp32; mxfp8 and nvfp4 include their block scales
const char* name(DType t);

} // namespace orrery

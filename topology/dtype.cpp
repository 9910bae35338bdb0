// Names and sizes of element types.
#include "topology/dtype.hpp"

namespace orrery {

double bytes_per_element(DType t) {
    switch (t) {
    case DType::fp64:
    case DType::int64:
        return 8;
    case DType::fp32:
    case DType::tf32:
    case DType::int32:
        return 4;
    case DType::fp16:
    case DType::bf16:
        return 2;
    case DType::fp8:
    case DType::uint8:
    case DType::boolean:
        return 1;
    case DType::mxfp8:
        return 1 + 1.0 / 32; // OCP MX: an 8-bit scale per block of 32
    case DType::nvfp4:
        return 0.5 + 1.0 / 16; // an fp8 scale per block of 16
    case DType::int8:
        return 1 + 4.0 / quantization_block;
    case DType::int4:
    case DType::fp4:
        return 0.5 + 4.0 / quantization_block;
    case DType::nf4:
        return 0.5 + 1.0 / nf4_block + 4.0 / (nf4_block * nf4_scale_block);
    case DType::int1:
        return 1.0 / 8;
    }
    return 0;
}

const char* name(DType t) {
    switch (t) {
    case DType::fp64:
        return "fp64";
    case DType::fp32:
        return "fp32";
    case DType::tf32:
        return "tf32";
    case DType::fp16:
        return "fp16";
    case DType::bf16:
        return "bf16";
    case DType::fp8:
        return "fp8";
    case DType::mxfp8:
        return "mxfp8";
    case DType::nvfp4:
        return "nvfp4";
    case DType::int8:
        return "int8";
    case DType::int4:
        return "int4";
    case DType::nf4:
        return "nf4";
    case DType::int64:
        return "int64";
    case DType::int32:
        return "int32";
    case DType::uint8:
        return "uint8";
    case DType::boolean:
        return "boolean";
    case DType::int1:
        return "int1";
    case DType::fp4:
        return "fp4";
    }
    return "?";
}

} // namespace orrery

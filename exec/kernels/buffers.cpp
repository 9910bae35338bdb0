// Sizes of buffers as kernels hold them.
#include "exec/kernels/kernel.hpp"

namespace orrery {

bool is_floating(DType t) { return t != DType::int64 && t != DType::int32 && t != DType::uint8 && t != DType::boolean; }

std::size_t stored_bytes(DType t, DType real) {
    if (is_floating(t) && real != DType::bf16) return real == DType::fp64 ? 8 : 4;
    return static_cast<std::size_t>(bytes_per_element(t));
}

std::int64_t elements(const Buffer& b) {
    std::int64_t n = 1;
    for (std::int64_t d : b.shape) n *= d;
    return n;
}

} // namespace orrery

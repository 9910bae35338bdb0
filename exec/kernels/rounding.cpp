#include "exec/kernels/rounding.hpp"

#include <bit>

namespace orrery {

void round_to_bf16(float* x, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) {
        const std::uint32_t bits = std::bit_cast<std::uint32_t>(x[i]);
        const std::uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000u;
        const bool number = (bits & 0x7f800000u) != 0x7f800000u;
        x[i] = std::bit_cast<float>(number ? rounded : bits);
    }
}

void round_stored(std::span<const Operand> written, const KernelContext& context) {
    if (!context.rounds) return;
    for (const Operand& o : written)
        if (o.buffer->dtype == DType::bf16) round_to_bf16(reinterpret_cast<float*>(o.data), elements(*o.buffer));
}

} // namespace orrery

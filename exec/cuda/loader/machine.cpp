#include "exec/cuda/plugin.hpp"

#include <new>
#include <stdexcept>

namespace orrery {
namespace {

constexpr auto patience = std::chrono::seconds(60); // for one op

void expect(const CudaStatus& s) {
    if (!s.ok()) throw std::runtime_error(s.message);
}

} // namespace

Machine cuda_machine(std::shared_ptr<CudaDevice> device) {
    const auto reserve = [device](std::int64_t bytes) {
        std::byte* memory = nullptr;
        if (!device->allocate(bytes, true, &memory).ok()) throw std::bad_alloc();
        return std::shared_ptr<std::byte>(memory, [device](std::byte* p) { device->release(p); });
    };
    const auto kernel = [device](const Op& op, std::span<const Operand> in, std::span<const Operand> out, const KernelContext& context) {
        expect(device->run(op, in, out, context, compute_queue));
        expect(device->synchronise(patience));
    };
    return {device->name(), reserve, kernel};
}

} // namespace orrery

#include "exec/cuda/plugin.hpp"

#include <new>
#include <stdexcept>

namespace orrery {
namespace {

constexpr Milliseconds patience{60000}; // for one op

void expect(const Status& s) {
    if (!s.ok()) throw std::runtime_error(s.message);
}

} // namespace

Backend cuda_machine(std::shared_ptr<StreamDevice> device) {
    const auto reserve = [device](std::int64_t bytes) {
        std::byte* memory = nullptr;
        if (!device->allocate(bytes, MemorySpace::shared, &memory).ok()) throw std::bad_alloc();
        return std::shared_ptr<std::byte>(memory, [device](std::byte* p) { device->release(p); });
    };
    const auto kernel = [device](const Op& op, std::span<const Operand> in, std::span<const Operand> out, const KernelContext& context) {
        expect(device->run(op, in, out, context, compute_queue));
        bool done = false;
        expect(device->synchronise(patience, done));
        if (!done) throw std::runtime_error(op.name + ": the GPU did not end it within a minute");
    };
    return {device->name(), reserve, kernel};
}

} // namespace orrery

#include "exec/cuda/plugin.hpp"
#include "exec/runtime/storage.hpp"

#include <new>
#include <stdexcept>

namespace orrery {
namespace {

constexpr Milliseconds patience{60000}; // for one op

void expect(const Status& s) {
    if (!s.ok()) throw LibraryFailed(s.message, s.cause);
}

} // namespace

Backend cuda_machine(std::shared_ptr<StreamDevice> device) {
    // Managed memory that a GPU has not got can hang it: of all ranks together, no more is asked for than is free.
    const auto reserved = std::make_shared<std::int64_t>(0);
    const auto reserve = [device, reserved](std::int64_t bytes) {
        std::int64_t free = 0, total = 0;
        expect(device->memory(free, total));
        if (*reserved + bytes > free)
            throw OutOfMemory("the ranks of this process need " + std::to_string(*reserved + bytes) + " bytes on the GPU, where " +
                              std::to_string(free) +
                              " are free: try a smaller training.micro_batch_size or fewer ranks; --executor queues gives each a GPU");
        *reserved += bytes;
        std::byte* memory = nullptr;
        if (!device->allocate(bytes, MemorySpace::shared, &memory).ok()) throw std::bad_alloc();
        return std::shared_ptr<std::byte>(memory, [device, reserved, bytes](std::byte* p) {
            device->release(p);
            *reserved -= bytes;
        });
    };
    const auto kernel = [device](const Op& op, std::span<const Operand> in, std::span<const Operand> out, const KernelContext& context) {
        expect(device->run(op, in, out, context, compute_queue));
        bool done = false;
        expect(device->synchronise(patience, done));
        if (!done) throw std::runtime_error(op.name + ": the GPU did not end it within a minute");
    };
    return {device->name(), reserve, kernel, 1.5};
}

} // namespace orrery

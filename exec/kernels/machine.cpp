#include "exec/kernels/machine.hpp"

#include <new>

#include <sys/mman.h>

namespace orrery {

Backend cpu_machine() {
    const auto reserve = [](std::int64_t bytes) {
        const std::size_t size = static_cast<std::size_t>(bytes);
        void* at = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (at == MAP_FAILED) throw std::bad_alloc();
        return std::shared_ptr<std::byte>(static_cast<std::byte*>(at), [size](std::byte* p) { munmap(p, size); });
    };
    Backend machine{"cpu", reserve, run_kernel};
    machine.zeroed = true;
    return machine;
}

} // namespace orrery

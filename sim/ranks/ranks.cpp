#include "sim/ranks/ranks.hpp"

#include <array>
#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <stdexcept>
#include <thread>

namespace orrery {
namespace {

std::string beside_program(const char* file) {
    std::error_code failed;
    const auto program = std::filesystem::read_symlink("/proc/self/exe", failed);
    return failed ? file : (program.parent_path() / file).string();
}

} // namespace

bool started_as_ranks() {
    for (const char* size : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MPI_LOCALNRANKS"})
        if (const char* text = std::getenv(size); text && std::atoi(text) > 1) return true;
    const char* tasks = std::getenv("SLURM_NTASKS"); // srun --mpi=pmix
    return std::getenv("PMIX_RANK") && tasks && std::atoi(tasks) > 1;
}

const OrreryTransport& open_transport(const std::string& instead) {
    const std::string path = beside_program("exec_mpi.so");
    void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL); // Open MPI's own plugins look for its symbols
    if (!handle)
        throw std::runtime_error(std::string("MPI cannot be loaded: ") + dlerror() +
                                 "\nInstall an MPI library (Debian: libopenmpi-dev openmpi-bin) and build again, or " + instead + ".");
    const auto open = reinterpret_cast<OrreryOpenTransport>(dlsym(handle, ORRERY_OPEN_TRANSPORT));
    if (!open) throw std::runtime_error(path + " is not a transport");
    std::array<char, 512> why{};
    const OrreryTransport* t = open(ORRERY_TRANSPORT_VERSION, why.data(), why.size());
    if (!t) throw std::runtime_error(why.data());
    return *t;
}

void wait(const OrreryTransport& t, void* request) {
    while (!t.done(request)) std::this_thread::sleep_for(between_looks);
}

} // namespace orrery

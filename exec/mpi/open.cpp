// Finds and loads the plugin; words between ranks outside of steps.
#include "exec/mpi/processes.hpp"

#include <fmt/format.h>

#include <array>
#include <chrono>
#include <dlfcn.h>
#include <filesystem>
#include <thread>
#include <vector>

namespace orrery {
namespace {

std::string beside_program(const char* file) {
    std::error_code failed;
    const auto program = std::filesystem::read_symlink("/proc/self/exe", failed);
    return failed ? file : (program.parent_path() / file).string();
}

} // namespace

const OrreryTransport& open_transport() {
    const std::string path = beside_program("exec_mpi.so");
    void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL); // Open MPI's own plugins look for its symbols
    if (!handle)
        throw std::runtime_error(
            std::string("the mpi executor cannot be loaded: ") + dlerror() +
            "\nInstall an MPI library (Debian: libopenmpi-dev openmpi-bin) and build again, or use --executor threads.");
    const auto open = reinterpret_cast<OrreryOpenTransport>(dlsym(handle, ORRERY_OPEN_TRANSPORT));
    if (!open) throw std::runtime_error(path + " is not a transport");
    std::array<char, 512> why{};
    const OrreryTransport* t = open(ORRERY_TRANSPORT_VERSION, why.data(), why.size());
    if (!t) throw std::runtime_error(why.data());
    return *t;
}

std::vector<std::vector<std::int64_t>> gather_over_ranks(const OrreryTransport& t, const std::vector<std::int64_t>& mine, double patience) {
    constexpr int tag = 3;
    const std::size_t bytes = mine.size() * sizeof(std::int64_t);
    std::vector<std::vector<std::int64_t>> all(static_cast<std::size_t>(t.size), std::vector<std::int64_t>(mine.size()));
    std::vector<void*> requests;
    for (int r = 0; r < t.size; ++r) {
        requests.push_back(t.send(r, tag, mine.data(), bytes));
        requests.push_back(t.receive(r, tag, all[static_cast<std::size_t>(r)].data(), bytes));
    }
    const auto began = std::chrono::steady_clock::now();
    for (std::size_t i = 0; i < requests.size(); ++i)
        while (!t.done(requests[i])) {
            if (std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count() > patience)
                throw LostPeer(fmt::format("rank {}: the start or the end of a step waits for rank {}, which has not come for {:.0f} s",
                                           t.rank, i / 2, patience));
            std::this_thread::sleep_for(std::chrono::microseconds(50));
        }
    return all;
}

} // namespace orrery

// Finds and loads the plugin; the first words between ranks.
#include "exec/kernels/kernel.hpp"
#include "exec/mpi/processes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <dlfcn.h>
#include <filesystem>
#include <string_view>
#include <thread>
#include <vector>

namespace orrery {
namespace {

std::string beside_program(const char* file) {
    std::error_code failed;
    const auto program = std::filesystem::read_symlink("/proc/self/exe", failed);
    return failed ? file : (program.parent_path() / file).string();
}

std::uint64_t fnv(std::string_view text) {
    std::uint64_t h = 1469598103934665603ull;
    for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 1099511628211ull;
    return h;
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

void agree_on_plan(const World& world, const OrreryTransport& t) {
    struct Word {
        std::uint64_t plan, kernels;
        std::int64_t real;
    };
    const bool rounds = std::any_of(world.ranks.begin(), world.ranks.end(), [](const auto& r) { return r && r->context.rounds; });
    const Word mine{hash(world.plan), fnv(gemm_library()), 2 * static_cast<std::int64_t>(world.real) + rounds};
    std::vector<Word> words(static_cast<std::size_t>(t.size));
    std::vector<void*> requests;
    constexpr int tag = 1;
    for (int r = 0; r < t.size; ++r) {
        requests.push_back(t.send(r, tag, &mine, sizeof mine));
        requests.push_back(t.receive(r, tag, &words[static_cast<std::size_t>(r)], sizeof mine));
    }
    for (void* request : requests)
        while (!t.done(request)) std::this_thread::sleep_for(std::chrono::microseconds(200));
    for (int r = 0; r < t.size; ++r) {
        const Word& w = words[static_cast<std::size_t>(r)];
        const char* what = w.plan != mine.plan         ? "plan"
                           : w.kernels != mine.kernels ? "kernel library"
                           : w.real != mine.real       ? "element type"
                                                       : nullptr;
        if (what)
            throw LostPeer(fmt::format("rank {} has another {} than rank {}: start all ranks with the same program, scenario and options",
                                       r, what, t.rank));
    }
}

std::vector<std::int64_t> sum_over_ranks(const OrreryTransport& t, const std::vector<std::int64_t>& mine, double patience) {
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
                throw LostPeer(fmt::format("rank {}: the end of the step waits for rank {}, which has not come for {:.0f} s", t.rank, i / 2,
                                           patience));
            std::this_thread::sleep_for(std::chrono::microseconds(50));
        }
    std::vector<std::int64_t> sum(mine.size(), 0);
    for (const auto& of_rank : all)
        for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += of_rank[i];
    return sum;
}

} // namespace orrery

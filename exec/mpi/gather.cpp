// Words between ranks outside of steps.
#include "exec/mpi/processes.hpp"

#include <fmt/format.h>

#include <chrono>
#include <thread>
#include <vector>

namespace orrery {

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

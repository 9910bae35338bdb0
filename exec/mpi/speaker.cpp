// Which of several ranks that fail together says so.
#include "exec/mpi/processes.hpp"

#include <chrono>
#include <cstddef>
#include <thread>
#include <vector>

namespace orrery {

void let_lower_ranks_speak(const OrreryTransport& t) {
    constexpr int tag = 9; // no one else's: below communicators'
    constexpr std::chrono::milliseconds together{500}, until_the_end{5000}, slice{2};
    struct Claims {
        char mine = 1;
        std::vector<char> of_ranks;
        std::vector<void*> received;
    };
    auto& claims = *new Claims{1, std::vector<char>(static_cast<std::size_t>(t.size)), {}}; // messages come as long as the process lasts
    for (int r = 0; r < t.size; ++r)
        if (r != t.rank) t.send(r, tag, &claims.mine, 1);
    for (int r = 0; r < t.rank; ++r) claims.received.push_back(t.receive(r, tag, &claims.of_ranks[r], 1));
    const auto began = std::chrono::steady_clock::now();
    const auto lower = [&] {
        for (void* request : claims.received)
            if (t.done(request)) return true; // its request is gone: nobody asks again
        return false;
    };
    while (std::chrono::steady_clock::now() - began < together) {
        if (lower()) return std::this_thread::sleep_for(until_the_end); // where it returns, nobody has ended the job
        std::this_thread::sleep_for(slice);
    }
}

} // namespace orrery

// f(0) .. f(n - 1) on all cores, the caller's thread among them. Not on Qt's pool: its threads may all be busy with simulations, and one of
// them that waited for another of them would wait for ever.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <thread>
#include <vector>

namespace orrery {

// f(i, scratch): each thread keeps a Scratch of its own from one i to the next.
template <class Scratch, class F> void parallel_for_with(std::size_t n, F&& f) {
    std::atomic<std::size_t> next{0};
    const auto work = [&] {
        Scratch scratch;
        for (std::size_t i = next++; i < n; i = next++) f(i, scratch);
    };
    const std::size_t most = std::min<std::size_t>({n, std::max(1u, std::thread::hardware_concurrency()), 16});
    std::vector<std::jthread> others;
    for (std::size_t t = 1; t < most; ++t) others.emplace_back(work);
    work();
}

template <class F> void parallel_for(std::size_t n, F&& f) {
    struct None {};
    parallel_for_with<None>(n, [&](std::size_t i, None&) { f(i); });
}

} // namespace orrery

// f(0) .. f(n - 1) on all cores, the caller's thread among them. Not on Qt's pool: its threads may all be busy with simulations, and one of
// them that waited for another of them would wait for ever.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <thread>
#include <vector>

namespace orrery {

template <class F> void parallel_for(std::size_t n, F&& f) {
    std::atomic<std::size_t> next{0};
    const auto work = [&] {
        for (std::size_t i = next++; i < n; i = next++) f(i);
    };
    const std::size_t most = std::min<std::size_t>({n, std::max(1u, std::thread::hardware_concurrency()), 16});
    std::vector<std::jthread> others;
    for (std::size_t t = 1; t < most; ++t) others.emplace_back(work);
    work();
}

} // namespace orrery

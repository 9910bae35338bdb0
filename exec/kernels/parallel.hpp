// Work on many independent elements, by all processors of this machine: what is done once, before training, on billions of parameters.
#pragma once

#include <algorithm>
#include <cstdint>
#include <thread>
#include <vector>

namespace orrery {

// Calls work(begin, end) for parts of [0, n) that follow each other, on several threads where there is enough to do. work must not throw.
template <class F> void in_parallel(std::int64_t n, F&& work) {
    constexpr std::int64_t enough = 1 << 18; // elements: below this a thread costs more than it saves
    const std::int64_t threads = std::clamp<std::int64_t>(n / enough, 1, std::max(1u, std::thread::hardware_concurrency()));
    std::vector<std::jthread> others;
    for (std::int64_t t = 1; t < threads; ++t)
        others.emplace_back([&work, t, n, threads] { work(n * t / threads, n * (t + 1) / threads); });
    work(0, n / threads);
}

} // namespace orrery

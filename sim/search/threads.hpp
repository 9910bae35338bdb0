// Work on all threads. Private to this room.
#pragma once

#include <algorithm>
#include <functional>
#include <thread>
#include <vector>

namespace orrery {

inline int threads_for(int jobs) { return jobs > 0 ? jobs : static_cast<int>(std::max(1u, std::thread::hardware_concurrency())); }

// `work` on so many threads at once (0: all cores), the caller's among them; it takes its share by itself and must not throw.
inline void in_threads(int jobs, const std::function<void()>& work) {
    std::vector<std::thread> threads;
    for (int t = 1; t < threads_for(jobs); ++t) threads.emplace_back(work);
    work();
    for (std::thread& t : threads) t.join();
}

} // namespace orrery

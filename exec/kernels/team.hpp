// Threads that share the kernels of a rank which has several cores. A kernel splits its work by its shape alone, into parts that write
// different elements: results are the same bits with any number of threads from two on, and with one too, but for matrix products, whose
// library may sum in another order where it is given a part.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

namespace orrery {

class Team {
  public:
    explicit Team(int threads); // the caller's is one of them
    ~Team();
    Team(const Team&) = delete;
    Team& operator=(const Team&) = delete;

    int threads() const { return static_cast<int>(others_.size()) + 1; }
    // Calls part(i) once for each i of [0, parts), on whichever thread is free; returns when all have ended. At most most_parts. One
    // caller at a time; parts must not throw, nor call the team.
    template <class F> void run(std::int64_t parts, F&& part) {
        run_all(
            parts, [](void* f, std::int64_t i) { (*static_cast<std::remove_reference_t<F>*>(f))(i); },
            const_cast<void*>(static_cast<const void*>(&part)));
    }
    static constexpr std::int64_t most_parts = 1024;

  private:
    using Part = void (*)(void*, std::int64_t);
    void run_all(std::int64_t parts, Part part, void* data);
    bool take();                     // runs a part, where one is left
    bool sleep_until(std::uint32_t); // false: the team ends
    void serve();

    // Which call it is (32 bits), how many parts it has (16), which is next (16): whoever takes a part does so with one exchange, so that a
    // thread that comes late can take none of a call that is over.
    std::atomic<std::uint64_t> ticket_{0};
    std::atomic<std::int64_t> open_{0}; // parts that have not ended
    std::atomic<int> sleepers_{0};
    std::atomic<bool> over_{false};
    Part part_ = nullptr;
    void* data_ = nullptr;
    std::mutex mutex_;
    std::condition_variable woken_;
    std::vector<std::thread> others_;
};

// Calls work(begin, end) for parts of [0, n), of about `grain` each; at once for all where there is no team.
template <class F> void split(Team* team, std::int64_t n, std::int64_t grain, F&& work) {
    const std::int64_t parts = std::clamp<std::int64_t>(n / std::max<std::int64_t>(1, grain), 1, Team::most_parts);
    if (!team || parts == 1) return work(std::int64_t{0}, n);
    team->run(parts, [&](std::int64_t i) { work(n * i / parts, n * (i + 1) / parts); });
}

inline constexpr std::int64_t split_grain = 1 << 14; // elements that are read and written once: a few microseconds

// The same by rows of that many columns.
template <class F> void split_rows(Team* team, std::int64_t rows, std::int64_t columns, F&& work) {
    split(team, rows, std::max<std::int64_t>(1, split_grain / std::max<std::int64_t>(1, columns)), work);
}

} // namespace orrery

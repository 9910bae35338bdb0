// Wall and thread-CPU time in ns.
#pragma once

#include <cstdint>
#include <ctime>

namespace orrery {

inline std::int64_t read_clock(clockid_t which) {
    timespec t{};
    clock_gettime(which, &t);
    return std::int64_t{1000000000} * t.tv_sec + t.tv_nsec;
}
inline std::int64_t wall_ns() { return read_clock(CLOCK_MONOTONIC); }
inline std::int64_t cpu_ns() { return read_clock(CLOCK_THREAD_CPUTIME_ID); }

} // namespace orrery

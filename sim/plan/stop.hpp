// Work that another thread may want ended: it looks at the flag now and then, and throws where it is set.
#pragma once

#include <atomic>

namespace orrery {

struct Stopped {};                         // thrown: no mistake, and nothing to say
using StopFlag = const std::atomic<bool>*; // null: nobody will

inline void stop_if(StopFlag flag) {
    if (flag && flag->load(std::memory_order_relaxed)) throw Stopped{};
}

} // namespace orrery

// A communicator of the stand-ins: who has called what, and what comes of it once all are there. Internal to tests/fakes.
#pragma once

#include "tests/fakes/state.hpp"

#include <nccl.h>

namespace orrery::fake {

enum class Kind { all_reduce, reduce_scatter, all_gather, send, receive };

struct Call {
    Kind kind{};
    int rank = 0, peer = -1;
    const void* in = nullptr;
    void* out = nullptr;
    std::size_t count = 0;
    ncclDataType_t type = ncclFloat32;
    bool maximum = false;
    std::shared_ptr<bool> done = std::make_shared<bool>(false);
    bool there = false;
};

// The state that the members of a communicator share.
struct Hub {
    std::string name;
    int size = 0, joined = 0, finalized = 0;
    std::map<std::int64_t, std::vector<Call>> rounds;
    std::map<std::pair<int, int>, std::deque<Call>> sends, receives;
    struct Split {
        int come = 0;
        std::map<int, std::vector<std::pair<int, int>>> colors;
        std::map<int, std::shared_ptr<Hub>> made;
    };
    std::map<int, Split> splits;
};

std::size_t size_of(ncclDataType_t t);

// A call has started: a collective's `round` counts those of its member. What can be done with it is done, in memory. Under the state's
// lock.
void arrive(Hub& hub, Call call, std::int64_t round);

} // namespace orrery::fake

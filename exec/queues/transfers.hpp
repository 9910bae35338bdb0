// A collective or exchange of the plan as calls of a communicator, which want memory in one run: lists are merged where they are adjacent,
// cut where both sides are, and copied together where a call needs one run and there are several.
#pragma once

#include "exec/local/meeting.hpp"
#include "exec/queues/device.hpp"

#include <cstdint>
#include <vector>

namespace orrery {

struct CommCall {
    enum class Kind : std::uint8_t { all_reduce, reduce_scatter, all_gather, send, receive } kind;
    CommId comm = -1;
    const std::byte* in = nullptr; // of a send, what is sent
    std::byte* out = nullptr;      // of a receive, where it goes
    std::int64_t elements = 0;     // all_reduce: of the buffer; reduce_scatter: received; all_gather: sent
    DType dtype = DType::fp32;
    bool maximum = false;
    int peer = -1; // index in the communicator
};
struct MemoryCall {
    std::byte* to;
    const std::byte* from;
    std::int64_t bytes;
}; // from null: zeros

// before; one group of calls; after. All on the queue of the op, but for an exchange's transfers, each on its communicator's.
struct CommCalls {
    std::vector<MemoryCall> before, behind;
    std::vector<CommCall> calls;
    std::int64_t staging = 0; // bytes used
};

// Bytes from the first operand on that are its bucket's, padding included: a call may use them all.
struct Room {
    std::int64_t in = 0, out = 0;
};

// A collective from one member's side. stage: memory of the op's queue for copies; null: only to see how much of it is needed.
CommCalls collective_calls(const World& world, const Attendance& member, std::byte* stage, Room room = {});
// The transfers of an exchange.
CommCalls exchange_calls(const World& world, const Attendance& side);

} // namespace orrery

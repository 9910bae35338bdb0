// Executors: what moves a World on by a step. Serial: every rank in the caller's thread, in an order that follows from the plan alone;
// the reference. Each follows the ranks' issue order, serves a queue in order, and begins a communication when all of its ends are there.
#pragma once

#include "exec/runtime/world.hpp"
#include "topology/indexed.hpp"

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace orrery {

// An op as it ran; times in ns since the step began. A communication was posted first, and began when its partners were there: those that
// ended together have one number `meeting`.
struct OpTime {
    std::int32_t rank, issue, meeting;
    std::int64_t posted, begin, end, cpu;                       // cpu: of the thread that ran it
    ByEnum<MemoryKind, std::int64_t, memory_kind_count> memory; // what was alive on the rank
};

// Nothing can happen any more: who is blocked, where, and who is missing. The message is to_text(Deadlock)'s.
struct StandsStill : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// Memory of a device that a library took for a communicator when it was made, and when it was first used.
struct CommunicatorMemory {
    std::string name;
    std::int64_t bytes = 0;
};

class Executor {
  public:
    virtual ~Executor() = default;
    virtual void step(std::vector<OpTime>* record) = 0; // the batch must be loaded; record: null where nobody asks
    virtual const char* name() const = 0;
    // Bytes of device memory that it has allocated for a rank's buffers and for what its communications copy through: at least what is
    // alive at the peak, as it is stored here.
    virtual std::int64_t allocated(const Rank& rank) const { return rank.memory.arena(0).highest(); }
    // By what the device had free before and after; empty where communicators take none, or nobody can tell.
    virtual std::vector<CommunicatorMemory> communicators(const Rank&) const { return {}; }
    virtual void fetch() {} // parameters, gradients and states of a device's own memory into the world's: before they are looked at
};

// How long an executor waits for a rank: after `seconds` without any progress it reports who works or waits where. The
// handler may end the process; where it returns, waiting goes on. 0 seconds: nobody looks.
struct Patience {
    double seconds = 0;
    std::function<void(const std::string&)> lost{};
};

std::unique_ptr<Executor> serial_executor(World& world);
std::unique_ptr<Executor> threads_executor(World& world, Patience patience = {});

} // namespace orrery

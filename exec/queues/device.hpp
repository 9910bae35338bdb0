// A device as an asynchronous executor sees it: queues of the plan are streams that work off what they are given in order, events stand
// between them, communicators move data between devices on a stream. Calls enqueue and return; one host thread a device makes them all.
// No call throws (a device may be a plugin): each returns a status.
#pragma once

#include "exec/kernels/kernel.hpp"

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>

namespace orrery {

// Whose error it is. device, communicator: a library's own (CUDA, NCCL). peer: another rank did not answer a library in time.
enum class Cause : std::uint8_t { ours, device, communicator, peer };

struct Status {
    std::string message; // empty: all is well
    Cause cause = Cause::ours;
    bool ok() const { return message.empty(); }
};

// A library's error, which is nobody's mistake here: exit codes tell them apart.
struct LibraryFailed : std::runtime_error {
    LibraryFailed(const std::string& what, Cause of) : std::runtime_error(what), cause(of) {}
    Cause cause;
};

using EventId = std::int32_t;
using Milliseconds = std::chrono::milliseconds;

// device: its own. host: what it copies from and to without stopping. shared: both may read and write it.
enum class MemorySpace : std::uint8_t { device, host, shared };

// One member of a communicator. Peers are indices in it. Calls between begin_group and end_group progress together.
class StreamCommunicator {
  public:
    virtual ~StreamCommunicator() = default;
    virtual Status all_reduce(const void* in, void* out, std::int64_t elements, DType dtype, bool maximum, QueueId queue) = 0;
    virtual Status reduce_scatter(const void* in, void* out, std::int64_t elements_out, DType dtype, QueueId queue) = 0;
    virtual Status all_gather(const void* in, void* out, std::int64_t elements_in, DType dtype, QueueId queue) = 0;
    virtual Status send(const void* data, std::int64_t elements, DType dtype, int peer, QueueId queue) = 0;
    virtual Status receive(void* data, std::int64_t elements, DType dtype, int peer, QueueId queue) = 0;
    virtual Status poll() = 0; // of what runs asynchronously: an error that came later
    // Collective: members of one color are a communicator, in the order of their keys. color < 0: a member of none, and no communicator.
    virtual Status split(int color, int key, const std::string& name, std::unique_ptr<StreamCommunicator>& out) = 0;
    virtual void abort() = 0; // every member's, when one has failed; nothing but destruction may follow
};

using WorldId = std::array<char, 128>; // what the ranks of one job hand to connect(); made by one of them

class StreamDevice {
  public:
    virtual ~StreamDevice() = default;
    virtual std::string name() const = 0;

    virtual Status allocate(std::int64_t bytes, MemorySpace space, std::byte** out) = 0;
    virtual Status release(std::byte* memory) = 0;
    virtual Status memory(std::int64_t& free, std::int64_t& total) = 0;

    virtual Status copy(void* to, const void* from, std::int64_t bytes, QueueId queue) = 0; // between any spaces
    virtual Status fill(void* to, int byte, std::int64_t bytes, QueueId queue) = 0;
    virtual Status delay(std::int64_t ns, QueueId queue) = 0; // the queue stands still so long, as a communication would keep it
    virtual Status run(const Op& op, std::span<const Operand> in, std::span<const Operand> out, const KernelContext& context,
                       QueueId queue) = 0;
    // Work of the host at its place in the queue, on memory the host shares: a device that has memory of its own knows no such thing. What
    // it throws is the device's failure.
    virtual Status on_host(std::function<void()>, QueueId) { return {"this device's memory is its own"}; }

    // An event after all work queued so far; timed if milliseconds() will be called. wait: work that is queued from now on
    // begins after it. recycle: nobody asks for it again.
    virtual Status record(QueueId queue, bool timed, EventId& event) = 0;
    virtual Status wait(QueueId queue, EventId event) = 0;
    virtual Status recycle(EventId event) = 0;
    virtual Status milliseconds(EventId from, EventId to, float& out) = 0; // both timed, and happened
    // The host waits, at most so long, for the event, or for all queues to end. A failure of anything enqueued is told here.
    virtual Status happened(EventId event, Milliseconds at_most, bool& yes) = 0;
    virtual Status synchronise(Milliseconds at_most, bool& done) = 0;

    virtual Status begin_group() = 0;
    virtual Status end_group() = 0;
    virtual Status world_id(WorldId& out) = 0;
    virtual Status connect(const WorldId& id, int ranks, int rank, const std::string& name, std::unique_ptr<StreamCommunicator>& out) = 0;

    // Calls that must wait for other ranks (connect, split, whatever a library does lazily) give up where this says so.
    virtual void give_up_when(std::function<bool()>) {}

    // The host thread of a step comes and goes: a device that can see that nothing will ever happen again counts them.
    virtual void host_begins() {}
    virtual void host_ends() {}
};

} // namespace orrery

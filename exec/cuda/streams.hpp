// A GPU's queues by the CUDA runtime, without its kernels: streams, events, memory, copies, NCCL's groups. Plain C++, so that tests link it
// against stand-ins of the runtime. Internal.
#pragma once

#include "exec/queues/device.hpp"

#include <cuda_runtime.h>

#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace orrery::cuda {

inline void check(cudaError_t e, const char* what) {
    if (e != cudaSuccess) throw LibraryFailed(std::string(what) + ": " + cudaGetErrorString(e), Cause::device);
}

// No exception leaves the plugin.
template <class F> Status guarded(F&& f) {
    try {
        f();
        return {};
    } catch (const LibraryFailed& e) { return {e.what(), e.cause}; } catch (const std::exception& e) {
        return {e.what()};
    }
}

class Streams : public StreamDevice {
  public:
    explicit Streams(int device);
    ~Streams() override;
    Streams(const Streams&) = delete;
    Streams& operator=(const Streams&) = delete;

    Status allocate(std::int64_t bytes, MemorySpace space, std::byte** out) override;
    Status release(std::byte* memory) override;
    Status memory(std::int64_t& free, std::int64_t& total) override;
    Status copy(void* to, const void* from, std::int64_t bytes, QueueId queue) override;
    Status fill(void* to, int byte, std::int64_t bytes, QueueId queue) override;
    Status record(QueueId queue, bool timed, EventId& event) override;
    Status wait(QueueId queue, EventId event) override;
    Status recycle(EventId event) override;
    Status milliseconds(EventId from, EventId to, float& out) override;
    Status happened(EventId event, Milliseconds at_most, bool& yes) override;
    Status synchronise(Milliseconds at_most, bool& done) override;
    Status begin_group() override;
    Status end_group() override;
    Status world_id(WorldId& out) override;
    Status connect(const WorldId& id, int ranks, int rank, const std::string& name, std::unique_ptr<StreamCommunicator>& out) override;
    void give_up_when(std::function<bool()> asked) override { give_up_ = std::move(asked); }

    // Communication has the higher priority: its few blocks must run beside a computation that fills the device.
    cudaStream_t stream(QueueId queue);
    int device() const { return device_; }

  protected:
    bool given_up() const { return give_up_ && give_up_(); }             // another rank has failed: whoever waits for it stops
    void use() const { check(cudaSetDevice(device_), "cudaSetDevice"); } // the host thread may be another than last time

  private:
    struct Event {
        cudaEvent_t event;
        bool timed;
    };
    cudaEvent_t event(EventId e) const { return events_.at(static_cast<std::size_t>(e)).event; }

    int device_;
    std::map<QueueId, cudaStream_t> streams_;
    std::vector<Event> events_;
    std::vector<EventId> free_[2]; // by whether they are timed
    std::map<std::byte*, MemorySpace> memory_;
    std::function<bool()> give_up_;
    std::shared_ptr<struct Group> group_;
};

} // namespace orrery::cuda

#include "exec/cuda/streams.hpp"

#include "exec/cuda/nccl.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

namespace orrery::cuda {
namespace {

// Asks until it holds or the time is over: at first as fast as it can, for most waits are short.
template <class F> bool poll(Milliseconds at_most, F&& holds) {
    const auto end = std::chrono::steady_clock::now() + at_most;
    for (int i = 0;; ++i) {
        if (holds()) return true;
        if (std::chrono::steady_clock::now() >= end) return false;
        if (i < 1000)
            std::this_thread::yield();
        else
            std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
}

} // namespace

Streams::Streams(int device) : device_(device), group_(std::make_shared<Group>()) {
    use();
    group_->stream_of = [this](QueueId q) { return stream(q); };
    group_->give_up = [this] { return given_up(); };
}

Streams::~Streams() {
    cudaSetDevice(device_);
    for (auto& [p, space] : memory_) space == MemorySpace::host ? cudaFreeHost(p) : cudaFree(p);
    for (Event& e : events_) cudaEventDestroy(e.event);
    for (auto& [queue, s] : streams_) cudaStreamDestroy(s);
}

cudaStream_t Streams::stream(QueueId q) {
    cudaStream_t& s = streams_[q];
    if (!s) {
        int least = 0, greatest = 0;
        check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "stream priorities");
        check(cudaStreamCreateWithPriority(&s, cudaStreamNonBlocking, q >= first_comm_queue ? greatest : least), "cudaStreamCreate");
    }
    return s;
}

Status Streams::allocate(std::int64_t bytes, MemorySpace space, std::byte** out) {
    return guarded([&] {
        use();
        void* p = nullptr;
        const auto n = static_cast<std::size_t>(bytes);
        check(space == MemorySpace::host     ? cudaHostAlloc(&p, n, cudaHostAllocDefault)
              : space == MemorySpace::shared ? cudaMallocManaged(&p, n, cudaMemAttachGlobal)
                                             : cudaMalloc(&p, n),
              "allocation");
        *out = static_cast<std::byte*>(p);
        memory_[*out] = space;
    });
}

Status Streams::release(std::byte* memory) {
    return guarded([&] {
        use();
        const auto it = memory_.find(memory);
        if (it == memory_.end()) throw std::runtime_error("memory is given back that is not of this device");
        const MemorySpace space = it->second;
        memory_.erase(it);
        check(space == MemorySpace::host ? cudaFreeHost(memory) : cudaFree(memory), "cudaFree");
    });
}

Status Streams::memory(std::int64_t& free, std::int64_t& total) {
    return guarded([&] {
        use();
        std::size_t f = 0, t = 0;
        check(cudaMemGetInfo(&f, &t), "cudaMemGetInfo");
        free = static_cast<std::int64_t>(f);
        total = static_cast<std::int64_t>(t);
    });
}

Status Streams::copy(void* to, const void* from, std::int64_t bytes, QueueId queue) {
    return guarded([&] {
        use();
        check(cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), cudaMemcpyDefault, stream(queue)), "cudaMemcpyAsync");
    });
}

Status Streams::fill(void* to, int byte, std::int64_t bytes, QueueId queue) {
    return guarded([&] {
        use();
        check(cudaMemsetAsync(to, byte, static_cast<std::size_t>(bytes), stream(queue)), "cudaMemsetAsync");
    });
}

Status Streams::record(QueueId queue, bool timed, EventId& out) {
    return guarded([&] {
        use();
        auto& unused = free_[timed ? 1 : 0];
        if (unused.empty()) {
            cudaEvent_t e = nullptr;
            check(cudaEventCreateWithFlags(&e, timed ? cudaEventDefault : cudaEventDisableTiming), "cudaEventCreate");
            unused.push_back(static_cast<EventId>(events_.size()));
            events_.push_back({e, timed});
        }
        out = unused.back();
        unused.pop_back();
        check(cudaEventRecord(event(out), stream(queue)), "cudaEventRecord");
    });
}

Status Streams::wait(QueueId queue, EventId e) {
    return guarded([&] {
        use();
        check(cudaStreamWaitEvent(stream(queue), event(e), 0), "cudaStreamWaitEvent");
    });
}

Status Streams::recycle(EventId e) {
    return guarded([&] { free_[events_.at(static_cast<std::size_t>(e)).timed ? 1 : 0].push_back(e); });
}

Status Streams::milliseconds(EventId from, EventId to, float& out) {
    return guarded([&] { check(cudaEventElapsedTime(&out, event(from), event(to)), "cudaEventElapsedTime"); });
}

Status Streams::happened(EventId e, Milliseconds at_most, bool& yes) {
    return guarded([&] {
        use();
        yes = poll(at_most, [&] {
            const cudaError_t state = cudaEventQuery(event(e));
            if (state != cudaErrorNotReady) check(state, "a kernel or copy failed");
            return state == cudaSuccess;
        });
    });
}

Status Streams::synchronise(Milliseconds at_most, bool& done) {
    return guarded([&] {
        use();
        done = poll(at_most, [&] {
            for (auto& [queue, s] : streams_) {
                const cudaError_t state = cudaStreamQuery(s);
                if (state == cudaErrorNotReady) return false;
                check(state, "a kernel or copy failed");
            }
            return true;
        });
    });
}

Status Streams::begin_group() {
    return guarded([&] {
        use();
        cuda::begin_group(*group_);
    });
}

Status Streams::end_group() {
    return guarded([&] {
        use();
        cuda::end_group(*group_);
    });
}

Status Streams::world_id(WorldId& out) {
    return guarded([&] {
        use();
        out = make_nccl_id();
    });
}

Status Streams::connect(const WorldId& id, int ranks, int rank, const std::string& name, std::unique_ptr<StreamCommunicator>& out) {
    return guarded([&] {
        use();
        out = connect_nccl(id, ranks, rank, name, group_);
    });
}

} // namespace orrery::cuda

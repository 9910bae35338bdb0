#include "tests/fakes/state.hpp"

#include <chrono>
#include <cstring>

namespace orrery::fake {
namespace {

thread_local int device = 0;

std::int64_t now_ns() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

} // namespace

State& state() {
    static State& s = *new State; // the process's GPUs: one set of them, for ever: threads that are left may wait in it
    return s;
}

int current_device() { return device; }

std::optional<int> failure_of(const std::string& call, int rank) {
    const std::lock_guard lock(state().mutex);
    auto& failures = state().failures;
    for (auto at = failures.begin(); at != failures.end(); ++at) {
        if (at->call != call || (at->rank >= 0 && at->rank != rank)) continue;
        const int result = at->result;
        failures.erase(at);
        return result;
    }
    return std::nullopt;
}

void misused(const std::string& what) {
    const std::lock_guard lock(state().mutex);
    state().misuse.push_back(what);
}

} // namespace orrery::fake

using orrery::fake::state;

// A stream: a thread and what it has to do.
struct CUstream_st {
    int device = 0;
    std::deque<std::function<void()>> work;
    bool busy = false, over = false;
    std::condition_variable given;
    std::thread thread;
};

struct CUevent_st {
    std::shared_ptr<orrery::fake::Marker> marker = std::make_shared<orrery::fake::Marker>(orrery::fake::Marker{true, 0});
    int device = 0;
    bool timed = true;
};

namespace {

void serve(CUstream_st* s) {
    std::unique_lock lock(state().mutex);
    for (;;) {
        s->given.wait(lock, [&] { return !s->work.empty() || s->over; });
        if (s->work.empty()) return;
        const auto work = std::move(s->work.front());
        s->work.pop_front();
        s->busy = true;
        lock.unlock();
        work();
        lock.lock();
        s->busy = false;
        if (state().most_launches > 0) state().changed.notify_all();
    }
}

void push(cudaStream_t s, std::function<void()> work, const char* call) {
    if (s->device != orrery::fake::current_device())
        orrery::fake::misused(std::string(call) + " on a stream of another device than the current");
    std::unique_lock lock(state().mutex);
    const auto room = [s] { return state().most_launches == 0 || static_cast<int>(s->work.size()) < state().most_launches; };
    state().changed.wait(lock, room);
    s->work.push_back(std::move(work));
    s->given.notify_one();
}

cudaError_t allocate(void** p, std::size_t n) {
    *p = ::operator new (n, std::align_val_t{256}, std::nothrow);
    if (!*p) return cudaErrorMemoryAllocation;
    std::memset(*p, 0xcd, n); // what nobody wrote is no number worth reading
    const std::lock_guard lock(state().mutex);
    state().allocations[*p] = n;
    return cudaSuccess;
}

cudaError_t release(void* p) {
    if (!p) return cudaSuccess;
    const std::lock_guard lock(state().mutex);
    if (state().allocations.erase(p) == 0) {
        state().misuse.emplace_back("free of what was not allocated");
        return cudaErrorInvalidValue;
    }
    ::operator delete (p, std::align_val_t{256});
    return cudaSuccess;
}

} // namespace

namespace orrery::fake {

int device_of(cudaStream_t stream) { return stream->device; }
void launch(cudaStream_t stream, std::function<void()> work) { push(stream, std::move(work), "a kernel"); }

void reset(int devices) {
    const std::lock_guard lock(state().mutex);
    state().devices = devices;
    state().polls = 0;
    state().misuse.clear();
    state().failures.clear();
    state().hang_after.clear();
    state().hang_abort = false;
    state().most_launches = 0;
    state().taken.clear();
    state().aborted = 0;
    state().launched.clear();
    state().latest.clear();
    state().ids.clear();
}
void set_progress_polls(int polls) { state().polls = polls; }
void fail_call(const std::string& call, int rank, int result) {
    const std::lock_guard lock(state().mutex);
    state().failures.push_back({call, rank, result});
}
void hang_device(int d, int after_calls) {
    const std::lock_guard lock(state().mutex);
    state().hang_after[d] = after_calls;
}
void hang_abort(bool on) { state().hang_abort = on; }
void limit_launches(int most) {
    const std::lock_guard lock(state().mutex);
    state().most_launches = most;
}
std::vector<Launched> launched(int d) {
    const std::lock_guard lock(state().mutex);
    return state().launched[d];
}
int aborted() { return state().aborted; }
std::vector<std::string> misuse() {
    const std::lock_guard lock(state().mutex);
    return state().misuse;
}
int live_streams() { return static_cast<int>(state().streams.size()); }
int live_events() { return static_cast<int>(state().events.size()); }
int live_allocations() { return static_cast<int>(state().allocations.size()); }

} // namespace orrery::fake

// The runtime's own names.
extern "C" {

cudaError_t cudaSetDevice(int device) {
    if (device < 0 || device >= state().devices) return cudaErrorInvalidDevice;
    orrery::fake::device = device;
    return cudaSuccess;
}
const char* cudaGetErrorString(cudaError_t e) {
    return e == cudaSuccess ? "no error" : e == cudaErrorMemoryAllocation ? "out of memory" : "a stand-in's error";
}
cudaError_t cudaDriverGetVersion(int* version) {
    *version = 13000;
    return cudaSuccess;
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
    *least = 0;
    *greatest = -5;
    return cudaSuccess;
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* out, unsigned, int) {
    auto* s = new CUstream_st;
    s->device = orrery::fake::current_device();
    s->thread = std::thread(serve, s);
    const std::lock_guard lock(state().mutex);
    state().streams.insert(s);
    *out = s;
    return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t s) {
    {
        const std::lock_guard lock(state().mutex);
        s->over = true;
        state().streams.erase(s);
        s->given.notify_one();
    }
    s->thread.join();
    delete s;
    return cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t s) {
    const std::lock_guard lock(state().mutex);
    return s->work.empty() && !s->busy ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* out, unsigned flags) {
    auto* e = new CUevent_st;
    e->device = orrery::fake::current_device();
    e->timed = !(flags & cudaEventDisableTiming);
    const std::lock_guard lock(state().mutex);
    state().events.insert(e);
    *out = e;
    return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t e) {
    const std::lock_guard lock(state().mutex);
    state().events.erase(e);
    delete e;
    return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s) {
    if (e->device != s->device) orrery::fake::misused("cudaEventRecord of an event of another device than the stream's");
    auto marker = std::make_shared<orrery::fake::Marker>();
    {
        const std::lock_guard lock(state().mutex);
        e->marker = marker;
    }
    push(
        s,
        [marker] {
            const std::lock_guard lock(state().mutex);
            marker->done = true;
            marker->at = orrery::fake::now_ns();
            state().changed.notify_all();
        },
        "cudaEventRecord");
    return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned) {
    std::shared_ptr<orrery::fake::Marker> marker;
    {
        const std::lock_guard lock(state().mutex);
        marker = e->marker;
    }
    push(
        s,
        [marker] {
            std::unique_lock lock(state().mutex);
            state().changed.wait(lock, [&] { return marker->done; });
        },
        "cudaStreamWaitEvent");
    return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t e) {
    const std::lock_guard lock(state().mutex);
    return e->marker->done ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t from, cudaEvent_t to) {
    const std::lock_guard lock(state().mutex);
    if (!from->timed || !to->timed) return cudaErrorInvalidResourceHandle;
    if (!from->marker->done || !to->marker->done) return cudaErrorNotReady;
    *ms = static_cast<float>(static_cast<double>(to->marker->at - from->marker->at) * 1e-6);
    return cudaSuccess;
}
cudaError_t cudaMalloc(void** p, std::size_t n) { return allocate(p, n); }
cudaError_t cudaHostAlloc(void** p, std::size_t n, unsigned) { return allocate(p, n); }
cudaError_t cudaMallocManaged(void** p, std::size_t n, unsigned) { return allocate(p, n); }
cudaError_t cudaFree(void* p) { return release(p); }
cudaError_t cudaFreeHost(void* p) { return release(p); }
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
    *total = std::size_t{1} << 34;
    const std::lock_guard lock(state().mutex);
    *free = *total / 2 - state().taken[orrery::fake::current_device()];
    return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t n, cudaMemcpyKind, cudaStream_t s) {
    if (const auto result = orrery::fake::failure_of("cudaMemcpyAsync", s->device)) return static_cast<cudaError_t>(*result);
    push(
        s, [=] { std::memmove(to, from, n); }, "cudaMemcpyAsync");
    return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* to, int byte, std::size_t n, cudaStream_t s) {
    push(
        s, [=] { std::memset(to, byte, n); }, "cudaMemsetAsync");
    return cudaSuccess;
}
}

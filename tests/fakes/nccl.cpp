// NCCL between devices of one process, on host memory.
#include "tests/fakes/hub.hpp"

#include <nccl.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

using orrery::fake::arrive;
using orrery::fake::Call;
using orrery::fake::Hub;
using orrery::fake::Kind;
using orrery::fake::Launched;
using orrery::fake::state;

struct ncclComm {
    std::shared_ptr<Hub> hub;
    int rank = 0, device = 0;
    int polls = 0;                   // answers "in progress" still to give
    std::function<bool()> settled{}; // besides: others have come
    ncclResult_t error = ncclSuccess;
    std::shared_ptr<bool> aborted = std::make_shared<bool>(false);
    std::thread::id thread{};
    std::int64_t rounds = 0;
    int splits = 0;
    std::set<int> peers{}; // it has sent to
    bool finalizing = false, launched = false;
    std::vector<std::function<void()>> when_settled{};
};

namespace {

thread_local int depth = 0;
struct Queued {
    ncclComm_t comm;
    cudaStream_t stream;
    Call call;
};
thread_local std::vector<Queued> group;

bool in_progress(ncclComm_t c) { return c->polls > 0 || (c->settled && !c->settled()); }

// 0: go on. Under the lock.
ncclResult_t enter(ncclComm_t c, const char* call) {
    if (c->thread == std::thread::id{}) c->thread = std::this_thread::get_id();
    auto& failures = state().failures;
    const auto it = std::ranges::find_if(failures, [&](const auto& f) { return f.call == call && (f.rank < 0 || f.rank == c->rank); });
    if (it != failures.end()) {
        const auto result = static_cast<ncclResult_t>(it->result);
        failures.erase(it);
        c->error = result;
        return result;
    }
    if (in_progress(c)) state().misuse.push_back(std::string(call) + " on " + c->hub->name + " while it is in progress");
    if (*c->aborted) state().misuse.push_back(std::string(call) + " on an aborted communicator");
    return ncclSuccess;
}

// The calls of a communicator in a group are one kernel on one stream: they start together, and it ends when all have ended. With
// NCCL_LAUNCH_ORDER_IMPLICIT=1, which exec/cuda sets, a device's kernel begins only when the one launched before it has begun.
void start(ncclComm_t comm, cudaStream_t stream, std::vector<Call> calls) {
    std::vector<std::int64_t> rounds;
    const auto begun = std::make_shared<bool>(false);
    std::shared_ptr<bool> before;
    static const char* const names[] = {"all-reduce", "reduce-scatter", "all-gather", "send", "receive"};
    bool hangs = false;
    {
        const std::lock_guard lock(state().mutex);
        for (const Call& c : calls) {
            if (c.kind == Kind::send && comm->peers.insert(c.peer).second) state().taken[comm->device] += orrery::fake::connection_bytes;
            rounds.push_back(c.kind == Kind::send || c.kind == Kind::receive ? -1 : comm->rounds++);
            state().launched[comm->device].push_back({comm->hub->name, names[static_cast<int>(c.kind)], c.count});
        }
        if (const auto it = state().hang_after.find(comm->device); it != state().hang_after.end()) hangs = it->second-- <= 0;
        comm->polls = state().polls;
        before = std::exchange(state().latest[comm->device], begun);
    }
    comm->launched = true;
    orrery::fake::launch(
        stream, [hub = comm->hub, aborted = comm->aborted, calls = std::move(calls), rounds = std::move(rounds), hangs, begun, before] {
            std::unique_lock lock(state().mutex);
            state().changed.wait(lock, [&] { return *aborted || !before || *before; });
            *begun = true;
            state().changed.notify_all();
            if (*aborted) return;
            for (std::size_t i = 0; i < calls.size() && !hangs; ++i) arrive(*hub, calls[i], rounds[i]);
            state().changed.notify_all();
            state().changed.wait(lock,
                                 [&] { return *aborted || (!hangs && std::ranges::all_of(calls, [](const Call& c) { return *c.done; })); });
        });
}

ncclResult_t end_group() {
    std::vector<Queued> all;
    all.swap(group);
    std::vector<std::pair<ncclComm_t, cudaStream_t>> order;
    for (const Queued& q : all)
        if (std::ranges::find(order, std::pair(q.comm, q.stream)) == order.end()) order.emplace_back(q.comm, q.stream);
    for (const auto& [comm, stream] : order) {
        std::vector<Call> calls;
        for (const Queued& q : all)
            if (q.comm == comm && q.stream == stream) calls.push_back(q.call);
        start(comm, stream, std::move(calls));
    }
    return all.empty() ? ncclSuccess : ncclInProgress;
}

ncclResult_t call(const char* name, ncclComm_t comm, cudaStream_t stream, Call c) {
    {
        const std::lock_guard lock(state().mutex);
        if (const ncclResult_t r = enter(comm, name); r != ncclSuccess) return r;
        if (comm->thread != std::this_thread::get_id()) {
            comm->thread = std::this_thread::get_id(); // hosts of steps come and go: never two at a time
        }
        if (orrery::fake::device_of(stream) != comm->device) state().misuse.push_back(std::string(name) + " on a stream of another device");
    }
    c.rank = comm->rank;
    group.push_back({comm, stream, std::move(c)});
    if (depth > 0) return ncclInProgress;
    return end_group();
}

ncclComm_t join(std::shared_ptr<Hub> hub, int rank) {
    auto* c = new ncclComm;
    c->hub = std::move(hub);
    c->rank = rank;
    c->device = orrery::fake::current_device();
    c->polls = state().polls;
    ++c->hub->joined;
    state().taken[c->device] += orrery::fake::communicator_bytes;
    c->settled = [h = c->hub] { return h->joined == h->size; };
    return c;
}

} // namespace

extern "C" {

ncclResult_t ncclGetVersion(int* v) {
    *v = NCCL_VERSION_CODE;
    return ncclSuccess;
}
const char* ncclGetErrorString(ncclResult_t r) {
    return r == ncclSuccess       ? "no error"
           : r == ncclRemoteError ? "remote process exited or there was a network error"
                                  : "unhandled system error";
}
const char* ncclGetLastError(ncclComm_t) { return "said by a stand-in"; }

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
    const std::lock_guard lock(state().mutex);
    const std::string text = "job " + std::to_string(++state().next_id);
    std::memset(id, 0, sizeof *id);
    std::memcpy(id->internal, text.data(), text.size());
    return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* out, int size, ncclUniqueId id, int rank, ncclConfig_t* config) {
    const std::lock_guard lock(state().mutex);
    if (config->blocking != 0) state().misuse.emplace_back("a blocking communicator");
    auto& known = state().ids[id.internal];
    if (!known) {
        auto hub = std::make_shared<Hub>();
        hub->name = config->commName ? config->commName : "?";
        hub->size = size;
        known = hub;
    }
    *out = join(std::static_pointer_cast<Hub>(known), rank);
    return ncclInProgress;
}

// Collective; nothing may be under way on the parent.
ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* out, ncclConfig_t* config) {
    const std::lock_guard lock(state().mutex);
    if (const ncclResult_t r = enter(comm, "ncclCommSplit"); r != ncclSuccess) return r;
    const int which = comm->splits++;
    Hub::Split& s = comm->hub->splits[which];
    if (color >= 0) s.colors[color].emplace_back(key, comm->rank);
    ++s.come;
    comm->polls = state().polls;
    comm->settled = [hub = comm->hub, which] { return hub->splits[which].come == hub->size; };
    *out = nullptr;
    if (color < 0) return ncclInProgress;
    comm->when_settled.push_back([comm, out, which, color, key, name = std::string(config->commName ? config->commName : "?")] {
        Hub::Split& split = comm->hub->splits[which];
        auto& members = split.colors[color];
        std::ranges::sort(members);
        auto& hub = split.made[color];
        if (!hub) {
            hub = std::make_shared<Hub>();
            hub->name = name;
            hub->size = static_cast<int>(members.size());
        }
        *out = join(hub, static_cast<int>(std::ranges::find(members, std::pair(key, comm->rank)) - members.begin()));
    });
    return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* out) {
    const std::lock_guard lock(state().mutex);
    if (!comm) return ncclInvalidArgument;
    if (comm->error != ncclSuccess) {
        *out = comm->error;
        return ncclSuccess;
    }
    if (comm->polls > 0) --comm->polls;
    *out = in_progress(comm) ? ncclInProgress : ncclSuccess;
    if (*out == ncclSuccess) {
        const auto then = std::move(comm->when_settled);
        comm->when_settled.clear();
        comm->settled = nullptr;
        for (const auto& f : then) f();
    }
    return ncclSuccess;
}

// All members are on this host, and newer libraries wait there for all of them.
ncclResult_t ncclCommFinalize(ncclComm_t comm) {
    const std::lock_guard lock(state().mutex);
    if (const ncclResult_t r = enter(comm, "ncclCommFinalize"); r != ncclSuccess) return r;
    comm->finalizing = true;
    ++comm->hub->finalized;
    comm->settled = [hub = comm->hub] { return hub->finalized == hub->size; };
    return ncclInProgress;
}
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
    if (!comm->finalizing) orrery::fake::misused("destroyed, not finalized");
    {
        const std::lock_guard lock(state().mutex);
        if (in_progress(comm)) state().misuse.emplace_back("destroyed while it is finalized");
    }
    delete comm;
    return ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t comm) {
    std::unique_lock lock(state().mutex);
    if (state().hang_abort) state().changed.wait(lock, [] { return !state().hang_abort; });
    // Each waits for its own kernels; one may stand behind another communicator's.
    if (depth == 0 && comm->launched) state().misuse.emplace_back("ncclCommAbort alone");
    *comm->aborted = true;
    ++state().aborted;
    state().changed.notify_all();
    delete comm;
    return ncclSuccess;
}
ncclResult_t ncclGroupStart() {
    ++depth;
    return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
    if (--depth > 0) return ncclInProgress;
    return end_group();
}
ncclResult_t ncclAllReduce(const void* in, void* out, std::size_t n, ncclDataType_t t, ncclRedOp_t op, ncclComm_t comm,
                           cudaStream_t stream) {
    Call c;
    c.kind = Kind::all_reduce, c.in = in, c.out = out, c.count = n, c.type = t, c.maximum = op == ncclMax;
    return call("ncclAllReduce", comm, stream, c);
}
ncclResult_t ncclReduceScatter(const void* in, void* out, std::size_t n, ncclDataType_t t, ncclRedOp_t, ncclComm_t comm,
                               cudaStream_t stream) {
    Call c;
    c.kind = Kind::reduce_scatter, c.in = in, c.out = out, c.count = n, c.type = t;
    return call("ncclReduceScatter", comm, stream, c);
}
ncclResult_t ncclAllGather(const void* in, void* out, std::size_t n, ncclDataType_t t, ncclComm_t comm, cudaStream_t stream) {
    Call c;
    c.kind = Kind::all_gather, c.in = in, c.out = out, c.count = n, c.type = t;
    return call("ncclAllGather", comm, stream, c);
}
ncclResult_t ncclSend(const void* in, std::size_t n, ncclDataType_t t, int peer, ncclComm_t comm, cudaStream_t stream) {
    Call c;
    c.kind = Kind::send, c.in = in, c.count = n, c.type = t, c.peer = peer;
    return call("ncclSend", comm, stream, c);
}
ncclResult_t ncclRecv(void* out, std::size_t n, ncclDataType_t t, int peer, ncclComm_t comm, cudaStream_t stream) {
    Call c;
    c.kind = Kind::receive, c.out = out, c.count = n, c.type = t, c.peer = peer;
    return call("ncclRecv", comm, stream, c);
}
}

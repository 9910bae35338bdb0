// NCCL, on host memory: collectives are computed when all members have launched them, summed in the order of ranks.
#include "tests/fakes/state.hpp"

#include <nccl.h>

#include <algorithm>
#include <cstring>

using orrery::fake::Launched;
using orrery::fake::state;

namespace {

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

} // namespace

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
    bool finalizing = false;
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

std::size_t size_of(ncclDataType_t t) {
    switch (t) {
    case ncclUint8:
        return 1;
    case ncclBfloat16:
    case ncclFloat16:
        return 2;
    case ncclFloat32:
    case ncclInt32:
        return 4;
    default:
        return 8;
    }
}

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

template <class T> void sum(const std::vector<Call>& members, std::size_t from, std::size_t n, void* out) {
    std::vector<T> total(n);
    for (std::size_t m = 0; m < members.size(); ++m) {
        const T* x = static_cast<const T*>(members[m].in) + from;
        for (std::size_t i = 0; i < n; ++i)
            total[i] = m == 0 ? x[i] : members[0].maximum ? std::max(total[i], x[i]) : static_cast<T>(total[i] + x[i]);
    }
    std::memcpy(out, total.data(), n * sizeof(T));
}

void reduce(const std::vector<Call>& members, std::size_t from, std::size_t n, void* out) {
    switch (members[0].type) {
    case ncclFloat32:
        return sum<float>(members, from, n, out);
    case ncclFloat64:
        return sum<double>(members, from, n, out);
    case ncclInt64:
        return sum<std::int64_t>(members, from, n, out);
    default:
        return sum<unsigned char>(members, from, n, out);
    }
}

void meet(const std::vector<Call>& members) {
    const Call& first = members[0];
    const std::size_t size = size_of(first.type), bytes = first.count * size;
    for (const Call& c : members)
        if (c.kind != first.kind || c.count != first.count || c.type != first.type)
            state().misuse.emplace_back("members make different calls");
    std::vector<std::vector<std::byte>> results(members.size()); // in place is allowed: all is read before anything is written
    for (std::size_t m = 0; m < members.size(); ++m) {
        results[m].resize(first.kind == Kind::all_gather ? bytes * members.size() : bytes);
        if (first.kind == Kind::all_reduce) reduce(members, 0, first.count, results[m].data());
        if (first.kind == Kind::reduce_scatter) reduce(members, m * first.count, first.count, results[m].data());
        if (first.kind == Kind::all_gather)
            for (std::size_t i = 0; i < members.size(); ++i) std::memcpy(results[m].data() + i * bytes, members[i].in, bytes);
    }
    for (std::size_t m = 0; m < members.size(); ++m) {
        std::memcpy(members[m].out, results[m].data(), results[m].size());
        *members[m].done = true;
    }
}

// Under the lock: a call has started on its stream.
void arrive(Hub& hub, Call call, std::int64_t round) {
    if (call.kind == Kind::send || call.kind == Kind::receive) {
        const bool sends = call.kind == Kind::send;
        const std::pair<int, int> way = sends ? std::pair(call.rank, call.peer) : std::pair(call.peer, call.rank);
        auto& partners = sends ? hub.receives[way] : hub.sends[way];
        if (partners.empty()) return (sends ? hub.sends : hub.receives)[way].push_back(call);
        const Call partner = partners.front();
        partners.pop_front();
        const Call &from = sends ? call : partner, &to = sends ? partner : call;
        if (from.count != to.count || from.type != to.type) state().misuse.emplace_back("a send and its receive differ");
        std::memcpy(to.out, from.in, from.count * size_of(from.type));
        *from.done = *to.done = true;
        return;
    }
    auto& members = hub.rounds[round];
    members.resize(static_cast<std::size_t>(hub.size));
    call.there = true;
    members[static_cast<std::size_t>(call.rank)] = call;
    if (std::ranges::all_of(members, &Call::there)) meet(members);
}

// The calls of a communicator in a group are one kernel on one stream: they start together, and it ends when all have ended.
void start(ncclComm_t comm, cudaStream_t stream, std::vector<Call> calls) {
    std::vector<std::int64_t> rounds;
    static const char* const names[] = {"all-reduce", "reduce-scatter", "all-gather", "send", "receive"};
    bool hangs = false;
    {
        const std::lock_guard lock(state().mutex);
        for (const Call& c : calls) {
            rounds.push_back(c.kind == Kind::send || c.kind == Kind::receive ? -1 : comm->rounds++);
            state().launched[comm->device].push_back({comm->hub->name, names[static_cast<int>(c.kind)]});
        }
        if (const auto it = state().hang_after.find(comm->device); it != state().hang_after.end()) hangs = it->second-- <= 0;
        comm->polls = state().polls;
    }
    orrery::fake::launch(stream, [hub = comm->hub, aborted = comm->aborted, calls = std::move(calls), rounds = std::move(rounds), hangs] {
        std::unique_lock lock(state().mutex);
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

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
    const std::lock_guard lock(state().mutex);
    if (const ncclResult_t r = enter(comm, "ncclCommFinalize"); r != ncclSuccess) return r;
    comm->finalizing = true;
    return ncclInProgress;
}
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
    if (!comm->finalizing) orrery::fake::misused("destroyed, not finalized");
    delete comm;
    return ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t comm) {
    std::unique_lock lock(state().mutex);
    if (state().hang_abort) state().changed.wait(lock, [] { return !state().hang_abort; });
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

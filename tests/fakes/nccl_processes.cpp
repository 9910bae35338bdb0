// NCCL between processes: whoever makes the id serves the communicators from a thread of its process, the others (and itself) ask it over
// the loopback, a connection a question. A launch sends its inputs and waits on its stream for its results.
#include "exec/queues/sockets.hpp"
#include "tests/fakes/hub.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <atomic>
#include <cstring>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

using orrery::receive_all;
using orrery::send_all;
using orrery::fake::arrive;
using orrery::fake::Call;
using orrery::fake::Hub;
using orrery::fake::Kind;
using orrery::fake::state;

namespace {

struct Question {
    enum class What : std::int32_t { join, split, launch } what;
    std::int32_t hub, rank, size, color, key, which, calls;
};
struct Place {
    std::int32_t hub, rank, size;
};
struct Asked {
    Kind kind;
    std::int32_t peer, type, maximum;
    std::int64_t count, round;
};

std::size_t bytes_in(const Asked& a, std::int32_t members) {
    const std::size_t n = static_cast<std::size_t>(a.count) * orrery::fake::size_of(static_cast<ncclDataType_t>(a.type));
    return a.kind == Kind::receive ? 0 : a.kind == Kind::reduce_scatter ? n * static_cast<std::size_t>(members) : n;
}
std::size_t bytes_out(const Asked& a, std::int32_t members) {
    const std::size_t n = static_cast<std::size_t>(a.count) * orrery::fake::size_of(static_cast<ncclDataType_t>(a.type));
    return a.kind == Kind::send ? 0 : a.kind == Kind::all_gather ? n * static_cast<std::size_t>(members) : n;
}

// Lives as long as its process: threads that wait for a member which never comes are left.
class Server {
  public:
    Server() {
        socket_ = ::socket(AF_INET, SOCK_STREAM, 0);
        sockaddr_in at{};
        at.sin_family = AF_INET;
        at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t length = sizeof at;
        ::bind(socket_, reinterpret_cast<sockaddr*>(&at), length);
        ::listen(socket_, 256);
        ::getsockname(socket_, reinterpret_cast<sockaddr*>(&at), &length);
        port_ = ntohs(at.sin_port);
        hubs_.push_back(std::make_shared<Hub>());
        std::thread([this] {
            for (int client = 0; (client = ::accept(socket_, nullptr, nullptr)) >= 0;)
                std::thread([this, client] {
                    serve(client);
                    ::close(client);
                }).detach();
        }).detach();
    }
    int port() const { return port_; }

  private:
    using Lock = std::unique_lock<std::mutex>;

    void serve(int client) {
        Question q{};
        if (!receive_all(client, &q, sizeof q)) return;
        if (q.what == Question::What::launch) return launch(client, q);
        Lock lock(state().mutex);
        const std::shared_ptr<Hub> hub = hubs_.at(static_cast<std::size_t>(q.hub));
        Place place{q.hub, q.rank, q.size};
        if (q.what == Question::What::join) {
            hub->size = q.size;
            ++hub->joined;
            state().changed.notify_all();
            state().changed.wait(lock, [&] { return hub->joined == hub->size; });
        } else {
            place = split(lock, *hub, q);
        }
        lock.unlock();
        send_all(client, &place, sizeof place);
    }
    Place split(Lock& lock, Hub& hub, const Question& q) {
        Hub::Split& s = hub.splits[q.which];
        if (q.color >= 0) s.colors[q.color].emplace_back(q.key, q.rank);
        ++s.come;
        state().changed.notify_all();
        state().changed.wait(lock, [&] { return s.come == hub.size; });
        if (q.color < 0) return {-1, 0, 0};
        auto& members = s.colors[q.color];
        std::ranges::sort(members);
        auto& made = s.made[q.color];
        if (!made) {
            made = std::make_shared<Hub>();
            made->size = static_cast<int>(members.size());
            hubs_.push_back(made);
        }
        return {static_cast<std::int32_t>(std::ranges::find(hubs_, made) - hubs_.begin()),
                static_cast<std::int32_t>(std::ranges::find(members, std::pair<int, int>(q.key, q.rank)) - members.begin()),
                static_cast<std::int32_t>(members.size())};
    }
    void launch(int client, const Question& q) {
        std::vector<Call> calls;
        std::vector<std::vector<char>> in, out;
        std::vector<std::int64_t> rounds;
        for (int i = 0; i < q.calls; ++i) {
            Asked a{};
            if (!receive_all(client, &a, sizeof a)) return;
            in.emplace_back(bytes_in(a, q.size));
            out.emplace_back(bytes_out(a, q.size));
            if (!receive_all(client, in.back().data(), in.back().size())) return;
            Call c;
            c.kind = a.kind, c.rank = q.rank, c.peer = a.peer, c.in = in.back().data(), c.out = out.back().data();
            c.count = static_cast<std::size_t>(a.count), c.type = static_cast<ncclDataType_t>(a.type), c.maximum = a.maximum != 0;
            calls.push_back(c);
            rounds.push_back(a.round);
        }
        {
            Lock lock(state().mutex);
            Hub& hub = *hubs_.at(static_cast<std::size_t>(q.hub));
            for (std::size_t i = 0; i < calls.size(); ++i) arrive(hub, calls[i], rounds[i]);
            state().changed.notify_all();
            state().changed.wait(lock, [&] { return std::ranges::all_of(calls, [](const Call& c) { return *c.done; }); });
        }
        for (const auto& result : out)
            if (!send_all(client, result.data(), result.size())) return;
        const char ended = 0; // of a send, too: the next may not overtake it
        send_all(client, &ended, 1);
    }

    int socket_ = -1, port_ = 0;
    std::vector<std::shared_ptr<Hub>> hubs_; // the first: of all ranks
};

// The questions of a communicator that are under way: an abort ends them.
struct Line {
    int port = 0;
    std::mutex mutex;
    std::condition_variable changed;
    std::set<int> sockets;
    bool aborted = false;
    std::atomic<bool> settled{true}, broken{false};
    Place place{};

    int dial() {
        const int s = ::socket(AF_INET, SOCK_STREAM, 0);
        sockaddr_in at{};
        at.sin_family = AF_INET;
        at.sin_port = htons(static_cast<std::uint16_t>(port));
        at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        if (::connect(s, reinterpret_cast<sockaddr*>(&at), sizeof at) != 0) broken = true;
        const std::lock_guard lock(mutex);
        sockets.insert(s);
        if (aborted) ::shutdown(s, SHUT_RDWR); // what was launched before the abort ends at once
        return s;
    }
    void hang_up(int s) {
        const std::lock_guard lock(mutex);
        sockets.erase(s);
        ::close(s);
    }
    // A kernel whose peer has gone stands until it is aborted.
    void stand() {
        broken = true;
        std::unique_lock lock(mutex);
        changed.wait(lock, [&] { return aborted; });
    }
};

// What a ncclComm_t points to.
struct Comm {
    std::shared_ptr<Line> line = std::make_shared<Line>();
    Place at{};
    int device = 0;
    std::int64_t rounds = 0;
    int splits = 0;
    std::set<int> peers{};
    ncclResult_t error = ncclSuccess;
    std::vector<std::function<void()>> when_settled{};
};
Comm* of(ncclComm_t c) { return reinterpret_cast<Comm*>(c); }

thread_local int depth = 0;
struct Queued {
    Comm* comm;
    cudaStream_t stream;
    Call call;
};
thread_local std::vector<Queued> group;

// Asks in the background; the answer is the line's place.
void ask(const std::shared_ptr<Line>& line, const Question& q) {
    line->settled = false;
    std::thread([line, q] {
        const int s = line->dial();
        const bool answered = send_all(s, &q, sizeof q) && receive_all(s, &line->place, sizeof line->place);
        line->hang_up(s);
        if (!answered) line->broken = true;
        line->settled = true;
    }).detach();
}

void start(Comm* comm, cudaStream_t stream, const std::vector<Call>& calls) {
    std::vector<Asked> asked;
    for (const Call& c : calls) {
        const bool alone = c.kind == Kind::send || c.kind == Kind::receive;
        asked.push_back({c.kind, c.peer, static_cast<std::int32_t>(c.type), c.maximum, static_cast<std::int64_t>(c.count),
                         alone ? -1 : comm->rounds++});
        const std::lock_guard lock(state().mutex);
        if (c.kind == Kind::send && comm->peers.insert(c.peer).second) state().taken[comm->device] += orrery::fake::connection_bytes;
    }
    orrery::fake::launch(stream, [line = comm->line, at = comm->at, calls, asked] {
        const Question q{Question::What::launch, at.hub, at.rank, at.size, 0, 0, 0, static_cast<std::int32_t>(calls.size())};
        const int s = line->dial();
        bool well = send_all(s, &q, sizeof q);
        for (std::size_t i = 0; i < calls.size() && well; ++i)
            well = send_all(s, &asked[i], sizeof asked[i]) && send_all(s, calls[i].in, bytes_in(asked[i], at.size));
        for (std::size_t i = 0; i < calls.size() && well; ++i) well = receive_all(s, calls[i].out, bytes_out(asked[i], at.size));
        char ended = 0;
        well = well && receive_all(s, &ended, 1);
        line->hang_up(s);
        if (!well) line->stand();
    });
}

ncclResult_t end_group() {
    std::vector<Queued> all;
    all.swap(group);
    std::vector<std::pair<Comm*, cudaStream_t>> order;
    for (const Queued& q : all)
        if (std::ranges::find(order, std::pair(q.comm, q.stream)) == order.end()) order.emplace_back(q.comm, q.stream);
    for (const auto& [comm, stream] : order) {
        std::vector<Call> calls;
        for (const Queued& q : all)
            if (q.comm == comm && q.stream == stream) calls.push_back(q.call);
        start(comm, stream, calls);
    }
    return ncclSuccess;
}

ncclResult_t enter(Comm* c, const char* call) {
    if (const auto failure = orrery::fake::failure_of(call, c->at.rank)) c->error = static_cast<ncclResult_t>(*failure);
    return c->error;
}

ncclResult_t call(const char* name, Comm* comm, cudaStream_t stream, const Call& c) {
    if (const ncclResult_t r = enter(comm, name); r != ncclSuccess) return r;
    group.push_back({comm, stream, c});
    return depth > 0 ? ncclSuccess : end_group();
}

Comm* made(int port, Place at) {
    auto* c = new Comm;
    c->line->port = port;
    c->at = at;
    c->device = orrery::fake::current_device();
    const std::lock_guard lock(state().mutex);
    state().taken[c->device] += orrery::fake::communicator_bytes;
    return c;
}

} // namespace

extern "C" {

ncclResult_t ncclGetVersion(int* v) {
    *v = NCCL_VERSION_CODE;
    return ncclSuccess;
}
const char* ncclGetErrorString(ncclResult_t r) {
    return r == ncclRemoteError ? "remote process exited or there was a network error" : "unhandled system error";
}
const char* ncclGetLastError(ncclComm_t) { return "said by a stand-in"; }

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
    static Server& server = *new Server; // never destroyed
    std::memset(id, 0, sizeof *id);
    const int port = server.port();
    std::memcpy(id->internal, &port, sizeof port);
    return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* out, int size, ncclUniqueId id, int rank, ncclConfig_t*) {
    int port = 0;
    std::memcpy(&port, id.internal, sizeof port);
    Comm* const c = made(port, {0, rank, size});
    *out = reinterpret_cast<ncclComm_t>(c);
    ask(c->line, {Question::What::join, 0, rank, size, 0, 0, 0, 0});
    return ncclInProgress;
}

ncclResult_t ncclCommSplit(ncclComm_t parent, int color, int key, ncclComm_t* out, ncclConfig_t*) {
    Comm* const comm = of(parent);
    if (const ncclResult_t r = enter(comm, "ncclCommSplit"); r != ncclSuccess) return r;
    *out = nullptr;
    comm->when_settled.emplace_back([comm, color, out] {
        if (color >= 0) *out = reinterpret_cast<ncclComm_t>(made(comm->line->port, comm->line->place));
    });
    ask(comm->line, {Question::What::split, comm->at.hub, comm->at.rank, comm->at.size, color, key, comm->splits++, 0});
    return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t asked, ncclResult_t* out) {
    Comm* const comm = of(asked);
    *out = comm->error != ncclSuccess ? comm->error
           : comm->line->broken       ? ncclRemoteError
           : comm->line->settled      ? ncclSuccess
                                      : ncclInProgress;
    if (*out == ncclSuccess)
        for (const auto& f : std::exchange(comm->when_settled, {})) f();
    return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t) { return ncclSuccess; }
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
    delete of(comm);
    return ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t comm) {
    Line& line = *of(comm)->line;
    {
        const std::lock_guard lock(line.mutex);
        line.aborted = true;
        for (int s : line.sockets) ::shutdown(s, SHUT_RDWR);
    }
    line.changed.notify_all();
    delete of(comm);
    return ncclSuccess;
}
ncclResult_t ncclGroupStart() {
    ++depth;
    return ncclSuccess;
}
ncclResult_t ncclGroupEnd() { return --depth > 0 ? ncclSuccess : end_group(); }

ncclResult_t ncclAllReduce(const void* in, void* out, std::size_t n, ncclDataType_t t, ncclRedOp_t op, ncclComm_t comm, cudaStream_t s) {
    Call c;
    c.kind = Kind::all_reduce, c.in = in, c.out = out, c.count = n, c.type = t, c.maximum = op == ncclMax;
    return call("ncclAllReduce", of(comm), s, c);
}
ncclResult_t ncclReduceScatter(const void* in, void* out, std::size_t n, ncclDataType_t t, ncclRedOp_t, ncclComm_t comm, cudaStream_t s) {
    Call c;
    c.kind = Kind::reduce_scatter, c.in = in, c.out = out, c.count = n, c.type = t;
    return call("ncclReduceScatter", of(comm), s, c);
}
ncclResult_t ncclAllGather(const void* in, void* out, std::size_t n, ncclDataType_t t, ncclComm_t comm, cudaStream_t s) {
    Call c;
    c.kind = Kind::all_gather, c.in = in, c.out = out, c.count = n, c.type = t;
    return call("ncclAllGather", of(comm), s, c);
}
ncclResult_t ncclSend(const void* in, std::size_t n, ncclDataType_t t, int peer, ncclComm_t comm, cudaStream_t s) {
    Call c;
    c.kind = Kind::send, c.in = in, c.count = n, c.type = t, c.peer = peer;
    return call("ncclSend", of(comm), s, c);
}
ncclResult_t ncclRecv(void* out, std::size_t n, ncclDataType_t t, int peer, ncclComm_t comm, cudaStream_t s) {
    Call c;
    c.kind = Kind::receive, c.out = out, c.count = n, c.type = t, c.peer = peer;
    return call("ncclRecv", of(comm), s, c);
}
}

// exec_mpi.so: the transport over MPI. Loaded when asked for; nothing else links MPI.
#include "sim/ranks/transport.h"

#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

namespace {

// MPI counts with int: messages are cut into pieces of that many bytes. ORRERY_MPI_CHUNK makes it less, so that tests see it done.
std::size_t chunk() {
    static const std::size_t most = [] {
        const char* text = std::getenv("ORRERY_MPI_CHUNK");
        const long long asked = text ? std::atoll(text) : 0;
        return asked > 0 ? static_cast<std::size_t>(asked) : std::size_t{1} << 30;
    }();
    return most;
}

struct Request {
    std::vector<MPI_Request> requests;
};

template <class F> void* cut(std::size_t bytes, F&& each) {
    const std::size_t most = chunk();
    auto r = std::make_unique<Request>();
    r->requests.resize(bytes == 0 ? 1 : (bytes + most - 1) / most);
    for (std::size_t i = 0; i < r->requests.size(); ++i)
        each(i * most, static_cast<int>(std::min(most, bytes - i * most)), &r->requests[i]);
    return r.release();
}

void* send(int to, int tag, const void* data, std::size_t bytes) {
    return cut(bytes, [&](std::size_t at, int n, MPI_Request* r) {
        MPI_Isend(static_cast<const char*>(data) + at, n, MPI_BYTE, to, tag, MPI_COMM_WORLD, r);
    });
}

void* receive(int from, int tag, void* data, std::size_t bytes) {
    return cut(bytes, [&](std::size_t at, int n, MPI_Request* r) {
        MPI_Irecv(static_cast<char*>(data) + at, n, MPI_BYTE, from, tag, MPI_COMM_WORLD, r);
    });
}

int done(void* request) {
    auto* r = static_cast<Request*>(request);
    int all = 0;
    MPI_Testall(static_cast<int>(r->requests.size()), r->requests.data(), &all, MPI_STATUSES_IGNORE);
    if (all) delete r;
    return all;
}

void barrier() { MPI_Barrier(MPI_COMM_WORLD); }
void abort_all(int code) { MPI_Abort(MPI_COMM_WORLD, code); }
void finish() { MPI_Finalize(); }

} // namespace

extern "C" const OrreryTransport* orrery_open_transport(int version, char* why, std::size_t why_bytes) {
    if (version != ORRERY_TRANSPORT_VERSION) {
        std::snprintf(why, why_bytes, "exec_mpi.so speaks version %d of the transport, the program version %d: build both anew",
                      ORRERY_TRANSPORT_VERSION, version);
        return nullptr;
    }
    int started = 0;
    MPI_Initialized(&started);
    int threads = MPI_THREAD_SINGLE;
    if (!started && MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &threads) != MPI_SUCCESS) {
        std::snprintf(why, why_bytes, "MPI_Init_thread failed");
        return nullptr;
    }
    if (started) MPI_Query_thread(&threads);
    if (threads < MPI_THREAD_SERIALIZED) {
        std::snprintf(why, why_bytes,
                      "this MPI library lets only the first thread of a process communicate: use one built with thread support");
        return nullptr;
    }
    static char library[MPI_MAX_LIBRARY_VERSION_STRING];
    static OrreryTransport transport{}; // one a process, as MPI itself is
    int length = 0;
    MPI_Get_library_version(library, &length);
    for (char* c = library; *c; ++c)
        if (*c == ',' || *c == '\n') *c = '\0';
    transport = {ORRERY_TRANSPORT_VERSION, 0, 1, library, send, receive, done, barrier, abort_all, finish};
    MPI_Comm_rank(MPI_COMM_WORLD, &transport.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &transport.size);
    return &transport;
}

// exec_mpi.so: the transport over MPI. Loaded when asked for; nothing else links MPI.
#include "exec/mpi/transport.h"

#include <mpi.h>

#include <cstdio>
#include <memory>

namespace {

// MPI counts with int: messages are cut.
constexpr std::size_t most = std::size_t{1} << 30;

struct Request {
    MPI_Request requests[8];
    int count = 0;
};

template <class F> void* cut(std::size_t bytes, F&& each) {
    auto r = std::make_unique<Request>();
    std::size_t at = 0;
    do {
        const std::size_t now = bytes - at < most ? bytes - at : most;
        if (r->count == 8) MPI_Abort(MPI_COMM_WORLD, 70);
        each(at, static_cast<int>(now), &r->requests[r->count++]);
        at += now;
    } while (at < bytes);
    return r.release();
}

void* send(int to, int tag, const void* data, std::size_t bytes) {
    return cut(bytes, [&](std::size_t at, int n, MPI_Request* r) { MPI_Isend(static_cast<const char*>(data) + at, n, MPI_BYTE, to, tag, MPI_COMM_WORLD, r); });
}

void* receive(int from, int tag, void* data, std::size_t bytes) {
    return cut(bytes, [&](std::size_t at, int n, MPI_Request* r) { MPI_Irecv(static_cast<char*>(data) + at, n, MPI_BYTE, from, tag, MPI_COMM_WORLD, r); });
}

int done(void* request) {
    auto* r = static_cast<Request*>(request);
    int all = 0;
    MPI_Testall(r->count, r->requests, &all, MPI_STATUSES_IGNORE);
    if (all) delete r;
    return all;
}

void barrier() { MPI_Barrier(MPI_COMM_WORLD); }
void abort_all(int code) { MPI_Abort(MPI_COMM_WORLD, code); }
void finish() { MPI_Finalize(); }

} // namespace

extern "C" const OrreryTransport* orrery_open_transport(int version, char* why, std::size_t why_bytes) {
    if (version != ORRERY_TRANSPORT_VERSION) {
        std::snprintf(why, why_bytes, "exec_mpi.so speaks version %d of the transport, the program version %d: build both anew", ORRERY_TRANSPORT_VERSION, version);
        return nullptr;
    }
    int started = 0;
    MPI_Initialized(&started);
    if (!started && MPI_Init(nullptr, nullptr) != MPI_SUCCESS) {
        std::snprintf(why, why_bytes, "MPI_Init failed");
        return nullptr;
    }
    static char library[MPI_MAX_LIBRARY_VERSION_STRING];
    static OrreryTransport transport{};   // one a process, as MPI itself is
    int length = 0;
    MPI_Get_library_version(library, &length);
    for (char* c = library; *c; ++c)
        if (*c == ',' || *c == '\n') *c = '\0';
    transport = {ORRERY_TRANSPORT_VERSION, 0, 1, library, send, receive, done, barrier, abort_all, finish};
    MPI_Comm_rank(MPI_COMM_WORLD, &transport.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &transport.size);
    return &transport;
}

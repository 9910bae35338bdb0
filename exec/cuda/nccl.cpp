// NCCL's rules this keeps (its user guide, and what frameworks ran into):
// - calls come from the one host thread of the device, in the plan's issue order, which is the same on every member; with
//   NCCL_LAUNCH_ORDER_IMPLICIT=1 (2.26 and later) that order also holds across communicators of a device;
// - a nonblocking communicator may answer ncclInProgress: nothing else may use it, nor its stream, until it no longer does;
// - transfers that must progress together are one group; a send alone can stand still for ever;
// - abort is every rank's, and may itself not return: whoever calls it needs a second timer (the executor's watchdog has one).
#include "exec/cuda/nccl.hpp"

#include <nccl.h>

#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <thread>

namespace orrery::cuda {
namespace {

constexpr auto patience = std::chrono::seconds(120); // for a communicator to come up, or a call to be enqueued: connections are made lazily

void check(ncclResult_t r, const std::string& what, ncclComm_t comm = nullptr) {
    if (r == ncclSuccess || r == ncclInProgress) return;
    const char* last = ncclGetLastError(comm);
    throw std::runtime_error(what + ": " + ncclGetErrorString(r) + (last && *last ? std::string(" (") + last + ")" : ""));
}

ncclDataType_t type_of(DType t) {
    switch (t) {
    case DType::fp32:
    case DType::tf32:
        return ncclFloat32;
    case DType::bf16:
        return ncclBfloat16;
    case DType::fp16:
        return ncclFloat16;
    case DType::fp64:
        return ncclFloat64;
    case DType::int64:
        return ncclInt64;
    case DType::int32:
        return ncclInt32;
    case DType::uint8:
    case DType::boolean:
        return ncclUint8;
    default:
        throw std::runtime_error(std::string("NCCL has no type for ") + orrery::name(t));
    }
}

template <class F> CudaStatus guarded(F&& f) {
    try {
        f();
        return {};
    } catch (const std::exception& e) { return {e.what()}; }
}

ncclConfig_t config_of(const std::string& name) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    config.splitShare = 0;
    config.commName = name.c_str();
    return config;
}

class Communicator final : public CudaCommunicator {
  public:
    Communicator(ncclComm_t comm, std::string name, StreamOf stream_of)
        : comm_(comm), name_(std::move(name)), stream_of_(std::move(stream_of)) {}
    ~Communicator() override {
        if (!comm_) return;
        // Finalize and destroy are collective inside a node; in progress, they are waited for like everything else.
        if (ncclCommFinalize(comm_) == ncclSuccess || settled("finalize").ok())
            ncclCommDestroy(comm_);
        else
            ncclCommAbort(comm_);
    }

    CudaStatus begin_group() override {
        return guarded([&] { check(ncclGroupStart(), "group"); });
    }
    CudaStatus end_group() override { return done(ncclGroupEnd(), "group"); }
    CudaStatus all_reduce(const void* in, void* out, std::int64_t n, DType t, bool maximum, QueueId q) override {
        return call("all-reduce", [&] {
            return ncclAllReduce(in, out, static_cast<std::size_t>(n), type_of(t), maximum ? ncclMax : ncclSum, comm_, stream_of_(q));
        });
    }
    CudaStatus reduce_scatter(const void* in, void* out, std::int64_t n, DType t, QueueId q) override {
        return call("reduce-scatter",
                    [&] { return ncclReduceScatter(in, out, static_cast<std::size_t>(n), type_of(t), ncclSum, comm_, stream_of_(q)); });
    }
    CudaStatus all_gather(const void* in, void* out, std::int64_t n, DType t, QueueId q) override {
        return call("all-gather", [&] { return ncclAllGather(in, out, static_cast<std::size_t>(n), type_of(t), comm_, stream_of_(q)); });
    }
    CudaStatus broadcast(const void* in, void* out, std::int64_t n, DType t, int root, QueueId q) override {
        return call("broadcast",
                    [&] { return ncclBroadcast(in, out, static_cast<std::size_t>(n), type_of(t), root, comm_, stream_of_(q)); });
    }
    CudaStatus send(const void* data, std::int64_t n, DType t, int peer, QueueId q) override {
        return call("send", [&] { return ncclSend(data, static_cast<std::size_t>(n), type_of(t), peer, comm_, stream_of_(q)); });
    }
    CudaStatus receive(void* data, std::int64_t n, DType t, int peer, QueueId q) override {
        return call("receive", [&] { return ncclRecv(data, static_cast<std::size_t>(n), type_of(t), peer, comm_, stream_of_(q)); });
    }
    CudaStatus poll() override {
        return guarded([&] {
            ncclResult_t state = ncclSuccess;
            check(ncclCommGetAsyncError(comm_, &state), name_ + ": asking for errors", comm_);
            check(state, name_, comm_);
        });
    }
    CudaStatus split(int color, int key, const std::string& name, std::unique_ptr<CudaCommunicator>& out) override {
        return guarded([&] {
            ncclComm_t part = nullptr;
            ncclConfig_t config = config_of(name);
            check(ncclCommSplit(comm_, color < 0 ? NCCL_SPLIT_NOCOLOR : color, key, &part, &config), "split of " + name_, comm_);
            if (const CudaStatus s = settled("split"); !s.ok()) throw std::runtime_error(s.message);
            if (color >= 0) out = std::make_unique<Communicator>(part, name, stream_of_);
        });
    }
    void abort() override {
        if (comm_) ncclCommAbort(comm_);
        comm_ = nullptr;
    }
    // Waits until nothing of the communicator is in progress on the host.
    CudaStatus settled(const std::string& what) const {
        return guarded([&] {
            const auto end = std::chrono::steady_clock::now() + patience;
            for (ncclResult_t state = ncclInProgress; state == ncclInProgress;) {
                check(ncclCommGetAsyncError(comm_, &state), name_ + ": " + what, comm_);
                check(state, name_ + ": " + what, comm_);
                if (std::chrono::steady_clock::now() > end)
                    throw std::runtime_error(name_ + ": " + what + " was not answered by the other members in time");
                std::this_thread::yield();
            }
        });
    }

  private:
    CudaStatus done(ncclResult_t r, const char* what) {
        const CudaStatus status = guarded([&] { check(r, name_ + ": " + what, comm_); });
        return status.ok() && r == ncclInProgress ? settled(what) : status;
    }
    template <class F> CudaStatus call(const char* what, F&& f) {
        ncclResult_t r = ncclSuccess;
        const CudaStatus status = guarded([&] { r = f(); });
        return status.ok() ? done(r, what) : status;
    }

    ncclComm_t comm_;
    std::string name_;
    StreamOf stream_of_;
};

} // namespace

std::unique_ptr<CudaCommunicator> connect_nccl(const NcclId& id, int ranks, int rank, const std::string& name, StreamOf stream_of) {
    static_assert(sizeof(ncclUniqueId) == sizeof(NcclId));
    setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", 0); // before the first communicator; a user's own setting stands
    ncclUniqueId unique;
    std::memcpy(&unique, id.data(), sizeof unique);
    ncclComm_t comm = nullptr;
    ncclConfig_t config = config_of(name);
    check(ncclCommInitRankConfig(&comm, ranks, unique, rank, &config), name + ": connecting");
    auto out = std::make_unique<Communicator>(comm, name, std::move(stream_of));
    if (const CudaStatus s = out->settled("connecting"); !s.ok()) {
        out->abort();
        throw std::runtime_error(s.message);
    }
    return out;
}

NcclId make_nccl_id() {
    ncclUniqueId unique;
    check(ncclGetUniqueId(&unique), "ncclGetUniqueId");
    NcclId id;
    std::memcpy(id.data(), &unique, sizeof unique);
    return id;
}

std::string nccl_version() {
    int v = 0;
    if (ncclGetVersion(&v) != ncclSuccess) return "?";
    return std::to_string(v / 10000) + "." + std::to_string(v / 100 % 100) + "." + std::to_string(v % 100);
}

} // namespace orrery::cuda

// NCCL's rules this keeps (its user guide, and what frameworks ran into):
// - calls come from the one host thread of the device, in the plan's issue order, which is the same on every member; with
//   NCCL_LAUNCH_ORDER_IMPLICIT=1 (2.26 and later; prepare_cuda sets it) that order also holds across communicators of a device: a launch
//   begins when the one before has begun;
// - a nonblocking communicator may answer ncclInProgress: nothing else may use it, nor its stream, until it no longer does; the library
//   starts a thread of the host for each call or group of such a communicator (group.cc: ncclGroupEndInternal), which is the price;
// - transfers that must progress together are one group; a send alone can stand still for ever;
// - abort is every rank's, of all communicators in one group: a kernel of one may stand in its stream behind a kernel of another, and
//   each abort waits for its own (init.cc: ncclCommAbort tells the device at once, commReclaim runs when the group ends). It may still not
//   return: whoever calls it has a second timer (exec/queues/last_resort.hpp).
#include "exec/cuda/nccl.hpp"

#include "exec/cuda/streams.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <thread>

namespace orrery::cuda {
namespace {

constexpr int oldest = 22600;        // NCCL_LAUNCH_ORDER_IMPLICIT
constexpr int oldest_driver = 12030; // CUDA: with events of launches

void check(ncclResult_t r, const std::string& what, ncclComm_t comm = nullptr) {
    if (r == ncclSuccess || r == ncclInProgress) return;
    const char* last = ncclGetLastError(comm);
    throw LibraryFailed(what + ": " + ncclGetErrorString(r) + (last && *last ? std::string(" (") + last + ")" : ""),
                        r == ncclRemoteError ? Cause::peer : Cause::communicator);
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

// Waits until nothing of the communicator is in progress on the host.
void settle(ncclComm_t comm, const std::string& what, const Group& group) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(group.patience);
    for (int i = 0;; ++i) {
        ncclResult_t state = ncclSuccess;
        check(ncclCommGetAsyncError(comm, &state), what, comm);
        check(state, what, comm);
        if (state == ncclSuccess) return;
        if (group.give_up && group.give_up()) throw std::runtime_error(what + " was given up: another rank has failed");
        if (std::chrono::steady_clock::now() > end)
            throw LibraryFailed(what + " was not answered by the other members in time", Cause::peer);
        if (i < 1000)
            std::this_thread::yield();
        else
            std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
}

ncclConfig_t config_of(const std::string& name) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    config.splitShare = 0;
    config.commName = name.c_str();
    return config;
}

class Member final : public StreamCommunicator {
  public:
    Member(ncclComm_t comm, std::shared_ptr<const std::string> name, std::shared_ptr<Group> group)
        : comm_(comm), kept_(std::move(name)), name_(*kept_), group_(std::move(group)) {}
    ~Member() override {
        if (!comm_) return;
        // Finalize and destroy are collective inside a node; in progress, they are waited for like everything else.
        const Status end = guarded([&] {
            check(ncclCommFinalize(comm_), name_, comm_);
            settle(comm_, name_ + ": finalize", *group_);
        });
        if (end.ok())
            ncclCommDestroy(comm_);
        else
            ncclCommAbort(comm_);
    }

    Status all_reduce(const void* in, void* out, std::int64_t n, DType t, bool maximum, QueueId q) override {
        return call("all-reduce", [&] {
            return ncclAllReduce(in, out, static_cast<std::size_t>(n), type_of(t), maximum ? ncclMax : ncclSum, comm_,
                                 group_->stream_of(q));
        });
    }
    Status reduce_scatter(const void* in, void* out, std::int64_t n, DType t, QueueId q) override {
        return call("reduce-scatter", [&] {
            return ncclReduceScatter(in, out, static_cast<std::size_t>(n), type_of(t), ncclSum, comm_, group_->stream_of(q));
        });
    }
    Status all_gather(const void* in, void* out, std::int64_t n, DType t, QueueId q) override {
        return call("all-gather",
                    [&] { return ncclAllGather(in, out, static_cast<std::size_t>(n), type_of(t), comm_, group_->stream_of(q)); });
    }
    Status send(const void* data, std::int64_t n, DType t, int peer, QueueId q) override {
        return call("send", [&] { return ncclSend(data, static_cast<std::size_t>(n), type_of(t), peer, comm_, group_->stream_of(q)); });
    }
    Status receive(void* data, std::int64_t n, DType t, int peer, QueueId q) override {
        return call("receive", [&] { return ncclRecv(data, static_cast<std::size_t>(n), type_of(t), peer, comm_, group_->stream_of(q)); });
    }
    Status poll() override {
        return guarded([&] {
            ncclResult_t state = ncclSuccess;
            check(ncclCommGetAsyncError(comm_, &state), name_ + ": asking for errors", comm_);
            check(state, name_, comm_);
        });
    }
    Status split(int color, int key, const std::string& name, std::unique_ptr<StreamCommunicator>& out) override {
        return guarded([&] {
            ncclComm_t part = nullptr;
            const auto kept = std::make_shared<const std::string>(name);
            ncclConfig_t config = config_of(*kept);
            check(ncclCommSplit(comm_, color < 0 ? NCCL_SPLIT_NOCOLOR : color, key, &part, &config), "split of " + name_, comm_);
            settle(comm_, "split of " + name_ + " into " + name, *group_);
            if (color < 0) return;
            out = std::make_unique<Member>(part, kept, group_);
            settle(part, name + ": connecting", *group_);
        });
    }
    void abort() override {
        if (comm_) ncclCommAbort(comm_);
        comm_ = nullptr;
    }

  private:
    // A call of its own is waited for; one of a group, with the group.
    template <class F> Status call(const char* what, F&& f) {
        return guarded([&] {
            if (!comm_) throw std::runtime_error(name_ + ": " + what + " on a communicator that was aborted");
            check(f(), name_ + ": " + what, comm_);
            if (group_->open)
                group_->touched.emplace_back(comm_, name_);
            else
                settle(comm_, name_ + ": " + what, *group_);
        });
    }

    ncclComm_t comm_;
    std::shared_ptr<const std::string> kept_; // NCCL may look at it as long as the communicator lives
    const std::string& name_;
    std::shared_ptr<Group> group_;
};

} // namespace

void begin_group(Group& group) {
    check(ncclGroupStart(), "group");
    group.open = true;
    group.touched.clear();
}

void end_group(Group& group) {
    group.open = false;
    check(ncclGroupEnd(), "group");
    std::ranges::sort(group.touched);
    const auto [first, last] = std::ranges::unique(group.touched, {}, &std::pair<ncclComm_t, std::string>::first);
    group.touched.erase(first, last);
    for (const auto& [comm, name] : group.touched) settle(comm, name + ": group", group);
}

std::unique_ptr<StreamCommunicator> connect_nccl(const WorldId& id, int ranks, int rank, const std::string& name,
                                                 std::shared_ptr<Group> group) {
    static_assert(sizeof(ncclUniqueId) == sizeof(WorldId));
    int version = 0;
    check(ncclGetVersion(&version), "ncclGetVersion");
    if (version < oldest)
        throw std::runtime_error("NCCL " + nccl_version() + " is too old: 2.26 or later keeps the order of launches across communicators");
    // An older driver has no event of a kernel's begin: NCCL then begins each launch when the one before has ended (enqueue.cc:
    // getImplicitOrder), and a receive that waits for its sender holds up all else.
    int driver = 0;
    if (cudaDriverGetVersion(&driver) != cudaSuccess || driver < oldest_driver)
        throw std::runtime_error("the NVIDIA driver is of CUDA " + std::to_string(driver / 1000) + "." +
                                 std::to_string(driver % 1000 / 10) + ": communicators that share a device need one of CUDA 12.3 or later");
    ncclUniqueId unique;
    std::memcpy(&unique, id.data(), sizeof unique);
    ncclComm_t comm = nullptr;
    const auto kept = std::make_shared<const std::string>(name);
    ncclConfig_t config = config_of(*kept);
    check(ncclCommInitRankConfig(&comm, ranks, unique, rank, &config), name + ": connecting");
    try {
        settle(comm, name + ": connecting", *group);
    } catch (...) {
        ncclCommAbort(comm);
        throw;
    }
    return std::make_unique<Member>(comm, kept, std::move(group));
}

WorldId make_nccl_id() {
    ncclUniqueId unique;
    check(ncclGetUniqueId(&unique), "ncclGetUniqueId");
    WorldId id;
    std::memcpy(id.data(), &unique, sizeof unique);
    return id;
}

std::string nccl_version() {
    int v = 0;
    if (ncclGetVersion(&v) != ncclSuccess) return "?";
    return std::to_string(v / 10000) + "." + std::to_string(v / 100 % 100) + "." + std::to_string(v % 100);
}

} // namespace orrery::cuda

// The GPUs of this process as a fleet of the asynchronous executor.
#include "exec/cuda/plugin.hpp"
#include "exec/queues/tcp_store.hpp"

#include <algorithm>
#include <cstdlib>
#include <stdexcept>

namespace orrery {
namespace {

// The first failure ends the job: a library that keeps a host thread for longer than this does not come back.
double away(double patience) { return 2 * patience + 30; }

std::unique_ptr<StreamDevice> opened(const CudaPlugin& plugin, int device) {
    std::unique_ptr<StreamDevice> out;
    if (const Status s = plugin.open(device, out); !s.ok())
        throw LibraryFailed("GPU " + std::to_string(device) + ": " + s.message, s.cause);
    return out;
}

// Made by rank 0's device, handed on by the store.
WorldId id_of(StreamDevice& device, Store& store, int rank, double patience) {
    WorldId id{};
    if (rank == 0) {
        if (const Status s = device.world_id(id); !s.ok()) throw LibraryFailed("an id for the ranks: " + s.message, s.cause);
        store.set("world", std::string(id.begin(), id.end()));
    }
    const std::string text = wait_for(store, "world", patience, {"rank 0 has not told how to connect to it"});
    std::copy_n(text.begin(), std::min(text.size(), id.size()), id.begin());
    return id;
}

// Kept by a process that is launched as one rank; rank 0 keeps the store itself, and leaves last.
struct Meeting {
    std::unique_ptr<StoreServer> server;
    std::shared_ptr<Store> store;

    Meeting() = default;
    Meeting(const Meeting&) = delete;
    Meeting& operator=(const Meeting&) = delete;
    ~Meeting() {
        constexpr double longest = 5; // seconds: a library may keep a rank whose job has failed
        if (server) server->see_off(0, longest);
    }
};

} // namespace

// Streams beyond that many share a connection to the device (8 where nothing is set, 32 at most: CUDA's programming guide), and work that
// waits in one of them holds up the other: a rank of a pipeline with experts has more than 8.
void prepare_cuda() {
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
    setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", 0); // here, for no other thread reads the environment yet
}

Fleet cuda_fleet(const World& world, const std::optional<LaunchedRank>& launched, double patience) {
    prepare_cuda();
    std::string why_not;
    const CudaPlugin* const plugin = load_cuda(why_not);
    const int gpus = plugin ? plugin->devices(why_not) : 0;
    if (gpus == 0) throw std::runtime_error("there is no GPU to be had: " + why_not);
    Fleet fleet;
    fleet.name = "queues, CUDA";
    fleet.software = plugin->versions();
    fleet.separate_memory = true;
    fleet.patience = patience;
    fleet.last_resort = away(patience);
    const auto ranks = std::ranges::count_if(world.ranks, [](const auto& r) { return r != nullptr; });
    if (!launched) {
        if (ranks > gpus)
            throw std::runtime_error(
                "the scenario has " + std::to_string(ranks) + " ranks, and there are " + std::to_string(gpus) +
                " GPUs: start a process a GPU with torchrun or mpirun, or put all ranks on one with --executor serial");
        for (int i = 0; i < ranks; ++i) fleet.devices.push_back(opened(*plugin, i));
        fleet.store = std::make_shared<LocalStore>();
    } else {
        if (gpus > 1 && launched->local_size > gpus) // with one each process may have been given its own
            throw std::runtime_error(
                std::to_string(launched->local_size) + " processes of this machine have " + std::to_string(gpus) +
                " GPUs (CUDA_VISIBLE_DEVICES counts): start as many as there are GPUs, for no two ranks of NCCL share one");
        fleet.devices.push_back(opened(*plugin, launched->local_rank % gpus));
        const auto meeting = std::make_shared<Meeting>();
        const MeetingPlace at = meeting_place(*launched);
        const std::string job = launched->by + ", " + std::to_string(launched->size) + " processes, " + launched->job;
        if (launched->rank == 0) meeting->server = std::make_unique<StoreServer>(at.port, job);
        meeting->store = std::make_shared<TcpStore>(at.host, at.port, launched->rank, patience, job);
        fleet.store = meeting->store;
        fleet.keeps = meeting;
    }
    const int first = launched ? launched->rank : 0;
    fleet.world_id = [device = fleet.devices[0].get(), store = fleet.store, first, patience] {
        return id_of(*device, *store, first, patience);
    };
    return fleet;
}

} // namespace orrery

// The asynchronous executor: of each device one host thread that walks the plan's issue order once and gives every queue what it has to do;
// what crosses queues waits on events, memory is planned, nothing is allocated in a step. Devices may be the processor's streams or GPUs.
#pragma once

#include "exec/local/executor.hpp"
#include "exec/queues/device.hpp"
#include "exec/queues/store.hpp"

#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace orrery {

inline constexpr int exit_code_lost = 6; // of a process that a library keeps: as simexec ends where a rank was lost

// The devices of this process's ranks, and how they find each other.
struct Fleet {
    std::string name = "queues";
    std::vector<std::unique_ptr<StreamDevice>> devices; // of the world's ranks that are here, ascending
    // The id all ranks of the job connect with: one of them makes it, all get it.
    std::function<WorldId()> world_id;
    std::function<std::exception_ptr()> failure{}; // the cause of a device's bad status, where it is known; may be null
    std::function<bool()> stands_still{};          // nothing can ever go on; may be null: only time tells
    std::string software{};                        // libraries and their versions: must be the same on all ranks
    bool separate_memory = false;                  // a device has memory of its own, and the world's is its mirror
    std::shared_ptr<Store> store{};                // words between the ranks; null: all are in this process
    std::shared_ptr<void> keeps{};                 // what must outlive the devices
    // For the only rank here, by issue, in ns: its communications take these delays, and no other rank is needed.
    std::vector<std::int64_t> delays{};
    double last_resort = 0; // seconds a host thread may be away inside a library before the process ends; 0: for ever
    double patience = 60;   // seconds that a communication may take without any end
};

// Every rank of the world on the processor's own streams.
Fleet cpu_fleet(const World& world);

// Begins with the world's memory as it is: initialise or restore it first. Connects all communicators: every process of the job at once.
std::unique_ptr<Executor> queues_executor(World& world, Fleet fleet);
std::unique_ptr<Executor> queues_executor(World& world); // on the processor

} // namespace orrery

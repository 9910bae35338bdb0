// The state that the stand-ins of the CUDA runtime and NCCL share. Internal to tests/fakes.
#pragma once

#include "tests/fakes/fakes.hpp"

#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <thread>

namespace orrery::fake {

struct Marker { // an event as it was recorded last
    bool done = false;
    std::int64_t at = 0;
};

struct State {
    std::mutex mutex;
    std::condition_variable changed;
    int devices = 0;
    int polls = 0;
    std::map<void*, std::size_t> allocations;
    std::set<void*> streams, events;
    std::vector<std::string> misuse;
    struct Failure {
        std::string call;
        int rank;
        int result;
    };
    std::vector<Failure> failures;
    std::map<int, int> hang_after; // by device: calls that still run
    bool hang_abort = false;
    int most_launches = 0;
    std::map<int, std::size_t> taken; // by device: by communicators
    int aborted = 0;
    std::map<int, std::vector<Launched>> launched;
    std::map<int, std::shared_ptr<bool>> latest; // by device: whether NCCL's latest kernel has begun
    std::map<std::string, std::shared_ptr<void>> ids;
    int next_id = 0;
};

State& state();
int current_device();
int device_of(cudaStream_t stream);
std::optional<int> failure_of(const std::string& call, int rank); // that a test has asked for; under no lock
void misused(const std::string& what);                            // under no lock

} // namespace orrery::fake

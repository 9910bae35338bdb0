// The state that CPU streams and communicators share, under one lock. Internal. Whoever may go on is counted (`active`): a thread that
// waits is taken out by itself, and put back by whoever makes what it waits for true, so that a standstill is seen exactly.
#pragma once

#include "exec/queues/cpu_streams.hpp"

#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

namespace orrery {

// A thread that can be taken out of and put back into the count.
struct Sleeper {
    std::condition_variable woken;
    bool awake = false;
};

struct CpuEvent {
    bool done = false;
    std::int64_t at = 0; // ns
    std::vector<Sleeper*> waiters;
};

struct CpuComm;

// One call of a communicator, posted by a group.
struct CpuGroup;
struct CpuCall {
    enum class Kind : std::uint8_t { all_reduce, reduce_scatter, all_gather, send, receive } kind;
    std::shared_ptr<CpuComm> comm;
    int member = 0, peer = -1;
    std::byte* in = nullptr;
    std::byte* out = nullptr;
    std::int64_t elements = 0;
    DType dtype = DType::fp32;
    bool maximum = false;
    std::shared_ptr<CpuGroup> group{}; // of a call that was posted
};
struct CpuGroup {
    std::vector<CpuCall> calls;
    std::size_t pending = 0;
    Sleeper* stream = nullptr;
};

// State of a communicator: the arrivals at its collectives, in each member's order, and messages in flight.
struct CpuComm {
    std::string name;
    int size = 1;
    struct Round {
        std::vector<CpuCall> calls;
    }; // by member; those that have not come have no group
    std::map<std::int64_t, Round> rounds;
    std::vector<std::int64_t> next;                                     // by member: its next collective
    std::map<std::pair<int, int>, std::deque<CpuCall>> sends, receives; // by (from, to)
    struct Split {
        std::vector<std::pair<int, int>> wishes;
        int come = 0;
        std::map<int, std::shared_ptr<CpuComm>> made;
    };
    std::map<int, Split> splits;
    std::vector<int> next_split; // by member
};

struct CpuTask {
    std::function<void()> work{};
    std::shared_ptr<CpuEvent> record{}, wait{};
    std::shared_ptr<CpuGroup> group{};
};

struct CpuFabric::State {
    explicit State(CpuKernel k) : kernel(std::move(k)) {}

    CpuKernel kernel;
    mutable std::mutex mutex;
    std::condition_variable connected; // for set-up: connect and split
    int active = 0;                    // threads that can go on
    int blocked = 0;                   // streams that have work and cannot
    bool still = false, aborted = false;
    std::exception_ptr failure;
    std::map<std::string, std::shared_ptr<CpuComm>> worlds;
    int worlds_made = 0;

    using Lock = std::unique_lock<std::mutex>;
    bool broken() const { return still || aborted || failure; }

    void wake(Sleeper& s) {
        if (s.awake) return;
        s.awake = true;
        ++active;
        s.woken.notify_one();
    }
    void sleep(Sleeper& s) { // the caller waits for s.woken then
        s.awake = false;
        --active;
        if (active == 0 && blocked > 0) fail_still();
    }
    void fail_still();
    void fail(std::exception_ptr e);
    void wake_all();

    std::vector<Sleeper*> sleepers; // all of them
    // Posts every call of the group, does what can be done; the group's stream waits until none is pending. Under the lock.
    void post(Lock& lock, const std::shared_ptr<CpuGroup>& group);

  private:
    void arrive(Lock& lock, CpuCall call);
    void meet(Lock& lock, CpuComm& comm, const CpuComm::Round& round);
    void carry(Lock& lock, const CpuComm& comm, const CpuCall& send, const CpuCall& receive);
    void done(const CpuCall& call);
};

std::unique_ptr<StreamCommunicator> cpu_communicator(std::shared_ptr<CpuFabric::State> state, std::shared_ptr<CpuComm> comm, int member,
                                                     std::function<void(QueueId, CpuCall)> add);

} // namespace orrery

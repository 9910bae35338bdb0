// One rank of the asynchronous executor: its device, its program, its communicators. All calls from one host thread. Internal.
#pragma once

#include "exec/local/standstill.hpp"
#include "exec/mpi/processes.hpp"
#include "exec/queues/executor.hpp"
#include "exec/queues/last_resort.hpp"
#include "exec/queues/program.hpp"
#include "exec/queues/store.hpp"
#include "topology/indexed.hpp"

#include <atomic>
#include <deque>
#include <optional>
#include <set>
#include <stdexcept>
#include <tuple>

namespace orrery {

// Shared by the ranks of a job: their progress, and the failure of a rank.
struct Job {
    std::shared_ptr<Store> store;
    double patience = 60, last_resort = 0;
    bool all_here = true;          // every rank of the world is in this process
    std::atomic<bool> stop{false}; // a rank of this process has failed

    std::int64_t step_began = 0; // on this process's clock: of the rank that all times are told from

    bool stopped(); // here or anywhere; asks the store now and then
    // Tells all; whether it is the first failure that they hear of. Nothing: there is nobody to tell, for rank 0's process is gone.
    std::optional<bool> fail(const std::string& why);
    std::string why(); // it has stopped; empty: it has not

  private:
    std::atomic<std::int64_t> asked_{0};
};

// Another rank has failed: this one only leaves.
struct Left : std::runtime_error {
    using std::runtime_error::runtime_error;
};

class Runner {
  public:
    Runner(World& world, Rank& rank, StreamDevice& device, const StagePlan& stage, Job& job, const Fleet& fleet);
    ~Runner();
    Runner(const Runner&) = delete;
    Runner& operator=(const Runner&) = delete;

    void warm_kernels();                    // each once, on zeros: what a device allocates or compiles for them it must not in a step
    void connect(const WorldId& id);        // and each communicator's unlike calls once, so that no step pays for them
    void upload();                          // the world's memory between steps, to the device
    void fetch();                           // and back
    void step(std::vector<OpTime>* record); // record: only this rank's
    void take_kept();                       // of the step, into the world's: losses, what routers chose. One rank at a time
    void leave();                           // after a failure: communicators are aborted, streams left alone
    void share_losses();                    // with the ranks of other processes
    bool retire();                          // takes note of communications and actions that have ended; whether there were any
    // How far this rank is, to the store: at once, or now and then.
    void tell(bool at_once);
    std::string waits(); // the first communication that waits, and for whom; empty: none
    Stand stand();       // where nothing moves any more
    int rank() const { return rank_.rank; }
    std::int64_t allocated() const {
        return stage_.layout.extent[0] + staged_;
    } // bytes of device memory: buffers, and what is copied through
    const std::vector<CommunicatorMemory>& communicators() const { return taken_; }
    StreamDevice& device() { return device_; }

  private:
    enum class Peers : std::uint8_t { none, neighbours, all };
    struct CommUse { // by a plan's ops: what a library connects members for
        bool sums = false;
        Peers peers = Peers::none;
    };
    std::vector<CommUse> uses() const;
    using Shapes = std::set<std::tuple<std::size_t, int, std::int64_t, std::int64_t>>; // of ops on experts' rows
    void warm_rows(std::size_t i, Shapes& seen);
    bool alike_on_stages(CommId c) const;
    void warm_calls(CommId c);
    void warm_losses();
    std::int64_t losses_at_once() const;
    std::int64_t free_memory();
    std::int64_t words_of(CommId c) const;
    const std::vector<int>& members(CommId c) const { return world_.members[c][rank_.rank]; }
    struct Timed {
        std::int32_t issue;
        EventId begin, end;
        ByEnum<MemoryKind, std::int64_t, memory_kind_count> memory;
    };
    struct Pending {
        std::int32_t issue;
        EventId end;
    };

    void issue(std::size_t i);
    void gather_queues(const QueuedIssue& q);
    void release_queues(const QueuedIssue& q);
    void compute(std::size_t i);
    bool watched(const Op& op) const;
    void communicate(std::size_t i);
    void stores(std::size_t i);
    void stand_in(std::size_t i);
    void call(const CommCalls& calls, QueueId home, bool each_on_its_own);
    void wait_on_host(EventId event, const char* what);
    void synchronise(bool with_others = false); // with_others: it waits on as long as one of the job's ranks gets on
    void finish();
    struct Reach {
        std::vector<std::int64_t> reached;
        std::int32_t first;
    };
    Reach reach();
    std::int64_t weight(std::int32_t issue, QueueId q) const;
    struct Peer {
        bool there;
        std::string stands;
    };
    Peer peer(int rank, CommId c, std::int64_t calls);
    std::string stands();
    LostPeer no_progress();
    void report(std::vector<OpTime>& record);
    void warm_up(CommId c, const CommUse& use, std::byte* words);
    void measured(const std::string& what, std::int64_t& free);
    void check(const Status& s, const char* what);
    EventId mark(QueueId q); // recycled when the step is over
    struct Armed {           // the last resort, until it goes
        LastResort* last_resort;
        ~Armed() {
            if (last_resort) last_resort->disarm();
        }
    };
    Armed arm(double seconds);
    void beat();
    void look_at_communicators();
    QueueId home(std::int32_t issue) const { return stage_.queues[issue].queues[0]; }
    const Issue& at(std::size_t i) const { return rank_.order->issues[i]; }

    World& world_;
    Rank& rank_;
    StreamDevice& device_;
    const StagePlan& stage_;
    Job& job_;
    bool separate_;
    const std::vector<std::int64_t>& delays_; // empty: communication is real
    RankPlaces places_;
    std::vector<std::byte*> owned_;
    std::int64_t staged_ = 0; // bytes
    // A copy to memory that is not the library's own keeps the host thread until all before it has ended (CUDA's API synchronization
    // behavior): it could not look whether its peers are still there. kept_, counts_ and host_losses_ are the host's.
    std::byte *kept_ = nullptr, *counts_ = nullptr, *shared_losses_ = nullptr, *host_losses_ = nullptr;
    std::size_t issued_ = 0;
    RankProgram program_;
    std::unique_ptr<StreamCommunicator> everyone_;
    std::vector<std::unique_ptr<StreamCommunicator>> comms_; // by CommId; null: not a member
    std::vector<CommunicatorMemory> taken_;
    std::vector<EventId> ends_; // by issue: of this step, where it was recorded
    std::vector<EventId> used_;
    std::vector<Timed> timed_;
    std::vector<std::deque<Pending>> pending_; // by queue: communications that have not ended, as far as is known
    std::deque<EventId> pulses_;               // computation up to the end of each action that has not ended, as far as is known
    std::vector<std::int64_t> ended_;          // by queue: calls and transfers that have
    std::unique_ptr<LastResort> last_resort_;  // null: none asked for
    bool timing_ = false;
    EventId base_ = -1;
    std::int64_t began_ = 0;
    std::int64_t told_ = 0;
};

} // namespace orrery

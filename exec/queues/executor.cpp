#include "exec/queues/executor.hpp"

#include "exec/local/clock.hpp"
#include "exec/local/waits.hpp"
#include "exec/mpi/processes.hpp"
#include "exec/queues/cpu_streams.hpp"
#include "exec/queues/runner.hpp"
#include "topology/check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <thread>

namespace orrery {
namespace {

const char* name_of(DType real) { return name(real); } // inside Queues, name() is its own

// The failure of another rank that this one hears of.
std::exception_ptr why_left(Store& store) {
    try {
        throw_if_failed(store);
        throw SaidElsewhere("another rank has failed");
    } catch (const StoreLost& e) { return std::make_exception_ptr(PeerGone(e.what(), 0)); } catch (const std::exception&) {
        return std::current_exception();
    }
}

// A failure that is not the job's first: the same NaN, or a peer that has left because of the first, needs no words of its own.
std::exception_ptr told(const std::exception_ptr& failure, std::optional<bool> first) {
    if (first == true) return failure;
    try {
        std::rethrow_exception(failure);
    } catch (const NotFinite& e) {
        return first ? std::make_exception_ptr(NotFiniteElsewhere(e.what())) : failure;
    } catch (const LostPeer&) {
        return first ? nullptr : std::make_exception_ptr(PeerGone(store_lost, 0)); // nullptr: as the store has it
    } catch (...) { return failure; }
}

class Queues final : public Executor {
  public:
    Queues(World& world, Fleet fleet) : world_(world), fleet_(std::move(fleet)) {
        job_.patience = fleet_.patience;
        job_.last_resort = fleet_.last_resort;
        job_.store = fleet_.store ? fleet_.store : std::make_shared<LocalStore>();
        job_.all_here = !fleet_.delays.empty() || std::ranges::all_of(world_.ranks, [](const auto& r) { return r != nullptr; });
        std::size_t next = 0;
        for (auto& rank : world_.ranks) {
            if (!rank) continue;
            if (!stages_.contains(rank->stage)) stages_.emplace(rank->stage, stage_plan(world_, *rank));
            runners_.push_back(std::make_unique<Runner>(world_, *rank, *fleet_.devices.at(next++), stages_.at(rank->stage), job_, fleet_));
        }
        require(job_.all_here || runners_.size() == 1, "of ranks in several processes each process has one");
        if (!job_.all_here) {
            agree();
            offset_ = job_.store->clock_offset();
        }
        const WorldId id = fleet_.delays.empty() ? fleet_.world_id() : WorldId{};
        on_all([&](Runner& r, std::size_t) {
            r.warm_kernels();
            r.connect(id);
            r.upload();
        });
    }
    // No process leaves, and takes the store or its connections away, while others are still at work. Ranks end at once: a library may
    // let a communicator go only where all its members of this machine do (NCCL's init.cc: commDestroySync waits for them).
    ~Queues() override {
        if (!job_.all_here && !job_.stop) {
            try {
                barrier(*job_.store, "the end", world_.plan.mesh.ranks(), fleet_.patience);
            } catch (const std::exception&) { // whoever is not there any more needs nobody
            }
        }
        std::vector<std::jthread> threads;
        for (auto& r : runners_) threads.emplace_back([&r] { r.reset(); });
    }
    const char* name() const override { return fleet_.name.c_str(); }
    std::int64_t allocated(const Rank& rank) const override {
        for (const auto& r : runners_)
            if (r->rank() == rank.rank) return r->allocated();
        return 0;
    }
    std::vector<CommunicatorMemory> communicators(const Rank& rank) const override {
        for (const auto& r : runners_)
            if (r->rank() == rank.rank) return r->communicators();
        return {};
    }
    void fetch() override {
        for (auto& r : runners_) r->fetch();
    }

    void step(std::vector<OpTime>* record) override {
        std::vector<std::vector<OpTime>> records(runners_.size());
        if (!job_.all_here) std::ranges::fill(world_.losses, 0.0);
        if (record) begin_times();
        std::mutex one;
        on_all([&](Runner& r, std::size_t i) {
            r.step(record ? &records[i] : nullptr);
            const std::lock_guard lock(one);
            r.take_kept();
        });
        if (!job_.all_here)
            on_all([&](Runner& r, std::size_t i) {
                if (i == 0) r.share_losses();
            });
        if (record) {
            for (auto& mine : records) record->insert(record->end(), mine.begin(), mine.end());
            if (job_.all_here) find_begins(world_, *record);
        }
        move_loss_scale(world_, !fleet_.delays.empty());
    }

  private:
    template <class F> void on_all(F&& work);
    void agree();
    void begin_times();
    std::string blocked();

    World& world_;
    Fleet fleet_;
    Job job_;
    std::map<int, StagePlan> stages_;
    std::vector<std::unique_ptr<Runner>> runners_;
    std::int64_t offset_ = 0; // of the common clock
    int timed_steps_ = 0;
};

// Ranks of other processes must have the same plan, element type and libraries: the first that has not is named.
void Queues::agree() {
    const auto mine = [&](const std::string& key) { return "hello " + key; };
    const std::string words = fmt::format("plan {:016x}, elements {}, {}", hash(world_.plan), name_of(world_.real), fleet_.software);
    for (auto& r : runners_) job_.store->set(mine(std::to_string(r->rank())), words);
    for (int rank = 0; rank < world_.plan.mesh.ranks(); ++rank) {
        const std::string theirs = wait_for(*job_.store, mine(std::to_string(rank)), fleet_.patience,
                                            {fmt::format("rank {} has not come", rank), ": was its process started?"});
        if (theirs != words)
            throw LostPeer(fmt::format("rank {} has {}, and rank {} has {}: start all ranks with the same program, scenario and options",
                                       rank, theirs, runners_[0]->rank(), words));
    }
}

// All times of a step are told from rank 0's beginning of it, on one clock.
void Queues::begin_times() {
    job_.step_began = wall_ns();
    if (job_.all_here) return;
    const std::string key = fmt::format("step {} began", timed_steps_++);
    if (runners_[0]->rank() == 0) job_.store->set(key, std::to_string(job_.step_began + offset_));
    job_.step_began = std::stoll(wait_for(*job_.store, key, fleet_.patience, {"rank 0 has not begun its step"})) - offset_;
}

// Each rank on a host thread of its own; the first failure is everyone's.
template <class F> void Queues::on_all(F&& work) {
    std::mutex mutex;
    std::exception_ptr failure;
    bool still = false; // when the first one noticed: a rank that fails leaves others waiting, which is no standstill
    const auto stands_still = [&] { return fleet_.stands_still && fleet_.stands_still(); };
    for (auto& r : runners_) r->device().host_begins();
    const auto run = [&](std::size_t i) {
        try {
            work(*runners_[i], i);
        } catch (const Left&) {
        } catch (const StoreLost& e) {
            const std::lock_guard lock(mutex);
            if (!failure) failure = std::make_exception_ptr(PeerGone(e.what(), 0));
            job_.stop = true;
        } catch (const std::exception& e) {
            const std::lock_guard lock(mutex);
            if (!failure) {
                failure = std::current_exception();
                still = stands_still();
            }
            const std::optional<bool> first = job_.fail(e.what());
            if (!job_.all_here) failure = told(failure, first);
        }
        runners_[i]->device().host_ends();
    };
    if (runners_.size() == 1) {
        run(0);
    } else {
        std::vector<std::jthread> threads;
        for (std::size_t i = 0; i < runners_.size(); ++i) threads.emplace_back(run, i);
    }
    const bool left = !failure && job_.stopped();
    if (!failure && !left) return;
    const std::exception_ptr elsewhere = failure ? nullptr : why_left(*job_.store); // the store may go while this one leaves
    const std::string who = still || (!failure && stands_still()) ? blocked() : "";
    {
        std::vector<std::jthread> threads; // all at once: an abort may wait for another's
        for (auto& r : runners_) threads.emplace_back([&r] { r->leave(); });
    }
    if (fleet_.failure)
        if (const std::exception_ptr cause = fleet_.failure()) std::rethrow_exception(cause);
    if (!who.empty()) throw StandsStill(who);
    std::rethrow_exception(failure ? failure : elsewhere);
}

std::string Queues::blocked() {
    std::vector<Stand> stands;
    for (auto& r : runners_) stands.push_back(r->stand());
    return to_text(orrery::blocked(world_, stands));
}

} // namespace

Fleet cpu_fleet(const World& world) {
    const auto fabric = std::make_shared<CpuFabric>(world.machine.kernel);
    Fleet fleet;
    for (const auto& rank : world.ranks)
        if (rank) fleet.devices.push_back(fabric->device());
    StreamDevice* const first = fleet.devices.empty() ? nullptr : fleet.devices[0].get();
    fleet.world_id = [first] {
        WorldId id{};
        first->world_id(id);
        return id;
    };
    fleet.failure = [fabric] { return fabric->failure(); };
    fleet.stands_still = [fabric] { return fabric->stands_still(); };
    fleet.keeps = fabric;
    return fleet;
}

std::unique_ptr<Executor> queues_executor(World& world, Fleet fleet) { return std::make_unique<Queues>(world, std::move(fleet)); }
std::unique_ptr<Executor> queues_executor(World& world) { return queues_executor(world, cpu_fleet(world)); }

} // namespace orrery

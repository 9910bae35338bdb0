// The executor of one rank among processes. One thread issues in order and computes, as the serial executor's host does; another moves
// communications on, which are state machines over messages: they progress while kernels run. A reduction sends each member its part of
// everyone's summands and adds them in the communicator's order; an all-reduce is that and a gather: the serial executor's sums, to the
// bit.
#include "exec/mpi/processes.hpp"

#include "exec/local/clock.hpp"
#include "exec/local/collectives.hpp"
#include "exec/local/meeting.hpp"
#include "topology/check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>

namespace orrery {
namespace {

constexpr int first_tag = 16; // + communicator

// A message under way, in memory of its own.
struct Message {
    int peer = 0;
    bool send = false;
    std::vector<std::byte> data;
    void* request = nullptr;
};

struct Task {
    Attendance side;
    std::int32_t issue = 0;
    std::int64_t begun_at = 0;
    bool begun = false;
    int phase = 0; // of an all-reduce: 0 its parts, 1 the gather
    std::vector<std::unique_ptr<Message>> messages;
    std::vector<QueueId> queues;
    std::vector<std::byte> part; // of an all-reduce: this rank's sum
};

class Processes final : public Executor {
  public:
    Processes(World& world, const OrreryTransport& transport, double patience)
        : world_(world), t_(transport), rank_(world.rank(transport.rank)), patience_(patience),
          queues_(static_cast<std::size_t>(first_comm_queue) + world.plan.communicators.size()), done_(rank_.order->issues.size()) {}
    ~Processes() override { // where a step has failed, messages may still come into their memory
        for (auto& task : tasks_) static_cast<void>(task.release());
        static_cast<void>(everyones_losses_.release());
    }
    Processes(const Processes&) = delete;
    Processes& operator=(const Processes&) = delete;
    const char* name() const override { return "mpi"; }
    void step(std::vector<OpTime>* record) override;

  private:
    bool ready(const Issue& i) const {
        for (std::int32_t d : rank_.order->deps_of(i))
            if (!done_[d]) return false;
        return true;
    }
    using Lock = std::unique_lock<std::mutex>;

    void compute();
    void run_now(Lock& lock, const Issue& issue);
    void post(const Issue& issue);
    template <class F> void wait(Lock& lock, F&& holds);
    void carry();
    bool progress(Lock& lock);
    bool may_begin(Task& task) const;
    void begin(Task& task);
    void begin_parts(Task& task);
    bool move(Task& task);
    void end(Task& task);
    void send(Task& task, int peer, int tag, std::vector<std::byte> data);
    void receive(Task& task, int peer, int tag, std::int64_t bytes);
    void share_losses();
    void on_one_clock(std::vector<OpTime>& record);
    std::string waits() const;
    std::int64_t now() const { return wall_ns() - began_; }
    int index_in(const std::vector<int>& members) const {
        return static_cast<int>(std::find(members.begin(), members.end(), rank_.rank) - members.begin());
    }
    const std::vector<int>& members_of(const Task& task) const {
        return world_.members[std::get<Collective>(task.side.issue->op->work).comm][rank_.rank];
    }

    std::mutex mutex_;  // of all below but what a task's own messages are
    std::mutex moving_; // held while a task is worked at without the other
    std::condition_variable changed_;
    std::uint64_t moves_ = 0;
    bool over_ = false;          // the step is, or has failed
    std::exception_ptr failure_; // of the thread that carries

    World& world_;
    const OrreryTransport& t_;
    Rank& rank_;
    double patience_;
    std::vector<std::deque<Task*>> queues_;
    std::vector<std::unique_ptr<Task>> tasks_;
    std::vector<char> done_;
    std::size_t next_ = 0;
    std::vector<OpTime>* record_ = nullptr;
    std::int64_t began_ = 0;
    std::optional<std::int64_t> offset_; // of rank 0's clock
    std::vector<Operand> in_, out_;
    std::unique_ptr<std::vector<std::vector<double>>> everyones_losses_; // while they are under way
};

void Processes::step(std::vector<OpTime>* record) {
    record_ = record;
    began_ = wall_ns();
    next_ = 0;
    moves_ = 0;
    over_ = false;
    failure_ = nullptr;
    std::fill(done_.begin(), done_.end(), 0);
    std::fill(world_.losses.begin(), world_.losses.end(), 0.0);
    {
        const std::jthread carrier([this] { carry(); });
        try {
            compute();
        } catch (...) {
            const Lock lock(mutex_);
            if (!failure_) failure_ = std::current_exception();
        }
        const Lock lock(mutex_);
        over_ = true;
        changed_.notify_all();
    }
    if (failure_) std::rethrow_exception(failure_);
    share_losses();
    if (record) on_one_clock(*record);
    move_loss_scale(world_);
}

// The length of a step that all ranks record.
void Processes::on_one_clock(std::vector<OpTime>& record) {
    if (!offset_) offset_ = clock_offset(t_, patience_);
    const std::int64_t shift = began_ + *offset_ - gather_over_ranks(t_, {began_}, patience_)[0][0];
    for (OpTime& x : record)
        for (std::int64_t* at : {&x.posted, &x.begin, &x.end}) *at = std::max<std::int64_t>(0, *at + shift);
}

// Until `holds`, which the thread that carries makes true.
template <class F> void Processes::wait(Lock& lock, F&& holds) {
    std::uint64_t seen = moves_;
    for (std::int64_t since = wall_ns(); !holds();) {
        changed_.wait_for(lock, std::chrono::milliseconds(50));
        if (failure_) std::rethrow_exception(failure_);
        if (moves_ != seen) {
            seen = moves_;
            since = wall_ns();
        } else if (static_cast<double>(wall_ns() - since) > patience_ * 1e9) {
            const std::lock_guard still(moving_);
            throw LostPeer(waits());
        }
    }
}

void Processes::compute() {
    Lock lock(mutex_);
    for (; next_ < done_.size(); ++next_) {
        const Issue& issue = rank_.order->issues[next_];
        const Op& op = *issue.op;
        if (const auto* a = std::get_if<Alloc>(&op.work)) {
            rank_.memory.allocate(a->buffer, issue.microbatch);
            done_[next_] = 1;
        } else if (const auto* f = std::get_if<Free>(&op.work)) {
            rank_.memory.release(f->buffer, issue.microbatch);
            done_[next_] = 1;
        } else if (op.queue >= first_comm_queue) {
            post(issue);
            changed_.notify_all();
        } else {
            wait(lock, [&] { return ready(issue); });
            run_now(lock, issue);
        }
    }
    wait(lock, [&] { return tasks_.empty(); });
}

void Processes::run_now(Lock& lock, const Issue& issue) {
    in_.clear();
    out_.clear();
    for (BufferId b : issue.op->in) in_.push_back(rank_.memory.operand(b, issue.microbatch));
    for (BufferId b : issue.op->out) out_.push_back(rank_.memory.operand(b, issue.microbatch));
    const auto memory = rank_.memory.device().by_kind;
    lock.unlock();
    const std::int64_t begin = now(), cpu_begin = cpu_ns();
    run_op(world_, rank_, issue, in_, out_);
    const std::int64_t end = now(), cpu = cpu_ns() - cpu_begin;
    lock.lock();
    done_[next_] = 1;
    if (record_) record_->push_back({rank_.rank, static_cast<std::int32_t>(next_), -1, begin, begin, end, cpu, memory});
    if (!tasks_.empty()) changed_.notify_all();
}

void Processes::post(const Issue& issue) {
    auto task = std::make_unique<Task>();
    task->side = attend(rank_, issue, *rank_.order);
    task->issue = static_cast<std::int32_t>(next_);
    task->queues = queues_of(*issue.op);
    for (QueueId q : task->queues) queues_[q].push_back(task.get());
    tasks_.push_back(std::move(task));
}

// The thread that communicates. All calls of the transport in a step are its own.
void Processes::carry() {
    Lock lock(mutex_);
    try {
        for (int idle = 0; !over_;) {
            if (progress(lock)) {
                ++moves_;
                idle = 0;
                changed_.notify_all();
                continue;
            }
            const bool under_way = std::any_of(tasks_.begin(), tasks_.end(), [](const auto& t) { return t->begun; });
            if (!under_way) {
                changed_.wait_for(lock, std::chrono::milliseconds(1));
                continue;
            }
            lock.unlock();
            if (++idle > 200)
                std::this_thread::sleep_for(std::chrono::microseconds(50)); // more ranks than processors: let the others run
            else
                std::this_thread::yield();
            lock.lock();
        }
    } catch (...) {
        if (!lock.owns_lock()) lock.lock();
        if (!failure_) failure_ = std::current_exception();
        changed_.notify_all();
    }
}

bool Processes::may_begin(Task& task) const {
    return std::all_of(task.queues.begin(), task.queues.end(), [&](QueueId q) { return queues_[q].front() == &task; }) &&
           ready(*task.side.issue);
}

bool Processes::progress(Lock& lock) {
    bool moved = false;
    const auto unlocked = [&](auto&& work) {
        lock.unlock();
        bool result = false;
        {
            const std::lock_guard working(moving_);
            result = work();
        }
        lock.lock();
        return result;
    };
    for (std::size_t i = 0; i < tasks_.size() && !over_; ++i) {
        Task& task = *tasks_[i];
        if (!task.begun) {
            if (!may_begin(task)) continue;
            task.begun = true;
            task.begun_at = now();
            moved = unlocked([&] { return begin(task), true; });
        }
        if (!unlocked([&] { return move(task); })) continue;
        end(task);
        moved = true;
        --i;
    }
    return moved;
}

void Processes::send(Task& task, int peer, int tag, std::vector<std::byte> data) {
    auto m = std::make_unique<Message>(Message{peer, true, std::move(data), nullptr});
    m->request = t_.send(peer, first_tag + tag, m->data.data(), m->data.size());
    task.messages.push_back(std::move(m));
}

void Processes::receive(Task& task, int peer, int tag, std::int64_t bytes) {
    auto m = std::make_unique<Message>(Message{peer, false, std::vector<std::byte>(static_cast<std::size_t>(bytes)), nullptr});
    m->request = t_.receive(peer, first_tag + tag, m->data.data(), m->data.size());
    task.messages.push_back(std::move(m));
}

void Processes::begin(Task& task) {
    if (const auto* x = std::get_if<Exchange>(&task.side.issue->op->work)) {
        for (std::size_t k = 0; k < x->transfers.size(); ++k) {
            const Transfer& tr = x->transfers[k];
            const Operand& o = end_of(task.side, k);
            const std::int64_t bytes = elements(*o.buffer) * static_cast<std::int64_t>(stored_bytes(o.buffer->dtype, world_.real));
            for (int m : world_.members[tr.comm][rank_.rank]) {
                if (m == rank_.rank) continue;
                if (tr.send)
                    send(task, m, tr.comm, std::vector<std::byte>(o.data, o.data + bytes));
                else
                    receive(task, m, tr.comm, bytes);
            }
        }
        return;
    }
    if (std::holds_alternative<Collective>(task.side.issue->op->work)) begin_parts(task);
}

// The part of this member's input that each member needs, as one message to each (itself included).
void Processes::begin_parts(Task& task) {
    const auto& work = std::get<Collective>(task.side.issue->op->work);
    const auto& members = members_of(task);
    const Parts parts = parts_to_send(world_, task.side, index_in(members), static_cast<int>(members.size()), task.phase, task.part);
    for (std::size_t m = 0; m < members.size(); ++m) {
        send(task, members[m], work.comm, parts.to[m]);
        receive(task, members[m], work.comm, parts.from[m]);
    }
}

bool Processes::move(Task& task) {
    bool all = true;
    for (auto& m : task.messages) {
        if (m->request && t_.done(m->request)) m->request = nullptr;
        all = all && !m->request;
    }
    if (!all) return false;
    if (const auto* x = std::get_if<Exchange>(&task.side.issue->op->work)) {
        for (std::size_t k = 0, i = 0; k < x->transfers.size(); ++k, ++i)
            if (!x->transfers[k].send) std::memcpy(end_of(task.side, k).data, task.messages[i]->data.data(), task.messages[i]->data.size());
        return true;
    }
    if (!std::holds_alternative<Collective>(task.side.issue->op->work)) {
        run_op(world_, rank_, *task.side.issue, task.side.in, task.side.out);
        return true;
    }
    std::vector<std::vector<std::byte>> received;
    for (auto& m : task.messages)
        if (!m->send) received.push_back(std::move(m->data));
    task.messages.clear();
    if (!take_parts(world_, task.side, index_in(members_of(task)), task.phase, received, task.part)) {
        store(task.side);
        return true;
    }
    ++task.phase;
    begin_parts(task);
    return false;
}

void Processes::end(Task& task) {
    finish(task.side);
    done_[task.issue] = 1;
    if (record_) record_->push_back({rank_.rank, task.issue, -1, task.begun_at, task.begun_at, now(), 0, rank_.memory.device().by_kind});
    for (QueueId q : task.queues) queues_[q].pop_front();
    tasks_.erase(std::find_if(tasks_.begin(), tasks_.end(), [&](const auto& own) { return own.get() == &task; }));
}

// Every token's loss is on one rank: the sum over ranks is all of them, everywhere.
void Processes::share_losses() {
    std::vector<double>& mine = world_.losses;
    everyones_losses_ = std::make_unique<std::vector<std::vector<double>>>(t_.size, std::vector<double>(mine.size()));
    std::vector<std::vector<double>>& all = *everyones_losses_;
    std::vector<void*> requests;
    constexpr int tag = 2;
    for (int r = 0; r < t_.size; ++r) {
        requests.push_back(t_.send(r, tag, mine.data(), mine.size() * sizeof(double)));
        requests.push_back(t_.receive(r, tag, all[r].data(), mine.size() * sizeof(double)));
    }
    const std::int64_t began = wall_ns();
    for (std::size_t i = 0; i < requests.size(); ++i)
        while (!t_.done(requests[i])) {
            if (static_cast<double>(wall_ns() - began) > patience_ * 1e9)
                throw LostPeer(fmt::format("rank {}: the end of the step waits for rank {}, which has not come for {:.0f} s", rank_.rank,
                                           i / 2, patience_));
            std::this_thread::sleep_for(std::chrono::microseconds(50));
        }
    std::fill(mine.begin(), mine.end(), 0.0);
    for (const auto& of_rank : all)
        for (std::size_t i = 0; i < mine.size(); ++i) mine[i] += of_rank[i];
    everyones_losses_.reset();
}

std::string Processes::waits() const {
    const Task* first = nullptr;
    for (const auto& task : tasks_)
        if (task->begun && (!first || task->issue < first->issue)) first = task.get();
    if (!first)
        return fmt::format("rank {}: {} waits for its place in its queues", rank_.rank,
                           next_ < done_.size() ? place(world_.plan, rank_.order->issues[next_]) : "the end of the step");
    const auto pending = [&](bool sends) {
        std::string who;
        for (const auto& m : first->messages)
            if (m->request && m->send == sends) who += fmt::format("{}{}", who.empty() ? "" : ", ", m->peer);
        return who;
    };
    std::string missing = pending(false);         // who has not sent
    if (missing.empty()) missing = pending(true); // or not taken what it is sent
    const Op& op = *first->side.issue->op;
    const auto* c = std::get_if<Collective>(&op.work);
    const CommId comm = c ? c->comm : std::get<Exchange>(op.work).transfers[0].comm;
    return fmt::format("rank {}: {} waits for rank {} on communicator {}: no progress for {:.0f} s", rank_.rank,
                       place(world_.plan, *first->side.issue), missing.empty() ? "?" : missing, world_.plan.communicators[comm].name,
                       patience_);
}

} // namespace

std::unique_ptr<Executor> processes_executor(World& world, const OrreryTransport& transport, double patience) {
    return std::make_unique<Processes>(world, transport, patience);
}

} // namespace orrery

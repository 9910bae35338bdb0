#include "exec/queues/cpu_streams.hpp"

#include "exec/local/clock.hpp"
#include "exec/queues/cpu_state.hpp"
#include "topology/check.hpp"

#include <algorithm>
#include <cstring>
#include <new>

namespace orrery {
namespace {

using State = CpuFabric::State;

// A queue and the thread that serves it.
class Stream {
  public:
    Stream(State& state, std::function<void()> drained) : state_(state), drained_(std::move(drained)) {
        const State::Lock lock(state_.mutex);
        state_.sleepers.push_back(&sleeper_);
        thread_ = std::thread([this] { serve(); });
    }
    ~Stream() {
        {
            const State::Lock lock(state_.mutex);
            over_ = true;
            sleeper_.woken.notify_one();
        }
        thread_.join();
        const State::Lock lock(state_.mutex);
        std::erase(state_.sleepers, &sleeper_);
    }
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;

    void push(CpuTask task) { // under the lock
        tasks_.push_back(std::move(task));
        if (idle_) state_.wake(sleeper_);
    }
    bool empty() const { return tasks_.empty() && idle_; }
    Sleeper& sleeper() { return sleeper_; }

  private:
    void serve() {
        State::Lock lock(state_.mutex);
        for (;;) {
            if (!sleeper_.awake) {
                sleeper_.woken.wait(lock, [this] { return sleeper_.awake || over_; });
                if (over_ && tasks_.empty()) return;
                state_.wake(sleeper_);
            }
            if (tasks_.empty()) {
                idle_ = true;
                drained_();
                state_.sleep(sleeper_);
                continue;
            }
            idle_ = false; // also where it was woken before its thread had begun
            CpuTask task = std::move(tasks_.front());
            tasks_.pop_front();
            perform(lock, task);
        }
    }
    void perform(State::Lock& lock, CpuTask& task) {
        if (state_.broken()) return; // what is left is passed over: who asks sees how far it came
        if (task.record) {
            task.record->done = true;
            task.record->at = wall_ns();
            for (Sleeper* s : task.record->waiters) state_.wake(*s);
            task.record->waiters.clear();
            return;
        }
        if (task.wait)
            return block(lock, [&] {
                if (!task.wait->done) task.wait->waiters.push_back(&sleeper_);
                return task.wait->done;
            });
        if (task.group) {
            task.group->stream = &sleeper_;
            state_.post(lock, task.group);
            return block(lock, [&] { return task.group->pending == 0; });
        }
        lock.unlock();
        std::exception_ptr failure;
        try {
            task.work();
        } catch (...) { failure = std::current_exception(); }
        lock.lock();
        if (failure) state_.fail(failure);
    }
    template <class F> void block(State::Lock& lock, F&& holds) {
        while (!holds() && !state_.broken()) {
            ++state_.blocked;
            state_.sleep(sleeper_);
            sleeper_.woken.wait(lock, [this] { return sleeper_.awake; });
            --state_.blocked;
        }
    }

    State& state_;
    std::function<void()> drained_;
    std::deque<CpuTask> tasks_;
    Sleeper sleeper_;
    bool idle_ = true, over_ = false;
    std::thread thread_;
};

class CpuDevice final : public StreamDevice {
  public:
    explicit CpuDevice(std::shared_ptr<State> state) : state_(std::move(state)) {
        const State::Lock lock(state_->mutex);
        state_->sleepers.push_back(&host_);
    }
    ~CpuDevice() override {
        streams_.clear();
        const State::Lock lock(state_->mutex);
        std::erase(state_->sleepers, &host_);
    }
    std::string name() const override { return "cpu"; }

    Status allocate(std::int64_t bytes, MemorySpace, std::byte** out) override {
        *out = static_cast<std::byte*>(::operator new (static_cast<std::size_t>(bytes), std::align_val_t{256}, std::nothrow));
        return {*out ? "" : "no memory for " + std::to_string(bytes) + " bytes"};
    }
    Status release(std::byte* memory) override {
        ::operator delete (memory, std::align_val_t{256});
        return {};
    }
    Status memory(std::int64_t& free, std::int64_t& total) override {
        free = total = std::int64_t{1} << 62;
        return {};
    }
    Status copy(void* to, const void* from, std::int64_t bytes, QueueId q) override {
        return push(q, {[=] { std::memmove(to, from, static_cast<std::size_t>(bytes)); }});
    }
    Status fill(void* to, int byte, std::int64_t bytes, QueueId q) override {
        return push(q, {[=] { std::memset(to, byte, static_cast<std::size_t>(bytes)); }});
    }
    Status delay(std::int64_t ns, QueueId q) override {
        return push(q, {[=] { std::this_thread::sleep_for(std::chrono::nanoseconds(ns)); }});
    }
    Status run(const Op& op, std::span<const Operand> in, std::span<const Operand> out, const KernelContext& context, QueueId q) override {
        return push(q, {[kernel = &state_->kernel, &op, i = std::vector<Operand>(in.begin(), in.end()),
                         o = std::vector<Operand>(out.begin(), out.end()), context] { (*kernel)(op, i, o, context); }});
    }

    Status on_host(std::function<void()> work, QueueId q) override { return push(q, {std::move(work)}); }

    Status record(QueueId q, bool, EventId& event) override {
        const State::Lock lock(state_->mutex);
        if (free_.empty()) {
            free_.push_back(static_cast<EventId>(events_.size()));
            events_.emplace_back();
        }
        event = free_.back();
        free_.pop_back();
        auto& e = events_[event];
        e = std::make_shared<CpuEvent>();
        CpuTask task;
        task.record = e;
        stream(q).push(std::move(task));
        return said();
    }
    Status wait(QueueId q, EventId event) override {
        const State::Lock lock(state_->mutex);
        CpuTask task;
        task.wait = events_[event];
        if (!task.wait->done) stream(q).push(std::move(task));
        return said();
    }
    Status recycle(EventId event) override {
        const State::Lock lock(state_->mutex);
        free_.push_back(event);
        return {};
    }
    Status milliseconds(EventId from, EventId to, float& out) override {
        const State::Lock lock(state_->mutex);
        out = static_cast<float>(static_cast<double>(events_[to]->at - events_[from]->at) * 1e-6);
        return {};
    }
    Status happened(EventId event, Milliseconds at_most, bool& yes) override {
        State::Lock lock(state_->mutex);
        const std::shared_ptr<CpuEvent> e = events_[event];
        if (!e->done && at_most.count() > 0) {
            e->waiters.push_back(&host_);
            nap(
                lock, at_most, [&] { return e->done; }, false);
            std::erase(e->waiters, &host_);
        }
        yes = e->done;
        return said();
    }
    Status synchronise(Milliseconds at_most, bool& done) override {
        State::Lock lock(state_->mutex);
        syncing_ = true;
        nap(
            lock, at_most, [&] { return drained(); }, true); // where something has failed too: until no stream touches memory any more
        syncing_ = false;
        done = drained();
        return said();
    }

    Status begin_group() override {
        grouping_ = true;
        return {};
    }
    Status end_group() override {
        grouping_ = false;
        const State::Lock lock(state_->mutex);
        for (auto& [q, group] : groups_) {
            CpuTask task;
            task.group = std::move(group);
            stream(q).push(std::move(task));
        }
        groups_.clear();
        return said();
    }
    Status world_id(WorldId& out) override {
        const State::Lock lock(state_->mutex);
        out = {};
        const std::string text = "world " + std::to_string(state_->worlds_made++);
        std::ranges::copy(text, out.begin());
        return {};
    }
    Status connect(const WorldId& id, int ranks, int rank, const std::string& called, std::unique_ptr<StreamCommunicator>& out) override {
        const State::Lock lock(state_->mutex);
        auto& comm = state_->worlds[id.data()];
        if (!comm) {
            comm = std::make_shared<CpuComm>();
            comm->name = called;
            comm->size = ranks;
            comm->next.resize(ranks);
            comm->next_split.resize(ranks);
        }
        out = cpu_communicator(state_, comm, rank, [this](QueueId q, CpuCall call) { add(q, std::move(call)); });
        return {};
    }
    void host_begins() override {
        const State::Lock lock(state_->mutex);
        state_->wake(host_);
    }
    void host_ends() override {
        const State::Lock lock(state_->mutex);
        if (host_.awake) state_->sleep(host_);
    }

  private:
    // Under the lock from here on, but for push and add.
    Stream& stream(QueueId q) {
        auto& s = streams_[q];
        if (!s) {
            // The stream's thread takes the lock first: it is made outside it.
            state_->mutex.unlock();
            auto made = std::make_unique<Stream>(*state_, [this] {
                if (syncing_ && drained()) state_->wake(host_);
            });
            state_->mutex.lock();
            streams_[q] = std::move(made);
        }
        return *streams_[q];
    }
    Status push(QueueId q, CpuTask task) {
        const State::Lock lock(state_->mutex);
        stream(q).push(std::move(task));
        return said();
    }
    void add(QueueId q, CpuCall call) { // from the host thread alone
        auto& group = groups_[q];
        if (!group) group = std::make_shared<CpuGroup>();
        group->calls.push_back(std::move(call));
        if (!grouping_) end_group();
    }
    bool drained() const {
        return std::ranges::all_of(streams_, [](const auto& s) { return !s.second || s.second->empty(); });
    }
    // The host sleeps until it is woken or the time is over; it is counted out meanwhile.
    template <class F> void nap(State::Lock& lock, Milliseconds at_most, F&& holds, bool even_broken) {
        const auto until = std::chrono::steady_clock::now() + at_most;
        while (!holds() && (even_broken || !state_->broken()) && std::chrono::steady_clock::now() < until) {
            if (host_.awake) state_->sleep(host_);
            host_.woken.wait_until(lock, until, [this] { return host_.awake; });
            state_->wake(host_);
        }
    }
    Status said() const {
        if (state_->failure) return {"a kernel failed"};
        if (state_->still) return {"nothing can go on"};
        if (state_->aborted) return {"a communicator was aborted"};
        return {};
    }

    std::shared_ptr<State> state_;
    std::map<QueueId, std::unique_ptr<Stream>> streams_;
    std::vector<std::shared_ptr<CpuEvent>> events_;
    std::vector<EventId> free_;
    std::map<QueueId, std::shared_ptr<CpuGroup>> groups_;
    bool grouping_ = false, syncing_ = false;
    Sleeper host_;
};

} // namespace

void State::wake_all() {
    for (Sleeper* s : sleepers) wake(*s);
}

void State::fail_still() {
    if (broken()) return;
    still = true;
    wake_all();
}

void State::fail(std::exception_ptr e) {
    if (!failure) failure = std::move(e);
    wake_all();
}

CpuFabric::CpuFabric(CpuKernel kernel) : state_(std::make_shared<State>(std::move(kernel))) {}
CpuFabric::~CpuFabric() = default;

std::unique_ptr<StreamDevice> CpuFabric::device() { return std::make_unique<CpuDevice>(state_); }

std::exception_ptr CpuFabric::failure() const {
    const State::Lock lock(state_->mutex);
    return state_->failure;
}

bool CpuFabric::stands_still() const {
    const State::Lock lock(state_->mutex);
    return state_->still;
}

} // namespace orrery

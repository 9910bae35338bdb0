// The threads executor: of every rank one thread that issues and computes, and one that communicates, in the serial executor's order of sums.
// One lock guards who has posted what; kernels and copies run outside it. That nothing can go on is seen exactly: every thread has looked
// at the present state and waits.
#include "exec/local/clock.hpp"
#include "exec/local/executor.hpp"
#include "exec/local/meetings.hpp"

#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

namespace orrery {
namespace {

class Threads final : public Executor {
  public:
    explicit Threads(World& world) : world_(world), meetings_(world) {}
    const char* name() const override { return "threads"; }
    void step(std::vector<OpTime>* record) override;

  private:
    using Lock = std::unique_lock<std::mutex>;

    // Waits until `holds`, which others may make true. Every thread waiting without effect on the same state: nothing can go on.
    template <class F> void wait(Lock& lock, F&& holds) {
        while (!holds()) {
            if (++idle_ == threads_) throw StandsStill(meetings_.blocked());
            const std::uint64_t seen = state_;
            changed_.wait(lock, [&] { return state_ != seen || failed_; });
            if (failed_) throw Cancelled{};
        }
    }
    void change() {
        ++state_;
        idle_ = 0;
        changed_.notify_all();
    }
    struct Cancelled {};   // another thread has failed

    void compute(Issuer& h);
    void communicate(Issuer& h);
    template <class F> void guarded(F&& work);
    std::int64_t now() const { return wall_ns() - began_; }

    World& world_;
    Meetings meetings_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::uint64_t state_ = 0;
    int threads_ = 0, idle_ = 0;
    bool failed_ = false;
    std::exception_ptr failure_;
    std::vector<OpTime>* record_ = nullptr;
    std::int64_t began_ = 0;
};

template <class F> void Threads::guarded(F&& work) {
    std::exception_ptr failure;
    try {
        work();
    } catch (const Cancelled&) {
    } catch (...) {
        failure = std::current_exception();
    }
    const Lock lock(mutex_);
    --threads_;
    if (failure && !failed_) {
        failed_ = true;
        failure_ = failure;
    }
    change();
}

void Threads::step(std::vector<OpTime>* record) {
    record_ = record;
    began_ = wall_ns();
    meetings_.begin_step();
    threads_ = 2 * static_cast<int>(meetings_.hosts().size());
    idle_ = 0;
    failed_ = false;
    failure_ = nullptr;
    {
        std::vector<std::jthread> threads;
        for (Issuer& h : meetings_.hosts()) {
            threads.emplace_back([this, &h] { guarded([&] { compute(h); }); });
            threads.emplace_back([this, &h] { guarded([&] { communicate(h); }); });
        }
    }
    if (failure_) std::rethrow_exception(failure_);
}

void Threads::compute(Issuer& h) {
    std::vector<Operand> in, out;
    Lock lock(mutex_);
    for (; h.next < h.done.size(); ++h.next) {
        const Issue& issue = h.issue(h.next);
        const Op& op = *issue.op;
        if (const auto* a = std::get_if<Alloc>(&op.work)) {
            h.rank->memory.allocate(a->buffer, issue.microbatch);
            h.done[h.next] = 1;
            continue;
        }
        if (const auto* f = std::get_if<Free>(&op.work)) {
            h.rank->memory.release(f->buffer, issue.microbatch);
            h.done[h.next] = 1;
            continue;
        }
        if (is_posted(op)) {
            meetings_.post(h, h.next, now());
            change();
            continue;
        }
        wait(lock, [&] { return h.ready(issue); });
        in.clear();
        out.clear();
        for (BufferId b : op.in) in.push_back(h.rank->memory.operand(b, issue.microbatch));
        for (BufferId b : op.out) out.push_back(h.rank->memory.operand(b, issue.microbatch));
        const auto memory = h.rank->memory.device().by_kind;
        lock.unlock();
        const std::int64_t begin = now(), cpu_begin = cpu_ns();
        run_op(world_, *h.rank, issue, in, out);
        const std::int64_t end = now(), cpu = cpu_ns() - cpu_begin;
        lock.lock();
        h.done[h.next] = 1;
        if (record_) record_->push_back({h.rank->rank, static_cast<std::int32_t>(h.next), -1, begin, begin, end, cpu, memory});
        if (!h.posted.empty()) change();
    }
    change();
}

void Threads::communicate(Issuer& h) {
    Lock lock(mutex_);
    for (;;) {
        std::optional<Move> m;
        wait(lock, [&] {
            m = meetings_.take(h);
            return m.has_value() || h.finished();
        });
        if (!m) return;
        lock.unlock();
        const std::int64_t begin = now(), cpu_begin = cpu_ns();
        meetings_.move(*m);
        const std::int64_t end = now(), cpu = cpu_ns() - cpu_begin;
        lock.lock();
        meetings_.settle(*m, begin, end, cpu, record_);
        change();
    }
}

} // namespace

std::unique_ptr<Executor> threads_executor(World& world) { return std::make_unique<Threads>(world); }

} // namespace orrery

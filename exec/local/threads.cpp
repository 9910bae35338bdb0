// The threads executor: of every rank one thread that issues and computes, and one that communicates, in the serial executor's order of
// sums. One lock guards who has posted what; kernels and copies run outside it. That nothing can go on is seen exactly: every thread has
// looked at the present state and waits.
#include "exec/local/clock.hpp"
#include "exec/local/executor.hpp"
#include "exec/local/meetings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

namespace orrery {
namespace {

class Threads final : public Executor {
  public:
    Threads(World& world, Patience patience) : world_(world), meetings_(world), patience_(std::move(patience)) {}
    const char* name() const override { return "threads"; }
    void step(std::vector<OpTime>* record) override;

  private:
    using Lock = std::unique_lock<std::mutex>;

    // Waits until `holds`, which others may make true. Every thread waiting without effect on the same state: nothing can go on.
    template <class F> void wait(Lock& lock, F&& holds) {
        if (failed_) throw Cancelled{};
        while (!holds()) {
            if (++idle_ == threads_) throw StandsStill(to_text(meetings_.blocked()));
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
    struct Cancelled {}; // another thread has failed

    // The issue a thread works on outside the lock; < 0: none.
    struct Doing {
        int rank = 0;
        std::int32_t issue = -1;
    };

    void compute(Issuer& h, Doing& doing);
    void communicate(Issuer& h, Doing& doing);
    template <class F> void guarded(F&& work);
    void keep_watch();
    std::string standing();
    std::int64_t now() const { return wall_ns() - began_; }

    World& world_;
    Meetings meetings_;
    std::mutex mutex_;
    std::condition_variable changed_, over_;
    Patience patience_;
    std::vector<Doing> doing_;            // by thread
    std::uint64_t state_ = 0, works_ = 0; // works_: begun and ended
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
    } catch (...) { failure = std::current_exception(); }
    const Lock lock(mutex_);
    --threads_;
    if (failure && !failed_) {
        failed_ = true;
        failure_ = failure;
    }
    change();
    if (threads_ == 0) over_.notify_all();
}

void Threads::step(std::vector<OpTime>* record) {
    record_ = record;
    began_ = wall_ns();
    meetings_.begin_step();
    threads_ = 2 * static_cast<int>(meetings_.hosts().size());
    idle_ = 0;
    failed_ = false;
    failure_ = nullptr;
    doing_.assign(threads_, {});
    {
        std::vector<std::jthread> threads;
        for (Issuer& h : meetings_.hosts()) {
            Doing* const doing = &doing_[threads.size()];
            threads.emplace_back([this, &h, doing] { guarded([&] { compute(h, doing[0]); }); });
            threads.emplace_back([this, &h, doing] { guarded([&] { communicate(h, doing[1]); }); });
        }
        if (patience_.seconds > 0) keep_watch();
    }
    if (failure_) std::rethrow_exception(failure_);
    move_loss_scale(world_);
}

// Until all threads are done, or one has failed and the others have seen it.
void Threads::keep_watch() {
    Lock lock(mutex_);
    std::uint64_t seen = works_;
    while (threads_ > 0) {
        const bool over = over_.wait_for(lock, std::chrono::duration<double>(patience_.seconds), [&] { return threads_ == 0; });
        if (!over && works_ == seen && patience_.lost) patience_.lost(standing());
        seen = works_;
    }
}

// Reports who works at which op, and who waits for whom.
std::string Threads::standing() {
    std::string text = fmt::format("no progress for {:.3g} s\n", patience_.seconds);
    for (const Doing& d : doing_)
        if (d.issue >= 0)
            text += fmt::format("  rank {}: {} has begun and does not end\n", d.rank,
                                place(world_.plan, world_.rank(d.rank).order->issues[d.issue]));
    for (const Blocked& b : meetings_.blocked().blocked)
        if (std::none_of(doing_.begin(), doing_.end(), [&](const Doing& d) { return d.issue >= 0 && d.rank == b.rank; }))
            text += fmt::format("  rank {}: {} waits for {}\n", b.rank, b.op, b.waits_for);
    return text;
}

void Threads::compute(Issuer& h, Doing& doing) {
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
        doing = {h.rank->rank, static_cast<std::int32_t>(h.next)};
        ++works_;
        lock.unlock();
        const std::int64_t begin = now(), cpu_begin = cpu_ns();
        run_op(world_, *h.rank, issue, in, out);
        const std::int64_t end = now(), cpu = cpu_ns() - cpu_begin;
        lock.lock();
        doing.issue = -1;
        ++works_;
        h.done[h.next] = 1;
        if (record_) record_->push_back({h.rank->rank, static_cast<std::int32_t>(h.next), -1, begin, begin, end, cpu, memory});
        if (!h.posted.empty()) change();
    }
    change();
}

void Threads::communicate(Issuer& h, Doing& doing) {
    Lock lock(mutex_);
    for (;;) {
        std::optional<Move> m;
        wait(lock, [&] {
            m = meetings_.take(h);
            return m.has_value() || h.finished();
        });
        if (!m) return;
        const Move::End& first = m->ends.empty() ? m->transfers[0].from : m->ends[0];
        doing = {first.host->rank->rank, first.posted->issue};
        ++works_;
        lock.unlock();
        const std::int64_t begin = now(), cpu_begin = cpu_ns();
        meetings_.move(*m);
        const std::int64_t end = now(), cpu = cpu_ns() - cpu_begin;
        lock.lock();
        doing.issue = -1;
        ++works_;
        meetings_.settle(*m, begin, end, cpu, record_);
        change();
    }
}

} // namespace

std::unique_ptr<Executor> threads_executor(World& world, Patience patience) {
    return std::make_unique<Threads>(world, std::move(patience));
}

} // namespace orrery

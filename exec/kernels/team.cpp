#include "exec/kernels/team.hpp"

#include "topology/check.hpp"

namespace orrery {
namespace {

constexpr int spins = 4000; // some 50 us: kernels of a step follow each other faster

void pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#else
    std::this_thread::yield();
#endif
}

constexpr std::uint64_t ticket_of(std::uint32_t call, std::int64_t parts) {
    return std::uint64_t{call} << 32 | static_cast<std::uint64_t>(parts) << 16;
}
constexpr std::uint32_t call_of(std::uint64_t ticket) { return static_cast<std::uint32_t>(ticket >> 32); }
constexpr std::uint64_t parts_of(std::uint64_t ticket) { return ticket >> 16 & 0xffff; }
constexpr std::uint64_t next_of(std::uint64_t ticket) { return ticket & 0xffff; }

} // namespace

Team::Team(int threads) {
    for (int i = 1; i < threads; ++i) others_.emplace_back([this] { serve(); });
}

Team::~Team() {
    {
        const std::lock_guard lock(mutex_);
        over_ = true;
    }
    woken_.notify_all();
    for (std::thread& t : others_) t.join();
}

bool Team::take() {
    std::uint64_t ticket = ticket_.load(std::memory_order_acquire);
    do {
        if (next_of(ticket) >= parts_of(ticket)) return false;
    } while (!ticket_.compare_exchange_weak(ticket, ticket + 1, std::memory_order_acq_rel, std::memory_order_acquire));
    part_(data_, static_cast<std::int64_t>(next_of(ticket)));
    open_.fetch_sub(1, std::memory_order_release);
    return true;
}

void Team::run_all(std::int64_t parts, Part part, void* data) {
    require(parts >= 0 && parts <= most_parts, "a team is given too many parts");
    part_ = part;
    data_ = data;
    open_.store(parts, std::memory_order_relaxed);
    ticket_.store(ticket_of(call_of(ticket_.load(std::memory_order_relaxed)) + 1, parts)); // in one order with sleepers_
    if (sleepers_.load() > 0) {
        { const std::lock_guard lock(mutex_); }
        woken_.notify_all();
    }
    while (take()) {}
    for (int i = 0; open_.load(std::memory_order_acquire) > 0; ++i) i < spins ? pause() : std::this_thread::yield();
}

bool Team::sleep_until(std::uint32_t seen) {
    std::unique_lock lock(mutex_);
    ++sleepers_;
    woken_.wait(lock, [&] { return call_of(ticket_.load()) != seen || over_; });
    --sleepers_;
    return !over_;
}

void Team::serve() {
    std::uint32_t seen = 0;
    for (;;) {
        for (int i = 0; i < spins && call_of(ticket_.load(std::memory_order_acquire)) == seen; ++i) pause();
        if (call_of(ticket_.load(std::memory_order_acquire)) == seen && !sleep_until(seen)) return;
        if (over_) return;
        seen = call_of(ticket_.load(std::memory_order_acquire));
        while (take()) {}
    }
}

} // namespace orrery

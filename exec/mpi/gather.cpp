// Words between ranks outside of steps.
#include "exec/local/clock.hpp"
#include "exec/mpi/processes.hpp"

#include <fmt/format.h>

#include <chrono>
#include <functional>
#include <limits>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

namespace orrery {

namespace {

void wait_for_all(const OrreryTransport& t, const std::vector<void*>& requests, double patience,
                  const std::function<int(std::size_t)>& peer) {
    const auto began = std::chrono::steady_clock::now();
    for (std::size_t i = 0; i < requests.size(); ++i)
        while (!t.done(requests[i])) {
            if (std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count() > patience)
                throw LostPeer(fmt::format("rank {}: the start or the end of a step waits for rank {}, which has not come for {:.0f} s",
                                           t.rank, peer(i), patience));
            std::this_thread::sleep_for(std::chrono::microseconds(50));
        }
}

// What messages may still come into where a wait was in vain: the job ends, and its memory stays until then.
template <class T> class Stays {
  public:
    template <class... A> explicit Stays(A&&... a) : value_(std::make_unique<T>(std::forward<A>(a)...)) {}
    ~Stays() {
        if (!done_) static_cast<void>(value_.release());
    }
    Stays(const Stays&) = delete;
    Stays& operator=(const Stays&) = delete;
    T& operator*() { return *value_; }
    T take() {
        done_ = true;
        return std::move(*value_);
    }

  private:
    std::unique_ptr<T> value_;
    bool done_ = false;
};

// As above, without sleeping: a round trip is measured.
void turn(const OrreryTransport& t, void* request, int peer, double patience) {
    for (const std::int64_t began = wall_ns(); !t.done(request);)
        if (static_cast<double>(wall_ns() - began) > patience * 1e9)
            throw LostPeer(
                fmt::format("rank {}: comparing clocks waits for rank {}, which has not come for {:.0f} s", t.rank, peer, patience));
}

} // namespace

std::int64_t clock_offset(const OrreryTransport& t, double patience) {
    constexpr int tag = 4, rounds = 16;
    std::int64_t word = 0, best = std::numeric_limits<std::int64_t>::max(), offset = 0;
    for (int r = 1; r < t.size; ++r) {
        if (t.rank != 0 && t.rank != r) continue;
        const int other = t.rank == 0 ? r : 0;
        for (int i = 0; i < rounds; ++i) {
            const std::int64_t before = wall_ns();
            if (t.rank == 0) turn(t, t.receive(other, tag, &word, sizeof word), other, patience);
            if (t.rank == 0) word = wall_ns();
            turn(t, t.send(other, tag, &word, sizeof word), other, patience);
            if (t.rank == 0) continue;
            turn(t, t.receive(other, tag, &word, sizeof word), other, patience);
            const std::int64_t after = wall_ns();
            if (after - before >= best) continue;
            best = after - before;
            offset = word - (before + after) / 2;
        }
    }
    return offset;
}

std::vector<std::string> collect_at_first(const OrreryTransport& t, const std::string& mine, double patience) {
    constexpr int tag = 5;
    const auto sizes = gather_over_ranks(t, {static_cast<std::int64_t>(mine.size())}, patience);
    Stays<std::vector<std::string>> kept;
    std::vector<std::string>& all = *kept;
    std::vector<void*> requests{t.send(0, tag, mine.data(), mine.size())};
    if (t.rank == 0) {
        all.resize(sizes.size());
        for (std::size_t r = 0; r < all.size(); ++r) {
            all[r].resize(sizes[r][0]);
            requests.push_back(t.receive(static_cast<int>(r), tag, all[r].data(), all[r].size()));
        }
    }
    wait_for_all(t, requests, patience, [](std::size_t i) { return i == 0 ? 0 : static_cast<int>(i) - 1; });
    return kept.take();
}

std::vector<std::vector<std::int64_t>> gather_over_ranks(const OrreryTransport& t, const std::vector<std::int64_t>& mine, double patience) {
    constexpr int tag = 3;
    const std::size_t bytes = mine.size() * sizeof(std::int64_t);
    Stays<std::vector<std::vector<std::int64_t>>> kept(static_cast<std::size_t>(t.size), std::vector<std::int64_t>(mine.size()));
    std::vector<std::vector<std::int64_t>>& all = *kept;
    std::vector<void*> requests;
    for (int r = 0; r < t.size; ++r) {
        requests.push_back(t.send(r, tag, mine.data(), bytes));
        requests.push_back(t.receive(r, tag, all[r].data(), bytes));
    }
    wait_for_all(t, requests, patience, [](std::size_t i) { return static_cast<int>(i / 2); });
    return kept.take();
}

} // namespace orrery

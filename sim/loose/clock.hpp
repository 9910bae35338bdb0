// Tasks that take time, for workers that are followed one by one: seconds, computation, and messages whose flows share links.
#pragma once

#include "sim/loose/loose.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <utility>
#include <vector>

namespace orrery {

// Computation is slower while messages of its worker move. What ends at one instant ends in the order in which it began.
class LooseClock {
  public:
    static constexpr int nobody = -1;

    // grain: flows come together that come within this share of the time that messages take in the mean; 0: each when it does.
    LooseClock(const std::vector<double>& capacity, std::size_t workers, double slowdown, double grain = 0);

    double now() const { return now_; }
    bool idle() const { return under_way_ == 0; }
    void after(double seconds, std::function<void()> then);
    void compute(int worker, double seconds, std::function<void()> then); // one at a time of each worker
    // Flows that go on independently, each in its lane; `then` follows the last. from, to: the workers whose computation the message slows.
    void send(const std::vector<const LooseWay*>& ways, int from, int to, std::function<void()> then);
    // The lane of a flow: those with the same links, weights and cap have one.
    std::int32_t lane_of(const LooseFlow& flow);
    // To the next instant at which something ends; all that ends then has ended. Throws InputError where nothing ever ends.
    void step();

    void forget(); // bytes so far
    double bytes() const { return bytes_; }
    const std::vector<double>& sent() const { return sent_; } // by link

  private:
    struct LooseTask {
        double left = 0, rate = 0, last = 0;
        std::uint64_t order = 0; // in which it began
        int computes = nobody;
        std::function<void()> then = nullptr;
    };
    struct LooseMessage {
        std::size_t open; // flows that have not come
        int from, to;
        double began;
        std::function<void()> then;
    };
    struct LooseArrival {
        double at; // bytes that each flow of the lane has moved by then
        std::uint64_t order;
        double bytes;
        std::shared_ptr<LooseMessage> whole;
        friend bool operator>(const LooseArrival& a, const LooseArrival& b) { return a.at != b.at ? a.at > b.at : a.order > b.order; }
    };
    // Flows alike have the same rate at every instant: they share one bundle, whose weights grow with their number.
    struct LooseLane {
        std::vector<Sharing::Use> uses;
        std::vector<double> loads;
        double cap = 0, rate = 0, last = 0, moved = 0; // moved: bytes of each flow, since the lane was empty
        std::int32_t bundle = -1;
        bool changed = false;
        std::priority_queue<LooseArrival, std::vector<LooseArrival>, std::greater<>> flows = {};
    };
    using LooseEnded = std::vector<std::pair<std::uint64_t, std::function<void()>>>; // by order

    std::size_t begin(LooseTask task);
    void set_rate(std::size_t task, double rate);
    void enter(const LooseFlow& flow, const std::shared_ptr<LooseMessage>& whole);
    void finish(std::size_t task, LooseEnded& ended);
    void arrive(std::int32_t lane, double until, LooseEnded& ended);
    void move(LooseLane& lane) const; // to now
    void change(std::int32_t lane);
    void expect(std::int32_t lane);
    double pace(int worker) const;
    void count_moving(int worker, int more);
    void share();

    Sharing sharing_;
    // Ends lie apart from what ends: each instant looks through all of them. Infinite: it does not move, or there is none.
    std::vector<LooseTask> tasks_;
    std::vector<double> ends_, arrivals_; // by task; by lane of its next flow
    std::vector<std::size_t> vacant_;     // places of tasks, to be used again
    std::vector<LooseLane> lanes_;
    std::map<std::vector<std::pair<std::int32_t, double>>, std::int32_t> lane_at_; // by links and weights, and -1 and cap
    std::vector<std::int32_t> changed_;                                            // lanes
    std::vector<std::int32_t> of_bundle_;                                          // lanes by bundle of sharing_
    std::vector<double> sent_;
    std::vector<int> moving_;              // by worker: messages from and to it
    std::vector<std::size_t> computation_; // by worker: its task
    std::size_t under_way_ = 0;            // tasks, and flows
    std::uint64_t begun_ = 0;
    double slowdown_, grain_;
    double now_ = 0, bytes_ = 0;
    double messages_ = 0, moving_s_ = 0; // that have come, and what they took together
};

} // namespace orrery

#include "sim/schedules/support/both_ways.hpp"

#include "sim/schedules/support/placement.hpp"

#include <deque>

namespace orrery {
namespace {

class Order {
  public:
    explicit Order(const BothWays& ways) : ways_(ways) {}

    void forward(int way) { steps.push_back(step(StepKind::forward, ways_.chunk[way], ways_.first[way] + forwards_[way]++)); }
    void backward(int way) { steps.push_back(step(StepKind::backward, ways_.chunk[way], ways_.first[way] + backwards_[way]++)); }
    void join(int forward_way, int backward_way) {
        forward(forward_way);
        steps.back().joined = true;
        backward(backward_way);
    }
    // A backward step without its weight part, which waits its turn.
    void input(int way) {
        steps.push_back(step(StepKind::input, ways_.chunk[way], ways_.first[way] + backwards_[way]++));
        later_.push_back(steps.back());
    }
    void weight() {
        steps.push_back(step(StepKind::weight, later_.front().chunk, later_.front().microbatch));
        later_.pop_front();
    }

    std::vector<ScheduleStep> steps;

  private:
    const BothWays& ways_;
    std::int64_t forwards_[2] = {0, 0}, backwards_[2] = {0, 0};
    std::deque<ScheduleStep> later_;
};

} // namespace

std::vector<ScheduleStep> both_ways(const BothWays& ways) {
    const int behind = ways.length - ways.place - 1; // ranks between this one and where the ways cross
    const int ahead = ways.place + 1;
    Order order(ways);
    order.steps.reserve(5 * ways.microbatches);
    for (int i = 0; i < 2 * behind; ++i) order.forward(0);
    for (int i = 0; i < ahead; ++i) {
        order.forward(0);
        order.forward(1);
    }
    for (int i = 0; i < behind; ++i) {
        order.input(1);
        order.weight();
        order.forward(1);
    }
    for (std::int64_t i = 0; i < ways.microbatches - 2 * ways.length + ahead; ++i) {
        // Where the ways cross, the first backward step goes ahead of its forward's end: less time is lost.
        if (i == 0 && behind == 0) {
            order.forward(0);
            order.backward(1);
        } else {
            order.join(0, 1);
        }
        order.join(1, 0);
    }
    for (int i = 0; i < behind; ++i) {
        order.backward(1);
        order.join(1, 0);
    }
    bool later = false;
    const auto backward = [&](int way) { later ? order.input(way) : order.backward(way); };
    for (int i = 0; i < ahead; ++i) {
        later = later || (i == ahead / 2 && ways.place % 2 == 1);
        backward(1);
        later = later || (i == ahead / 2 && ways.place % 2 == 0);
        backward(0);
    }
    for (int i = 0; i < behind; ++i) {
        order.weight();
        order.input(0);
    }
    for (int i = 0; i < ahead; ++i) order.weight();
    return std::move(order.steps);
}

} // namespace orrery

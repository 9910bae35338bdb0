// The links and bundles the solver of sharing.cpp has yet to look at, by the level at which it must.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace orrery::sharing {

struct Event {
    double key;
    std::int32_t what;
}; // what >= 0: a link; else ~bundle, free, reaches its cap

// A heap of four children a node, the lowest key on top.
class Agenda {
  public:
    bool empty() const { return events_.empty(); }
    const Event& top() const { return events_.front(); }
    double second() const { // the lowest key but one
        double lowest = std::numeric_limits<double>::infinity();
        for (std::size_t i = 1; i < std::min<std::size_t>(events_.size(), 5); ++i) lowest = std::min(lowest, events_[i].key);
        return lowest;
    }
    void push(Event event) {
        std::size_t hole = events_.size();
        events_.push_back(event);
        for (; hole > 0 && event.key < events_[(hole - 1) / 4].key; hole = (hole - 1) / 4) events_[hole] = events_[(hole - 1) / 4];
        events_[hole] = event;
    }
    void pop() {
        const Event last = events_.back();
        events_.pop_back();
        if (!events_.empty()) replace_top(last);
    }
    void replace_top(Event event) {
        std::size_t hole = 0;
        for (std::size_t child = 1; child < events_.size(); child = 4 * hole + 1) {
            std::size_t least = child;
            for (std::size_t i = child + 1; i < std::min(child + 4, events_.size()); ++i)
                least = events_[i].key < events_[least].key ? i : least;
            if (!(events_[least].key < event.key)) break;
            events_[hole] = events_[least];
            hole = least;
        }
        events_[hole] = event;
    }
    void move_to(std::vector<Event>& other) {
        other.insert(other.end(), events_.begin(), events_.end());
        events_.clear();
    }

  private:
    std::vector<Event> events_;
};

} // namespace orrery::sharing

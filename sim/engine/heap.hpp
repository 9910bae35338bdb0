// The event queue: each entity (a lane's queue, a bundle) has at most one event, so that its time can be moved. A 4-ary heap ordered
// by (time, entity); what happens at one instant does not depend on the order it is handled in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace orrery {

class EventHeap {
  public:
    struct Event {
        std::int64_t time;
        std::int32_t entity;
    };

    explicit EventHeap(std::size_t entities) : place_(entities, -1) {}
    bool empty() const { return heap_.empty(); }
    const Event& top() const { return heap_[0]; }
    bool contains(std::int32_t entity) const { return place_[index(entity)] >= 0; }
    std::int64_t time_of(std::int32_t entity) const { return heap_[index(place_[index(entity)])].time; }

    void set(std::int32_t entity, std::int64_t time) {
        std::int32_t at = place_[index(entity)];
        if (at < 0) {
            heap_.push_back({});
            up(heap_.size() - 1, {time, entity});
        } else if (time < heap_[index(at)].time)
            up(index(at), {time, entity});
        else
            down(index(at), {time, entity});
    }

    void pop() { erase(0); }
    void remove(std::int32_t entity) {
        if (place_[index(entity)] >= 0) erase(index(place_[index(entity)]));
    }

  private:
    static std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }
    static bool before(const Event& a, const Event& b) { return a.time != b.time ? a.time < b.time : a.entity < b.entity; }
    void put(std::size_t at, const Event& e) {
        heap_[at] = e;
        place_[index(e.entity)] = static_cast<std::int32_t>(at);
    }

    void up(std::size_t at, const Event& e) {
        while (at > 0) {
            std::size_t parent = (at - 1) / 4;
            if (!before(e, heap_[parent])) break;
            put(at, heap_[parent]);
            at = parent;
        }
        put(at, e);
    }

    void down(std::size_t at, const Event& e) {
        for (std::size_t n = heap_.size();;) {
            std::size_t child = at * 4 + 1;
            if (child >= n) break;
            std::size_t least = child, end = child + 4 < n ? child + 4 : n;
            for (std::size_t k = child + 1; k < end; ++k)
                if (before(heap_[k], heap_[least])) least = k;
            if (!before(heap_[least], e)) break;
            put(at, heap_[least]);
            at = least;
        }
        put(at, e);
    }

    void erase(std::size_t at) {
        place_[index(heap_[at].entity)] = -1;
        Event last = heap_.back();
        heap_.pop_back();
        if (at == heap_.size()) return;
        if (at > 0 && before(last, heap_[(at - 1) / 4]))
            up(at, last);
        else
            down(at, last);
    }

    std::vector<Event> heap_;
    std::vector<std::int32_t> place_; // entity -> place in the heap, -1: no event
};

} // namespace orrery

// Dependencies from the buffers that ops share: reads wait for the write before them, writes for the reads and the write before them. Only
// across queues, since a queue runs in its own order, and only the latest op of each other queue.
#pragma once

#include "sim/plan/plan.hpp"

#include <array>
#include <cstdint>
#include <vector>

namespace orrery {

struct Spot {
    std::int32_t action = -1, op = -1;
    QueueId queue = -1;
}; // action: absolute over two steps

inline bool before(const Spot& a, const Spot& b) { return a.action != b.action ? a.action < b.action : a.op < b.op; }

// The latest spot of each queue. Few queues meet in one place: there is one of these for every buffer of every microbatch, and none of them
// asks for memory.
class Latest {
  public:
    void merge(const Spot& s) {
        for (std::size_t i = 0; i < few_; ++i)
            if (first_[i].queue == s.queue) {
                if (before(first_[i], s)) first_[i] = s;
                return;
            }
        if (few_ < first_.size()) {
            first_[few_++] = s;
            return;
        }
        for (Spot& have : more_)
            if (have.queue == s.queue) {
                if (before(have, s)) have = s;
                return;
            }
        more_.push_back(s);
    }
    void clear() {
        few_ = 0;
        more_.clear();
    }
    template <class F> void each(F&& f) const {
        for (std::size_t i = 0; i < few_; ++i) f(first_[i]);
        for (const Spot& s : more_) f(s);
    }
    template <class F> void each(F&& f) {
        for (std::size_t i = 0; i < few_; ++i) f(first_[i]);
        for (Spot& s : more_) f(s);
    }
    std::size_t size() const { return few_ + more_.size(); }

  private:
    std::uint32_t few_ = 0;
    std::array<Spot, 2> first_;
    std::vector<Spot> more_;
};

struct History {
    Spot writer;
    Latest readers;

    // Remembers an access that later ops may have to wait for.
    void touch(bool write, const Spot& here) {
        if (!write) return readers.merge(here);
        readers.clear();
        writer = here;
    }
};

bool uses_queue(const Op& op, QueueId q);
// A communication starts after the computation issued before it, as a framework's communication stream waits for the current one:
// its buffer may have been that computation's. Parameter gathers are prefetched on a stream that does not. An activation comes back from
// the host, or from NVMe to it, no earlier than there is room for it.
bool follows_computation(const Op& op);
// One instance per microbatch. Parameters and gradients that come and go are still the rank's only ones, whatever microbatch uses them.
bool per_microbatch(const Buffer& b);

// A dependency no buffer implies: action `action` of a program has `dep`.
struct ExplicitDep {
    std::int32_t action;
    ActionDep dep;
};

// The waits between actions of a program, by action; those of the previous step's actions included. explicit_deps: in the order of the
// actions that wait. Where actions repeat with further microbatches, and so does the state of all buffers, they are not looked at again:
// `repeats` false looks at all of them (tests compare).
std::vector<std::vector<ActionDep>> waits_between_actions(const Plan& plan, const Program& program,
                                                          const std::vector<ExplicitDep>& explicit_deps, bool repeats);

} // namespace orrery

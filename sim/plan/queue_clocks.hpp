// Vector clocks of a stage's issues (Mattern, 1988) when queues run side by side: which issues have certainly ended when an op begins,
// however fast each queue is. They follow from the plan alone: its dependencies, that a queue is served in order, and that the host issues
// nothing while it waits. Used by the pass that bounds what is in flight, and by the asynchronous executor, which plans memory by them.
#pragma once

#include "sim/plan/issue_order.hpp"

#include <span>

namespace orrery {

bool is_host_only(const Op& op); // memory and the host's own waits: nothing on any queue

class QueueClocks {
  public:
    QueueClocks(const Plan& plan, const IssueOrder& order);

    // Issues are entered one after the other: begin() knows the queues' order and the plan's dependencies; wait() adds a dependency on an
    // earlier issue and says whether it was new; end() makes the clock final.
    // waits: the dependencies of `issue` that are needed beside all others, the latest first.
    void begin(std::int32_t issue, std::vector<std::int32_t>& waits);
    bool wait(std::int32_t issue, std::int32_t on);
    void end(std::int32_t issue);

    std::size_t width() const { return width_; } // queues that the stage uses
    // The place of an issue's first queue, on which its end is noted, in every clock; -1: of the host alone.
    std::int32_t home(std::int32_t issue) const { return homes_[issue]; }
    // For each queue: the last issue that has certainly ended when `issue` begins; -1: none.
    std::span<const std::int32_t> ended_before(std::int32_t issue) const {
        return {clocks_.data() + static_cast<std::size_t>(issue) * width_, width_};
    }

  private:
    std::span<std::int32_t> clock(std::int32_t issue) { return {clocks_.data() + static_cast<std::size_t>(issue) * width_, width_}; }
    std::int32_t place(QueueId q) const { return places_[q]; }

    const IssueOrder& order_;
    std::size_t width_ = 0;
    std::vector<std::int32_t> places_; // by queue; -1: the stage does not use it
    std::vector<std::int32_t> homes_;
    std::vector<std::int32_t> clocks_; // a row an issue
    std::vector<std::int32_t> tails_;  // a row a queue: what has ended when its next op begins
    std::vector<std::int32_t> host_;   // what the host knows to have ended: it issues nothing before
    std::vector<std::int32_t> deps_;   // of the issue that is entered
};

} // namespace orrery

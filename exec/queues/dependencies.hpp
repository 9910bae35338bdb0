// The order of a stage's issues when queues run side by side: which wait for which across queues, and which have certainly ended when
// an op begins. Follows from the plan alone (sim/plan/queue_clocks.hpp).
#pragma once

#include "sim/plan/queue_clocks.hpp"

#include <cstdint>
#include <vector>

namespace orrery {

struct QueuedIssue {
    std::vector<QueueId> queues;     // it occupies; on the first its events are recorded
    std::vector<std::int32_t> waits; // earlier issues on other queues that must have ended: no more than are needed
    bool signals = false;            // another queue or the host waits for its end
};

class QueueOrder {
  public:
    QueueOrder(const Plan& plan, const IssueOrder& order);

    const QueuedIssue& operator[](std::size_t issue) const { return issues_[issue]; }
    int queues() const { return queues_; }
    const QueueClocks& clocks() const { return clocks_; }
    bool before(std::int32_t first, std::int32_t second) const; // first has ended when second begins, however fast each queue is

  private:
    int queues_;
    std::vector<QueuedIssue> issues_;
    QueueClocks clocks_;
};

} // namespace orrery

#include "exec/queues/dependencies.hpp"

namespace orrery {

QueueOrder::QueueOrder(const Plan& plan, const IssueOrder& order)
    : queues_(first_comm_queue + static_cast<int>(plan.communicators.size())), issues_(order.issues.size()), clocks_(plan, order) {
    for (std::size_t i = 0; i < issues_.size(); ++i) {
        QueuedIssue& out = issues_[i];
        clocks_.begin(static_cast<std::int32_t>(i), out.waits);
        clocks_.end(static_cast<std::int32_t>(i));
        if (!is_host_only(*order.issues[i].op)) out.queues = queues_of(*order.issues[i].op);
        for (std::int32_t d : out.waits) issues_[d].signals = true;
    }
}

bool QueueOrder::before(std::int32_t first, std::int32_t second) const {
    const std::int32_t home = clocks_.home(first);
    return home < 0 ? first < second : clocks_.ended_before(second)[home] >= first;
}

} // namespace orrery

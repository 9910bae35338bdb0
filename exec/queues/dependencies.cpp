#include "exec/queues/dependencies.hpp"

#include <algorithm>
#include <functional>

namespace orrery {
namespace {

using Clock = std::vector<std::int32_t>; // by queue: the last issue that has ended

void raise(Clock& to, std::span<const std::int32_t> by) {
    for (std::size_t q = 0; q < to.size(); ++q) to[q] = std::max(to[q], by[q]);
}

} // namespace

bool is_host_only(const Op& op) { return is_memory_op(op.work) || std::holds_alternative<HostSync>(op.work); }

QueueOrder::QueueOrder(const Plan& plan, const IssueOrder& order)
    : queues_(first_comm_queue + static_cast<int>(plan.communicators.size())), issues_(order.issues.size()) {
    const auto width = static_cast<std::size_t>(queues_);
    clocks_.resize(issues_.size() * width, -1);
    std::vector<Clock> tails(width, Clock(width, -1)); // what has ended when the next op of a queue begins
    Clock host(width, -1);                             // what the host knows to have ended: it issues nothing before
    const auto home = [&](std::int32_t d) { return static_cast<std::size_t>(issues_[static_cast<std::size_t>(d)].queues[0]); };
    const auto raise_by_end_of = [&](Clock& clock, std::int32_t d) {
        raise(clock, ended_before(d));
        for (QueueId q : issues_[static_cast<std::size_t>(d)].queues)
            clock[static_cast<std::size_t>(q)] = std::max(clock[static_cast<std::size_t>(q)], d);
    };
    for (std::size_t i = 0; i < issues_.size(); ++i) {
        const Issue& issue = order.issues[i];
        QueuedIssue& out = issues_[i];
        std::vector<std::int32_t> deps;
        for (std::int32_t d : order.deps_of(issue))
            if (!is_host_only(*order.issues[static_cast<std::size_t>(d)].op)) deps.push_back(d);
        std::ranges::sort(deps, std::greater{}); // the latest first: it may stand for the others
        Clock clock = host;
        if (!is_host_only(*issue.op)) {
            out.queues = queues_of(*issue.op);
            for (QueueId q : out.queues) raise(clock, tails[static_cast<std::size_t>(q)]);
        }
        for (std::int32_t d : deps) {
            if (clock[home(d)] >= d) continue;
            out.waits.push_back(d);
            issues_[static_cast<std::size_t>(d)].signals = true;
            raise_by_end_of(clock, d);
        }
        std::ranges::copy(clock, clocks_.begin() + static_cast<std::ptrdiff_t>(i * width));
        if (std::holds_alternative<HostSync>(issue.op->work)) host = clock;
        for (QueueId q : out.queues) {
            Clock& tail = tails[static_cast<std::size_t>(q)];
            tail = clock;
            for (QueueId mine : out.queues) tail[static_cast<std::size_t>(mine)] = static_cast<std::int32_t>(i);
        }
    }
}

bool QueueOrder::before(std::int32_t first, std::int32_t second) const {
    const auto& queues = issues_[static_cast<std::size_t>(first)].queues;
    return queues.empty() ? first < second : ended_before(second)[static_cast<std::size_t>(queues[0])] >= first;
}

} // namespace orrery
